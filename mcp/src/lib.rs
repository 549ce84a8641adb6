//! Tools of MCP servers as tools of ours.
//!
//! A server is a program or an address of somebody else's: slow, dead, or lying. So each one lives in a task of its
//! own that connects, lists what there is, notices the end and comes back; nobody waits for it but a call of its own.
//! The protocol is the official SDK's; how a child is started is `process`, how an address is reached is `http`.
//! Which servers there are, and whether they may count, is for others to say.

mod client;
mod config;
mod connection;
mod fault;
mod listing;
mod name;
mod news;
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
pub use program::Confined;
pub use sdk::{SdkHost, SdkPipe};
pub use servers::{Options, RemoteServers};
