//! Loopback model server for manual tests and benchmarks:
//! `loopback --scenario FILE [--port N] [--by-history] [--aside TEXT]`, with the answer to requests that offer no tools.
//!
//! It prints its address on the first line of its output and serves until it is killed. `GET /requests` returns the
//! bodies of the requests so far.

use std::process::ExitCode;

use ah_provider::script::format::Scenario;
use ah_testkit::server::{Pick, Server};

const USAGE: &str = "usage: loopback --scenario FILE [--port N] [--by-history] [--aside TEXT]";

fn main() -> ExitCode {
    match start() {
        Ok(server) => {
            #[expect(
                clippy::print_stdout,
                reason = "the address is what the program is asked for"
            )]
            {
                println!("{}", server.url());
            }
            loop {
                std::thread::park();
            }
        }
        Err(fault) => {
            #[expect(clippy::print_stderr, reason = "a program tells why it fails")]
            {
                eprintln!("error: {fault}");
            }
            ExitCode::FAILURE
        }
    }
}

fn start() -> Result<Server, String> {
    let mut arguments = std::env::args().skip(1);
    let (mut file, mut port, mut pick, mut aside) = (None, 0, Pick::InOrder, None);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--scenario" => file = arguments.next(),
            "--port" => {
                let number = arguments.next().and_then(|number| number.parse().ok());
                port = number.ok_or(USAGE)?;
            }
            "--aside" => aside = Some(arguments.next().ok_or(USAGE)?),
            "--by-history" => pick = Pick::ByHistory,
            _ => return Err(USAGE.to_owned()),
        }
    }
    let file = file.ok_or(USAGE)?;
    let text =
        std::fs::read_to_string(&file).map_err(|error| format!("cannot read {file}: {error}"))?;
    let scenario = Scenario::parse(&text).map_err(|fault| format!("{file}: {fault}"))?;
    let server = Server::start(scenario, pick, port)?;
    Ok(match aside {
        Some(text) => server.answers_asides(&text),
        None => server,
    })
}
