//! Keeps conversations: one SQLite database per session, so that nothing that was said is ever lost.
//!
//! [`SessionStore`] is a session held for writing, the [`Store`](ah_conversation::Store) of a run. [`Tree`] reads a
//! session, also one that another process holds. [`Sessions`] knows the sessions of a folder, and [`Queue`] sends
//! words to one. Whatever happens to the process or to the file, opening a session gives back all that an
//! [`append`](ah_conversation::Store::append) has acknowledged, or says what was lost ([`Notice`]).
//!
//! SQL stays in here. What the messages mean, and what is done next, is decided elsewhere.

mod id;
mod paths;
mod sqlite;

pub use id::{SystemClock, message_of, uuid_of};
pub use paths::Paths;
pub use sqlite::lock::Holder;
pub use sqlite::queue::Queue;
pub use sqlite::session::{Notice, OpenError, SessionStore};
pub use sqlite::sessions::{Collected, SessionHead, Sessions};
pub use sqlite::tree::{ApiCall, Diff, Head, Tree};
