//! Output of subcommands.

use std::io::{BufRead as _, Write as _};

use ah_config::Error;
use ah_conversation::json;
use ah_terminal::exit::output_error;
use ah_terminal::glyphs;
use ah_terminal::print::shown;
use ah_terminal::print::wrap::at_words;
use serde_json::Value;

/// Prints a text for people; returns exit code 0. On a terminal, control characters and invisible ones are written out: the
/// text may contain what a project's files, a model or a server says.
pub fn print(text: &str) -> Result<u8, Error> {
    let fitting = glyphs::fit(text);
    let text = shown(&fitting);
    write(&at_words(&text, glyphs::columns(std::io::stdout())))
}

/// Prints a text that programs read too, such as a patch or a document; returns exit code 0. Only on a terminal it is
/// changed, as by [`print`].
pub fn print_exact(text: &str) -> Result<u8, Error> {
    write(&shown(text))
}

/// Asks a question on the terminal; the end of the input is a no.
pub fn confirm(question: &str) -> Result<bool, Error> {
    loop {
        print(question)?;
        let mut answer = String::new();
        let read = std::io::stdin().lock().read_line(&mut answer);
        match (read, answer.trim()) {
            (Ok(1..), "y" | "yes") => return Ok(true),
            (Ok(1..), "n" | "no") | (Ok(0) | Err(_), _) => return Ok(false),
            _ => {}
        }
    }
}

fn write(text: &str) -> Result<u8, Error> {
    let written = std::io::stdout().lock().write_all(text.as_bytes());
    written.map_err(|error| output_error(&error))?;
    Ok(0)
}

/// Prints a JSON value; returns exit code 0.
pub fn print_json(value: &Value) -> Result<u8, Error> {
    print_exact(&(json::one_line(format!("{value:#}")) + "\n"))
}
