//! `ah completions`: what a shell needs to complete our command line.

use clap_complete::Shell;

use super::print;
use crate::args;
use crate::error::CliError;

/// Prints the completion script of `shell`.
pub fn run(shell: Shell) -> Result<u8, CliError> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut args::command(), "ah", &mut script);
    print(&String::from_utf8_lossy(&script))
}
