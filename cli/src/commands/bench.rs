//! `ah bench`: runs the tasks of a folder, several at once, and judges each by its own check.
//!
//! A task is a folder with a `prompt.md`. `files/` is copied into the working folder, `setup.sh` prepares it, and
//! `check.sh` judges it by its exit code; both run in the sandbox, and the agent sees neither. Each run is an `ah` of its
//! own, with a session and a recording beside the working folder. A result is written when it is whole, so an
//! interrupted bench goes on with what is missing.

mod outcome;
mod queued;
mod report;
mod task;

use std::collections::VecDeque;
use std::fs;
use std::path::{Path, PathBuf};
use std::thread;

use ah_config::{Config, Error};
use ah_conversation::Environment;
use ah_terminal::exit::FAILURE;
use parking_lot::Mutex;

use self::report::{Report, TaskResult, Verdict};
use self::task::Task;
use crate::args::bench::BenchOptions;
use crate::commands::output::{print, print_json};
use crate::commands::runtime::runtime;

/// Runs the tasks; the exit code is 1 if one is not solved, or is another in a replay.
///
/// # Errors
///
/// If there are no tasks, the results are of other options, or a file cannot be read or written.
pub fn run(config: &Config, options: &BenchOptions) -> Result<u8, Error> {
    let folder = fs::canonicalize(&options.folder).map_err(|error| {
        Error::failure(format!(
            "cannot read `{}`: {error}",
            options.folder.display()
        ))
    })?;
    let output = match &options.output {
        Some(output) => std::path::absolute(output).unwrap_or_else(|_| output.clone()),
        None => beside(&folder),
    };
    let tasks = tasks(&config.environment, &folder, &output, options)?;
    claim(&output)?;
    let mut waiting = VecDeque::new();
    let mut known = Vec::new();
    for task in tasks {
        // A broken one is tried again.
        let result = task.result(&options.run)?;
        match result.filter(|result| result.verdict != Verdict::Broken) {
            Some(result) if !options.again && !options.replay => known.push(result),
            None if options.replay => {}
            found => waiting.push_back((task, found)),
        }
    }
    if options.replay && waiting.is_empty() {
        let nothing = format!("nothing was recorded in `{}`", output.display());
        return Err(Error::failure(nothing).hint("leave out --replay to run the tasks"));
    }
    let new = match options.enqueue {
        true => {
            let tasks = waiting.into_iter().map(|(task, _)| task).collect();
            runtime()?.block_on(queued::results(config, tasks, options))?
        }
        false => all(waiting, options)?,
    };
    let report = Report::of(known.into_iter().chain(new).collect());
    if !options.replay {
        let path = output.join("report.json");
        write(&path, &report.to_json())?;
    }
    match options.json.json {
        true => print_json(&report.to_json())?,
        false => print(&report.to_text())?,
    };
    Ok(if report.is_good() { 0 } else { FAILURE })
}

/// Runs the tasks, several at once. After an interrupt no other is started, and there is no result of those that ran.
fn all(
    waiting: VecDeque<(Task, Option<TaskResult>)>,
    options: &BenchOptions,
) -> Result<Vec<TaskResult>, Error> {
    let waiting = Mutex::new(waiting);
    let next = || waiting.lock().pop_front();
    let work = || -> Result<Vec<TaskResult>, Error> {
        let mut results = Vec::new();
        while let Some((task, former)) = next() {
            let done = match &former {
                Some(former) if options.replay => task.replay(former, options),
                _ => task.run(options),
            };
            let Ok(Some(result)) = done else {
                // The others do not begin either.
                waiting.lock().clear();
                return done.map(|_| results);
            };
            ah_terminal::note(&result.line());
            if !options.replay {
                match write(&task.result_path(), &result.to_json()) {
                    // It may be broken because its folder cannot be written.
                    Err(_) if result.verdict == Verdict::Broken => {}
                    written => written?,
                }
            }
            results.push(result);
        }
        Ok(results)
    };
    let lists = thread::scope(|scope| {
        let workers = (0..options.jobs).map(|_| scope.spawn(work));
        let workers: Vec<_> = workers.collect();
        let ended = workers.into_iter().map(|worker| worker.join());
        ended.collect::<Vec<_>>()
    });
    let mut all = Vec::new();
    for list in lists {
        all.extend(list.map_err(|_| Error::failure("a worker failed"))??);
    }
    Ok(all)
}

/// Returns the tasks of a folder, sorted by name.
fn tasks(
    environment: &Environment,
    folder: &Path,
    output: &Path,
    options: &BenchOptions,
) -> Result<Vec<Task>, Error> {
    let entries = fs::read_dir(folder)
        .map_err(|error| Error::failure(format!("cannot read `{}`: {error}", folder.display())))?;
    let mut names: Vec<_> = { entries.flatten() }
        .filter(|entry| entry.path().join("prompt.md").is_file())
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect();
    names.sort();
    if let Some(missing) = options.tasks.iter().find(|name| !names.contains(name)) {
        return Err(Error::usage(format!(
            "no task `{missing}` in `{}`",
            folder.display()
        )));
    }
    if !options.tasks.is_empty() {
        names.retain(|name| options.tasks.contains(name));
    }
    if names.is_empty() {
        return Err(
            Error::failure(format!("no tasks in `{}`", folder.display())).hint(
                "a task is a folder with a `prompt.md`, and `files/`, `setup.sh` and `check.sh` as needed",
            ),
        );
    }
    let task = |name: String| Task::new(name, folder, output, environment);
    Ok(names.into_iter().map(task).collect())
}

/// Makes the folder of results, or checks that it is one: folders in it are made anew.
fn claim(output: &Path) -> Result<(), Error> {
    const MARK: &str = ".ah-bench";
    let claimed = fs::create_dir_all(output).and_then(|()| {
        let is_empty = fs::read_dir(output)?.next().is_none();
        match is_empty {
            true => fs::write(output.join(MARK), "").map(|()| true),
            false => Ok(output.join(MARK).exists()),
        }
    });
    match claimed {
        Ok(true) => Ok(()),
        Ok(false) => Err(Error::usage(format!(
            "`{}` is not a folder of results",
            output.display()
        ))
        .hint("name a new or an empty one with `--output`")),
        Err(error) => Err(Error::failure(format!(
            "cannot write `{}`: {error}",
            output.display()
        ))),
    }
}

/// Returns the folder of results beside that of the tasks.
fn beside(folder: &Path) -> PathBuf {
    let mut name = folder.file_name().unwrap_or_default().to_owned();
    name.push(".results");
    folder.with_file_name(name)
}

/// Writes JSON whole or not at all.
fn write(path: &Path, value: &serde_json::Value) -> Result<(), Error> {
    // Several write reports at once if their tasks are queued.
    let draft = path.with_extension(format!("{}.draft", std::process::id()));
    let written = fs::write(&draft, format!("{value:#}\n"));
    written
        .and_then(|()| fs::rename(&draft, path))
        .map_err(|error| Error::failure(format!("cannot write `{}`: {error}", path.display())))
}
