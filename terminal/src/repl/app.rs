//! All that the terminal shows and knows, as a value; and the words in which the rest of the program speaks with it.

use std::collections::VecDeque;
use std::time::Instant;

use ah_conversation::{EventKind, Image, MailKind, MessageId, Model, PermissionMode, Progress};
use crossterm::event::Event;

use super::attach::{self, Attached};
use super::editor::Editor;
use super::history::History;
use super::menu::Menu;
use super::notify::{self, Notifying};
use super::picker::{Picker, Subject};
use super::plain::Answers;
use super::question::{News, Panel};
use super::status::Facts;
use crate::undo::Way;
use ah_config::settings::conversation::EditorMode;

/// What happens to the terminal.
pub enum Input {
    /// A key, a paste, or the terminal's focus.
    Key(Event),
    /// The terminal has another size.
    Resized(usize, usize),
    /// Nobody sits there any more.
    Gone,
    /// What a run shows, to be kept: whole lines, or the beginning of one.
    Written(String),
    /// What the user is told beside it, likewise.
    Noted(String),
    /// What a run does.
    Event(Box<EventKind>),
    /// How far a tool is.
    Progress(String, Progress),
    /// The files of the project.
    Files(Vec<String>),
    /// Something is to be chosen.
    Pick(Picker),
    /// Something happens to a question.
    Question(News),
    /// Words are with the session.
    Sent(Queued),
    /// Words were taken back from the session, before it had read them.
    Withdrawn(Vec<Queued>, Then),
    /// The model that is asked now.
    Model(Model),
    /// The session that is open now.
    Opened(Box<Opened>),
    /// A task has ended; why a run did, where it was one.
    Ended(Ending),
    /// Others have written to the session while nothing was on.
    Mail,
    /// What became of a picture that was wanted.
    Attached(Attached),
    /// What the user's status line says.
    Status(String),
    /// What was asked for is done.
    Done,
    /// The program has to end.
    Stop(u8),
}

/// Words that wait for the model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Queued {
    /// Their name in the queue.
    pub id: MessageId,
    /// When they are to be read.
    pub kind: MailKind,
    /// The words.
    pub text: String,
}

/// What becomes of words that were taken back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Then {
    /// They are typed again.
    GiveBack,
    /// They are a prompt.
    Prompt,
}

/// How a task ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ending {
    /// As it should.
    Well,
    /// Somebody has stopped it.
    Interrupted,
    /// It could not go on; why, and what to do.
    Failed(String, Option<String>),
}

/// What is to be known of the session that is open.
#[derive(Debug, Clone)]
pub struct Opened {
    /// Its id.
    pub session: String,
    /// The model that is asked.
    pub model: Model,
    /// What is allowed where no rule says otherwise.
    pub mode: PermissionMode,
    /// Whether the mode that allows everything may be chosen.
    pub may_bypass: bool,
    /// Tokens of its last request.
    pub context: u64,
    /// How many messages it has.
    pub messages: usize,
    /// What a status line of the user's is told of it, where there is one.
    pub facts: Option<Box<Facts>>,
}

/// What the terminal wants of the rest of the program.
#[derive(Debug, PartialEq)]
pub enum Effect {
    /// Print lines, above all that moves.
    Print(String),
    /// Scroll all away.
    ScrollAway,
    /// Have the session do something.
    Task(Task),
    /// Write the line in an editor of the user's.
    OpenEditor,
    /// Find the files of the project.
    ListFiles,
    /// Tell the user's status line how things are.
    Status,
    /// Write what the terminal tells whoever looks elsewhere.
    Ring(String),
    /// End the program.
    Quit,
}

impl Effect {
    /// Whether something is told because of it, above all that moves.
    pub fn tells(&self) -> bool {
        match self {
            Self::Print(_) => true,
            Self::Task(task) => !matches!(task, Task::List(_) | Task::Send(..)),
            Self::ScrollAway
            | Self::OpenEditor
            | Self::ListFiles
            | Self::Status
            | Self::Ring(_)
            | Self::Quit => false,
        }
    }
}

/// What a session is to do.
#[derive(Debug, PartialEq)]
pub enum Task {
    /// Run a prompt.
    Prompt(String),
    /// Run a prompt, with pictures.
    Show(String, Vec<Image>),
    /// Run what others have written.
    TakeMail,
    /// Get a picture.
    Attach(attach::Source),
    /// Give words to the run that is on.
    Send(MailKind, String),
    /// Take words back.
    Withdraw(Vec<Queued>, Then),
    /// Stop what is on.
    Interrupt,
    /// List what can be chosen.
    List(Subject),
    /// Tell of the session.
    Tell(About),
    /// Ask another model from now on.
    Model(String),
    /// Put a summary in the place of all that was said; what it is to heed.
    Compact(String),
    /// Go on in another session: its id or name.
    Resume(String),
    /// Go on from an earlier message.
    GoTo(String),
    /// Go on in a copy.
    Fork,
    /// Begin a new session.
    New,
    /// Write the session to a file, as Markdown.
    Export(String),
    /// Tell what tools have changed in files.
    Changes,
    /// Give files back as they were.
    Rewind(Way),
    /// Show what the last tool calls have given, whole.
    Output,
    /// Run a command of the user's; whether the model is told.
    Shell(String, bool),
    /// Allow more or less where no rule says otherwise.
    Mode(PermissionMode),
    /// Run the user's command that tells them something.
    Notify(notify::News, String),
    /// End.
    Quit,
}

