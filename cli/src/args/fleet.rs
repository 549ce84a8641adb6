//! The command line of queued runs and their workers.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::json::Json;
use super::options::whole;

/// Subcommands for sessions that workers run.
#[derive(Debug, Clone, PartialEq, Subcommand)]
pub enum FleetCommands {
    /// Queue a task for a worker
    Enqueue(Enqueuing),
    /// Run queued tasks, until it is stopped
    Worker {
        /// Maximum number of tasks at once
        #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..))]
        concurrency: u16,
        /// Model for tasks that name none
        #[arg(short = 'm', long, value_name = "NAME")]
        model: Option<String>,
        /// Answer `/healthz`, `/readyz` and `/metrics` (Prometheus) at this address; a port alone means this machine
        #[arg(long, value_name = "ADDRESS", value_parser = address)]
        metrics: Option<SocketAddr>,
        /// Also run queued commands (`ah enqueue -- work`), which have your permissions
        #[arg(long)]
        commands: bool,
        /// Exit when nothing is queued or running
        #[arg(long)]
        until_idle: bool,
        #[command(flatten)]
        #[expect(missing_docs, reason = "its one field says it")]
        store: Store,
    },
    /// Follow a queued session until it is idle
    Watch(Queued),
    /// Send a message to a queued session
    Steer {
        /// The session: the beginning of its id
        #[arg(value_name = "SESSION")]
        session: String,
        /// The message
        #[arg(value_name = "TEXT")]
        text: String,
        /// Deliver it when the answer is done, not before the next step
        #[arg(long)]
        followup: bool,
        #[command(flatten)]
        #[expect(missing_docs, reason = "its one field says it")]
        store: Store,
    },
    /// Answer a question of a queued session, or show the open ones
    Answer {
        /// The session: the beginning of its id
        #[arg(value_name = "SESSION")]
        session: String,
        /// Number of the question
        #[arg(value_name = "NUMBER", requires = "answers")]
        number: Option<i64>,
        /// An answer for each choice: an option, such as `allow` or `deny`, or other words
        #[arg(value_name = "ANSWER")]
        answers: Vec<String>,
        #[command(flatten)]
        #[expect(missing_docs, reason = "its one field says it")]
        store: Store,
    },
    /// Stop a session's current run; queued runs remain
    Interrupt(Queued),
    /// Stop a session's current run and drop its queue
    Cancel(Queued),
    /// Move a session and its files to a store or a file, or back here
    Move(Moving),
    /// List queued runs, or prepare a database for them
    Fleet {
        /// Action
        #[command(subcommand)]
        action: Option<FleetAction>,
        #[command(flatten)]
        #[expect(missing_docs, reason = "its one field says it")]
        store: Store,
        #[command(flatten)]
        #[expect(missing_docs, reason = "its one field says it")]
        json: Json,
    },
}

/// Actions of `ah fleet`.
#[derive(Debug, Clone, PartialEq, Subcommand)]
pub enum FleetAction {
    /// Create or update the tables of a PostgreSQL database
    Migrate {
        /// Let `graphile_worker` wake the workers of this role (builds with the feature `graphile`)
        #[arg(long)]
        graphile: bool,
    },
    /// Delete contents that no session uses any more; optionally old sessions
    Gc {
        /// Delete idle sessions in which nothing has happened for this many days
        #[arg(long, value_name = "DAYS", value_parser = whole::<u32>)]
        older_than: Option<u32>,
    },
    /// Limit requests or money for all workers, or list the limits
    Limit {
        /// Requests per minute
        #[arg(long, value_name = "N", value_parser = positive)]
        per_minute: Option<f64>,
        /// US dollars that may still be spent; runs wait when there are none left
        #[arg(long, value_name = "DOLLARS", value_parser = positive, conflicts_with = "model")]
        budget: Option<f64>,
        /// No limit
        #[arg(long, conflicts_with_all = ["per_minute", "budget"])]
        none: bool,
        /// For this model [default: all]
        #[arg(short = 'm', long, value_name = "NAME")]
        model: Option<String>,
        /// For this role of the database, `*` for all together [default: your own]
        #[arg(long, value_name = "ROLE")]
        tenant: Option<String>,
    },
    /// List what `ah enqueue --cron` has scheduled
    Schedules,
    /// End a schedule; sessions that it has begun continue
    Unschedule {
        /// Its number
        number: i64,
    },
}

