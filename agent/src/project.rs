//! What a project tells agents: `CLAUDE.md` and `AGENTS.md`, from the user's own down to the working directory, with
//! the files that they import by `@path`.

mod import;

use std::fs;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use crate::prompt::ProjectFile;
use import::imports;

/// The names, in the order in which one directory's files are read.
const NAMES: [&str; 3] = ["CLAUDE.md", ".claude/CLAUDE.md", "AGENTS.md"];
/// What is one person's own, and no part of the project.
const LOCAL: &str = "CLAUDE.local.md";
/// How many files may import one another in a row.
const MAX_DEPTH: usize = 5;
/// A file is cut here: instructions for agents are read in every session.
const MAX_BYTES: usize = 100_000;
/// All of them together have no more than this.
const MAX_TOTAL: usize = 500_000;
/// What some editors put before a text.
const BYTE_ORDER_MARK: char = '\u{FEFF}';

/// Whose instructions hold.
#[derive(Debug, Clone, Copy)]
pub struct InstructionSources<'a> {
    /// The user's folders.
    pub user_folders: &'a [PathBuf],
    /// The top of the project and the working directory, if the project's files count.
    pub project: Option<(&'a Path, &'a Path)>,
    /// Whether files that are nobody's but the user's count in the project.
    pub local: bool,
    /// What `~` stands for.
    pub home: Option<&'a Path>,
    /// Whether the project may name files outside of it.
    pub is_trusted: bool,
}

/// The instruction files that hold: those of the user's folders, then of every directory from the top of the project
/// down to the working directory. Of two files with the same text, or that are the same file, the first counts. The
/// second value names what could not be read, or was cut.
pub fn instructions(places: &InstructionSources<'_>) -> (Vec<ProjectFile>, Vec<String>) {
    let mut reading = Reading {
        places,
        within: None,
        files: Vec::new(),
        seen: Vec::new(),
        total: 0,
        warnings: Vec::new(),
    };
    for folder in places.user_folders {
        for name in [NAMES[0], NAMES[2]] {
            reading.read(&folder.join(name), 0);
        }
    }
    let Some((root, cwd)) = places.project else {
        return (reading.files, reading.warnings);
    };
    if !places.is_trusted {
        reading.within = Some(fs::canonicalize(root).unwrap_or_else(|_| root.to_owned()));
    }
    let above = cwd
        .ancestors()
        .take_while(|folder| folder.starts_with(root));
    let mut folders: Vec<&Path> = above.collect();
    folders.reverse();
    for folder in folders {
        let local = places.local.then_some(LOCAL);
        for name in NAMES.into_iter().chain(local) {
            reading.read(&folder.join(name), 0);
        }
    }
    (reading.files, reading.warnings)
}

struct Reading<'a> {
    places: &'a InstructionSources<'a>,
    /// The folder that no file may lie outside of.
    within: Option<PathBuf>,
    files: Vec<ProjectFile>,
    /// The files that were looked at, without symbolic links.
    seen: Vec<PathBuf>,
    total: usize,
    warnings: Vec<String>,
}

impl Reading<'_> {
    /// Reads a file, if it is there and was not read yet, and then those that it imports.
    fn read(&mut self, path: &Path, depth: usize) {
        // A name may stand for a pipe or a device as well: only files are read.
        let Some(real) = fs::canonicalize(path).ok().filter(|real| real.is_file()) else {
            return;
        };
        if self.seen.contains(&real) {
            return;
        }
        let shown = path.display();
        if self
            .within
            .as_ref()
            .is_some_and(|folder| !real.starts_with(folder))
        {
            let warning =
                format!("`{shown}` is not read: it lies outside of a project that is not trusted");
            self.warnings.push(warning);
            return;
        }
        if depth > MAX_DEPTH {
            let warning =
                format!("`{shown}` is not read: more than {MAX_DEPTH} files import one another");
            self.warnings.push(warning);
            return;
        }
        let label = if depth == 0 { path } else { &real };
        let label = label.display().to_string();
        self.seen.push(real);
        let Some(text) = self.text(path) else {
            return;
        };
        let paths: Vec<_> = imports(&text)
            .map(|import| self.resolve(import, path))
            .collect();
        if !text.trim().is_empty() && !self.files.iter().any(|file| file.text == text) {
            self.total += text.len();
            self.files.push(ProjectFile { label, text });
        }
        for path in paths {
            self.read(&path, depth + 1);
        }
    }

    fn text(&mut self, path: &Path) -> Option<String> {
        let bytes = match beginning(path) {
            Ok(bytes) => bytes,
            Err(error) => {
                let warning = format!("cannot read `{}`: {error}", path.display());
                self.warnings.push(warning);
                return None;
            }
        };
        if bytes.contains(&0) {
            let warning = format!("`{}` is not read: it is no text", path.display());
            self.warnings.push(warning);
            return None;
        }
        let mut text = String::from_utf8_lossy(&bytes)
            .trim_start_matches(BYTE_ORDER_MARK)
            .to_owned();
        let limit = MAX_BYTES.min(MAX_TOTAL - self.total);
        if text.len() > limit {
            text.truncate(text.floor_char_boundary(limit));
            self.warnings
                .push(format!("`{}` is cut after {limit} bytes", path.display()));
        }
        Some(text)
    }

    fn resolve(&self, import: &str, from: &Path) -> PathBuf {
        match (import.strip_prefix("~/"), self.places.home) {
            (Some(below), Some(home)) => home.join(below),
            _ => from.parent().unwrap_or(Path::new("")).join(import),
        }
    }
}

/// More of a file than is kept of any, and no more than that.
fn beginning(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let most = (MAX_BYTES + BYTE_ORDER_MARK.len_utf8() + 1) as u64;
    fs::File::open(path)?.take(most).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests;
