//! `ah sessions`: the sessions of this folder; `ah gc`: removal of old ones.

use std::collections::HashMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ah_conversation::{Time, neutralise};
use ah_store::{Collected, SessionHead};
use serde_json::{Value, json};

use super::attach::states;
use super::place::open_error;
use crate::args::json::Json;
use crate::args::subcommands::SessionsAction;
use crate::commands::output::{print, print_json};
use ah_config::Config;
use ah_config::Error;
use ah_config::places::short;
use ah_engine::sessions::folders::{STRANGE, directory, everywhere};
use ah_engine::sessions::place::sessions;
use ah_engine::sessions::plan::{SessionChoice, SessionPlan};
use ah_terminal::line::{preview, utc};
use ah_terminal::print::count;

/// What sessions in the background are doing, by id.
type States = HashMap<String, &'static str>;

/// Lists the sessions, or runs a subcommand on some.
pub fn run(config: &Config, action: Option<&SessionsAction>, form: Json) -> Result<u8, Error> {
    match action {
        None => list(config, form),
        Some(SessionsAction::Rm { sessions }) => remove(config, sessions),
        Some(SessionsAction::Rename { session, name }) => rename(config, session, name),
    }
}

fn list(config: &Config, form: Json) -> Result<u8, Error> {
    let (heads, states) = (sessions(config).list()?, states(config));
    if form.json {
        return print_json(&heads.iter().map(|head| to_json(head, &states)).collect());
    }
    if heads.is_empty() {
        ah_terminal::note("no sessions in this folder yet");
    }
    let lines = heads
        .iter()
        .enumerate()
        .map(|(at, head)| line(head, at == 0, &states) + "\n");
    print(&lines.collect::<String>())
}

/// Lists the sessions of all folders, those of the folder that was used last first.
pub fn list_all(config: &Config, form: Json) -> Result<u8, Error> {
    let (all, states) = (everywhere(config)?, states(config));
    if form.json {
        return print_json(
            &all.heads
                .iter()
                .map(|head| to_json(head, &states))
                .collect(),
        );
    }
    if all.heads.is_empty() {
        ah_terminal::note("no sessions yet");
    }
    let home = config.environment.home();
    let mut folders: Vec<(String, Vec<&SessionHead>)> = Vec::new();
    for head in &all.heads {
        let files = head.paths.folder();
        let place = directory(head).unwrap_or_else(|| files.to_owned());
        let place = short(&place, home.as_deref());
        match folders.iter_mut().find(|(known, _)| *known == place) {
            Some((_, heads)) => heads.push(head),
            None => folders.push((place, vec![head])),
        }
    }
    let mut text = String::new();
    for (folder, heads) in folders {
        text.push_str(&format!("{}\n", neutralise(&folder)));
        let lines = heads
            .into_iter()
            .map(|head| line(head, false, &states) + "\n");
        text.extend(lines);
    }
    if !all.gone.is_empty() {
        let gone = plural(all.gone.len(), "folder");
        ah_terminal::note(&format!("{gone} with sessions no longer exist"));
    }
    print(&text)
}

/// `> 01ARZ3NDEKT  2026-11-20T10:00:00   4 msgs  (branch)  [name]  the first words`
fn line(head: &SessionHead, is_newest: bool, states: &States) -> String {
    let mark = if is_newest { '>' } else { ' ' };
    let id = &head.id.as_str()[..head.id.as_str().len().min(11)];
    let name = head
        .name
        .as_ref()
        .map_or_else(String::new, |name| format!("  [{}]", preview(name, 40)));
    let branch = head
        .branch
        .as_ref()
        .map_or_else(String::new, |branch| format!("  ({})", preview(branch, 30)));
    let state = states
        .get(head.id.as_str())
        .map_or_else(String::new, |state| format!("  {state}"));
    let text = match &head.problem {
        Some(problem) => format!("cannot be read: {}", problem.reason),
        None => preview(&head.first_text, 40),
    };
    let strange = match head.is_known {
        true => String::new(),
        false => format!("  ({STRANGE})"),
    };
    let line = format!(
        "{mark} {id}  {}  {:>2} msgs{branch}{name}{state}{strange}  {text}",
        utc(head.created_at),
        head.messages
    );
    line.trim_end().to_owned()
}

