//! The conversation at a terminal: what `ah` opens where no prompt is given.
//!
//! Two sides and a queue each way. The terminal's side has a thread of its own, so that typing waits for nothing: it reads
//! keys, asks [`update`] what follows, and draws what [`view`] makes of it, at most 60 times a second. The side that works
//! has the session. What a run shows comes from the same code as without a conversation (`print`).

mod app;
mod aside;
mod attach;
mod bang;
mod choices;
mod desk;
mod editor;
mod elsewhere;
mod frontend;
mod history;
mod keys;
mod menu;
mod notify;
mod output;
mod painter;
mod paste;
mod picker;
mod plain;
mod question;
mod recall;
mod rewind;
mod slash;
mod status;
mod tell;
mod terminal;
mod update;
mod view;

use std::io::{self, Stdout};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use ah_conversation::ExitReason;
use serde_json::Value;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::sync::watch;

use crate::exit;
use crate::print::{Size, divert};
use crate::signals::{Signals, leave};
use ah::Opened;
use ah::assemble::model::Catalogued;
use ah::confinement::SandboxProbe;
use ah::plan::SessionPlan;
use ah::warn::Warn;
use ah_config::Error;
use ah_config::{Config, extensions};
use app::{App, Effect, Input, Task};
use desk::{Desk, Workshop};
pub use frontend::Link;
use history::History;
use notify::Notifying;
use painter::Painter;
use plain::Plain;
pub use plain::Words;
use terminal::Terminal;

/// The shortest time from one picture to the next.
const FRAME: Duration = Duration::from_micros(16_667);
/// So much is taken in between two pictures at most.
const BURST: usize = 4096;
/// The file in the user's folder that keeps what was typed.
const HISTORY: &str = "history";

/// How the conversation is had.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// With lines at the bottom that change.
    Drawn,
    /// Line by line.
    Plain(Words),
}

/// Has the conversation; gives the exit code.
///
/// # Errors
///
/// Where the session cannot be opened, or cannot be kept.
pub async fn perform(
    form: Form,
    plan: &SessionPlan,
    fork_at: Option<u32>,
    config: &Config,
) -> Result<u8, Error> {
    let signals = match form {
        Form::Drawn => Signals::listen(|code| {
            terminal::leave();
            leave(code);
        }),
        Form::Plain(_) => Signals::listen_to_ends(),
    };
    let signals =
        signals.map_err(|error| Error::failure(format!("cannot listen to signals: {error}")))?;
    let (inputs, happened) = channel();
    let workshop = workshop(form, config, inputs.clone())?;
    let colours = workshop.link.colours;
    let opened = workshop.open(plan, fork_at).await?;
    let (tasks, wanted) = unbounded_channel();
    let history = match form {
        Form::Drawn => open_history(config),
        Form::Plain(_) => History::default(),
    };
    let keys = config.conversation.editor_mode.as_ref();
    let keys = keys.map(|keys| keys.value).unwrap_or_default();
    let mut app = App::new(keys, history, Terminal::size(), colours);
    app.named = named(config);
    app.notifying = Notifying::of(config);
    if form == Form::Plain(Words::Loop) {
        banner(&opened)?;
    }
    let is_over = begin(form, app, config, (inputs.clone(), happened), tasks)
        .map_err(|error| Error::failure(format!("cannot use the terminal: {error}")))?;
    let worked = Desk::new(workshop, opened, wanted, signals.token().clone())
        .work()
        .await;
    let _ = inputs.send(Input::Stop(0));
    drop(inputs);
    if form == Form::Drawn {
        // What it panicked about has been said.
        let _ = is_over.join();
        divert(None);
    }
    let is_interrupted = worked?;
    Ok(match (signals.interrupt(), is_interrupted) {
        (None, false) => 0,
        (None, true) => exit::code(config.interface, &ExitReason::Interrupted, None),
        (interrupt, _) => exit::code(config.interface, &ExitReason::Interrupted, interrupt),
    })
}

