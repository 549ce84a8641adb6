//! The desk: the sessions of this machine as its doors use them. A door (an MCP server, a server over HTTP, a protocol of
//! editors) speaks with a client and knows no settings, no store and no tool; what it is asked for is asked of the one port
//! [`Sessions`], which the engine implements.

mod files;
mod open;
mod refusal;
mod run;
mod sessions;
mod state;
mod transcript;

pub use files::{FileDiff, FileFate, FileLeft, FilesAt, FilesDiff};
pub use open::{Choices, Command, ExpandedPrompt, Offered, OpenSession, Place, Prompt};
pub use refusal::{Refusal, RefusalKind};
pub use run::{BegunCall, BlockKind, Ended, Growth, Piece, RunEvent, Running};
pub use sessions::{At, Scope, SessionSummary, Sessions, Start, SystemPrompt, Waiting, Which};
pub use state::{Asked, RunningCall, State};
pub use transcript::Transcript;
