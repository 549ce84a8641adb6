//! The conversation at a terminal: opened by `ah` without a prompt.
//!
//! Two sides with a queue each way. The `driver` owns the terminal: it reads keys, applies them with `update`, and
//! draws the result of `view`. The `worker` owns the session. Runs are shown by the same code as without a
//! conversation (`print`).

mod activity;
mod answer;
mod app;
mod asked;
mod asker;
mod attach;
mod background;
mod bang;
mod beginning;
mod choices;
mod driver;
mod early;
mod editor;
mod effect;
mod ending;
mod external_editor;
mod facts;
mod frontend;
mod hand_over;
mod history;
mod input;
mod intro;
mod key_list;
mod keys;
pub(crate) mod layout;
mod lent;
mod menu;
mod models;
mod notify;
mod output;
mod own;
pub(crate) mod painter;
mod paste;
pub(crate) mod picker;
mod plain;
mod proposals;
mod question;
mod recall;
pub mod remote;
mod report;
mod rewind;
mod rules;
mod session_factory;
mod side_question;
mod side_tasks;
pub mod slash;
mod status;
mod suspend;
pub(crate) mod terminal;
mod title;
mod update;
mod view;
mod viewer;
mod worker;

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use ah_conversation::ExitReason;
use serde_json::Value;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::sync::watch;

use crate::exit;
use crate::print::{Size, divert};
use crate::signals::{Signals, leave};
use ah_config::Error;
use ah_config::places::repository_of;
use ah_config::{Config, extensions};
use ah_engine::model::Catalogued;
use ah_engine::sessions::plan::{SessionChoice, SessionPlan};
use ah_engine::warn::Warn;
use ah_engine::{Opened, Opening};
use app::App;
use driver::{Driver, DriverSettings};
use effect::Task;
pub use frontend::Link;
pub use hand_over::{End, HandOver};
use history::History;
use input::Input;
pub use notify::NotificationKind;
use notify::Notifier;
use picker::Subject;
use plain::Plain;
pub use plain::PlainStyle;
use session_factory::SessionFactory;
pub use side_tasks::notify;
use terminal::Terminal;
use worker::{SessionWorker, Worked};

/// Name of the history file in the user's folder.
const HISTORY: &str = "history";

/// Display of the conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Display {
    /// With live lines at the bottom.
    Drawn,
    /// Line by line.
    Plain(PlainStyle),
}

/// Runs the conversation, to the end or until it is left to a process in the background.
///
/// # Errors
///
/// If the session cannot be opened or stored.
pub async fn perform(
    display: Display,
    plan: &SessionPlan,
    fork_at: Option<u32>,
    config: &Config,
) -> Result<End, Error> {
    let signals = signals(display == Display::Drawn)?;
    let (inputs, happened) = channel();
    let factory = factory(display, config, inputs.clone())?;
    let colours = factory.link.colours;
    let lists = plan.is_listed && display == Display::Drawn;
    let fresh = SessionPlan {
        choice: SessionChoice::New,
        ..SessionPlan::default()
    };
    let plan = if lists { &fresh } else { plan };
    let opened = match display {
        Display::Plain(PlainStyle::Loop) => factory.open(plan, fork_at).await?,
        Display::Drawn | Display::Plain(PlainStyle::Own) => {
            beginning::open(&factory, plan, fork_at).await?
        }
    };
    let (tasks, wanted) = unbounded_channel();
    if lists {
        // Before all that is typed.
        let _ = tasks.send(Task::List(Subject::Session));
    }
    let history = match display {
        Display::Drawn => open_history(config.home.as_deref()),
        Display::Plain(_) => History::default(),
    };
    let mode = config.conversation.editor_mode.as_ref();
    let keys = mode.map(|mode| mode.value).unwrap_or_default();
    let mut app = App::new(keys, history, Terminal::size(), colours);
    (app.suggestions.named, app.suggestions.hints) = named(config);
    app.notifier = Notifier::new(&config.environment, config.conversation.notify.as_ref());
    app.ahead = lists.then(Vec::new);
    if display == Display::Plain(PlainStyle::Loop) {
        banner(&opened)?;
    }
    let is_own = display != Display::Plain(PlainStyle::Loop);
    if is_own && opened.session.transcript().last().is_none() {
        let page = (Terminal::size().0, factory.link.palette());
        let status = factory.opening.probe.status();
        let text = intro::text(&opened.session, status, &config.environment, page);
        // Before all that is typed.
        let _ = inputs.send(Input::Written(text));
    }
    let is_over = begin(display, app, config, (inputs.clone(), happened), tasks)
        .map_err(|error| Error::failure(format!("cannot use the terminal: {error}")))?;
    let worked = SessionWorker::new(factory, opened, wanted, signals.token().clone())
        .work()
        .await;
    let _ = inputs.send(Input::Stop(0));
    drop(inputs);
    if display == Display::Drawn {
        // A panic of the thread has been printed already.
        let _ = is_over.join();
        divert(None);
    }
    let Worked {
        is_interrupted,
        session,
        left,
    } = worked?;
    if let Some(left) = left {
        return Ok(End::Left(left));
    }
    if let (Display::Drawn, Some(session)) = (display, session) {
        crate::note(&way_back(&session, &config.project_root));
    }
    Ok(End::Exit(match (signals.interrupt(), is_interrupted) {
        (None, false) => 0,
        (None, true) => exit::code(config.interface, &ExitReason::Interrupted, None),
        (interrupt, _) => exit::code(config.interface, &ExitReason::Interrupted, interrupt),
    }))
}

