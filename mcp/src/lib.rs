//! Offers the tools and resources of MCP servers as tools of the engine.
//!
//! A server is third-party code that may be slow, dead or hostile. So each server is supervised by a task of its own,
//! which connects, lists tools, notices the end of the connection and reconnects; only calls to that server wait for
//! it. The protocol is the official SDK's; `process` starts child processes and `http` makes clients. Which servers
//! are configured, and whether they are trusted, is decided by the caller.

mod client;
mod config;
mod connection;
mod error;
mod link;
mod listing;
mod lock;
mod name;
mod notifications;
mod options;
mod overview;
mod program;
mod remote_tool;
mod resources;
mod result;
mod sdk;
mod server;
mod servers;
mod sse;
mod stdio;

pub use config::{Address, Program, ServerConfig, ServerEntry, Transport};
pub use name::plain_name;
pub use options::Options;
pub use program::Confined;
pub use sdk::{SdkHost, SdkPipe};
pub use servers::RemoteServers;