fn workshop(form: Form, config: &Config, inputs: Sender<Input>) -> Result<Workshop, Error> {
    let is_drawn = form == Form::Drawn;
    let choice = anstream::AutoStream::choice(&io::stdout());
    let (skills, warnings) = extensions::skills(config);
    warnings.iter().for_each(|warning| crate::warn(warning));
    if let Some(warning) = SandboxProbe::warning(config) {
        crate::warn(&warning);
    }
    let warn: Warn = Arc::new(|text| crate::warn(text));
    let (width, height) = Terminal::size();
    Ok(Workshop {
        config: config.clone(),
        probe: SandboxProbe::begin(config)?,
        skills: Arc::new(skills),
        models: Arc::new(Catalogued::new(config.clone(), warn.clone())),
        warn,
        link: Link {
            inputs,
            colours: is_drawn && choice != anstream::ColorChoice::Never,
            is_drawn,
            size: Size { width, height },
        },
    })
}

/// Begins the terminal's side, on a thread of its own.
fn begin(
    form: Form,
    mut app: App,
    config: &Config,
    (inputs, happened): (Sender<Input>, Receiver<Input>),
    tasks: UnboundedSender<Task>,
) -> io::Result<JoinHandle<()>> {
    let thread = std::thread::Builder::new().name("terminal".to_owned());
    match form {
        Form::Drawn => {
            tokio::spawn(watch_size(inputs.clone()));
            let status = begin_status(&mut app, config, &inputs);
            let face = Face::begin(app, Places::of(config), status, inputs, tasks)?;
            thread.spawn(move || face.run(&happened))
        }
        Form::Plain(words) => {
            tokio::spawn(watch_interrupts(tasks.clone()));
            let plain = Plain {
                words,
                app,
                tasks,
                is_busy: false,
                is_asked_again: false,
                is_announced: false,
            };
            thread.spawn(move || plain.run(&happened))
        }
    }
}

/// Has the user's status line made, where there is one; what is sent is told it.
fn begin_status(
    app: &mut App,
    config: &Config,
    inputs: &Sender<Input>,
) -> Option<watch::Sender<Value>> {
    let line = config.conversation.status_line.as_ref()?.value.clone();
    app.status_padding = line.padding;
    let (tell, told) = watch::channel(Value::Null);
    tokio::spawn(status::keep(line, config.clone(), told, inputs.clone()));
    Some(tell)
}

/// What a plain loop says first.
fn banner(opened: &Opened) -> Result<(), Error> {
    let specs = opened.session.tools().specs().clone();
    let names: Vec<_> = specs.iter().map(|spec| spec.name.as_str()).collect();
    let text = format!("ah (type exit to leave)\nTools: {}\n\n", names.join(", "));
    io::Write::write_all(&mut io::stdout(), text.as_bytes())
        .map_err(|error| exit::output_error(&error))
}

/// Ctrl-C stops what goes on; where nothing does, the program.
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

/// Commands and skills that can be called by name, and what they do.
fn named(config: &Config) -> Vec<(String, String)> {
    let (commands, _) = extensions::commands(config);
    let (skills, _) = extensions::skills(config);
    let commands = { commands.iter() }.map(|command| (&command.name, &command.description));
    let skills = skills.iter().filter(|skill| skill.is_command);
    let skills = skills.map(|skill| (&skill.name, &skill.description));
    let first = |text: &str| text.lines().next().unwrap_or_default().to_owned();
    { commands.chain(skills) }
        .map(|(name, about)| (name.clone(), first(about)))
        .collect()
}