/// Listens to signals. One that ends the program leaves the terminal first, if that is drawn on.
fn signals(is_drawn: bool) -> Result<Signals, Error> {
    let signals = match is_drawn {
        true => Signals::listen(|code| {
            terminal::leave();
            leave(code);
        }),
        false => Signals::listen_to_ends(),
    };
    signals.map_err(|error| Error::failure(format!("cannot listen for signals: {error}")))
}

/// Says how to open the session again: from the folder that the user is in afterwards, which is not the worktree's.
fn way_back(session: &str, folder: &Path) -> String {
    match (repository_of(folder), folder.file_name()) {
        (Some(_), Some(tree)) => {
            format!("Resume: ah -w {} -r {session}", tree.to_string_lossy())
        }
        _ => format!("Resume: ah -c, or ah -r {session}"),
    }
}

fn factory(
    display: Display,
    config: &Config,
    inputs: Sender<Input>,
) -> Result<SessionFactory, Error> {
    let opening = Opening::of(config.clone())?;
    // They are read in the conversation.
    let warn: Warn = Arc::new(|text: &str| crate::warn(&slash::in_its_words(text)));
    opening.warnings.iter().for_each(|warning| warn(warning));
    Ok(SessionFactory {
        opening,
        models: Arc::new(Catalogued::new(config.clone(), warn.clone())),
        warn,
        link: link(display == Display::Drawn, inputs),
    })
}

/// Returns the connection to the terminal.
fn link(is_drawn: bool, inputs: Sender<Input>) -> Link {
    let choice = anstream::AutoStream::choice(&io::stdout());
    let (width, height) = Terminal::size();
    Link {
        inputs,
        colours: is_drawn && choice != anstream::ColorChoice::Never,
        is_drawn,
        size: Size { width, height },
        totals: Arc::default(),
    }
}

/// Starts the driver of the terminal on a thread of its own.
fn begin(
    display: Display,
    mut app: App,
    config: &Config,
    (inputs, happened): (Sender<Input>, Receiver<Input>),
    tasks: UnboundedSender<Task>,
) -> io::Result<JoinHandle<()>> {
    let thread = std::thread::Builder::new().name("terminal".to_owned());
    match display {
        Display::Drawn => {
            tokio::spawn(watch_size(inputs.clone()));
            tokio::spawn(suspend::watch(inputs.clone()));
            let status = begin_status(&mut app, config, &inputs);
            let settings = DriverSettings::new(&config.environment);
            let driver = Driver::begin(app, settings, status, inputs, tasks)?;
            thread.spawn(move || driver.run(&happened))
        }
        Display::Plain(style) => {
            tokio::spawn(watch_interrupts(tasks.clone()));
            let plain = Plain::new(style, app, tasks);
            thread.spawn(move || plain.run(&happened, inputs))
        }
    }
}

