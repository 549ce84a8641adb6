//! Workers over PostgreSQL: how soon a run goes on elsewhere, what a turn costs beside SQLite, and how many runs two
//! workers carry, also after many that are over.
//!
//! The model is a scenario, since the workers of a machine share one key. Each turn writes its time into a file.

mod database;

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result, ensure};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

use super::machine::bare_bash;
use super::process::{Agent, Memory, Pair, cpu_of_children, free, watching};
use super::statistics::median;
use super::table::{Figure, Row};
use database::Database;

/// Sessions, their turns, and the time of the model for each.
const SESSIONS: u32 = 1_000;
const TURNS: u32 = 10;
const THINKS: Duration = Duration::from_millis(50);
/// Runs that a worker has at once, as without an option.
const AT_ONCE: u32 = 4;
/// Sessions in the store that are over.
const OVER: u32 = 100_000;
/// Sessions of one worker whose memory is measured.
const LIVE: u32 = 100;
/// Longest time to wait for a turn.
const PATIENCE: Duration = Duration::from_secs(30);

/// Measures workers, if PostgreSQL is installed and the program has it.
pub fn fleet(pair: &Pair) -> Result<Vec<Row>> {
    let agent = &pair.agent;
    let Some(database) = Database::start()? else {
        eprintln!("left out: there is no PostgreSQL in /usr/lib/postgresql");
        return Ok(Vec::new());
    };
    let place = Place::new(agent, Some(database.url()))?;
    if !place.ah(&["fleet", "migrate"])?.status()?.success() {
        eprintln!("left out: the program lacks the feature `postgres` (--binary names another)");
        return Ok(Vec::new());
    }
    let elsewhere = |signal| -> Result<_> {
        let times = (0..3).map(|_| goes_on(agent, &database, signal));
        Ok(median(times.collect::<Result<_>>()?))
    };
    let (taken, handed) = (elsewhere(Signal::SIGKILL)?, elsewhere(Signal::SIGTERM)?);
    let begins = |store| begins(agent, store);
    let (begins_remote, begins_local) = (begins(Some(database.url()))?, begins(None)?);
    let bash = bare_bash()?;
    let turn = |store| Ok::<_, anyhow::Error>(turn(agent, store)?.saturating_sub(bash));
    let (remote, local) = (turn(Some(database.url()))?, turn(None)?);
    let memory = memory(agent, &database)?;
    let few = carried(agent, &database)?;
    database.fill(OVER)?;
    // As the server does by and by.
    database.run("VACUUM ANALYZE")?;
    database.run("CHECKPOINT")?;
    let many = carried(agent, &database)?;
    let ideal = THINKS * SESSIONS * TURNS / (2 * AT_ONCE);
    let row = |what, figures| Row {
        what,
        figures,
        best: None,
    };
    Ok(vec![
        row(
            "a run goes on with another worker: after `kill -9`, after SIGTERM",
            vec![
                Figure::milliseconds(taken, 4_000.0),
                Figure::milliseconds(handed, 2_000.0),
            ],
        ),
        row(
            "from `ah enqueue` to the first command of its run, by a worker at rest: over PostgreSQL, over SQLite",
            vec![
                Figure::milliseconds(begins_remote, 150.0),
                Figure::milliseconds(begins_local, 150.0),
            ],
        ),
        row(
            "a turn of a worker over PostgreSQL, less a bare `bash -c true`, beside SQLite",
            vec![Figure::over(remote, local, 3.0)],
        ),
        row(
            "1,000 queued sessions of 10 turns, 50 ms of model and a `read` each, two workers of 4 runs: wall, beside the model alone; the same \
             with 100,000 sessions in the store that are over, beside without",
            vec![
                Figure::over(few.wall, ideal, 1.25),
                Figure::over(many.wall, few.wall, 1.1),
            ],
        ),
        row(
            "what each turn of these takes: CPU of a worker; the database's transactions, bytes of its log, bytes of its \
             tables",
            few.of_a_turn(),
        ),
        row(
            "memory of its own that a worker with 100 live sessions has at most",
            vec![Figure::megabytes(memory, 250.0)],
        ),
    ])
}

/// A folder to work in, and the store of its runs.
struct Place<'a> {
    agent: &'a Agent,
    folder: PathBuf,
    store: Option<&'a str>,
}

