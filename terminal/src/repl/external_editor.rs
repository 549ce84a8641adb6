//! Editing of the typed text in the user's editor.

use std::io::{Read as _, Write as _};
use std::process::Command;

use crate::signals;

/// Opens `text` in `editor`, a shell command line, and returns the edited text, and whether a Ctrl-C has ended the editor.
///
/// The result is an error if the editor cannot be run or fails; the text says why.
pub fn edit(editor: &str, text: &str) -> (Result<String, String>, bool) {
    let mut was_interrupted = false;
    let edited = edited(editor, text, &mut was_interrupted);
    (edited, was_interrupted)
}

fn edited(editor: &str, text: &str, was_interrupted: &mut bool) -> Result<String, String> {
    let failure = |error: std::io::Error| format!("{editor}: {error}");
    let mut file = tempfile::Builder::new()
        .prefix("ah-prompt-")
        .suffix(".md")
        .tempfile()
        .map_err(failure)?;
    file.write_all(text.as_bytes()).map_err(failure)?;
    let status = Command::new("sh")
        .args(["-c", &format!("{editor} \"$1\""), "sh"])
        .arg(file.path())
        .status()
        .map_err(failure)?;
    *was_interrupted = signals::was_interrupted(status);
    if !status.success() {
        return Err(format!("{editor} failed ({status}); the text is unchanged"));
    }
    // The editor may have replaced the file.
    let mut written = String::new();
    std::fs::File::open(file.path())
        .and_then(|mut file| file.read_to_string(&mut written))
        .map_err(failure)?;
    Ok(written.trim_end().to_owned())
}
