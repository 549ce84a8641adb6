//! The line, written in an editor of the user's own.

use std::io::{Read as _, Write as _};
use std::process::Command;

/// Has `text` written in `editor`, which a shell calls, since it may come with options; gives what was written.
///
/// # Errors
///
/// Where the editor could not be run, or ended badly; the text says why.
pub fn write(editor: &str, text: &str) -> Result<String, String> {
    let fault = |error: std::io::Error| format!("{editor}: {error}");
    let mut file = tempfile::Builder::new()
        .prefix("ah-prompt-")
        .suffix(".md")
        .tempfile()
        .map_err(fault)?;
    file.write_all(text.as_bytes()).map_err(fault)?;
    let status = Command::new("sh")
        .args(["-c", &format!("{editor} \"$1\""), "sh"])
        .arg(file.path())
        .status()
        .map_err(fault)?;
    if !status.success() {
        return Err(format!(
            "{editor} has ended with {status}, so nothing is changed"
        ));
    }
    // An editor may have put another file in its place.
    let mut written = String::new();
    std::fs::File::open(file.path())
        .and_then(|mut file| file.read_to_string(&mut written))
        .map_err(fault)?;
    Ok(written.trim_end().to_owned())
}
