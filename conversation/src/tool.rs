//! Port: a tool that the model may call.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use serde_json::Value;

use crate::{
    Caller, CommandLine, Denied, HiddenFiles, Input, Interaction, LiveOutput, Output, Reach,
    TaskSink, Tasks, ToolSpec, ToolUse,
};

/// A tool that the model may call. A failure is an answer to the model, so it is not a `Result`.
///
/// To stop a tool, drop the future: processes that it started must end with it.
#[async_trait]
pub trait Tool: Send + Sync {
    /// Returns the description for the model and the display.
    fn spec(&self) -> &ToolSpec;

    /// Returns what this call would access; this decides permission, concurrency and whether a crash may repeat it.
    /// The input has passed the schema. Empty means no access at all.
    fn access(&self, input: &Input) -> Vec<Access>;

    /// Returns what only some tools have; [`ToolExtras::default`] is nothing. A tool that wraps another returns that one's.
    fn extras(&self) -> ToolExtras<'_>;

    /// Runs the call. The input has passed the schema.
    async fn run(&self, call: &ToolUse, context: &Context) -> Output;
}

/// What only some tools have.
#[derive(Default)]
pub struct ToolExtras<'a> {
    /// Whether scripts of the model may not call it: it is about the conversation itself (questions to the user, the plan, the
    /// list of tasks, subagents).
    pub is_for_model_alone: bool,
    /// Returns the name and the input of the call that this one stands for, of a tool that is made to call other tools: that call
    /// is decided about and runs in its place.
    pub stands_for: Option<StandsFor>,
    /// Says what a call would do.
    pub foresight: Option<&'a dyn Foresight>,
    /// Returns the words for the model that belong to these details of a result, where a program has replaced them.
    pub words_of: Option<fn(&Value) -> Option<String>>,
    /// The port for tasks that its calls start in the background.
    pub tasks: Option<Arc<dyn Tasks>>,
}

/// Returns the name and the input of the call that one with this input stands for.
pub type StandsFor = fn(&Input) -> Option<(String, Input)>;

/// A tool that knows the result of a call before it runs.
#[async_trait]
pub trait Foresight: Send + Sync {
    /// Returns the result that the call would have now, found without changing anything: a failure, about which a person is not
    /// asked, or the details of a change, which they are shown. Of a file outside the working directories nothing is asked.
    async fn foreseen(&self, call: &ToolUse) -> Output;
}

/// Word for reading.
const READ: &str = "read";
/// Word for asking.
const ASK: &str = "ask";

/// A resource that a call accesses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Access {
    /// Reads this file, or files below this directory.
    Read(PathBuf),
    /// Writes this file, or files below this directory.
    Write(PathBuf),
    /// The path as given, without `.` and `..`, where symbolic links lead elsewhere. Deny and ask rules also match
    /// it; it is ignored otherwise.
    Named(PathBuf),
    /// Runs a shell command.
    Command(CommandLine),
    /// Connects to this host.
    Host(String),
    /// Asks the user.
    Ask(Interaction),
    /// Unknown access that a third party declared read-only. Allowing the call means trusting that declaration.
    Promised,
    /// Unknown access, possibly outside the sandbox.
    Unknown,
    /// Unknown access by code that the sandbox confines.
    Confined {
        /// Whether a third party declared it read-only, as for [`Promised`](Self::Promised).
        promised: bool,
    },
}

impl Access {
    /// Whether it is the reading of a file that the call also writes, whose permission counts for both.
    pub(crate) fn is_for_writing(&self, accesses: &[Self]) -> bool {
        matches!(self, Self::Read(path) if accesses.contains(&Self::Write(path.clone())))
    }

    /// Whether it changes nothing and asks nobody, so that it may run concurrently.
    pub fn is_read_only(&self) -> bool {
        match self {
            Self::Read(_) | Self::Named(_) | Self::Promised => true,
            Self::Confined { promised } => *promised,
            Self::Command(line) => line.harmless,
            Self::Write(_) | Self::Host(_) | Self::Ask(_) | Self::Unknown => false,
        }
    }

