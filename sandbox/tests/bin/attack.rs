//! Attacks on the sandbox, for the integration tests. Each reports *escaped*, or *blocked* and an error number. This
//! program runs them inside or outside the sandbox, as any user.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a program of the tests"
)]

#[cfg(target_os = "linux")]
#[path = "attack/allowed.rs"]
mod allowed;
#[cfg(target_os = "linux")]
#[path = "attack/machine.rs"]
mod machine;
#[cfg(target_os = "linux")]
#[path = "attack/table.rs"]
mod table;

#[cfg(target_os = "linux")]
fn main() {
    table::main();
}

#[cfg(not(target_os = "linux"))]
fn main() {}
