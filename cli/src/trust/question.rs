//! Asks the user whether they trust a project: once, before anything of it would run.

use std::io::{self, BufRead, Write};

use super::{Memory, Trust, shown};

/// Asks on a terminal whether the project is trusted, and remembers the answer; gives whether it is.
///
/// # Errors
///
/// Where the terminal cannot be read or written.
pub fn ask(
    trust: &Trust,
    memory: &mut Memory,
    input: &mut impl BufRead,
    output: &mut impl Write,
) -> io::Result<bool> {
    let folder = shown(trust.folder());
    writeln!(
        output,
        "These files of `{folder}` run programs, or say what may happen and where things are sent:"
    )?;
    for line in trust.skipped() {
        writeln!(output, "  {line}")?;
    }
    write!(
        output,
        "Do you trust all that is in this folder, now and later? (yes, no; Enter: not now) "
    )?;
    output.flush()?;
    let mut answer = String::new();
    input.read_line(&mut answer)?;
    let is_trusted = match answer.trim().to_ascii_lowercase().as_str() {
        "y" | "yes" => true,
        "n" | "no" => false,
        _ => return Ok(false),
    };
    if let Err(error) = memory.keep(trust.folder(), is_trusted) {
        writeln!(output, "warning: the answer cannot be remembered: {error}")?;
    }
    Ok(is_trusted)
}