fn open_history(config: &Config) -> History {
    let Some(home) = &config.home else {
        return History::default();
    };
    let path = home.join(HISTORY);
    History::open(&path).unwrap_or_else(|fault| {
        crate::warn(&format!(
            "what is typed is not kept in `{}`: {fault}",
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

/// What the terminal's side knows of the world.
struct Places {
    /// Where it works.
    folder: PathBuf,
    /// The user's editor, as a shell would call it.
    editor: String,
    /// Whether the terminal breaks its lines anew when it becomes narrower.
    reflows: bool,
}

impl Places {
    fn of(config: &Config) -> Self {
        let environment = &config.environment;
        let editor = { ["VISUAL", "EDITOR"].iter() }
            .find_map(|name| environment.get(name).filter(|value| !value.is_empty()));
        Self {
            folder: environment.cwd().to_owned(),
            editor: editor.unwrap_or("vi").to_owned(),
            reflows: terminal::reflows(environment),
        }
    }
}

/// The terminal's side.
struct Face {
    app: App,
    terminal: Terminal,
    painter: Painter<Stdout>,
    tasks: UnboundedSender<Task>,
    inputs: Sender<Input>,
    places: Places,
    /// Tells the user's status line how things are, where there is one.
    status: Option<watch::Sender<Value>>,
    /// Lines that are to be printed above all that moves.
    finished: String,
}

impl Face {
    fn begin(
        app: App,
        places: Places,
        status: Option<watch::Sender<Value>>,
        inputs: Sender<Input>,
        tasks: UnboundedSender<Task>,
    ) -> io::Result<Self> {
        let told = inputs.clone();
        divert(Some(Box::new(move |line| {
            let _ = told.send(Input::Written(format!("{line}\n")));
        })));
        Ok(Self {
            app,
            terminal: Terminal::take(inputs.clone())?,
            painter: Painter::new(io::stdout(), places.reflows),
            tasks,
            inputs,
            places,
            status,
            finished: String::new(),
        })
    }

    /// Draws and waits, in turn, until somebody leaves.
    fn run(mut self, happened: &Receiver<Input>) {
        let mut drawn: Option<Instant> = None;
        let mut is_due = true;
        loop {
            let now = Instant::now();
            let next = drawn.map_or(now, |drawn| drawn + FRAME);
            if is_due && next <= now {
                // Rows that are too long for it would be counted wrong, and the news of it may be on the way.
                self.app.size = Terminal::size();
                let live = view::live(&self.app, now);
                let finished = std::mem::take(&mut self.finished);
                if self.painter.draw(&finished, &live).is_err() {
                    break;
                }
                (drawn, is_due) = (Some(now), false);
            }
            let wait = match (is_due, &self.app.work) {
                (true, _) => Some(next.saturating_duration_since(now)),
                (false, Some(_)) => Some(Duration::from_millis(view::FRAME_MS)),
                (false, None) => None,
            };
            let first = match wait {
                Some(wait) => happened.recv_timeout(wait),
                None => happened.recv().map_err(|_| RecvTimeoutError::Disconnected),
            };
            let first = match first {
                Ok(first) => first,
                Err(RecvTimeoutError::Timeout) => {
                    is_due = true;
                    continue;
                }
                Err(RecvTimeoutError::Disconnected) => break,
            };
            is_due = true;
            if !self.take(first)
                || !happened
                    .try_iter()
                    .take(BURST)
                    .all(|input| self.take(input))
            {
                break;
            }
        }
        let _ = self.tasks.send(Task::Quit);
        let finished = std::mem::take(&mut self.finished);
        let _ = self.painter.clear();
        let _ = self.painter.draw(&finished, &painter::Live::default());
    }

    /// Takes in what has happened; `false` where somebody leaves.
    fn take(&mut self, input: Input) -> bool {
        let effects = update::update(&mut self.app, input, Instant::now());
        effects.into_iter().all(|effect| self.perform(effect))
    }

    /// Has the line written in the user's editor.
    fn write_elsewhere(&mut self) {
        let _ = self.painter.clear();
        let text = self.app.editor.text().to_owned();
        let written = self
            .terminal
            .lend(|| elsewhere::write(&self.places.editor, &text));
        match written {
            Ok(Ok(text)) => self.app.editor.set(&text),
            Ok(Err(fault)) => self.app.hint = Some(fault),
            Err(fault) => self.app.hint = Some(fault.to_string()),
        }
    }

    /// Finds the files of the project while typing goes on.
    fn list_files(&self) {
        let (folder, inputs) = (self.places.folder.clone(), self.inputs.clone());
        let find = move || drop(inputs.send(Input::Files(menu::files(&folder))));
        // Without a thread there are no suggestions.
        let _ = std::thread::Builder::new().spawn(find);
    }

    fn perform(&mut self, effect: Effect) -> bool {
        match effect {
            Effect::Print(lines) => {
                self.finished.push_str(&lines);
                self.app.is_apart = lines == "\n" || lines.ends_with("\n\n");
            }
            // Where the other side has ended, it says so.
            Effect::Task(task) => drop(self.tasks.send(task)),
            Effect::ScrollAway => {
                let _ = self.painter.scroll_away(self.app.size.1);
            }
            Effect::OpenEditor => self.write_elsewhere(),
            Effect::ListFiles => self.list_files(),
            Effect::Status => {
                let told = status::told(&self.app, Instant::now());
                if let (Some(status), Some(told)) = (&self.status, told) {
                    status.send_replace(told);
                }
            }
            Effect::Ring(sequence) => {
                let _ = self.painter.ring(&sequence);
            }
            Effect::Quit => return false,
        }
        true
    }
}
