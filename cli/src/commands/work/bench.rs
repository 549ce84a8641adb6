//! `ah work start`, `run`, `log`, `reset`: minimise a number and show the progress.

use ah_work::bench::{Bench, Bencher, TryStatus};
use ah_work::run::WorkError;
use serde_json::json;

use super::{Repository, failure};
use crate::args::json::Json;
use crate::args::options::Options;
use crate::args::work::{WorkAction, WorkOptions};
use crate::commands::output::{print, print_json};
use ah_config::Config;
use ah_config::Error;
use ah_terminal::exit::FAILURE;
use ah_terminal::line::preview;

/// Runs one of these subcommands; returns the exit code.
///
/// # Errors
///
/// If the state does not allow it, or the benchmark prints no number.
pub(super) async fn run(
    repository: &Repository,
    config: &Config,
    options: &Options,
    wanted: &WorkOptions,
    action: &WorkAction,
) -> Result<u8, Error> {
    let main = repository.main(&config.environment);
    let agents = repository.agents(config, options, wanted, &main).await?;
    let model = wanted.model.as_deref().or(options.model.model.as_deref());
    let bencher = Bencher {
        top: &repository.top,
        git: &main,
        agents: &agents,
        model,
    };
    perform(&bencher, action)
        .await
        .map_err(|error| failure(&error))?
}

async fn perform(
    bencher: &Bencher<'_>,
    action: &WorkAction,
) -> Result<Result<u8, Error>, WorkError> {
    Ok(match action {
        WorkAction::Start { bench, goal } => {
            let number = bencher.start(bench, &goal.join(" ")).await?;
            print(&format!("baseline {number}\n"))
        }
        WorkAction::Run => {
            let done = bencher.run().await?;
            let line = format!("{} {}\n", done.status.as_str(), preview(&done.note, 200));
            let is_kept = done.status == TryStatus::Keep;
            print(&line).map(|code| if is_kept { code } else { FAILURE })
        }
        WorkAction::Reset => bencher.reset().map(|()| Ok(0))?,
        WorkAction::Log(form) => log(bencher.load()?.as_ref(), *form),
        _ => unreachable!("the others are the work on an issue"),
    })
}

fn log(bench: Option<&Bench>, form: Json) -> Result<u8, Error> {
    let Some(bench) = bench else {
        return if form.json {
            print_json(&json!(null))
        } else {
            print("no benchmark has been started here\n")
        };
    };
    if form.json {
        return print_json(&json!({
            "command": bench.command, "goal": bench.goal, "best": bench.best(), "tries": bench.tries,
        }));
    }
    let mut text = format!(
        "{}\n{}\n",
        preview(&bench.goal, 80),
        preview(&bench.command, 80)
    );
    for one in &bench.tries {
        let number = one
            .number
            .map_or("-".to_owned(), |number| number.to_string());
        let line = format!(
            "  {:<8}  {number:<10}  {}",
            one.status.as_str(),
            preview(&one.note, 100)
        );
        text.push_str(&format!("{}\n", line.trim_end()));
    }
    print(&text)
}
