//! Stores of a program's own: implementations of [`Store`], for conversations that are to be kept elsewhere than in SQLite.
//!
//! It is the port of the engine itself, and changes with it: of all that this library has, it is the likeliest to change.

use std::path::PathBuf;
use std::sync::Arc;

pub use ah_conversation::{
    Branch, CallFinish, CallStart, CallState, ContentBlock, FileCause, FileState, FileStep, Mail,
    MailKind, Mailbox, Message, MessageId, OutputPage, Record, SharedState, Store, StoreError,
    Time, ToolResult, ToolUse, ToolUseId, Transcript,
};

/// Where an agent keeps its conversation.
pub(crate) enum StoreChoice {
    File(PathBuf),
    Own(Arc<dyn Store>),
}
