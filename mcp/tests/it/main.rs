//! Servers of a session, scripted: real processes, HTTP servers and servers of a host.

#![expect(clippy::unwrap_used, reason = "tests may fail loudly")]

mod address;
mod bad;
mod contents;
mod host;
mod life;
mod revisions;
mod sign_in;
mod world;
