//! This engine as an MCP server: other agents run it, steer it, answer its questions and read its sessions.
//!
//! What a run is, and where sessions are, is the business of the port [`Sessions`](ah_desk::Sessions). Here are the tools, the
//! resources and the ways to ask a client back. A question that a person has to answer, such as for a permission, goes to the
//! client as an elicitation, or has no answer: the model that calls these tools must not grant itself permissions.

mod caller;
mod follow;
mod question;
mod served;
mod server;
mod sessions;
mod tools;

pub use served::Served;
pub use server::{AgentServer, serve};
