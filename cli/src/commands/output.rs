//! What a subcommand prints.

use std::io::Write as _;

use ah_config::Error;
use ah_terminal::exit::output_error;
use serde_json::Value;

/// Prints a text and ends well.
pub fn print(text: &str) -> Result<u8, Error> {
    let written = std::io::stdout().lock().write_all(text.as_bytes());
    written.map_err(|error| output_error(&error))?;
    Ok(0)
}

/// Prints a JSON value and ends well.
pub fn print_json(value: &Value) -> Result<u8, Error> {
    print(&format!("{value:#}\n"))
}
