//! `ah attach`: shows a session that another process of this user runs (`ah -d`, `ah serve`), steers and answers it. The process
//! goes on when this one is left.

mod client;
mod event;
mod stored;
mod unanswered;

use std::collections::HashMap;
use std::io::IsTerminal as _;
use std::sync::Arc;

use ah_config::{Config, Error};
use ah_conversation::{EventKind, ExitReason, Interface, neutralise};
use ah_engine::assemble::specs::specs;
use ah_store::{Paths, Tree};
use ah_terminal::exit;
use ah_terminal::line::preview;
use ah_terminal::repl::remote::{Remote, attach};
use ah_terminal::repl::{Display, PlainStyle};
use ah_tools::Profile;
use futures_util::future::join_all;
use tokio::sync::mpsc::unbounded_channel;

use self::client::{Door, ServedSession, follow};
use self::event::place;
use self::stored::{model, past};
use super::runtime::runtime;
use crate::args::TypedPrompt;
use crate::args::options::Options;
use ah_engine::sessions::folders::{elsewhere, sessions, way_to};

/// Attaches to a session; returns the exit code. One that nobody runs is opened here.
///
/// # Errors
///
/// If there is no such session, or its process does not answer.
pub fn run(wanted: Option<&str>, options: &Options, config: &Config) -> Result<u8, Error> {
    let runtime = runtime()?;
    let running = runtime.block_on(running(config))?;
    let id = match wanted {
        Some(wanted) => paths(wanted, config)?.0.id().map(|id| id.to_string()),
        None => Some(only(&running, config)?),
    };
    let id = id.ok_or_else(|| Error::failure("the session has no id"))?;
    let Some(found) = running.into_iter().find(|session| session.id == id) else {
        return opened_here(id, options, config);
    };
    let code = runtime.block_on(shown(found, options, config));
    runtime.shutdown_background();
    code
}

/// Opens a session that nobody runs. Without a terminal, only how its last run ended is told.
fn opened_here(id: String, options: &Options, config: &Config) -> Result<u8, Error> {
    let failure = failure(&paths(&id, config)?.0)?;
    if !std::io::stdin().is_terminal() {
        return match failure {
            Some(reason) => Err(Error::failure(format!("its last run failed: {reason}"))
                .hint(format!("`ah -r {id} PROMPT` continues it"))),
            None => {
                ah_terminal::note(&format!(
                    "This session is not running; `ah -r {id} scan` lists its messages"
                ));
                Ok(0)
            }
        };
    }
    ah_terminal::note("This session is not running; opened here");
    if let Some(reason) = failure {
        ah_terminal::note(&format!("its last run failed: {reason}"));
    }
    let mut options = options.clone();
    options.resume.resume = Some(id);
    super::run::run(&TypedPrompt::default(), &options, config)
}

/// Returns why the last run of a session failed, if it did.
fn failure(paths: &Paths) -> Result<Option<String>, Error> {
    let error = ends(paths)?.pop().and_then(|(_, error)| error);
    Ok(error.map(|error| neutralise(&error).into_owned()))
}

/// Returns how the runs of a session have ended, with the errors.
fn ends(paths: &Paths) -> Result<Vec<(ExitReason, Option<String>)>, Error> {
    let events = Tree::open(paths)?.events()?.into_iter();
    let ends = events.filter_map(|event| match event.kind {
        EventKind::AgentEnd {
            stop_reason, error, ..
        } => Some((stop_reason, error)),
        _ => None,
    });
    Ok(ends.collect())
}

/// A session that a process of this user runs.
struct Found {
    id: String,
    title: String,
    questions: u64,
    door: Door,
}

/// Returns the sessions that processes of this user run now. Processes that do not answer are named on stderr.
async fn running(config: &Config) -> Result<Vec<Found>, Error> {
    let doors = config.known_servers().into_iter().map(Door::to);
    let doors: Vec<_> = doors.collect::<Result<_, _>>()?;
    let answers = join_all(doors.iter().map(Door::sessions)).await;
    let mut found = Vec::new();
    for (door, sessions) in doors.iter().zip(answers) {
        let sessions = sessions.unwrap_or_else(|reason| {
            ah_terminal::note(&reason);
            Vec::new()
        });
        let sessions = sessions.into_iter();
        let sessions = sessions.filter(|session| session["running"] == true);
        found.extend(sessions.map(|session| Found {
            id: session["id"].as_str().unwrap_or_default().to_owned(),
            title: session["title"].as_str().unwrap_or_default().to_owned(),
            questions: session["questions"].as_u64().unwrap_or_default(),
            door: door.clone(),
        }));
    }
    Ok(found)
}

