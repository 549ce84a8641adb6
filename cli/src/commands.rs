//! The subcommands, one file each. They print what they found and change nothing of each other.

pub mod completions;
pub mod config;
pub mod models;
pub mod run;
pub mod tools;

use std::io::Write as _;

use serde_json::Value;

use crate::error::CliError;

/// Prints a text and ends well.
fn print(text: &str) -> Result<u8, CliError> {
    std::io::stdout().lock().write_all(text.as_bytes())?;
    Ok(0)
}

/// Prints a JSON value and ends well.
fn print_json(value: &Value) -> Result<u8, CliError> {
    print(&format!("{value:#}\n"))
}
