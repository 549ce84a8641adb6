//! Child processes through the public interface, with real programs.
#![expect(clippy::unwrap_used, reason = "a test says what must be there")]

mod bounds;
mod ending;
mod output;
mod shell;
mod shell_line;
mod withheld;
