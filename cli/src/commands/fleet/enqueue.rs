//! Queues tasks, now or again and again.

use std::sync::Arc;
use std::time::Duration;

use ah_config::{Config, Error};
use ah_conversation::{Clock as _, Environment, SessionId, Time, neutralise};
use ah_fleet::carried::capture;
use ah_fleet::worker::{COMMANDS, next_time};
use ah_ids::SystemClock;
use ah_store::fleet::{Fleet, NewRun};
use jiff::Timestamp;

use super::super::output::print;
use super::super::place::open_error;
use super::moving::config_of;
use super::store::{found, open};
use crate::args::fleet::{Enqueuing, Queued};
use crate::args::options::Options;

/// Queues a task, or schedules it.
pub async fn enqueue(config: &Config, options: &Options, wanted: Enqueuing) -> Result<u8, Error> {
    let clock = SystemClock::default();
    let prompt = prompt(&wanted)?;
    let (fleet, session) = match wanted.session {
        Some(session) => {
            let store = wanted.store;
            found(config, &Queued { session, store }).await?
        }
        None => {
            let id = clock.message_id();
            (
                open(config, &wanted.store).await?,
                SessionId::from(id.as_str()),
            )
        }
    };
    let cwd = config.environment.cwd();
    let run = NewRun {
        message: clock.message_id(),
        prompt,
        command: wanted.command,
        folder: wanted
            .folder
            .map_or_else(|| cwd.to_owned(), |folder| cwd.join(folder)),
        model: wanted.model,
        priority: wanted.priority,
        delay: Duration::from_secs(wanted.delay),
        attempts: wanted.attempts,
        answer_within: wanted.answer_within.map(Duration::from_secs),
        session,
    };
    if let Some(cron) = &wanted.cron {
        let due = next_time(cron, fleet.now().await?)?;
        let number = fleet.schedule(cron, due, &run).await?;
        return print(&format!("schedule {number}: {}\n", date(due)));
    }
    if wanted.carry {
        let there = config_of(config, options, &run.folder)?;
        carry(&there.environment, there.trust.is_given(), &fleet, &run).await?;
    }
    fleet.enqueue(&run).await?;
    print(&format!("{}\n", run.session))
}

/// Stores the files of the run's folder with its session, and says what stays behind.
async fn carry(
    environment: &Environment,
    is_trusted: bool,
    fleet: &Arc<dyn Fleet>,
    run: &NewRun,
) -> Result<(), Error> {
    let captured = capture(environment, &run.folder, is_trusted).await?;
    for left in &captured.left {
        ah_terminal::warn(&format!("left behind: {left}"));
    }
    let me = format!("enqueue-{}", run.message);
    let opened = fleet.clone().open(&run.session, &me).await;
    let store = opened.map_err(open_error)?;
    let kept = captured.keep(&store).await;
    drop(store);
    fleet.close(&run.session, &me).await?;
    kept
}

/// Returns the task; of a command, what it is.
fn prompt(wanted: &Enqueuing) -> Result<String, Error> {
    if let Some(task) = &wanted.task {
        return match task.trim().is_empty() {
            true => Err(Error::usage("the task is empty")),
            false => Ok(task.clone()),
        };
    }
    let words = &wanted.command;
    if !COMMANDS
        .iter()
        .any(|name| words.first().is_some_and(|word| word == name))
    {
        let commands = COMMANDS.map(|name| format!("`ah {name}`")).join(" and ");
        return Err(
            Error::usage("what follows `--` is not a command for a worker")
                .hint(format!("those are {commands}; a task goes without `--`")),
        );
    }
    let shown = words
        .iter()
        .map(|word| match word.contains(char::is_whitespace) {
            true => format!("{word:?}"),
            false => word.clone(),
        });
    Ok(format!("ah {}", shown.collect::<Vec<_>>().join(" ")))
}

/// Lists the schedules.
pub async fn schedules(fleet: &dyn Fleet) -> Result<u8, Error> {
    let schedules = fleet.schedules().await?;
    if schedules.is_empty() {
        return print("nothing is scheduled; `ah enqueue --cron TIMES TASK` schedules a task\n");
    }
    let lines = schedules.iter().map(|schedule| {
        let prompt = schedule.prompt.lines().next().unwrap_or_default();
        let (number, cron, due) = (schedule.number, &schedule.cron, date(schedule.due));
        format!(
            "{}\n",
            neutralise(&format!("{number:>6}  {due}  {cron}  {prompt}"))
        )
    });
    print(&lines.collect::<String>())
}

/// Ends a schedule.
pub async fn unschedule(fleet: &dyn Fleet, number: i64) -> Result<u8, Error> {
    match fleet.unschedule(number).await? {
        true => Ok(0),
        false => Err(Error::failure(format!("there is no schedule {number}"))),
    }
}

fn date(time: Time) -> String {
    let time = Timestamp::from_millisecond(time.0).unwrap_or_default();
    time.to_string()
}
