//! Prompts for an answer on a terminal, and the refusal that the model gets.

use std::io::{self, BufRead, Write};

use ah_conversation::PermissionAnswer;

/// Prompts for a line and returns it trimmed; `None` at the end of the input.
pub fn line(
    prompt: &str,
    input: &mut impl BufRead,
    output: &mut impl Write,
) -> io::Result<Option<String>> {
    write!(output, "{prompt}")?;
    output.flush()?;
    let mut line = String::new();
    let has_line = input.read_line(&mut line)? > 0;
    Ok(has_line.then(|| line.trim().to_owned()))
}

/// Returns the refusal of a tool call, with the reason if one was given.
pub fn refused(reason: &str) -> PermissionAnswer {
    let message = match reason {
        "" => "The user does not want this call to happen. Ask what they want instead, or go on without it."
            .to_owned(),
        reason => format!("The user does not want this call to happen: {reason}"),
    };
    PermissionAnswer::Deny {
        message,
        interrupt: false,
    }
}
