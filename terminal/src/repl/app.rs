//! The whole state of the terminal, as a value. Each part has a file of its own and knows nothing of the others;
//! `update` and `view` bring them together.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use ah_config::settings::conversation::EditorMode;
use ah_conversation::neutralise;
use ah_render::Style;
use crossterm::event::Event;

use super::activity::Activity;
use super::answer::Answer;
use super::attach::Pictures;
use super::background::BackgroundTasks;
use super::bang;
use super::editor::Editor;
use super::effect::Effect;
use super::history::History;
use super::input::{Opened, Queued};
use super::key_list;
use super::menu::Suggestions;
use super::notify::Notifier;
use super::paste::Pastes;
use super::picker::Picker;
use super::question::Questions;
use super::status::StatusLine;
use super::viewer::Viewer;

/// Time without a key after which the next one is meant for the question that is shown.
const QUIET: Duration = Duration::from_millis(700);

/// What was typed during a run and can be sent only after it: a command, whose text is looked up then, or a message that
/// names files, whose contents are read then.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held {
    /// As it was typed.
    pub typed: String,
    /// The same with the pastes in place of their tokens.
    pub text: String,
}

impl Held {
    /// Returns whether it is a command of the user's, which runs at this terminal.
    pub fn is_command(&self) -> bool {
        self.typed.starts_with('!') && bang::read(&self.text).is_some()
    }
}

/// State of the terminal.
pub struct App {
    /// Text that is typed for the conversation.
    pub editor: Editor,
    /// Text that filters the open list.
    pub filter: Editor,
    /// Text that answers the open question.
    pub reply: Editor,
    /// Time of the last key.
    pub typed_at: Option<Instant>,
    /// Lines typed before.
    pub history: History,
    /// Completions of the word at the cursor.
    pub suggestions: Suggestions,
    /// Folded pastes in the typed text.
    pub pastes: Pastes,
    /// Pictures in the typed text.
    pub pictures: Pictures,
    /// List to choose from, while one is open.
    pub picker: Option<Picker>,
    /// Keys for a list that was asked for and is not open yet.
    pub ahead: Option<Vec<Event>>,
    /// The transcript on a screen of its own, while it is looked at.
    pub viewer: Option<Viewer>,
    /// Open questions of the run.
    pub questions: Questions,
    /// Notifications to a user who is away.
    pub notifier: Notifier,
    /// The user's status line.
    pub status: StatusLine,
    /// Unfinished part of the answer.
    pub answer: Answer,
    /// Current task of the session.
    pub work: Option<Activity>,
    /// What has come since the last key.
    pub unread: Option<Unread>,
    /// Tasks beside the conversation.
    pub background: BackgroundTasks,
    /// Queued messages.
    pub queued: Vec<Queued>,
    /// What is sent after the current task, in turn.
    pub held: VecDeque<Held>,
    /// The open session.
    pub session: Option<Opened>,
    /// What the session is about: its name, or the first words.
    pub title: Option<String>,
    /// Time at which the first session was opened.
    pub begun: Option<Instant>,
    /// Columns and lines of the terminal.
    pub size: (usize, usize),
    /// Whether colours are used.
    pub colours: bool,
    /// Whether the printed lines end with an empty one.
    pub is_apart: bool,
    /// First row that is shown of the list of keys.
    pub first_key: usize,
    /// Message about the last input, shown until the next key.
    pub hint: Option<String>,
    /// Whether another process runs the session: it goes on when the terminal is left, and does nothing but what can be
    /// asked of it.
    pub is_remote: bool,
    /// The command that opens the session of another process from here.
    pub way: String,
    /// Whether another Ctrl-C ends the program.
    pub is_leaving: bool,
    /// Whether what is typed was meant for a question that is closed.
    pub is_answer_late: bool,
    /// Whether another Esc offers earlier prompts.
    pub is_going_back: bool,
    /// Whether Ctrl-X was pressed as the first of two keys.
    pub has_prefix: bool,
}

/// What has come since the last key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unread {
    /// An answer.
    Answer,
    /// A failure.
    Failure,
}

