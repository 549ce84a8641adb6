//! Inputs of the terminal's state: keys, events of a run, and answers of the session.

use std::time::Duration;

use ah_conversation::{
    EventKind, Model, PermissionMode, Progress, ServerPrompt, SkipDelay, Task, TaskUpdate,
    ToolUseId, Verification,
};
use ah_render::Line;
use crossterm::event::Event;

use super::activity::RunningTool;
use super::attach::Attached;
use super::effect;
pub use super::ending::{Ending, Queued, Then};
use super::facts::{Facts, Totals};
use super::picker::{Entry, Picker, Subject};
use super::question::QuestionUpdate;
use super::viewer::Section;

/// An input of the terminal's state.
pub enum Input {
    /// A key, a paste, or a change of focus.
    Key(Event),
    /// A line that was typed where nothing is drawn; `None` at the end of the input.
    Line(Option<String>),
    /// New size of the terminal: columns and lines.
    Resized(usize, usize),
    /// The terminal was closed.
    Gone,
    /// The program shall stop until the shell continues it.
    Suspend,
    /// The program was stopped, and goes on.
    Continued,
    /// Output of a run, to stay in the scrollback: whole lines, or the beginning of one.
    Written(String),
    /// Output of commands, whose lines stay whole.
    Output(String),
    /// Messages for the user beside it, likewise.
    Noted(String),
    /// Event of a run.
    Event(Box<EventKind>),
    /// A tool, or a command of the user's, that has started.
    Running(RunningTool),
    /// The current task began so many milliseconds ago.
    Began(u64),
    /// A failed request is tried again after this delay, unless it is skipped.
    Retry(Duration, SkipDelay),
    /// Something has come of an answer; told at most once a second.
    Heard,
    /// The server has read so many tokens of a request, of so many.
    Reading(u64, u64),
    /// Progress of a tool, by the id of its call.
    Progress(ToolUseId, Progress),
    /// A tool has ended, likewise.
    Ran(ToolUseId),
    /// Report of a task beside the conversation.
    Background(Box<(Task, TaskUpdate)>),
    /// What a subagent does, by the id of its task.
    Doing(String, String),
    /// The task list of the agent.
    Tasks(Vec<Line>),
    /// Files of the project.
    Files(Vec<String>),
    /// Prompts of MCP servers, and the names of the servers.
    Prompts(Vec<ServerPrompt>, Vec<String>),
    /// Completions of a word, and the text before the cursor for which they were asked.
    Completions(String, Vec<(String, String)>),
    /// List to choose from.
    Pick(Picker),
    /// There is no list, for a reason that was told.
    Unlisted,
    /// More entries for the open list of this subject; the flag says whether they replace those it has.
    More(Subject, Vec<Entry>, bool),
    /// Change of a question.
    Question(QuestionUpdate),
    /// Message that was added to the session's queue.
    Sent(Queued),
    /// Messages that were taken from the session's queue before they were read.
    Withdrawn(Vec<Queued>, Then),
    /// Totals of the session, after another answer.
    Spent(Box<Totals>),
    /// New model of the session.
    Model(Model),
    /// The session that is open now.
    Opened(Box<Opened>),
    /// Outcome of a task.
    Ended(Ending),
    /// Another process has queued a message while the session was idle.
    Mail,
    /// Outcome of loading a picture.
    Attached(Attached),
    /// A text for the clipboard.
    Copied(String),
    /// New text of the user's status line.
    Status(String),
    /// A text that goes into the empty input.
    Typed(String),
    /// The transcript, to be looked at on a screen of its own.
    View(Vec<Section>),
    /// A subcommand of the program wants the terminal; the task follows it.
    Lend(Box<effect::Lent>),
    /// A task is done.
    Done,
    /// Nothing has happened but that time has passed.
    Tick,
    /// The program has to end, with this exit code.
    Stop(u8),
}

/// The open session, as the terminal shows it.
#[derive(Debug, Clone)]
pub struct Opened {
    /// Its id.
    pub session: String,
    /// Its model.
    pub model: Model,
    /// Its name, or the words it began with.
    pub title: Option<String>,
    /// Its permission mode.
    pub mode: PermissionMode,
    /// Whether the mode that bypasses permissions may be chosen.
    pub may_bypass: bool,
    /// Tokens of its last request.
    pub context: u64,
    /// Number of its messages.
    pub messages: usize,
    /// Name of the working directory and the branch.
    pub place: String,
    /// Whether mode `sandboxed` may be chosen: a sandbox confines the session.
    pub is_sandboxed: bool,
    /// Whether no other process can open it: it is not stored, or not with those of the folder.
    pub is_bound: bool,
    /// Cost so far in US dollars, as far as prices are known.
    pub cost: f64,
    /// What is known about the work, if a check says when it is done.
    pub check: Option<Box<Verification>>,
    /// Input of the user's status line, if one is configured.
    pub facts: Option<Box<Facts>>,
}
