//! Drives a session: the loop, the tool calls, the system prompt, compaction.
//!
//! Nothing here knows a vendor, a database, a terminal or a particular tool: those come in through the ports of
//! [`ah_conversation`].

pub mod agents;
mod background;
pub mod checkpoint;
pub mod commands;
mod compaction;
mod controls;
mod finish;
mod frontend;
pub mod git;
pub mod hooks;
mod mail;
mod model_call;
mod moments;
mod permission;
pub mod project;
pub mod prompt;
mod request;
mod response;
mod schema;
mod session;
pub mod skills;
mod stop;
mod structured;
mod subagent;
mod tool_call;
mod toolbox;
mod truncate;

pub use controls::{Controls, SessionChange};
pub use frontend::{Frontend, SessionUpdate};
pub use session::{Ports, RunFailure, RunOutcome, Session, SessionSettings, ToolConcurrency};
pub use stop::Stop;
pub use structured::AnswerForm;
pub use subagent::{MAX_AT_WORK, SubagentKinds, Subagents};
pub use toolbox::Toolbox;
