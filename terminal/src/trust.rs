//! Asks the user once whether they trust a project, before anything of it runs.

use std::io::{self, BufRead, Write};

use ah_config::trust::{Memory, Trust, shown};

/// Asks on a terminal whether the project is trusted, remembers the answer, and returns it.
///
/// # Errors
///
/// If the terminal cannot be read or written.
pub fn ask(
    trust: &Trust,
    memory: &mut Memory,
    input: &mut impl BufRead,
    output: &mut impl Write,
) -> io::Result<bool> {
    let folder = shown(trust.folder());
    writeln!(
        output,
        "These files of `{folder}` can run programs, grant permissions or redirect requests:"
    )?;
    for line in trust.skipped() {
        writeln!(output, "  {line}")?;
    }
    write!(
        output,
        "Trust this folder? Its tools, hooks and settings will run. [y]es, [n]o (remembered), Enter = not now "
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
        writeln!(output, "warning: cannot save the answer: {error}")?;
    }
    Ok(is_trusted)
}

/// Asks on a terminal whether the programs that were just shown may run, and returns the answer.
///
/// # Errors
///
/// If the terminal cannot be read or written.
pub fn ask_consent() -> io::Result<bool> {
    let mut output = crate::glyphs::err();
    write!(output, "Let these run in your sessions? [y]es, Enter = no ")?;
    output.flush()?;
    let mut answer = String::new();
    io::stdin().read_line(&mut answer)?;
    let answer = answer.trim().to_ascii_lowercase();
    Ok(matches!(answer.as_str(), "y" | "yes"))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Cursor;
    use std::path::PathBuf;

    use ah_config::trust::Grounds;
    use tempfile::TempDir;

    use super::*;

    fn decide(project: &[PathBuf], memory: &Memory) -> Trust {
        Trust::decide(&Grounds {
            project,
            given: None,
            folders: &[],
            memory,
        })
    }

    #[test]
    fn the_question_is_answered_once() {
        let folder = TempDir::new().unwrap();
        let home = folder.path().join("home");
        let project = [folder.path().join("a\x1b[2J\nb")];
        fs::create_dir(&project[0]).unwrap();
        for (typed, is_trusted, kept) in [
            ("y\n", true, Some(true)),
            (" YES \n", true, Some(true)),
            ("no\n", false, Some(false)),
            ("\n", false, None),
            ("", false, None),
            ("perhaps\n", false, None),
        ] {
            let _ = fs::remove_dir_all(&home);
            let mut trust = decide(&project, &Memory::default());
            assert!(!trust.is_open());
            trust.skip(project[0].join(".env"), Some("KEY"));
            assert!(trust.is_open());
            let mut output = Vec::new();
            let mut memory = Memory::read(Some(&home)).0;
            let answer = ask(&trust, &mut memory, &mut Cursor::new(typed), &mut output).unwrap();
            assert_eq!(answer, is_trusted, "{typed}");
            let memory = Memory::read(Some(&home)).0;
            assert_eq!(memory.answer(trust.folder()), kept, "{typed}");
            let shown = String::from_utf8(output).unwrap();
            assert!(
                !shown.contains('\x1b') && shown.contains("  .env (KEY)\n"),
                "{shown}"
            );
            let later = decide(&project, &memory);
            assert_eq!((later.is_given(), later.is_open()), (is_trusted, false));
        }
    }
}