/// A worker, which ends with this value.
struct Worker(Child);

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Worker {
    fn signal(&mut self, signal: Signal) -> Result<()> {
        kill(Pid::from_raw(self.0.id().try_into()?), signal)?;
        self.0.wait()?;
        Ok(())
    }

    /// Waits until it has ended by itself.
    fn ended(&mut self) -> Result<()> {
        let status = self.0.wait()?;
        ensure!(status.success(), "a worker ended with {status}");
        Ok(())
    }
}

impl<'a> Place<'a> {
    fn new(agent: &'a Agent, store: Option<&'a str>) -> Result<Self> {
        let folder = agent.folder()?;
        Ok(Self {
            agent,
            folder,
            store,
        })
    }

    fn ah(&self, arguments: &[&str]) -> Result<Command> {
        let mut command = self
            .agent
            .command(&self.folder, "unused", &free(arguments))?;
        command.env("IS_SANDBOX", "1");
        if let Some(store) = self.store {
            command.env("AH_STORE", store);
        }
        Ok(command)
    }

    /// Writes a scenario of so many turns, each of which writes its number and its time; returns the model that plays it.
    fn model(&self, turns: u32, thinks: Duration) -> Result<String> {
        self.playing(turns, thinks, |turn| {
            let command = format!("echo {turn} $EPOCHREALTIME >> stamps");
            json!({"name": "bash", "input": {"command": command}})
        })
    }

    /// Writes a scenario of so many turns, each of which reads a line of a file; returns the model that plays it.
    fn reading(&self, turns: u32, thinks: Duration) -> Result<String> {
        fs::write(self.folder.join("lines"), "a line\n".repeat(100))?;
        self.playing(
            turns,
            thinks,
            |turn| json!({"name": "read", "input": {"path": "lines", "offset": turn, "limit": 1}}),
        )
    }

    fn playing(&self, turns: u32, thinks: Duration, call: fn(u32) -> Value) -> Result<String> {
        let delay = thinks.as_millis();
        let turn = |turn| json!({"delay_ms": delay, "tool": call(turn)});
        let mut played: Vec<_> = (1..turns).map(turn).collect();
        played.push(json!({"delay_ms": delay, "text": "Done."}));
        let file = self.folder.join("scenario.json");
        fs::write(&file, json!({"turns": played}).to_string())?;
        Ok(format!("script:{}", file.display()))
    }

    fn enqueue(&self, model: &str) -> Result<()> {
        let status = self.ah(&["enqueue", "-m", model, "go"])?.status()?;
        ensure!(status.success(), "`ah enqueue` ended with {status}");
        Ok(())
    }

    /// Starts a worker that ends when nothing is left to do.
    fn worker(&self, at_once: u32) -> Result<Worker> {
        let at_once = at_once.to_string();
        self.worker_with(&["--until-idle", "--concurrency", &at_once])
    }

    fn worker_with(&self, options: &[&str]) -> Result<Worker> {
        let mut command = self.ah(&[&["worker"], options].concat())?;
        Ok(Worker(command.spawn().context("starting `ah worker`")?))
    }

    /// Returns the times of the turns so far, since the epoch.
    fn stamps(&self) -> Vec<Duration> {
        let text = fs::read_to_string(self.folder.join("stamps")).unwrap_or_default();
        let times = text
            .lines()
            .filter_map(|line| line.split_once(' ')?.1.parse().ok());
        times.map(Duration::from_secs_f64).collect()
    }

    /// Waits for a turn after a time; returns its own.
    fn turn_after(&self, time: Duration) -> Result<Duration> {
        let began = Instant::now();
        loop {
            if let Some(stamp) = self.stamps().into_iter().find(|stamp| *stamp > time) {
                return Ok(stamp);
            }
            ensure!(began.elapsed() < PATIENCE, "waited in vain for a turn");
            thread::sleep(Duration::from_millis(5));
        }
    }
}

fn now() -> Result<Duration> {
    Ok(SystemTime::now().duration_since(UNIX_EPOCH)?)
}

