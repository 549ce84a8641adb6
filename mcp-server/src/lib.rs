//! This engine as an MCP server: other agents run it, steer it, answer its questions and read its sessions.
//!
//! What a run is, and where sessions are, is the [`Runner`]'s business: [`ClientRuns`] are sessions of the folder. Here are
//! the tools, the resources and the ways to ask a client back. A question that a person has to answer, such as for a permission, goes to the client as an
//! elicitation, or has no answer: the model that calls these tools must not grant itself permissions.

mod caller;
mod follow;
mod question;
mod runner;
mod runs;
mod server;
mod sessions;
mod tools;

pub use runner::{At, Ended, Listed, Opened, Refusal, RunEvent, Runner, Running, Wanted};
pub use runs::{Call, ClientRequest, ClientRuns, serve_client};
pub use server::{AgentServer, serve};
