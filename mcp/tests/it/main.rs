//! Servers as a session has them: scripted, real processes, good and bad.

#![expect(clippy::unwrap_used, reason = "tests may fail loudly")]

mod address;
mod bad;
mod host;
mod life;
mod world;