/// Returns what the sessions that run in the background are doing, by id: `running`, or `waiting` for an answer.
pub fn states(config: &Config) -> HashMap<String, &'static str> {
    if config.known_servers().is_empty() {
        return HashMap::new();
    }
    let found = runtime().and_then(|runtime| runtime.block_on(running(config)));
    let found = found.unwrap_or_default().into_iter();
    found
        .map(|session| (session.id, doing(session.questions)))
        .collect()
}

fn doing(questions: u64) -> &'static str {
    match questions {
        0 => "running",
        _ => "waiting",
    }
}

/// Returns the id of the only session of this folder that runs; where none does, of the only one of all folders.
fn only(running: &[Found], config: &Config) -> Result<String, Error> {
    let own = sessions(config);
    let is_here = |session: &&Found| own.find(&session.id).is_ok();
    let here: Vec<_> = running.iter().filter(is_here).collect();
    let running = match here.as_slice() {
        [] => running.iter().collect(),
        _ => here,
    };
    match running.as_slice() {
        [one] => Ok(one.id.clone()),
        [] => {
            let nothing = Error::failure("no background runs");
            Err(nothing.hint("`ah -d PROMPT` starts one; `ah -r` opens a session here"))
        }
        several => {
            let lines = several.iter().map(|session| {
                let title = preview(&neutralise(&session.title), 50);
                format!(
                    "\n  ah attach {}  {}  {title}",
                    session.id,
                    doing(session.questions)
                )
            });
            let text = format!("several sessions are running:{}", lines.collect::<String>());
            Err(Error::usage(text))
        }
    }
}

/// Returns the files of a session of this folder or another, and the name of the other one with the command that opens it
/// from here.
fn paths(wanted: &str, config: &Config) -> Result<(Paths, Option<(String, String)>), Error> {
    match sessions(config).find(wanted) {
        Ok(paths) => Ok((paths, None)),
        Err(error) => match elsewhere(wanted, config) {
            Some(head) => {
                let way = way_to(&head, &config.environment);
                let folder = head.folder.unwrap_or_default();
                let name = folder.file_name().unwrap_or_default();
                let name = name.to_string_lossy().into_owned();
                Ok((head.paths, Some((name, way))))
            }
            None => Err(error.into()),
        },
    }
}

async fn shown(found: Found, options: &Options, config: &Config) -> Result<u8, Error> {
    let (files, folder) = paths(&found.id, config)?;
    let (past, messages, verdicts) = past(&files)?;
    let model = model(found.door.model(&found.id).await, &files, &past, config);
    let (sender, events) = unbounded_channel();
    let last = past.last().map(place);
    let tools = [
        specs(&config.environment, Profile::Default, Interface::Native)?,
        specs(&config.environment, Profile::Sdk, Interface::AgentSdk)?,
    ];
    tokio::spawn(follow(found.door.clone(), found.id.clone(), last, sender));
    let (folder, way) = match folder {
        Some((folder, way)) => (Some(folder), way),
        None => (None, format!("ah -r {}", found.id)),
    };
    let remote = Remote {
        session: Arc::new(ServedSession {
            door: found.door,
            id: found.id.clone(),
            paths: files.clone(),
        }),
        events,
        past,
        verdicts,
        messages,
        id: found.id,
        model,
        place: folder,
        way,
        tools: tools.concat().into(),
    };
    let is_dumb = matches!(config.environment.get("TERM"), None | Some("dumb"));
    let is_terminal = std::io::stdin().is_terminal() && std::io::stdout().is_terminal();
    let display = match options.output.plain || is_dumb {
        true => Display::Plain(PlainStyle::Own),
        false => Display::Drawn,
    };
    let display = is_terminal.then_some(display);
    if is_terminal {
        return attach(display, remote, config).await;
    }
    let before = ends(&files)?.len();
    let code = attach(display, remote, config).await?;
    if code == 0 {
        return Ok(code);
    }
    // The code of the run itself, as of one that a limit has stopped; one that could not begin has no end there.
    let mut after = ends(&files)?.into_iter().skip(before);
    let reason = after.next_back().map(|(reason, _)| reason);
    Ok(reason.map_or(code, |reason| exit::code(config.interface, &reason, None)))
}
