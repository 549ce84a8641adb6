//! Commands of the conversation that are subcommands of the program, and the clipboard.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use ah_conversation::Environment;

use crate::signals::was_interrupted;

/// Returns the program itself with these arguments. It knows the keys that this process has: they are not in the environment
/// of the process any more.
fn program<S: AsRef<OsStr>>(arguments: &[S], environment: &Environment) -> Command {
    let program = std::env::current_exe().unwrap_or_else(|_| PathBuf::from("ah"));
    let mut command = Command::new(program);
    command
        .args(arguments)
        .envs({ environment.all() }.filter(|(name, _)| environment.is_secret(name)))
        .current_dir(environment.cwd());
    command
}

/// Runs the program itself with these arguments and returns what it prints.
///
/// # Errors
///
/// If it cannot be started; the text says why.
pub fn run(arguments: &[String], environment: &Environment) -> Result<String, String> {
    let output = program(arguments, environment)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("cannot run `ah {}`: {error}", arguments.join(" ")))?;
    let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.push_str(&String::from_utf8_lossy(&output.stderr));
    Ok(text)
}

/// Runs the program itself with these arguments at the terminal of this process, and waits for its end. Returns whether a
/// Ctrl-C has ended it.
///
/// # Errors
///
/// If it cannot be started; the text says why.
pub fn run_here(arguments: &[&str], environment: &Environment) -> Result<bool, String> {
    let ended = program(arguments, environment).status();
    ended
        .map(was_interrupted)
        .map_err(|error| format!("cannot run `ah {}`: {error}", arguments.join(" ")))
}

/// Gives a text to tmux, which passes it on to the terminal's clipboard; returns whether it took it. By default tmux drops the
/// sequence of a program.
pub fn to_tmux(text: &str) -> bool {
    use std::io::Write as _;
    let started = Command::new("tmux")
        .args(["load-buffer", "-w", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let Ok(mut tmux) = started else {
        return false;
    };
    let written = tmux
        .stdin
        .take()
        .map(|mut stdin| stdin.write_all(text.as_bytes()));
    let ended = tmux.wait();
    written.is_some_and(|written| written.is_ok()) && ended.is_ok_and(|status| status.success())
}

/// Returns the sequence with which a terminal puts a text into the clipboard (OSC 52).
pub fn to_clipboard(text: &str) -> String {
    use base64::Engine as _;
    let text = base64::engine::general_purpose::STANDARD.encode(text);
    format!("\x1b]52;c;{text}\x07")
}

/// Returns a text as one word of a shell command.
pub fn shell_word(text: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "./_-+@:,%".contains(c);
    match !text.is_empty() && !text.starts_with('-') && text.chars().all(is_plain) {
        true => text.to_owned(),
        false => format!("'{}'", text.replace('\'', r"'\''")),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_name_is_one_word_for_a_shell() {
        for (name, word) in [
            ("tests", "tests"),
            ("my first", "'my first'"),
            ("it's", r"'it'\''s'"),
            ("$HOME", "'$HOME'"),
        ] {
            assert_eq!(super::shell_word(name), word);
        }
    }

    #[test]
    fn a_text_is_given_to_the_terminal_in_base64() {
        assert_eq!(
            super::to_clipboard("hi there"),
            "\x1b]52;c;aGkgdGhlcmU=\x07"
        );
    }
}