impl Task {
    /// Whether it concerns the run that is on, and waits for nothing.
    pub fn is_aside(&self) -> bool {
        matches!(
            self,
            Self::Send(..)
                | Self::Withdraw(..)
                | Self::Interrupt
                | Self::Mode(_)
                | Self::Model(_)
                | Self::Notify(..)
                | Self::Attach(_)
                | Self::Output
        )
    }
}

/// What can be told of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum About {
    /// Tokens and money.
    Cost,
    /// What fills the window.
    Context,
    /// What is allowed.
    Permissions,
    /// What the model may use.
    Tools,
    /// MCP servers.
    Servers,
    /// Skills.
    Skills,
}

/// All that the terminal shows and knows.
pub struct App {
    /// Whether Ctrl-X was pressed, and the next key says what for.
    pub has_prefix: bool,
    /// What is typed.
    pub editor: Editor,
    /// What was typed before.
    pub history: History,
    /// Columns and lines.
    pub size: (usize, usize),
    /// Whether with colours.
    pub colours: bool,
    /// What goes on, if anything does.
    pub work: Option<Work>,
    /// Words that wait for the model.
    pub queued: Vec<Queued>,
    /// The line of the answer that is not whole yet.
    pub open: String,
    /// The rows of the answer that may still change.
    pub rest: Vec<String>,
    /// Whether what was printed last ends with an empty line.
    pub is_apart: bool,
    /// What is known of the session.
    pub session: Option<Opened>,
    /// Whether one more Ctrl-C ends the program.
    pub is_leaving: bool,
    /// A word on what was typed last.
    pub hint: Option<String>,
    /// Questions of the run; the first one is shown.
    pub questions: VecDeque<Panel>,
    /// Whether what is typed answers it.
    pub is_answering: bool,
    /// Where the answers to the question go, line by line.
    pub answers: Option<Answers>,
    /// What was typed before, or the beginning of the answer, while the other is typed.
    pub aside: String,
    /// What the word before the cursor may become.
    pub menu: Option<Menu>,
    /// What is chosen from; what is typed narrows it down.
    pub picker: Option<Picker>,
    /// What was typed before something was chosen.
    pub picked_over: String,
    /// The files of the project, once they were asked for.
    pub files: Option<Vec<String>>,
    /// Commands and skills of the user's and the project's, and what they do.
    pub named: Vec<(String, String)>,
    /// Pastes that stand as a few words in what is typed, in order.
    pub pastes: Vec<String>,
    /// Pictures that stand as a few words in what is typed, in order.
    pub images: Vec<Image>,
    /// When the first session was opened.
    pub begun: Option<Instant>,
    /// What the user's status line says.
    pub status: Option<String>,
    /// How many blanks stand before it.
    pub status_padding: usize,
    /// How somebody is told who is away.
    pub notifying: Notifying,
    /// Whether the terminal is looked at, once it has said so.
    pub is_looked_at: Option<bool>,
    /// When a key was pressed last.
    pub typed_at: Option<Instant>,
}

/// What goes on.
#[derive(Debug, Clone)]
pub struct Work {
    /// Since when.
    pub since: Instant,
    /// In words.
    pub label: String,
    /// The tools that run, with what stands for their calls.
    pub tools: Vec<(String, String)>,
    /// Tokens that the run has taken.
    pub tokens: u64,
    /// Whether it was told to stop.
    pub is_stopping: bool,
}

impl Work {
    /// Something that begins now.
    pub fn begin(label: &str, now: Instant) -> Self {
        Self {
            since: now,
            label: label.to_owned(),
            tools: Vec::new(),
            tokens: 0,
            is_stopping: false,
        }
    }
}

impl App {
    /// Nothing typed, nothing going on.
    pub fn new(
        keys: EditorMode,
        history: super::history::History,
        size: (usize, usize),
        colours: bool,
    ) -> Self {
        Self {
            has_prefix: false,
            editor: Editor::new(keys),
            history,
            size,
            colours,
            work: None,
            queued: Vec::new(),
            open: String::new(),
            rest: Vec::new(),
            is_apart: true,
            session: None,
            is_leaving: false,
            hint: None,
            questions: VecDeque::new(),
            is_answering: false,
            answers: None,
            aside: String::new(),
            menu: None,
            picker: None,
            picked_over: String::new(),
            files: None,
            named: Vec::new(),
            pastes: Vec::new(),
            images: Vec::new(),
            begun: None,
            status: None,
            status_padding: 0,
            notifying: Notifying::default(),
            is_looked_at: None,
            typed_at: None,
        }
    }
}
