//! Output of subcommands.

use std::io::Write as _;

use ah_config::Error;
use ah_terminal::exit::output_error;
use ah_terminal::print::shown;
use serde_json::Value;

/// Prints a text; returns exit code 0. On a terminal, control characters and invisible ones are written out: the text may
/// contain what a project's files, a model or a server says.
pub fn print(text: &str) -> Result<u8, Error> {
    let text = shown(text);
    let written = std::io::stdout().lock().write_all(text.as_bytes());
    written.map_err(|error| output_error(&error))?;
    Ok(0)
}

/// Prints a JSON value; returns exit code 0.
pub fn print_json(value: &Value) -> Result<u8, Error> {
    print(&format!("{value:#}\n"))
}
