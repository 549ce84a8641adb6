//! `cargo xtask sim --seed N --turns M`: plays sessions until they have M turns, or one fails.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "printing is its output"
)]

use std::process::ExitCode;
use std::time::Instant;

const USAGE: &str = "usage: cargo xtask sim [--seed N] [--turns M]";

fn main() -> ExitCode {
    let (mut seed, mut turns) = (0, 20_000);
    let words: Vec<String> = std::env::args().skip(1).collect();
    for pair in words.chunks(2) {
        let number = pair.get(1).and_then(|number| number.parse().ok());
        match (pair[0].as_str(), number) {
            ("--seed", Some(number)) => seed = number,
            ("--turns", Some(number)) => turns = number,
            _ => {
                eprintln!("{USAGE}");
                return ExitCode::from(2);
            }
        }
    }
    let begin = Instant::now();
    let turns = usize::try_from(turns).unwrap_or(usize::MAX);
    match ah_sim::search(seed, turns) {
        Ok(turns) => {
            println!(
                "{turns} turns, nothing found, {:.0} s",
                begin.elapsed().as_secs_f64()
            );
            ExitCode::SUCCESS
        }
        Err(failure) => {
            print!("{failure}");
            ExitCode::FAILURE
        }
    }
}
