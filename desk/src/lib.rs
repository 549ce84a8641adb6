//! The desk: the sessions of this machine as its doors use them. A door (an MCP server, a server over HTTP, a protocol of
//! editors) speaks with a client and knows no settings, no store and no tool; what it is asked for is asked of the one port
//! [`Sessions`], which the engine implements.

mod run;
mod sessions;
mod transcript;

pub use run::{BlockKind, Ended, Piece, RunEvent, Running};
pub use sessions::{At, Refusal, RefusalKind, SessionSummary, Sessions, Start, Which};
pub use transcript::Transcript;
