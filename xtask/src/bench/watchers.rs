//! A session of `ah serve` with many watchers, one of which reads nothing: what they cost its run.

use std::fs;
use std::io::{self, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::Child;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

use super::answer::{runs, says};
use super::process::{Agent, Pair};
use super::statistics::median;
use super::table::{Figure, Row};

const WATCHERS: usize = 200;
const TURNS: usize = 30;
/// Time of the model for one answer.
const THINKS: Duration = Duration::from_millis(200);
/// Longest time to wait for anything.
const PATIENCE: Duration = Duration::from_secs(60);

/// Measures runs without watchers and with them, in turns.
pub fn watchers(pair: &Pair) -> Result<Vec<Row>> {
    let (mut alone, mut watched) = (Vec::new(), Vec::new());
    for _ in 0..3 {
        alone.push(run(&pair.agent, 0)?);
        watched.push(run(&pair.agent, WATCHERS)?);
    }
    Ok(vec![Row {
        what: "a run of 30 turns, 200 ms of model and 10 kB of output each, with 200 who watch it, one stalled: wall, beside the \
               same without them",
        figures: vec![Figure::over(median(watched), median(alone), 1.05)],
        best: None,
    }])
}

/// A server, which ends with this value.
struct Serving(Child);

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Returns the time of a run with so many watchers, from its first answer to its last request.
fn run(agent: &Agent, watchers: usize) -> Result<Duration> {
    let folder = agent.folder()?;
    let all_watch = Arc::new(AtomicBool::new(false));
    let gate = all_watch.clone();
    let key = agent.open(Arc::new(move |turn| {
        while turn == 0 && !gate.load(Ordering::Relaxed) {
            thread::sleep(Duration::from_millis(1));
        }
        match turn {
            TURNS => says("Done."),
            _ => runs(turn, [format!("seq {turn} 2000").as_str()]).after(THINKS),
        }
    }));
    let arguments = ["--no-sandbox", "--dangerously-skip-permissions", "serve"];
    let mut command = agent.command(&folder, &key, &arguments)?;
    // Root may only do so on a machine that says this of itself.
    command.env("IS_SANDBOX", "1");
    let serving = Serving(command.spawn().context("starting `ah serve`")?);
    let server = within(PATIENCE, || known(&folder.with_extension("home")))?;
    let text = |key: &str| server[key].as_str().unwrap_or_default();
    let (address, token) = (text("url").trim_start_matches("http://"), text("token"));
    let begun = json!({"prompt": "go"}).to_string();
    let head = format!(
        "content-type: application/json\r\ncontent-length: {}\r\n",
        begun.len()
    );
    let mut stream = ask(
        address,
        token,
        "POST /v1/sessions",
        &(head + "connection: close\r\n\r\n" + &begun),
    )?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let session = answer.split_once("\r\n\r\n").map(|(_, body)| body);
    let session: Value = serde_json::from_str(session.unwrap_or_default())
        .with_context(|| format!("`ah serve` answered {answer}"))?;
    let place = format!(
        "GET /v1/sessions/{}/events",
        session["session"].as_str().unwrap_or_default()
    );
    let stalled = (watchers > 0).then(|| ask(address, token, &place, "\r\n"));
    let mut readers = Vec::new();
    for _ in 1..watchers {
        let mut stream = ask(address, token, &place, "\r\n")?;
        // They begin when the first bytes are there.
        ensure!(stream.read(&mut [0; 1])? == 1, "a watcher got nothing");
        readers.push(thread::spawn(move || {
            io::copy(&mut stream, &mut io::sink())
        }));
    }
    all_watch.store(true, Ordering::Relaxed);
    within(PATIENCE, || {
        Some(()).filter(|()| agent.requests_made(&key) > TURNS)
    })?;
    let exchanges = agent.close(&key);
    drop((stalled, serving));
    for reader in readers {
        // The server was killed; what they got is what counts.
        let got = reader.join().unwrap_or(Ok(0)).unwrap_or(1);
        ensure!(got > 0, "a watcher got nothing of the run");
    }
    Ok(exchanges[TURNS].asked - exchanges[0].answered)
}

/// Sends a request to the server, with the rest of its head and its body.
fn ask(address: &str, token: &str, what: &str, rest: &str) -> Result<TcpStream> {
    let mut stream = TcpStream::connect(address).context("connecting to `ah serve`")?;
    let head = format!("{what} HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {token}\r\n");
    stream.write_all((head + rest).as_bytes())?;
    Ok(stream)
}

/// Returns what the server of this home says of itself, once it is there.
fn known(home: &Path) -> Option<Value> {
    let file = fs::read_dir(home.join(".ah/serve"))
        .ok()?
        .flatten()
        .next()?;
    serde_json::from_slice(&fs::read(file.path()).ok()?).ok()
}

fn within<T>(patience: Duration, look: impl Fn() -> Option<T>) -> Result<T> {
    let started = Instant::now();
    loop {
        if let Some(found) = look() {
            return Ok(found);
        }
        ensure!(
            started.elapsed() < patience,
            "waited in vain for `ah serve`"
        );
        thread::sleep(Duration::from_millis(5));
    }
}