impl App {
    /// Returns the state before the first input.
    pub fn new(keys: EditorMode, history: History, size: (usize, usize), colours: bool) -> Self {
        Self {
            editor: Editor::new(keys),
            filter: Editor::new(keys),
            reply: Editor::new(keys),
            typed_at: None,
            history,
            suggestions: Suggestions::default(),
            pastes: Pastes::default(),
            pictures: Pictures::default(),
            picker: None,
            ahead: None,
            questions: Questions::default(),
            notifier: Notifier::default(),
            status: StatusLine::default(),
            answer: Answer::default(),
            work: None,
            unread: None,
            first_key: 0,
            background: BackgroundTasks::default(),
            queued: Vec::new(),
            held: VecDeque::new(),
            session: None,
            title: None,
            begun: None,
            size,
            colours,
            is_apart: true,
            hint: None,
            is_remote: false,
            way: String::new(),
            is_leaving: false,
            viewer: None,
            is_answer_late: false,
            is_going_back: false,
            has_prefix: false,
        }
    }

    /// Returns whether the list of keys is shown.
    pub fn shows_keys(&self) -> bool {
        self.picker.is_none() && self.editor.text() == key_list::QUESTION
    }

    /// Returns the text that keys go to.
    pub fn typed(&self) -> &Editor {
        match (&self.picker, self.questions.is_answering()) {
            (Some(_), _) => &self.filter,
            (None, true) => &self.reply,
            (None, false) => &self.editor,
        }
    }

    /// Returns the text that keys go to, to be changed.
    pub fn typed_mut(&mut self) -> &mut Editor {
        match (&self.picker, self.questions.is_answering()) {
            (Some(_), _) => &mut self.filter,
            (None, true) => &mut self.reply,
            (None, false) => &mut self.editor,
        }
    }

    /// Returns a typed text as it is meant: with the pastes in place of their tokens. Otherwise a hint says what is missing.
    pub fn unfolded(&mut self, typed: &str) -> Option<String> {
        match self.pastes.unfold(typed) {
            Ok(text) => Some(text),
            Err(token) => {
                self.hint = Some(format!("the text of {token} is gone: paste it again"));
                None
            }
        }
    }

    /// Shows a line of the history, with its pastes folded as they were.
    pub fn call_up(&mut self, line: &str) {
        let line = self.pastes.folded(line);
        self.typed_mut().set(&line);
        self.forget_pastes();
    }

    /// Forgets the pastes that stand in no text any more.
    pub fn forget_pastes(&mut self) {
        let typed = [self.editor.text(), self.reply.text()];
        let typed: Vec<_> = typed.into_iter().chain(self.history.draft()).collect();
        self.pastes.keep(&typed);
    }

    /// Lets keys go to an open question if nothing else is being typed: a key that was meant for something else must
    /// not answer it.
    pub fn settle(&mut self, now: Instant) {
        let since = self
            .typed_at
            .map(|typed| now.saturating_duration_since(typed));
        if self.editor.is_empty()
            && self.picker.is_none()
            && since.is_none_or(|since| since >= QUIET)
        {
            self.questions.listen();
        }
    }

    /// Keeps what is typed for the conversation in the history.
    pub fn keep_draft(&mut self) {
        let typed = self.editor.text().trim();
        let draft = self.pastes.unfold(typed);
        self.history.keep(draft.as_deref().unwrap_or(typed));
    }

    /// Whether a key was pressed a moment ago, so that the next one belongs to the same thought.
    pub fn is_in_one_breath(&self, now: Instant) -> bool {
        let since = { self.typed_at }.map(|typed| now.saturating_duration_since(typed));
        since.is_some_and(|since| since < QUIET)
    }

    /// Puts text before what is typed for the conversation.
    pub fn give_back(&mut self, text: &str) {
        let typed = self.editor.take();
        let separator = if typed.is_empty() { "" } else { "\n\n" };
        self.editor.insert(format!("{text}{separator}{typed}"));
    }

    /// Puts what is held back into the editor; returns whether there was any.
    pub fn give_held_back(&mut self) -> bool {
        let texts: Vec<_> = self.held.drain(..).map(|held| held.text).collect();
        if !texts.is_empty() {
            self.give_back(&texts.join("\n\n"));
        }
        !texts.is_empty()
    }

    /// Returns a line that stands out.
    pub fn warning(&self, text: &str) -> String {
        let text = neutralise(text);
        if self.colours {
            format!("{}\n", Style::WARNING.around(&text))
        } else {
            format!("{text}\n")
        }
    }

    /// Says that something cannot be asked of another process.
    pub fn refuse_remote(&mut self, what: &str) -> Vec<Effect> {
        self.hint = Some(format!(
            "{what} does not work while attached; `{}` opens the session after its run",
            self.way
        ));
        Vec::new()
    }

    /// Returns the effect that refreshes the user's status line, if one is configured.
    pub fn refresh_status(&self) -> Option<Effect> {
        let session = self.session.as_ref()?;
        session.facts.is_some().then_some(Effect::Status)
    }
}
