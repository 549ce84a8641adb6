//! Lines for the user besides the output of a run: errors, warnings, notes.

use std::io::Write as _;

use ah_config::Error;
use ah_conversation::neutralise;
use ah_store::SessionStore;

use crate::glyphs;
use crate::print::tell;

/// Prints an error with its hint. If standard error is closed, only the exit code reports it.
pub fn report(error: &Error) {
    let mut stderr = glyphs::err();
    if !error.message.is_empty() {
        let _ = writeln!(stderr, "error: {}", neutralise(&error.message));
    }
    if let Some(hint) = &error.hint {
        let _ = writeln!(stderr, "hint: {}", neutralise(hint));
    }
}

/// Prints a warning; the program continues.
pub fn warn(text: &str) {
    tell(&format!("warning: {}", neutralise(text)));
}

/// Prints a note.
pub fn note(text: &str) {
    tell(&neutralise(text));
}

/// Warns of damage that the store has found and repaired.
pub async fn tell_notices(store: &SessionStore) {
    for notice in store.take_notices().await {
        warn(&notice.to_string());
    }
}
