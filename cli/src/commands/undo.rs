//! `ah undo`, `ah redo` and `ah diff` without messages: the files that the session's tools have changed.

use std::sync::Arc;

use ah_agent::checkpoint::{FileEdit, Files, Rewind};
use ah_conversation::FileState;
use ah_store::SystemClock;
use serde_json::{Value, json};
use similar::TextDiff;

use super::place::{block_on, existing, open_error};
use crate::args::json::Json;
use crate::args::subcommands::Rewinding;
use crate::commands::output::{print, print_json};
use ah::place::take;
use ah::plan::SessionPlan;
use ah_config::Config;
use ah_config::Error;
use ah_terminal::print::shown;
use ah_terminal::undo::{Way, count, go, look, show, texts, told};

/// Gives files back as they were, or says what that would change.
pub fn run(config: &Config, plan: &SessionPlan, way: Way, wanted: &Rewinding) -> Result<u8, Error> {
    let files = files(config, plan)?;
    block_on(async {
        let rewind = look(&files, way).await?;
        let is_whole = match wanted.dry_run {
            true => true,
            false => go(&files, &rewind, config).await?,
        };
        match wanted.json {
            true => print_json(&to_json(&rewind, wanted.dry_run))?,
            false => {
                let then = match (wanted.dry_run, way) {
                    (true, _) => "would change",
                    (false, Way::Back) => "changed; `ah redo` takes that back",
                    (false, Way::Forth) => "changed; `ah undo` takes that back",
                };
                let count = count(&rewind);
                print(&format!("{}{count} {then}\n", told(&rewind, config)))?
            }
        };
        Ok(u8::from(!is_whole))
    })
}

/// Prints what has changed since the session began.
pub fn diff(config: &Config, plan: &SessionPlan, form: Json) -> Result<u8, Error> {
    let files = files(config, plan)?;
    let back = block_on(async { Ok(files.to(0).await?) })?;
    if form.json {
        return print_json(&to_json(&back, true));
    }
    let patches = back.changes.iter().map(|edit| unified(edit, config));
    print(&patches.collect::<String>())
}

fn files(config: &Config, plan: &SessionPlan) -> Result<Files, Error> {
    Ok(Files::new(
        Arc::new(take(&existing(plan, config)?).map_err(open_error)?),
        Arc::new(SystemClock::default()),
        config.permissions().roots(),
    ))
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
    })
}

/// A file's change as patches show it.
fn unified(edit: &FileEdit, config: &Config) -> String {
    let path = show(&edit.path, config);
    let (before, after) = (&edit.then, &edit.now);
    let name = |side: &str, state| match state {
        &FileState::Absent { .. } => "/dev/null".to_owned(),
        _ => format!("{side}/{path}"),
    };
    let (old, new) = (name("a", before), name("b", after));
    match texts(edit) {
        Some((before, after)) => {
            let diff = TextDiff::from_lines(before, after);
            let patch = diff.unified_diff().header(&old, &new).to_string();
            shown(&patch).into_owned()
        }
        _ => format!("binary files {old} and {new} differ\n"),
    }
}
