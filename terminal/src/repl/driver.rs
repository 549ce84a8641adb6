//! The driver of the terminal: it waits for inputs, applies them, carries out the effects, and draws at most 60 times a
//! second. It runs on a thread of its own, so that typing waits for nothing.

use std::io::{self, Stdout};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use ah_conversation::Environment;
use serde_json::Value;
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::watch;

use super::app::App;
use super::effect::{Effect, Lent, Task};
use super::input::Input;
use super::painter::{self, Painter};
use super::terminal::{self, Terminal};
use super::{external_editor, menu, own, slash, status, suspend, title, update, view};
use crate::glyphs::{self, Fitted};
use crate::print::divert;
use crate::print::wrap::at_words;

/// Shortest time between two frames.
const FRAME: Duration = Duration::from_micros(16_667);
/// The same after a key: who types sees it at once, and a key that is held down does not cost a frame each.
const KEY_FRAME: Duration = Duration::from_millis(4);
/// Largest number of inputs that are applied between two frames.
const BURST: usize = 4096;

/// Environment of the driver.
pub struct DriverSettings {
    /// Working directory.
    folder: PathBuf,
    /// Command line of the user's editor.
    editor: String,
    /// Whether the terminal wraps its lines again when it becomes narrower.
    reflows: bool,
    /// Whether it is one of tmux.
    is_in_tmux: bool,
    /// What it understands beside lines.
    abilities: title::Abilities,
}

impl DriverSettings {
    /// Returns the settings by the configuration and the environment.
    pub fn new(environment: &Environment) -> Self {
        let editor = ["VISUAL", "EDITOR"]
            .into_iter()
            .find_map(|name| environment.get(name).filter(|value| !value.is_empty()));
        Self {
            folder: environment.cwd().to_owned(),
            editor: editor.unwrap_or("vi").to_owned(),
            reflows: terminal::reflows(environment),
            is_in_tmux: environment
                .get("TMUX")
                .is_some_and(|value| !value.is_empty()),
            abilities: title::Abilities::of(environment),
        }
    }
}

/// Driver of the terminal.
pub struct Driver {
    app: App,
    terminal: Terminal,
    painter: Painter<Fitted<Stdout>>,
    tasks: UnboundedSender<Task>,
    inputs: Sender<Input>,
    settings: DriverSettings,
    /// Input of the user's status line, if one is configured.
    status: Option<watch::Sender<Value>>,
    /// The terminal's title and progress, as they were written last.
    title: String,
    /// Lines to print above the live ones.
    finished: String,
    /// Whether there were keys since the last frame.
    is_typed: bool,
    /// Whether the terminal is the shell's until the signal to continue comes.
    is_suspended: bool,
}

impl Driver {
    /// Takes the terminal. What the program prints is shown above the live lines from now on.
    ///
    /// # Errors
    ///
    /// If the terminal cannot be set up.
    pub fn begin(
        app: App,
        settings: DriverSettings,
        status: Option<watch::Sender<Value>>,
        inputs: Sender<Input>,
        tasks: UnboundedSender<Task>,
    ) -> io::Result<Self> {
        let (lines, is_remote) = (inputs.clone(), app.is_remote);
        divert(Some(Box::new(move |line| {
            // Attached, there are no commands that a hint could name.
            let line = match is_remote {
                true => line.to_owned(),
                false => slash::in_its_words(line),
            };
            let _ = lines.send(Input::Written(format!("{line}\n")));
        })));
        Ok(Self {
            app,
            terminal: Terminal::take(inputs.clone())?,
            painter: Painter::new(glyphs::out(), settings.reflows),
            tasks,
            inputs,
            settings,
            status,
            title: String::new(),
            finished: String::new(),
            is_typed: false,
            is_suspended: false,
        })
    }

