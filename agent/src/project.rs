//! Instruction files for agents: `CLAUDE.md` and `AGENTS.md`, from the user's folder down to the working directory,
//! with the files imported by `@path`.

mod import;

use std::fs;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use ah_conversation::encoding;

use crate::prompt::ProjectFile;
use import::imports;

/// Names, in the order in which they are read in a directory.
const NAMES: [&str; 3] = ["CLAUDE.md", ".claude/CLAUDE.md", "AGENTS.md"];
/// The user's own file in a project.
const LOCAL: &str = "CLAUDE.local.md";
/// Maximum depth of imports.
const MAX_DEPTH: usize = 5;
/// Maximum size of a file: instructions are read in every session.
const MAX_BYTES: usize = 100_000;
/// Maximum total size.
const MAX_TOTAL: usize = 500_000;
/// Some editors prepend it.
const BYTE_ORDER_MARK: usize = 3;

/// Locations of instruction files.
#[derive(Debug, Clone, Copy)]
pub struct InstructionSources<'a> {
    /// The user's folders.
    pub user_folders: &'a [PathBuf],
    /// Root of the project and the working directory, if the project's files count.
    pub project: Option<(&'a Path, &'a Path)>,
    /// Whether the user's own files in the project count.
    pub local: bool,
    /// Value of `~`.
    pub home: Option<&'a Path>,
    /// Whether the project may import files from outside.
    pub is_trusted: bool,
}

/// Returns the instruction files: those of the user's folders, then of every directory from the project root down to
/// the working directory. Files with the same text, or the same real path, count once. The second value lists
/// warnings about unreadable and truncated files.
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
    /// Folder that all files must lie in.
    within: Option<PathBuf>,
    files: Vec<ProjectFile>,
    /// Real paths of the files already read.
    seen: Vec<PathBuf>,
    total: usize,
    warnings: Vec<String>,
}

impl Reading<'_> {
    /// Reads a file and its imports, unless it is missing or was read before.
    fn read(&mut self, path: &Path, depth: usize) {
        // The name may refer to a pipe or a device: only regular files are read.
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
            let warning = format!("`{shown}` is not read: it is outside of an untrusted project");
            self.warnings.push(warning);
            return;
        }
        if depth > MAX_DEPTH {
            let warning = format!(
                "`{shown}` is not read: imports are nested more than {MAX_DEPTH} levels deep"
            );
            self.warnings.push(warning);
            return;
        }
        let named = if depth == 0 { path } else { &real };
        let label = named.display().to_string();
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
        let bytes = encoding::as_utf8(&bytes);
        if bytes.contains(&0) {
            let warning = format!("`{}` is not read: not a text file", path.display());
            self.warnings.push(warning);
            return None;
        }
        let mut text = String::from_utf8_lossy(&bytes).into_owned();
        let limit = MAX_BYTES.min(MAX_TOTAL - self.total);
        if text.len() > limit {
            text.truncate(text.floor_char_boundary(limit));
            self.warnings.push(format!(
                "`{}` is truncated to {limit} bytes",
                path.display()
            ));
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

/// Reads slightly more than the maximum size of a file, but no more.
fn beginning(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let most = (MAX_BYTES + BYTE_ORDER_MARK + 1) as u64;
    fs::File::open(path)?.take(most).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests;
