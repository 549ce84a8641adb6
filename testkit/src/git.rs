//! Git, as somebody without settings runs it.

use std::path::Path;
use std::process::Command;

/// Runs git in a folder; returns what it prints, or why it failed.
///
/// # Panics
///
/// If git cannot be started, or prints what is not UTF-8.
pub fn attempt(folder: &Path, words: &[&str]) -> Result<String, String> {
    let output = Command::new("git")
        .args(["-c", "user.name=A", "-c", "user.email=a@example.org"])
        .args(words)
        .current_dir(folder)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .output()
        .expect("git is installed");
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    let text = String::from_utf8(output.stdout).expect("git prints UTF-8");
    Ok(text.trim().to_owned())
}

/// The same for commands that succeed.
///
/// # Panics
///
/// If the command fails.
pub fn git(folder: &Path, words: &[&str]) -> String {
    attempt(folder, words).unwrap_or_else(|error| panic!("{words:?}: {error}"))
}
