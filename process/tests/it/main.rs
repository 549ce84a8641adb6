//! Children as their callers see them, run for real.
#![expect(clippy::unwrap_used, reason = "a test says what must be there")]

mod ending;
mod output;
mod shell;
