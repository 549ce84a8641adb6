//! Connections to servers, and their tools and resources.

mod answers;
mod cell;
mod client;
mod connection;
mod error;
mod explain;
mod link;
mod listing;
mod lock;
mod name;
mod notifications;
mod overview;
mod program;
mod resources;
mod result;
mod revision;
mod rounds;
mod sdk_messages;
mod server;
mod servers;
mod sse;
mod stdio;
mod task;
mod tool;

pub use servers::RemoteServers;
