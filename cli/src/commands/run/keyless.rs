//! A prompt without a key: people are told the way in, and with `-p` programs look for the original's words.

use ah_config::Error;
use ah_conversation::Interface;
use ah_engine::model;
use ah_protocol::stream_json::error_text;
use ah_terminal::note;

use crate::commands::output::print_exact;

/// Tells a program so, where the original prints it; returns the exit code.
///
/// # Errors
///
/// Any other error, and each that is not for a program.
pub(super) fn told(error: Error, interface: Interface) -> Result<u8, Error> {
    let Some(keyless) = model::keyless(&error) else {
        return Err(error);
    };
    if !interface.stands_in() {
        let hint = with_ways(error.hint.as_deref());
        return Err(error.hint(hint));
    }
    print_exact(&format!("{}\n", error_text(keyless, "")))?;
    error
        .hint
        .iter()
        .for_each(|hint| note(&format!("hint: {hint}")));
    Ok(1)
}

/// Returns the hint with the two ways that need no variable.
pub fn with_ways(hint: Option<&str>) -> String {
    let ways = "`ah login` asks for a key or a server and keeps it, `ah demo` needs none";
    match hint {
        Some(hint) => format!("{ways}; or {hint}"),
        None => ways.to_owned(),
    }
}
