//! `ah completions`: completion scripts for shells.

use clap_complete::Shell;

use crate::args;
use crate::commands::output::print_exact;
use ah_config::Error;

/// Prints the completion script of `shell`.
pub fn run(shell: Shell) -> Result<u8, Error> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut args::command(), "ah", &mut script);
    print_exact(&String::from_utf8_lossy(&script))
}
