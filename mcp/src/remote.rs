//! Connections to servers, and their tools and resources.

mod answers;
mod cell;
mod client;
mod connection;
mod credentials;
mod error;
mod explain;
mod link;
mod listing;
mod lock;
mod name;
mod notifications;
mod oauth;
mod overview;
mod page;
mod program;
mod prompts;
mod redirect;
mod resources;
mod result;
mod revision;
mod revoke;
mod rounds;
mod sdk_messages;
mod server;
mod servers;
mod sign_in;
mod sse;
mod stdio;
mod task;
mod tasks_tool;
mod tool;
mod unfinished;
mod vault;

pub use servers::RemoteServers;
pub use sign_in::{SignIn, SignInPlace, SignedIn, SignedOut};