    /// Returns the user input that it asks for.
    pub fn interaction(&self) -> Option<&Interaction> {
        match self {
            Self::Ask(interaction) => Some(interaction),
            Self::Read(_)
            | Self::Named(_)
            | Self::Write(_)
            | Self::Command(_)
            | Self::Host(_)
            | Self::Promised
            | Self::Unknown
            | Self::Confined { .. } => None,
        }
    }

    /// Returns the word for the journal: `read`, `write`, `command`, `host`, `ask`, `promised` or `unknown`.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Read(_) | Self::Named(_) => READ,
            Self::Write(_) => "write",
            Self::Command(_) => "command",
            Self::Host(_) => "host",
            Self::Ask(_) => ASK,
            Self::Promised | Self::Confined { promised: true } => "promised",
            Self::Unknown | Self::Confined { promised: false } => "unknown",
        }
    }

    /// Whether a call with accesses of these [words](Self::word), separated by commas, may begin again if it has begun and its end is
    /// unknown: it only reads files and asks, so a tool that asks has to bear it. What somebody else has promised is not enough.
    pub fn may_begin_again(words: &str) -> bool {
        let mut words = words.split(',').map(str::trim);
        words.all(|word| word.is_empty() || [READ, ASK].contains(&word))
    }
}

/// Context of a running call.
#[derive(Debug, Clone)]
pub struct Context {
    /// Path for output too big for memory; neither the file nor its directory may exist yet.
    pub spool: PathBuf,
    /// Reports the call's progress.
    pub progress: ProgressSink,
    /// Receives its output as it comes, if the tool has any before it ends.
    pub output: LiveOutput,
    /// Reports tasks that the call starts.
    pub tasks: TaskSink,
    /// Files whose content the call must not show.
    pub hidden: HiddenFiles,
    /// What no command of the call may do, whatever else it may.
    pub denied: Denied,
    /// What a command of the call may do at most.
    pub reach: Reach,
    /// Details of this tool's last successful result that the model still sees: a tool's memory is kept in the
    /// conversation.
    pub former: Option<Value>,
    /// Environment variables for commands that the call starts, beside those that all commands see.
    pub variables: Vec<(String, String)>,
    /// Makes calls for this one; `None` if none can be made.
    pub caller: Option<Arc<dyn Caller>>,
    /// Texts of files of the call that their user has changed without saving them. A tool that reads such a file reads
    /// this.
    pub unsaved: Vec<Unsaved>,
}

/// The text of a file that its user has changed without saving it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unsaved {
    /// Resolved path of the file.
    pub path: PathBuf,
    /// Its text.
    pub text: Arc<str>,
}

impl Context {
    /// Creates a context without progress and task reports, in which no files are hidden, commands have no bounds, and no
    /// calls can be made.
    pub fn new(spool: PathBuf) -> Self {
        Self {
            spool,
            progress: ProgressSink::default(),
            output: LiveOutput::default(),
            tasks: TaskSink::default(),
            hidden: HiddenFiles::default(),
            denied: Denied::default(),
            reach: Reach::default(),
            former: None,
            variables: Vec::new(),
            caller: None,
            unsaved: Vec::new(),
        }
    }
}

/// Progress of a running call.
#[derive(Debug, Clone, PartialEq)]
pub struct Progress {
    /// Amount done, in a unit of the tool's choice.
    pub done: f64,
    /// Total amount, if known.
    pub total: Option<f64>,
    /// Current activity.
    pub message: Option<String>,
}

/// Reports the progress of a running call; no-op by default.
#[derive(Clone, Default)]
pub struct ProgressSink(Option<Arc<dyn Fn(Progress) + Send + Sync>>);

impl ProgressSink {
    /// Reports to `listener`, which must not block.
    pub fn new(listener: impl Fn(Progress) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(listener)))
    }

    /// Reports the current progress.
    pub fn report(&self, progress: Progress) {
        if let Some(listener) = &self.0 {
            listener(progress);
        }
    }
}

impl fmt::Debug for ProgressSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "heard" } else { "unheard" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_reads_and_asks_may_begin_again() {
        for (words, expected) in [
            ("", true),
            ("read", true),
            ("read, ask", true),
            ("ask,write", false),
            ("command", false),
            ("promised", false),
            ("unknown", false),
            ("of a newer version", false),
        ] {
            assert_eq!(Access::may_begin_again(words), expected, "{words}");
        }
    }
}