fn address(text: &str) -> Result<SocketAddr, String> {
    if let Ok(port) = text.parse() {
        return Ok((Ipv4Addr::LOCALHOST, port).into());
    }
    text.parse()
        .map_err(|_| "expected a port, or an IP address and a port".to_owned())
}

fn positive(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(number) if number > 0.0 && number < 1e6 => Ok(number),
        _ => Err("expected a number above 0 and below a million".to_owned()),
    }
}

/// Options of `ah enqueue`.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct Enqueuing {
    /// The task
    #[arg(value_name = "TASK", required_unless_present = "command")]
    pub task: Option<String>,
    /// A command instead of a task: `-- work -i 7`, or `-- bench tasks`; for workers with `--commands`
    #[arg(last = true, value_name = "COMMAND", conflicts_with_all = ["task", "session", "model", "answer_within"])]
    pub command: Vec<String>,
    /// Continue this session: the beginning of its id [default: a new one]
    #[arg(long, value_name = "ID")]
    pub session: Option<String>,
    /// The folder to work in, on the worker's machine [default: this one]
    #[arg(long, value_name = "DIR")]
    pub folder: Option<PathBuf>,
    /// Upload the folder's files, so that any worker can recreate them
    #[arg(long, conflicts_with_all = ["cron", "command"])]
    pub carry: bool,
    /// Model [default: the worker's]
    #[arg(short = 'm', long, value_name = "NAME")]
    pub model: Option<String>,
    /// Priority: queued runs with a higher one start first
    #[arg(
        long,
        value_name = "N",
        default_value_t = 0,
        allow_negative_numbers = true
    )]
    pub priority: i32,
    /// Delay before starting, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 0, hide_default_value = true, value_parser = whole::<u64>)]
    pub delay: u64,
    /// Queue it at these times, each time in a new session: as in a crontab, such as `0 6 * * 1-5 Europe/Rome`; UTC without a zone
    #[arg(long, value_name = "TIMES", conflicts_with_all = ["session", "delay"])]
    pub cron: Option<String>,
    /// Maximum attempts
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    pub attempts: u32,
    /// Seconds to wait for `ah answer` when a person is needed [default: nobody is asked]
    #[arg(long, value_name = "SECONDS", value_parser = whole::<u64>)]
    pub answer_within: Option<u64>,
    #[command(flatten)]
    #[expect(missing_docs, reason = "its one field says it")]
    pub store: Store,
}

/// Options of `ah move`.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct Moving {
    /// The session: the beginning of its id; or a file that `ah move --to` has written
    #[arg(value_name = "SESSION")]
    pub session: String,
    /// Where to: a PostgreSQL store, or a file [default: this folder]
    #[arg(long, value_name = "URL|FILE")]
    pub to: Option<String>,
    /// The store where it is [default: `AH_STORE`, or the sessions of this folder]
    #[arg(long, value_name = "URL")]
    pub from: Option<String>,
    /// The folder for its files, created if it is missing [default: this one]
    #[arg(long, value_name = "DIR", conflicts_with = "to")]
    pub folder: Option<PathBuf>,
}

/// A session that was queued.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct Queued {
    /// The session: the beginning of its id
    #[arg(value_name = "SESSION")]
    pub session: String,
    #[command(flatten)]
    #[expect(missing_docs, reason = "its one field says it")]
    pub store: Store,
}

/// Where queued sessions are kept.
#[derive(Debug, Clone, Default, PartialEq, Eq, Args)]
pub struct Store {
    /// PostgreSQL, such as `postgres://ROLE@HOST/DB` [default: `AH_STORE`, or the sessions of this folder]
    #[arg(long, value_name = "URL", global = true)]
    pub store: Option<String>,
}
