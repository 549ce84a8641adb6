//! Stores conversations durably, each session in a SQLite database of its own.
//!
//! [`SessionStore`] is a session open for writing, the [`Store`](ah_conversation::Store) of a run. [`Tree`] reads a
//! session, even while another process has it open. [`Sessions`] lists and finds the sessions of a folder, and
//! [`Queue`] queues messages for a session. After a crash or damage to the file, opening a session returns everything
//! that an [`append`](ah_conversation::Store::append) has acknowledged, or reports what was lost ([`Notice`]).
//!
//! No other crate knows SQL. What messages mean and what happens next is decided elsewhere.

mod big;
mod changes;
pub mod fleet;
mod known;
pub mod log;
mod notice;
mod open_error;
pub mod opencode;
mod paths;
mod seal;
mod sqlite;

pub use big::{BigFiles, MAX_BIG};
pub use changes::Changes;
pub use known::KnownSessions;
pub use notice::Notice;
pub use open_error::OpenError;
pub use paths::{Paths, create_file, create_folder, is_file_name};
pub use seal::Seal;
pub use sqlite::head::SessionHead;
pub use sqlite::lock::Holder;
pub use sqlite::queue::Queue;
pub use sqlite::runs::LocalFleet;
pub use sqlite::session::SessionStore;
pub use sqlite::sessions::{Collected, Sessions};
pub use sqlite::tree::{ApiCall, Diff, Tree};
