//! Commands of the conversation that are subcommands of the program, and the clipboard.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Runs the program itself with these arguments in `folder` and returns what it prints.
///
/// # Errors
///
/// If it cannot be started; the text says why.
pub fn run(arguments: &[String], folder: &Path) -> Result<String, String> {
    let program = std::env::current_exe().unwrap_or_else(|_| PathBuf::from("ah"));
    let output = Command::new(program)
        .args(arguments)
        .current_dir(folder)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("cannot run `ah {}`: {error}", arguments.join(" ")))?;
    let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.push_str(&String::from_utf8_lossy(&output.stderr));
    Ok(text)
}

/// Returns the sequence with which a terminal puts a text into the clipboard (OSC 52).
pub fn to_clipboard(text: &str) -> String {
    use base64::Engine as _;
    let text = base64::engine::general_purpose::STANDARD.encode(text);
    format!("\x1b]52;c;{text}\x07")
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_text_is_given_to_the_terminal_in_base64() {
        assert_eq!(
            super::to_clipboard("hi there"),
            "\x1b]52;c;aGkgdGhlcmU=\x07"
        );
    }
}
