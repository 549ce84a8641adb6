//! `-p` without a key: programs look for the original's words.

use ah::model;
use ah_config::{Config, Error};
use ah_conversation::Interface;
use ah_protocol::stream_json::error_text;
use ah_terminal::note;

use crate::commands::output::print_exact;

/// Tells a program so, where the original prints it; returns the exit code.
///
/// # Errors
///
/// Any other error, and each that is not for a program.
pub(super) fn told(error: Error, config: &Config) -> Result<u8, Error> {
    let keyless = model::keyless(&error).filter(|_| config.interface == Interface::AgentSdk);
    let Some(keyless) = keyless else {
        return Err(error);
    };
    print_exact(&format!("{}\n", error_text(keyless, "")))?;
    error
        .hint
        .iter()
        .for_each(|hint| note(&format!("hint: {hint}")));
    Ok(1)
}