/// Returns how long after a signal to its worker a run makes its next turn, with a worker that starts meanwhile.
fn goes_on(agent: &Agent, database: &Database, signal: Signal) -> Result<Duration> {
    let place = Place::new(agent, Some(database.url()))?;
    place.enqueue(&place.model(200, THINKS)?)?;
    let mut first = place.worker(AT_ONCE)?;
    place.turn_after(Duration::ZERO)?;
    let _second = place.worker(AT_ONCE)?;
    let signalled = now()?;
    first.signal(signal)?;
    // A command that was running may still have written.
    let turn = place.turn_after(now()? + Duration::from_millis(20))?;
    database.run("UPDATE ah.runs SET state = 'cancelled' WHERE state IN ('queued', 'running')")?;
    Ok(turn - signalled)
}

/// Returns the time from the start of `ah enqueue` to the first command of the run, by a worker that waits.
fn begins(agent: &Agent, store: Option<&str>) -> Result<Duration> {
    let place = Place::new(agent, store)?;
    let model = place.model(2, Duration::ZERO)?;
    let _worker = place.worker_with(&[])?;
    let begins = || {
        let began = now()?;
        place.enqueue(&model)?;
        Ok(place.turn_after(began)? - began)
    };
    begins()?;
    let times = (0..15).map(|_| begins());
    Ok(median(times.collect::<Result<_>>()?))
}

/// Returns the time from one turn to the next, the model's being none.
fn turn(agent: &Agent, store: Option<&str>) -> Result<Duration> {
    let place = Place::new(agent, store)?;
    place.enqueue(&place.model(200, Duration::ZERO)?)?;
    place.worker(AT_ONCE)?.ended()?;
    let stamps = place.stamps();
    ensure!(stamps.len() == 199, "{} turns of 199", stamps.len());
    Ok(median(
        stamps.windows(2).map(|pair| pair[1] - pair[0]).collect(),
    ))
}

/// Returns the most memory of its own that a worker has with many sessions at once.
fn memory(agent: &Agent, database: &Database) -> Result<u64> {
    let place = Place::new(agent, Some(database.url()))?;
    let model = place.model(TURNS, Duration::from_secs(1))?;
    database.queue(LIVE, &place.folder, &model)?;
    let mut worker = place.worker(LIVE)?;
    let id = worker.0.id();
    let look = || Memory::of(id).unwrap_or_default();
    let (ended, peak) = watching(Duration::from_millis(50), look, || worker.ended());
    ended?;
    Ok(peak.own)
}

/// What two workers took for all sessions.
struct Carried {
    wall: Duration,
    /// Of the workers.
    cpu: Duration,
    /// Of the database.
    transactions: u64,
    logged: u64,
    stored: u64,
}

impl Carried {
    #[expect(clippy::cast_precision_loss, reason = "three digits of it are shown")]
    fn of_a_turn(&self) -> Vec<Figure> {
        let turns = SESSIONS * TURNS;
        let bytes = |total: u64| usize::try_from(total / u64::from(turns)).unwrap_or(usize::MAX);
        vec![
            Figure::milliseconds(self.cpu / turns, 6.0),
            Figure::transactions(self.transactions as f64 / f64::from(turns), 8.0),
            Figure::bytes(bytes(self.logged), 8_000.0),
            Figure::bytes(bytes(self.stored), 6_000.0),
        ]
    }
}

/// Runs all sessions on two workers.
fn carried(agent: &Agent, database: &Database) -> Result<Carried> {
    let place = Place::new(agent, Some(database.url()))?;
    let model = place.reading(TURNS, THINKS)?;
    database.queue(SESSIONS, &place.folder, &model)?;
    let (before, spent) = (database.done()?, cpu_of_children()?);
    let began = Instant::now();
    let mut workers = [place.worker(AT_ONCE)?, place.worker(AT_ONCE)?];
    workers.iter_mut().try_for_each(Worker::ended)?;
    let wall = began.elapsed();
    let after = database.done()?;
    // The prompt, an answer each turn, and the results of all but the last.
    let (made, messages) = (after.messages - before.messages, SESSIONS * 2 * TURNS);
    ensure!(made == u64::from(messages), "{made} messages of {messages}");
    Ok(Carried {
        wall,
        cpu: cpu_of_children()?.saturating_sub(spent),
        transactions: after.transactions - before.transactions,
        logged: after.logged - before.logged,
        stored: after.stored.saturating_sub(before.stored),
    })
}
