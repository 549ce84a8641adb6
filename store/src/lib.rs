//! Stores conversations durably, each session in a SQLite database of its own.
//!
//! [`SessionStore`] is a session open for writing, the [`Store`](ah_conversation::Store) of a run. [`Tree`] reads a
//! session, even while another process has it open. [`Sessions`] lists and finds the sessions of a folder, and
//! [`Queue`] queues messages for a session. After a crash or damage to the file, opening a session returns everything
//! that an [`append`](ah_conversation::Store::append) has acknowledged, or reports what was lost ([`Notice`]).
//!
//! No other crate knows SQL. What messages mean and what happens next is decided elsewhere.

#[cfg(feature = "sqlite")]
mod big;
#[cfg(feature = "sqlite")]
mod changes;
#[cfg(feature = "sqlite")]
pub mod fleet;
#[cfg_attr(
    not(feature = "sqlite"),
    allow(
        dead_code,
        reason = "the ids of sessions are for those that are stored"
    )
)]
mod id;
#[cfg(feature = "sqlite")]
mod known;
#[cfg(feature = "sqlite")]
pub mod log;
#[cfg(feature = "sqlite")]
mod notice;
#[cfg(feature = "sqlite")]
mod open_error;
#[cfg(feature = "sqlite")]
pub mod opencode;
#[cfg(feature = "sqlite")]
mod paths;
#[cfg(feature = "sqlite")]
mod seal;
#[cfg(feature = "sqlite")]
mod sqlite;

pub use id::{SystemClock, message_of, uuid_of};
#[cfg(feature = "sqlite")]
pub use {
    big::{BigFiles, MAX_BIG},
    changes::Changes,
    known::KnownSessions,
    notice::Notice,
    open_error::OpenError,
    paths::{Paths, create_file, create_folder, is_file_name},
    seal::Seal,
    sqlite::head::SessionHead,
    sqlite::lock::Holder,
    sqlite::queue::Queue,
    sqlite::runs::LocalFleet,
    sqlite::session::SessionStore,
    sqlite::sessions::{Collected, Sessions},
    sqlite::tree::{ApiCall, Diff, Tree},
};
