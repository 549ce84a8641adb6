//! A long session: as many turns as a day has, in one process, with files, subagents and summaries.
//!
//! The model answers at once, so the day takes minutes. Nothing in a run but its heartbeats (every 10 s) and the lifetime of
//! idle connections and threads depends on how long a turn takes.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context as _, Result, ensure};
use parking_lot::Mutex;
use rusqlite::{Connection, OpenFlags};
use serde_json::json;

use super::answer::{Answer, runs, runs_in_crowded_window, says, uses};
use super::process::{Agent, Memory, Pair, free, size_of};
use super::table::{Figure, Row};

/// Requests of the session, without the last.
const REQUESTS: usize = 10_000;
/// After so many requests the session does the same again, with other words.
const CYCLE: usize = 100;
/// Cycles after which the process is looked at, during the whole of the next one.
const LOOKS: [usize; 3] = [9, 49, 99];
/// What a command prints, in turn: short, and more than a screen.
const OUTPUTS: [usize; 4] = [20, 400, 2_000, 8_000];

/// What a process has at one moment, or at most in a time.
#[derive(Clone, Copy, Default, Debug)]
struct Held {
    memory: Memory,
    files: usize,
    threads: usize,
    /// Bytes that it has written so far.
    written: u64,
}

impl Held {
    fn of(id: u32) -> Option<Self> {
        let proc = PathBuf::from(format!("/proc/{id}"));
        let read = |name| fs::read_to_string(proc.join(name)).ok();
        let count = |name| Some(fs::read_dir(proc.join(name)).ok()?.count());
        let io = read("io")?;
        // What was sent over connections is not among these.
        let written = io
            .lines()
            .find_map(|line| line.strip_prefix("write_bytes: "))?;
        Some(Self {
            memory: Memory::of(id)?,
            files: count("fd")?,
            threads: count("task")?,
            written: written.parse().ok()?,
        })
    }

    fn most(self, other: Self) -> Self {
        Self {
            memory: self.memory.most(other.memory),
            files: self.files.max(other.files),
            threads: self.threads.max(other.threads),
            written: self.written.max(other.written),
        }
    }
}

/// Runs the session, and compares its beginning with its middle and its end.
pub fn soak(pair: &Pair) -> Result<Vec<Row>> {
    let folder = pair.agent.folder()?;
    let looks = run(&pair.agent, &folder)?;
    let [early, middle, late] = looks;
    let peak = early.most(middle).most(late);
    let (said, kept) = (said(&folder)?, size_of(&folder.join(".ah"))?);
    let more = |count: fn(&Held) -> usize| {
        let most = count(&middle).max(count(&late));
        Figure::more(most.saturating_sub(count(&early)))
    };
    Ok(vec![
        Row {
            what: "10,000 turns in one process, with 100 subagents and 100 summaries: memory of its own at most; mapped",
            figures: vec![
                Figure::megabytes(peak.memory.own, 12.0),
                Figure::megabytes(peak.memory.mapped, 0.0).without_budget(),
            ],
            best: None,
        },
        Row {
            what: "the same at turn 5,000 and 10,000 over turn 1,000",
            figures: [middle, late]
                .map(|it| ratio(it.memory.own, early.memory.own, 1.1))
                .into(),
            best: None,
        },
        Row {
            what: "files and threads at turn 5,000 and 10,000, more than at turn 1,000",
            figures: vec![more(|it| it.files), more(|it| it.threads)],
            best: None,
        },
        Row {
            what: "bytes kept on disk, bytes written to it in whole pages (three durable commits each turn), over bytes of messages and outputs",
            figures: vec![ratio(kept, said, 3.0), ratio(late.written, said, 12.0)],
            best: None,
        },
    ])
}

#[expect(clippy::cast_precision_loss, reason = "two digits of it are shown")]
fn ratio(value: u64, base: u64, budget: f64) -> Figure {
    Figure::times(value as f64 / base.max(1) as f64, budget)
}

/// Runs the session; returns the most that its process had in each look.
fn run(agent: &Agent, folder: &Path) -> Result<[Held; LOOKS.len()]> {
    let id = Arc::new(AtomicU32::new(0));
    let looks = Arc::new(Mutex::new([Held::default(); LOOKS.len()]));
    let (process, kept) = (id.clone(), looks.clone());
    let key = agent.open(Arc::new(move |at| {
        if let Some(look) = LOOKS.iter().position(|cycle| at / CYCLE == *cycle)
            && let Some(held) = Held::of(process.load(Ordering::Relaxed))
        {
            let mut looks = kept.lock();
            looks[look] = looks[look].most(held);
        }
        answer(at)
    }));
    let mut child = agent.command(folder, &key, &free(&["-n", "go"]))?.spawn()?;
    id.store(child.id(), Ordering::Relaxed);
    let status = child.wait()?;
    let made = agent.close(&key).len();
    ensure!(
        status.success() && made == REQUESTS + 1,
        "the run ended with {status} after {made} requests: {}",
        fs::read_to_string(folder.join("stderr")).unwrap_or_default()
    );
    let looks = *looks.lock();
    // What a process has open is for its owner alone, and this one keeps even its owner out.
    ensure!(
        looks.iter().all(|look| look.files > 0),
        "the process could not be looked at; root can"
    );
    Ok(looks)
}

/// Returns the answer to a request: of the session, of its subagent, or for a summary.
fn answer(at: usize) -> Answer {
    let file = format!("file-{}", at / CYCLE % 10);
    match at % CYCLE {
        _ if at == REQUESTS => says("Done."),
        10 => uses(at, "write", &json!({"path": file, "content": text(at)})),
        11 => uses(at, "read", &json!({"path": file})),
        12 => {
            let begun = format!("begun {at}");
            uses(
                at,
                "edit",
                &json!({"path": file, "old_string": "begin", "new_string": begun}),
            )
        }
        30 => {
            let prompt = format!("look at {at}");
            uses(
                at,
                "agent",
                &json!({"description": "look", "prompt": prompt}),
            )
        }
        32 => says("A report of what was found, in a few words."),
        98 => runs_in_crowded_window(at, &command(at)),
        99 => says("A summary of what was done so far, in a few words."),
        _ => runs(at, [command(at).as_str()]),
    }
}

/// Returns a command whose output differs each time.
fn command(at: usize) -> String {
    let bytes = OUTPUTS[at % OUTPUTS.len()];
    format!("yes 'line of {at}' | head -c {bytes}")
}

/// Returns the content of a file.
fn text(at: usize) -> String {
    format!("begin\n{}", format!("a line of {at}\n").repeat(150))
}

/// Returns the bytes of the messages and outputs in the session's database.
fn said(folder: &Path) -> Result<u64> {
    let sessions = fs::read_dir(folder.join(".ah"))?;
    let mut paths = sessions.flatten().map(|entry| entry.path());
    let is_conversation = |path: &PathBuf| {
        let name = path.to_string_lossy();
        name.ends_with(".db") && !name.ends_with(".queue.db")
    };
    let path = paths.find(is_conversation).context("no session was kept")?;
    let database = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    let length = |column: &str| format!("coalesce(length(CAST({column} AS BLOB)), 0)");
    let said = ["content", "tool_input", "tool_output"]
        .map(length)
        .join(" + ");
    let sum = format!("SELECT sum({said}) FROM content_blocks");
    let said: i64 = database.query_row(&sum, [], |row| row.get(0))?;
    Ok(said.try_into()?)
}
