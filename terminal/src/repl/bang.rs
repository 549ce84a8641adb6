//! Shell commands that the user types in the conversation. They run outside of the sandbox and need no permission.

use std::path::Path;
use std::time::Duration;

use ah_conversation::{Content, Environment, LiveOutput, NOTE};
use ah_process::{Behind, CommandOutcome, Ending, Keep, ShellLine};
use ah_tools::Shell;
use tokio_util::sync::CancellationToken;

/// Longest output that is shown and sent, in bytes.
const MAX_BYTES: usize = 100_000;
/// Largest picture, in bytes.
const MAX_PICTURE: usize = 64 * 1024 * 1024;

/// Returns the command of a line that starts with `!`, and whether its output is sent to the model.
pub fn read(typed: &str) -> Option<(String, bool)> {
    let rest = typed.strip_prefix('!')?;
    let (rest, is_told) = match rest.strip_prefix('!') {
        Some(rest) => (rest, false),
        None => (rest, true),
    };
    let command = rest.trim();
    (!command.is_empty()).then(|| (command.to_owned(), is_told))
}

/// Runs a command line and returns its output, with the exit code if it failed; if it was stopped, the end of what it has
/// written until then. `live` receives the output as it comes.
///
/// # Errors
///
/// If it cannot be run.
pub async fn run(
    line: &str,
    live: LiveOutput,
    environment: &Environment,
    stop: &CancellationToken,
) -> Result<String, String> {
    // The folder takes the output that is too long for memory, and is removed afterwards.
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let mut child = command(line, None, environment, folder.path());
    child.keep = child.keep.followed_by(live.clone());
    let outcome = tokio::select! {
        () = stop.cancelled() => {
            let (bytes, _) = live.last(MAX_BYTES);
            return Ok(format!("{}\n[stopped]", String::from_utf8_lossy(&bytes).trim_end()));
        }
        outcome = child.run() => outcome.map_err(|error| error.to_string())?,
    };
    let mut text = output(&outcome);
    match outcome.ending.code() {
        0 => {}
        code => text.push_str(&format!("\n[exit code {code}]")),
    }
    Ok(text)
}

/// Runs a command line with `input` as its standard input and returns its output.
///
/// # Errors
///
/// If it cannot be run, fails, or takes longer than `deadline`.
pub async fn tell(
    line: &str,
    input: String,
    environment: &Environment,
    deadline: Duration,
) -> Result<String, String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let child = command(line, Some(input), environment, folder.path());
    Ok(output(&ended(child, deadline).await?))
}

/// Runs a command line and returns its output as bytes.
///
/// # Errors
///
/// As [`tell`], and if the output is too large.
pub async fn bytes(
    line: &str,
    environment: &Environment,
    deadline: Duration,
) -> Result<Vec<u8>, String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let mut child = command(line, None, environment, folder.path());
    child.keep.in_memory = MAX_PICTURE;
    match ended(child, deadline).await?.output {
        Content::Bytes(bytes) => Ok(bytes),
        Content::Spool(_) | Content::Blocks(_) => Err(format!("more than {MAX_PICTURE} bytes")),
    }
}

/// Runs a child and returns its outcome if it succeeds.
async fn ended(
    mut child: ah_process::Command,
    deadline: Duration,
) -> Result<CommandOutcome, String> {
    child.deadline = Some(deadline);
    let outcome = child.run().await.map_err(|error| error.to_string())?;
    match outcome.ending {
        Ending::Exited(0) => Ok(outcome),
        Ending::TimedOut(_) => Err(format!("took longer than {}s", deadline.as_secs())),
        ending => Err(format!("exit code {}", ending.code())),
    }
}

fn command(
    line: &str,
    input: Option<String>,
    environment: &Environment,
    folder: &Path,
) -> ah_process::Command {
    let shell = Shell::new(environment);
    let behind = match input {
        Some(_) => Behind::Input,
        None => Behind::Nothing,
    };
    let mut line = ShellLine::new(&shell.program, line, behind);
    line.stdin.extend(input.unwrap_or_default().into_bytes());
    ah_process::Command {
        program: shell.program,
        arguments: line.arguments,
        cwd: environment.cwd().to_owned(),
        environment: shell.environment,
        stdin: line.stdin,
        deadline: None,
        keep: Keep::new(folder.join("output"), 0),
        sandbox: None,
        bounds: None,
        note: |_| None,
    }
}

/// Returns the part of an output that is shown.
fn output(outcome: &CommandOutcome) -> String {
    let (bytes, all) = match &outcome.output {
        Content::Bytes(bytes) => (bytes.as_slice(), bytes.len() as u64),
        Content::Spool(spool) => (spool.head.as_slice(), spool.len),
        Content::Blocks(_) => (&[][..], 0),
    };
    let text = String::from_utf8_lossy(bytes);
    let mut text = text[..text.floor_char_boundary(MAX_BYTES)].to_owned();
    if all > text.len() as u64 {
        text.push_str(&format!("\n[the first part of {all} bytes]"));
    }
    text
}

/// Returns the text that the model is sent.
pub fn report(line: &str, output: &str) -> String {
    format!(
        "{NOTE} The user ran `{line}`:\n\n```\n{}\n```\n\n",
        output.trim_end()
    )
}
