//! Sessions: the loop, tool calls, the system prompt and compaction.
//!
//! Nothing here knows a vendor, a database, a terminal or a particular tool: those come in through the ports of
//! [`ah_conversation`].

pub mod agents;
mod aside;
mod audience;
mod background;
mod changes;
mod check;
pub mod checkpoint;
pub mod commands;
mod compaction;
mod conflict;
mod controls;
mod deferred;
mod finish;
pub mod hooks;
mod mail;
mod model_call;
mod moments;
mod outcome;
mod own_spec;
mod permission;
mod pictures;
mod ports;
mod prefix;
pub mod project;
pub mod prompt;
mod reports;
mod request;
mod response;
mod schema;
mod session;
mod settings;
pub mod skills;
mod spending;
mod stop;
mod structured;
pub mod styles;
mod subagent;
mod summary;
mod team;
mod tool_call;
pub mod tool_search;
mod toolbox;
mod truncate;

pub use aside::SideQuestions;
pub use audience::{Audience, CallPlace, Ready, SessionUpdate, Watcher};
pub use conflict::{AGENT, Conflict};
pub use controls::{Controls, SessionChange};
pub use deferred::answer_open_calls;
pub use outcome::{RunFailure, RunOutcome};
pub use pictures::{Pictures, unchecked_pictures};
pub use ports::{
    CallVariables, CommandFiles, Ports, Refusals, SeenFiles, SessionWatcher, no_refusals,
    no_variables,
};
pub use session::Session;
pub use settings::{SessionSettings, ToolConcurrency};
pub use stop::{Leaving, Stop};
pub use structured::AnswerForm;
pub use subagent::{
    INHERIT, Isolation, MAX_RUNNING, MemoryPlace, OwnPlace, SubagentKinds, Subagents,
    is_model_alias, without_agent_id,
};
pub use toolbox::Toolbox;