fn to_json(head: &SessionHead, states: &States) -> Value {
    json!({
        "id": head.id,
        "uuid": head.uuid.clone().unwrap_or_else(|| ah_ids::uuid_of(&head.id)),
        "name": head.name,
        "created_at": head.created_at.seconds(),
        "last_written": head.last_written.seconds(),
        "state": states.get(head.id.as_str()),
        "messages": head.messages,
        "tokens": head.tokens,
        "first_text": head.first_text,
        "folder": directory(head),
        "branch": head.branch,
        "is_known": head.is_known,
        "path": head.paths.database().display().to_string(),
        "problem": head.problem.as_ref().map(|problem| &problem.reason),
    })
}

fn remove(config: &Config, wanted: &[String]) -> Result<u8, Error> {
    let sessions = ah_engine::sessions::place::sessions(config);
    // All are looked up before any is removed: with a typo nothing is removed.
    let found: Result<Vec<_>, _> = wanted.iter().map(|wanted| sessions.find(wanted)).collect();
    for paths in found? {
        sessions.remove(&paths).map_err(open_error)?;
        print(&format!("removed {}\n", paths.database().display()))?;
    }
    Ok(0)
}

fn rename(config: &Config, wanted: &str, name: &str) -> Result<u8, Error> {
    if name.trim().is_empty() {
        return Err(Error::usage("the name is empty"));
    }
    if sessions(config).named(name)?.is_some() {
        return Err(Error::failure(format!(
            "another session has the name `{name}`"
        )));
    }
    let plan = SessionPlan {
        choice: SessionChoice::Find(wanted.to_owned()),
        ..SessionPlan::default()
    };
    super::place::change(&plan, config, async |session| {
        Ok(session.set_name(name.to_owned()).await?)
    })?;
    print(&format!("{wanted} is now named {name}\n"))
}

/// Removes empty sessions, remains of crashes and, on request, old sessions.
pub fn collect(config: &Config, older_than_days: Option<u32>, form: Json) -> Result<u8, Error> {
    let before = days_ago(older_than_days);
    let all = sessions(config);
    let collected = all.collect(before)?;
    let dropped = all.shrink_undo(config.tools.undo_megabytes.value << 20)?;
    let kept = all.kept_for_undo()?;
    if form.json {
        return print_json(&json!({
            "sessions": collected.sessions,
            "files": collected.files,
            "bytes": collected.bytes,
            "undo": {"kept": kept, "dropped": dropped},
        }));
    }
    let removed = removed(&collected, "other file");
    let undo = match (kept, dropped) {
        (0, 0) => String::new(),
        (_, 0) => format!("kept for undo: {} bytes\n", count(kept)),
        _ => format!(
            "kept for undo: {} bytes ({} dropped)\n",
            count(kept),
            count(dropped)
        ),
    };
    print(&format!("{removed}{undo}"))
}

/// Returns the time so many days ago.
pub(super) fn days_ago(days: Option<u32>) -> Option<Time> {
    days.map(|days| {
        let age = Duration::from_secs(u64::from(days) * 24 * 60 * 60);
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        Time(i64::try_from(now.saturating_sub(age).as_millis()).unwrap_or(i64::MAX))
    })
}

/// Returns lines about what was removed; `thing` is what there is besides sessions.
pub(super) fn removed(collected: &Collected, thing: &str) -> String {
    let sessions = collected
        .sessions
        .iter()
        .map(|id| format!("removed {id}\n"));
    let lines: String = sessions.collect();
    let total = match (collected.sessions.len(), collected.files) {
        (0, 0) => "nothing to remove".to_owned(),
        (sessions, files) => format!(
            "removed {} and {}, {} bytes",
            plural(sessions, "session"),
            plural(files, thing),
            count(collected.bytes)
        ),
    };
    format!("{lines}{total}\n")
}

fn plural(count: usize, thing: &str) -> String {
    match count {
        1 => format!("1 {thing}"),
        _ => format!("{count} {thing}s"),
    }
}