    /// Draws and waits in turn until the user exits.
    pub fn run(mut self, happened: &Receiver<Input>) {
        let mut drawn: Option<Instant> = None;
        let mut is_due = true;
        loop {
            let now = Instant::now();
            let wait = if self.is_typed { KEY_FRAME } else { FRAME };
            let next = drawn.map_or(now, |drawn| drawn + wait);
            is_due &= !self.is_suspended;
            if is_due && next <= now {
                // Too long rows would be counted wrong, and the input that tells the size may still be queued.
                self.app.size = Terminal::size();
                if self.draw(now).is_err() {
                    break;
                }
                (drawn, is_due, self.is_typed) = (Some(now), false, false);
            }
            let changes = self.app.work.is_some() || !self.app.questions.is_empty();
            let wait = match (is_due, changes && !self.is_suspended) {
                (true, _) => Some(next.saturating_duration_since(now)),
                (false, true) => Some(Duration::from_millis(view::FRAME_MS)),
                (false, false) => None,
            };
            let first = match wait {
                Some(wait) => happened.recv_timeout(wait),
                None => happened.recv().map_err(|_| RecvTimeoutError::Disconnected),
            };
            let first = match first {
                Ok(first) => first,
                Err(RecvTimeoutError::Timeout) => Input::Tick,
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
        self.finish();
    }

    /// Draws the conversation, or the transcript in its place. What is finished meanwhile is printed afterwards.
    fn draw(&mut self, now: Instant) -> io::Result<()> {
        let title = title::sequences(&self.app, self.settings.abilities);
        if title != self.title {
            if self.title.is_empty() {
                self.painter.ring(title::SAVE)?;
                terminal::owe(self.settings.abilities.restored());
            }
            self.painter.ring(&title)?;
            self.title = title;
        }
        if let Some(viewer) = &mut self.app.viewer {
            viewer.resize(self.app.size);
            terminal::set_page(true);
            return self.painter.show_page(&view::page(&self.app));
        }
        let live = view::live(&self.app, now);
        let finished = std::mem::take(&mut self.finished);
        self.painter.draw(&finished, &live)?;
        terminal::set_page(false);
        Ok(())
    }

    /// Erases what is drawn, so that another program can use the terminal, which gets its title back with it. A failure
    /// shows at the next frame.
    fn erase(&mut self) {
        let _ = self.painter.clear();
        terminal::set_page(false);
        self.title.clear();
    }

    /// Erases what is drawn, and prints what is finished in its place.
    fn finish(&mut self) {
        self.erase();
        let finished = std::mem::take(&mut self.finished);
        let _ = self.painter.draw(&finished, &painter::Live::default());
    }

    /// Lets a subcommand of the program use the terminal, and gives the session the task that follows.
    fn lend(&mut self, lent: Lent) {
        self.finish();
        let run = || match own::run_here(lent.arguments, &lent.environment) {
            Ok(was_interrupted) => (Ok(()), was_interrupted),
            Err(error) => (Err(error), false),
        };
        let ran = self.terminal.lend(run);
        match ran {
            Ok(Ok(())) => {}
            Ok(Err(error)) => self.app.hint = Some(error),
            Err(error) => self.app.hint = Some(error.to_string()),
        }
        let _ = self.tasks.send(lent.then);
    }

    /// Applies an input; returns `false` if the program ends.
    fn take(&mut self, input: Input) -> bool {
        self.is_typed |= matches!(input, Input::Key(_));
        let was_empty = self.app.typed().text().is_empty();
        let effects = update::update(&mut self.app, input, Instant::now());
        let is_begun = was_empty && !self.app.typed().text().is_empty();
        if is_begun && self.app.work.is_none() {
            let _ = self.tasks.send(Task::Expect);
        }
        effects.into_iter().all(|effect| self.perform(effect))
    }

    /// Opens the user's editor with the typed text.
    fn open_editor(&mut self) {
        self.erase();
        let text = self.app.typed().text().to_owned();
        let written = self
            .terminal
            .lend(|| external_editor::edit(&self.settings.editor, &text));
        match written {
            Ok(Ok(text)) => self.app.typed_mut().set(&text),
            Ok(Err(error)) => self.app.hint = Some(error),
            Err(error) => self.app.hint = Some(error.to_string()),
        }
    }

    /// Gives the terminal back and stops until the shell continues the program.
    fn suspend(&mut self) {
        if !suspend::has_shell() {
            self.app.hint = Some("there is no shell to return to; Ctrl-D exits".to_owned());
            return;
        }
        self.erase();
        self.terminal.release();
        self.is_suspended = true;
        // Threads go on for a moment, so the terminal is taken again at the signal and not here.
        suspend::stop();
    }

    /// Takes the terminal again and draws below what others have written.
    fn continue_drawing(&mut self) {
        if !std::mem::take(&mut self.is_suspended) {
            self.painter.forget();
            self.title.clear();
            self.terminal.release();
        }
        if let Err(error) = self.terminal.retake() {
            self.app.hint = Some(error.to_string());
        }
    }

    /// Lists the files of the project in the background.
    fn list_files(&self) {
        let (folder, inputs) = (self.settings.folder.clone(), self.inputs.clone());
        let find = move || drop(inputs.send(Input::Files(menu::files(&folder))));
        // Without a thread there are no completions.
        let _ = std::thread::Builder::new().spawn(find);
    }

    fn refresh_status(&self) {
        let (Some(status), Some(session)) = (&self.status, &self.app.session) else {
            return;
        };
        let now = Instant::now();
        let begun = self.app.begun.unwrap_or(now);
        let vi_mode = self.app.typed().vi_mode();
        if let Some(input) = status::input(session, begun, vi_mode, now) {
            status.send_replace(input);
        }
    }

    fn perform(&mut self, effect: Effect) -> bool {
        match effect {
            Effect::Print(lines) => {
                self.finished.push_str(&at_words(&lines, self.app.size.0));
                self.app.is_apart = lines == "\n" || lines.ends_with("\n\n");
            }
            Effect::Output(lines) => {
                self.finished.push_str(&lines);
                self.app.is_apart = lines.ends_with("\n\n");
            }
            // If the session has ended, it says so itself.
            Effect::Task(task) => drop(self.tasks.send(task)),
            Effect::ScrollAway => {
                // The input that tells of another size may still be queued, and rows that stay would be written over.
                let (_, lines) = Terminal::size();
                let _ = self.painter.scroll_away(lines);
            }
            Effect::OpenEditor => self.open_editor(),
            Effect::Lend(lent) => self.lend(*lent),
            Effect::ListFiles => self.list_files(),
            Effect::Status => self.refresh_status(),
            Effect::Ring(sequence) => {
                let _ = self.painter.ring(&sequence);
            }
            Effect::Copy(text) => {
                if !(self.settings.is_in_tmux && own::to_tmux(&text)) {
                    let _ = self.painter.ring(&own::to_clipboard(&text));
                }
            }
            Effect::Skip(delay) => delay.skip(),
            Effect::Suspend => self.suspend(),
            Effect::Continue => self.continue_drawing(),
            Effect::Quit => return false,
        }
        true
    }
}
