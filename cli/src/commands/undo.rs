//! `ah undo`, `ah redo`, `ah restore` and `ah diff` without messages: file changes by the session's tools.

use std::io::{self, IsTerminal as _};
use std::sync::Arc;

use ah_agent::checkpoint::{FileEdit, Files, Rewind};
use ah_conversation::{Environment, Event, EventKind, Evidence, FileState};
use ah_ids::SystemClock;
use ah_store::Tree;
use serde_json::{Value, json};

use super::place::{block_on, existing, open_error};
use crate::args::json::Json;
use crate::args::subcommands::Rewinding;
use crate::commands::output::{confirm, print, print_exact, print_json};
use ah_config::Config;
use ah_config::Error;
use ah_engine::confinement::command_files::recover;
use ah_engine::sessions::place::take;
use ah_engine::sessions::plan::SessionPlan;
use ah_terminal::note;
use ah_terminal::print::shown;
use ah_terminal::undo::{Direction, apply, count, find, outcome, show, summary, without};

/// Undoes or redoes file changes, or prints the changes with `--dry-run`.
pub fn run(
    config: &Config,
    plan: &SessionPlan,
    direction: Direction,
    wanted: Rewinding,
) -> Result<u8, Error> {
    block_on(async {
        let (files, is_finished, verified) = files(config, plan).await?;
        // Who repeats a command that was cut off means that one.
        let found = match is_finished {
            true => None,
            false => find(&files, direction).await?,
        };
        let Some(rewind) = found else {
            return match wanted.json {
                true => print_json(&json!({
                    "dry_run": wanted.dry_run, "changes": [], "left": [], "unseen": [],
                })),
                false if is_finished => Ok(0),
                false => print(&format!("{}\n", direction.nothing())),
            };
        };
        let back = match direction {
            Direction::Undo => "redo",
            Direction::Redo => "undo",
        };
        let is_told = !wanted.dry_run
            && !wanted.json
            && direction == Direction::Undo
            && !rewind.changes.is_empty();
        let code = carry_out(&files, &rewind, wanted, back, config).await?;
        if let Some(command) = verified.filter(|_| is_told && code == 0) {
            note(&format!(
                "`{}` passed with these changes; it may fail without them",
                shown(&command)
            ));
        }
        Ok(code)
    })
}

/// Gives files back as they were before the message with this number on the branch.
pub fn restore(
    config: &Config,
    plan: &SessionPlan,
    message: u32,
    wanted: Rewinding,
) -> Result<u8, Error> {
    block_on(async {
        let (files, ..) = files(config, plan).await?;
        let found = files.before(|it| it.seq == message).await?;
        let rewind = found.ok_or_else(|| {
            Error::failure(format!("message not found on this branch: @{message}"))
                .hint("`ah scan` lists its messages, `ah checkout @N` changes to another branch")
        })?;
        carry_out(&files, &rewind, wanted, "redo", config).await
    })
}

/// Restores files, or only prints which; `back` is the command that reverses this.
async fn carry_out(
    files: &Files,
    rewind: &Rewind,
    wanted: Rewinding,
    back: &str,
    config: &Config,
) -> Result<u8, Error> {
    if rewind.is_of_others && !wanted.dry_run {
        if wanted.json || !io::stdin().is_terminal() {
            let error = Error::failure("the changes were not recorded by you on this machine");
            return Err(
                error.hint("`--dry-run` shows what would change; at a terminal you are asked")
            );
        }
        let (summary, count) = (summary(rewind, config), count(rewind));
        print(&format!("{summary}{count} would change\n"))?;
        if !confirm("Continue? (y/n) ")? {
            return Ok(0);
        }
    }
    let agreed = rewind.agreed();
    let failed = match wanted.dry_run {
        true => Vec::new(),
        false => apply(files, &agreed, &config.environment).await?,
    };
    let done = without(rewind, &failed);
    if wanted.json {
        print_json(&to_json(&done, wanted.dry_run))?;
    } else {
        let outcome = match wanted.dry_run {
            true => format!("{} would change", count(rewind)),
            false => outcome(&done, rewind, &format!("`ah {back}`")),
        };
        let summary = summary(&done, config);
        print(&format!("{summary}{outcome}\n"))?;
    }
    Ok(u8::from(!failed.is_empty()))
}

/// Prints the file changes since the session began.
pub fn diff(config: &Config, plan: &SessionPlan, form: Json) -> Result<u8, Error> {
    let back = block_on(async { Ok(files(config, plan).await?.0.to(0).await?) })?;
    if form.json {
        return print_json(&to_json(&back, true));
    }
    let patches = back
        .changes
        .iter()
        .map(|edit| unified(edit, &config.environment));
    print_exact(&patches.collect::<String>())
}

/// Returns the files that the session has changed, whether an undo that was cut off has been finished, and the check that has
/// verified the last run.
async fn files(
    config: &Config,
    plan: &SessionPlan,
) -> Result<(Files, bool, Option<String>), Error> {
    let store = Arc::new(take(&existing(plan, config)?).map_err(open_error)?);
    let mended = recover(&store, config).await?;
    if let Some(mended) = &mended {
        note(&mended.notice);
    }
    let clock = Arc::new(SystemClock::default());
    let verified = verified(store.read(Tree::events).await?);
    let files = Files::new(store, clock, config.permissions().roots());
    let is_finished = mended.is_some_and(|mended| mended.is_finished);
    Ok((files, is_finished, verified))
}

/// Returns the command of the check that has verified the last run, if one has.
fn verified(events: Vec<Event>) -> Option<String> {
    let is_end = |event: &Event| matches!(event.kind, EventKind::AgentEnd { .. });
    let mut last = events.into_iter().rev().skip_while(|event| !is_end(event));
    last.next();
    let mut run = last.take_while(|event| !is_end(event));
    run.find_map(|event| match event.kind {
        EventKind::Checked {
            verification,
            is_last: true,
            ..
        } => {
            let is_verified = verification.evidence == Evidence::Verified;
            // A recorded one says nothing of these files.
            (is_verified && !verification.is_replayed).then_some(verification.command)
        }
        _ => None,
    })
}

fn to_json(rewind: &Rewind, is_dry: bool) -> Value {
    let changes = rewind.changes.iter().map(|edit| {
        json!({
            "path": edit.path.to_string_lossy(),
            "insertions": edit.insertions,
            "deletions": edit.deletions,
            "is_there": !matches!(edit.then, FileState::Absent { .. }),
        })
    });
    let left = rewind
        .skipped
        .iter()
        .map(|left| json!({"path": left.path.to_string_lossy(), "why": left.why}));
    json!({
        "dry_run": is_dry,
        "changes": changes.collect::<Vec<_>>(),
        "left": left.collect::<Vec<_>>(),
        "unseen": rewind.unseen,
    })
}

/// Formats a file's change as a unified diff.
pub fn unified(edit: &FileEdit, environment: &Environment) -> String {
    let path = show(&edit.path, environment);
    let (before, after) = (&edit.then, &edit.now);
    let name = |side: &str, state| match state {
        &FileState::Absent { .. } => "/dev/null".to_owned(),
        _ => format!("{side}/{path}"),
    };
    let (old, new) = (name("a", before), name("b", after));
    match edit.texts() {
        Some((before, after)) => {
            let patch = ah_diff::unified((&old, before), (&new, after));
            shown(&patch).into_owned()
        }
        _ => format!("binary files {old} and {new} differ\n"),
    }
}