/// Starts the user's status line, if one is configured. Returns the sender of its input.
fn begin_status(
    app: &mut App,
    config: &Config,
    inputs: &Sender<Input>,
) -> Option<watch::Sender<Value>> {
    let line = config.conversation.status_line.as_ref()?.value.clone();
    app.status.padding = line.padding;
    let (sender, changes) = watch::channel(Value::Null);
    tokio::spawn(status::refresh(
        line,
        config.clone(),
        changes,
        inputs.clone(),
    ));
    Some(sender)
}

/// Prints the banner of a plain loop.
fn banner(opened: &Opened) -> Result<(), Error> {
    let specs = opened.session.tools().specs().clone();
    let names: Vec<_> = specs.iter().map(|spec| spec.name.as_str()).collect();
    let text = format!("ah (type exit to leave)\nTools: {}\n\n", names.join(", "));
    io::Write::write_all(&mut io::stdout(), text.as_bytes())
        .map_err(|error| exit::output_error(&error))
}

/// Passes Ctrl-C on to the session, which stops its task or the program.
async fn watch_interrupts(tasks: UnboundedSender<Task>) {
    let Ok(mut interrupts) = signal(SignalKind::interrupt()) else {
        return;
    };
    while interrupts.recv().await.is_some() {
        if tasks.send(Task::Interrupt).is_err() {
            return;
        }
    }
}

/// Returns why a prompt is no command, if it looks like one and there is none of that name.
pub fn unknown_command(prompt: &str, config: &Config) -> Option<String> {
    // The names of commands and skills take reading all of them.
    if !prompt.starts_with('/') {
        return None;
    }
    let is_whole = slash::call(prompt).is_some();
    let (named, _) = named(config);
    let is_named = |name: &str| named.iter().any(|(known, _)| known == name);
    if is_whole && !is_named(prompt.split_whitespace().next()?.trim_start_matches('/')) {
        let word = prompt.split_whitespace().next()?;
        return Some(format!(
            "`{word}` is a command of the conversation; start it with `ah`"
        ));
    }
    slash::unknown(prompt, named.iter().map(|(name, _)| name.as_str()))
}

/// Names, each with a text about it.
type Named = Vec<(String, String)>;

/// Returns the commands and skills that can be called by name, with their descriptions, and what they take.
fn named(config: &Config) -> (Named, Named) {
    let (commands, _) = extensions::commands(config);
    let (skills, _) = extensions::skills(config);
    let first = |text: &str| text.lines().next().unwrap_or_default().to_owned();
    let (mut named, mut hints) = (Named::new(), Named::new());
    for command in commands.iter() {
        let about = first(&command.description);
        let about = match &command.argument_hint {
            Some(hint) => format!("{hint} · {about}"),
            None => about,
        };
        named.push((command.name.clone(), about));
        hints.extend({ command.argument_hint.clone() }.map(|hint| (command.name.clone(), hint)));
    }
    let callable = skills.iter().filter(|skill| skill.is_command);
    named.extend(callable.map(|skill| (skill.name.clone(), first(&skill.description))));
    (named, hints)
}

fn open_history(home: Option<&Path>) -> History {
    let Some(home) = home else {
        return History::default();
    };
    let path = home.join(HISTORY);
    History::open(&path).unwrap_or_else(|error| {
        crate::warn(&format!(
            "cannot save input history to `{}`: {error}",
            path.display()
        ));
        History::default()
    })
}

async fn watch_size(inputs: Sender<Input>) {
    let Ok(mut changes) = signal(SignalKind::window_change()) else {
        return;
    };
    while changes.recv().await.is_some() {
        let (columns, lines) = Terminal::size();
        if inputs.send(Input::Resized(columns, lines)).is_err() {
            return;
        }
    }
}
