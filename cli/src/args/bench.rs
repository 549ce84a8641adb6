//! Options of `ah bench`.

use std::path::PathBuf;

use super::fleet::Store;
use super::json::Json;

/// Options of `ah bench`.
#[derive(Debug, Clone, Default, PartialEq, Eq, clap::Args)]
pub struct BenchOptions {
    /// The folder: each folder in it with a `prompt.md` is a task
    #[arg(value_name = "DIR")]
    pub folder: PathBuf,
    /// Only these tasks
    #[arg(long = "task", value_name = "NAME")]
    pub tasks: Vec<String>,
    /// Number of tasks at once
    #[arg(short = 'j', long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..))]
    pub jobs: u16,
    /// The folder for results [default: DIR.results]
    #[arg(short = 'o', long, value_name = "FOLDER")]
    pub output: Option<PathBuf>,
    /// Rerun tasks that already have a result
    #[arg(long)]
    pub again: bool,
    /// Judge recorded runs again, without a model
    #[arg(long, conflicts_with = "again")]
    pub replay: bool,
    /// Let setups and checks reach this host and port by HTTPS
    #[arg(long, value_name = "HOST:PORT")]
    pub allow_host: Vec<String>,
    /// Run setups and checks without the sandbox
    #[arg(long)]
    pub no_sandbox: bool,
    /// Queue the tasks for workers (`ah worker --commands`), and wait for them
    #[arg(long, conflicts_with_all = ["replay", "jobs"])]
    pub enqueue: bool,
    #[command(flatten)]
    #[expect(missing_docs, reason = "its one field says it")]
    pub store: Store,
    #[command(flatten)]
    #[expect(missing_docs, reason = "its one field says it")]
    pub json: Json,
    /// Options of each run, such as the model
    #[arg(last = true, value_name = "OPTIONS")]
    pub run: Vec<String>,
}
