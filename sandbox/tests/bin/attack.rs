//! The attacks, each a small program: it reports *escaped*, or *blocked* and the error that it met. For the tests, in
//! the sandbox and outside of it; and what starts them there, as whichever user.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a program of the tests"
)]

#[cfg(target_os = "linux")]
#[path = "attack/allowed.rs"]
mod allowed;
#[cfg(target_os = "linux")]
#[path = "attack/table.rs"]
mod table;

#[cfg(target_os = "linux")]
fn main() {
    table::main();
}

#[cfg(not(target_os = "linux"))]
fn main() {}
