//! Tests of whole sessions, put together as for a run.

#![expect(clippy::unwrap_used, reason = "tests may fail loudly")]

mod leaving;
