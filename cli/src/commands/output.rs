//! Output of subcommands.

use std::io::Write as _;

use ah_config::Error;
use ah_terminal::exit::output_error;
use serde_json::Value;

/// Prints a text; returns exit code 0.
pub fn print(text: &str) -> Result<u8, Error> {
    let written = std::io::stdout().lock().write_all(text.as_bytes());
    written.map_err(|error| output_error(&error))?;
    Ok(0)
}

/// Prints a JSON value; returns exit code 0.
pub fn print_json(value: &Value) -> Result<u8, Error> {
    print(&format!("{value:#}\n"))
}
