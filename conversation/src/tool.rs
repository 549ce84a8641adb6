//! Port: something the model may ask for.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use serde_json::Value;

use crate::{CommandLine, Input, Interaction, ResultBlock, TaskSink, Tasks, ToolUse};

/// Something the model may ask for. A failure is an answer to the model, so it is not a `Result`.
///
/// To stop a tool, drop the future: what it started must end with it.
#[async_trait]
pub trait Tool: Send + Sync {
    /// What the model and the display are told of it.
    fn spec(&self) -> &ToolSpec;

    /// What this very call would touch: decides permission, concurrency and whether a crash may repeat it. The
    /// input has passed the schema. Empty means that it touches nothing.
    fn access(&self, input: &Input) -> Vec<Access>;

    /// Runs the call. The input has passed the schema.
    async fn run(&self, call: &ToolUse, context: &Context) -> Output;

    /// What its calls have started that goes on without them, to be asked for and ended.
    fn tasks(&self) -> Option<Arc<dyn Tasks>> {
        None
    }
}

/// What the model and the display are told of a tool.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolSpec {
    /// The name on the wire.
    pub name: String,
    /// What it does, for the model.
    pub description: String,
    /// JSON Schema of its input, an object.
    pub input_schema: Arc<Value>,
    /// Guidance for the system prompt, in its own section there.
    pub guidance: Option<String>,
    /// How much of its output the model sees.
    pub truncation: Truncation,
    /// Which argument stands for a call where there is room for one.
    pub key: Option<DisplayKey>,
}

/// The argument that stands for a call on a display.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DisplayKey {
    /// A path, shown relative to the working directory.
    Path(&'static str),
    /// A shell command, shown behind `$ `.
    Command(&'static str),
    /// Other text, shown as it is.
    Text(String),
}

impl DisplayKey {
    /// The argument's name.
    pub fn argument(&self) -> &str {
        match self {
            Self::Path(name) | Self::Command(name) => name,
            Self::Text(name) => name,
        }
    }
}

/// How much of a tool's output the model sees: a head and a tail with a notice between them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Truncation {
    /// At most so many bytes.
    pub bytes: usize,
    /// And at most so many lines.
    pub lines: Option<usize>,
}

impl Truncation {
    /// For tools that say nothing else.
    pub const DEFAULT: Self = Self {
        bytes: 30_000,
        lines: None,
    };
}

/// Something that a call touches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Access {
    /// Reads this file, or what lies below this directory.
    Read(PathBuf),
    /// Writes this file, or below this directory.
    Write(PathBuf),
    /// The name, without `.` and `..`, under which one of the files is reached where symbolic links lead elsewhere. Rules
    /// that forbid or ask look at it as well; nothing is allowed or refused for it otherwise.
    Named(PathBuf),
    /// Runs a shell command.
    Command(CommandLine),
    /// Talks to this host.
    Host(String),
    /// Asks the person at the other end.
    Ask(Interaction),
    /// Who knows; somebody else has promised that nothing changes. Whoever allows the call believes it.
    Promised,
    /// Who knows.
    Unknown,
}

impl Access {
    /// Whether it leaves everything as it was, so that it may run beside others and again.
    pub fn is_read_only(&self) -> bool {
        match self {
            Self::Read(_) | Self::Named(_) | Self::Promised => true,
            Self::Command(line) => line.harmless,
            Self::Write(_) | Self::Host(_) | Self::Ask(_) | Self::Unknown => false,
        }
    }

    /// What it asks of the person.
    pub fn interaction(&self) -> Option<&Interaction> {
        match self {
            Self::Ask(interaction) => Some(interaction),
            Self::Read(_)
            | Self::Named(_)
            | Self::Write(_)
            | Self::Command(_)
            | Self::Host(_)
            | Self::Promised
            | Self::Unknown => None,
        }
    }

    /// One word for the journal: `read`, `write`, `command`, `host`, `ask`, `promised` or `unknown`.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Read(_) | Self::Named(_) => "read",
            Self::Write(_) => "write",
            Self::Command(_) => "command",
            Self::Host(_) => "host",
            Self::Ask(_) => "ask",
            Self::Promised => "promised",
            Self::Unknown => "unknown",
        }
    }
}

/// What a running call may use.
#[derive(Debug, Clone)]
pub struct Context {
    /// Where output too big for memory may go; the file does not exist yet, its directory may not either.
    pub spool: PathBuf,
    /// Where it tells how far it is.
    pub progress: ProgressSink,
    /// Where it tells of what it starts beside or below the conversation.
    pub tasks: TaskSink,
    /// The details of the last success of this tool that the model still sees: what a tool knows of before stands in
    /// the conversation.
    pub former: Option<Value>,
}

impl Context {
    /// For a call whose progress nobody watches.
    pub fn new(spool: PathBuf) -> Self {
        Self {
            spool,
            progress: ProgressSink::default(),
            tasks: TaskSink::default(),
            former: None,
        }
    }
}

/// How far a running call is.
#[derive(Debug, Clone, PartialEq)]
pub struct Progress {
    /// What is done, in whatever the tool counts.
    pub done: f64,
    /// What there is to do in all, where that is known.
    pub total: Option<f64>,
    /// What it is doing.
    pub message: Option<String>,
}

/// Where a running call tells how far it is. By default nobody listens.
#[derive(Clone, Default)]
pub struct ProgressSink(Option<Arc<dyn Fn(Progress) + Send + Sync>>);

impl ProgressSink {
    /// Tells `listener`, which must not block.
    pub fn new(listener: impl Fn(Progress) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(listener)))
    }

    /// Tells how far the call is.
    pub fn tell(&self, progress: Progress) {
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

/// What a call gave.
#[derive(Debug, Clone, PartialEq)]
pub struct Output {
    /// The output.
    pub content: Content,
    /// Whether the tool failed.
    pub is_error: bool,
    /// What it says of the output besides, for displays and programs.
    pub details: Option<Value>,
}

impl Output {
    /// A success.
    pub fn text(text: impl Into<String>) -> Self {
        Self {
            content: Content::Bytes(text.into().into_bytes()),
            is_error: false,
            details: None,
        }
    }

    /// A failure; the text tells the model what to try.
    pub fn error(text: impl Into<String>) -> Self {
        Self {
            content: Content::Bytes(text.into().into_bytes()),
            is_error: true,
            details: None,
        }
    }

    /// The same output with `details` beside it.
    #[must_use]
    pub fn with_details(self, details: Value) -> Self {
        Self {
            details: Some(details),
            ..self
        }
    }
}

/// The output itself, whole.
#[derive(Debug, Clone, PartialEq)]
pub enum Content {
    /// Bytes as they came, not necessarily text.
    Bytes(Vec<u8>),
    /// So many bytes that they stand in a file.
    Spool(Spool),
    /// Pictures and text, sent to the model as they are.
    Blocks(Vec<ResultBlock>),
}

/// Output kept in a file: already written and synced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spool {
    /// The file.
    pub path: PathBuf,
    /// How many bytes the tool gave in all.
    pub len: u64,
    /// How many of them the file leaves out, between head and tail, since they went past the cap.
    pub left_out: u64,
    /// The hash of the file's bytes, in lower-case hexadecimal.
    pub sha256: String,
    /// The first bytes, at least as many as any truncation keeps.
    pub head: Vec<u8>,
    /// The last bytes, likewise; head and tail do not overlap.
    pub tail: Vec<u8>,
}
