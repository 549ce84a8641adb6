//! Source of the prompt: command line, standard input, or both.
//!
//! Reading blocks, and happens before signal handlers are installed, so Ctrl-C ends the program as usual.

use std::io::{self, IsTerminal, Read, Write};
use std::os::fd::AsFd;

use ah_config::Error;
use ah_conversation::{Goal, Interface, encoding};
use ah_protocol::stream_json::Source;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde_json::json;

use crate::args::TypedPrompt;
use crate::args::options::{InputFormat, Options};

/// Timeout of a drop-in for a standard input that may have been left open by mistake.
const PATIENCE: Timespec = Timespec {
    tv_sec: 3,
    tv_nsec: 0,
};

/// Returns the prompt of a run; `None` if there is none.
///
/// # Errors
///
/// If standard input cannot be read.
pub fn prompt(typed: Option<&str>, interface: Interface) -> Result<Option<String>, Error> {
    let stdin = io::stdin();
    let piped = match (typed, interface) {
        (Some(_), Interface::Native) => String::new(),
        (Some(_), Interface::AgentSdk) if stdin.is_terminal() => String::new(),
        (Some(_), Interface::AgentSdk) if !has_something(&stdin) => {
            ah_terminal::warn("no data on standard input for 3 seconds; ignoring it");
            String::new()
        }
        (Some(_) | None, _) => {
            if stdin.is_terminal() {
                // If this cannot be written, there is no reader.
                let _ = io::stderr().write_all(b">>> ");
            }
            let is_terminal = stdin.is_terminal();
            let text = read(stdin)?;
            if typed.is_none() && !is_terminal && Goal::in_prompt(&text).is_some() {
                let error = Error::usage("`/goal` is not read from a pipe: its command would run");
                return Err(error.hint("type it, or name the check with --until"));
            }
            if is_terminal && text.is_empty() {
                let _ = io::stderr().write_all(b"\n");
            }
            text
        }
    };
    let text = join(typed.unwrap_or_default(), &piped);
    Ok((!text.is_empty()).then_some(text))
}

fn has_something(stdin: impl AsFd) -> bool {
    let mut waiting = [PollFd::new(&stdin, PollFlags::IN)];
    // If it cannot be polled, reading reports the reason.
    !matches!(poll(&mut waiting, Some(&PATIENCE)), Ok(0))
}

fn read(mut stdin: impl Read) -> Result<String, Error> {
    let mut bytes = Vec::new();
    stdin
        .read_to_end(&mut bytes)
        .map_err(|error| Error::failure(format!("cannot read standard input: {error}")))?;
    Ok(encoding::text_of(&bytes))
}

/// Joins the words of the command line and the piped input with a blank line; trims both ends.
fn join(typed: &str, piped: &str) -> String {
    let parts = [typed.trim_end(), piped.trim_end()];
    let parts: Vec<_> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    parts.join("\n\n")
}

/// Returns the source of the prompts.
///
/// # Errors
///
/// If there is no prompt, or it cannot be read.
pub fn source(
    prompt: &TypedPrompt,
    options: &Options,
    interface: Interface,
) -> Result<Source, Error> {
    if options.output.input_format == Some(InputFormat::StreamJson) {
        let typed = prompt.text.as_deref().map(first_line).unwrap_or_default();
        return Ok(Source::Lines(Box::new(
            io::Cursor::new(typed).chain(io::stdin()),
        )));
    }
    if options.prompt.init_only {
        return Ok(Source::Prompt(String::new()));
    }
    let text = match (&prompt.text, &options.prompt.skill) {
        // A skill is a task by itself, and a check of what was done, so no prompt is needed.
        (None, skill)
            if (skill.is_some() || options.checks_alone()) && io::stdin().is_terminal() =>
        {
            None
        }
        (text, _) => self::prompt(text.as_deref(), interface)?,
    };
    match (text, &options.prompt.skill) {
        (Some(text), _) => Ok(Source::Prompt(text)),
        (None, skill) if skill.is_some() || options.checks_alone() => {
            Ok(Source::Prompt(String::new()))
        }
        (None, _) => {
            let error = Error::usage("no prompt");
            Err(error.hint("run `ah \"TASK\"`, or pipe the prompt in"))
        }
    }
}

/// Returns a prompt of the command line as the host's first line.
fn first_line(prompt: &str) -> String {
    let message = json!({"role": "user", "content": prompt});
    let line =
        json!({"type": "user", "session_id": "", "message": message, "parent_tool_use_id": null});
    format!("{line}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn argument_and_input_are_joined_by_a_blank_line() {
        for (typed, piped, expected) in [
            ("explain", "log\n", "explain\n\nlog"),
            ("explain", "\n", "explain"),
            ("", "log\n", "log"),
            ("", " \n", ""),
        ] {
            assert_eq!(join(typed, piped), expected);
        }
    }
}
