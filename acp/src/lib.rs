//! The Agent Client Protocol: sessions driven by a code editor.
//!
//! An editor starts this program and speaks JSON-RPC over its standard input and output. Its requests open sessions and
//! run prompts; what happens in a run becomes its notifications. The messages and the connection are those of the
//! official crate, in version 1 of the protocol or in version 2, as the editor begins. [`serve`] is a
//! [`Watcher`](ah_agent::Watcher) like the terminal: it drives sessions that the desk opens ([`Sessions`](ah_desk::Sessions)), and knows no provider,
//! no store and no tool.

mod call;
mod choice;
mod editor;
mod fault;
mod files;
mod first;
mod form;
mod goal;
mod held;
mod patch;
mod prompt;
mod question;
mod replay;
mod requests;
mod second;
mod serve;
mod stdio;
mod terminals;
mod told;
mod wanted;
mod wire;

pub use agent_client_protocol::{Agent, Client, ConnectTo};
pub use serve::{Served, serve};
pub use stdio::stdio;
