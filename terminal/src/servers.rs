//! Asks the user once whether a server of a project may reach the hosts that it needs, before it starts.

use std::io::{self, BufRead, Write};

use ah_config::server_answers::{OpenServer, ServerAnswers, command};
use ah_config::trust::shown;

use crate::line::preview;

/// Longest command line in a question, in characters.
const LONGEST: usize = 400;

/// Asks on the terminal about each server, and remembers the answers.
///
/// # Errors
///
/// If the terminal cannot be read or written.
pub fn ask(open: &[OpenServer], answers: &mut ServerAnswers) -> io::Result<()> {
    let (mut input, mut output) = (io::stdin().lock(), crate::glyphs::err());
    open.iter()
        .try_for_each(|asked| ask_about(asked, answers, &mut input, &mut output))
}

fn ask_about(
    asked: &OpenServer,
    answers: &mut ServerAnswers,
    input: &mut impl BufRead,
    output: &mut impl Write,
) -> io::Result<()> {
    let needs = &asked.server.needs;
    let folder = shown(&asked.project);
    let name = preview(&asked.name, LONGEST);
    let line = preview(&command(&asked.server).join(" "), LONGEST);
    writeln!(
        output,
        "The MCP server `{name}` of `{folder}` runs in the sandbox:\n  {line}"
    )?;
    let registries: Vec<_> = needs.registries.iter().map(ToString::to_string).collect();
    if !registries.is_empty() {
        writeln!(output, "It is installed from: {}", registries.join(", "))?;
    }
    let others = needs.tunnels.iter().chain(&needs.http);
    let others: Vec<_> = others.map(ToString::to_string).collect();
    if !others.is_empty() {
        writeln!(output, "It asks for these hosts: {}", others.join(", "))?;
    }
    write!(
        output,
        "May it connect to them? [y]es, [n]o (both remembered), Enter = not now "
    )?;
    output.flush()?;
    let mut answer = String::new();
    input.read_line(&mut answer)?;
    let is_allowed = match answer.trim().to_ascii_lowercase().as_str() {
        "y" | "yes" => true,
        "n" | "no" => false,
        _ => return Ok(()),
    };
    if let Err(error) = answers.keep(asked, is_allowed) {
        writeln!(output, "warning: cannot save the answer: {error}")?;
    }
    Ok(())
}
