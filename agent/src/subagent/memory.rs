//! The memory of a subagent: a folder of its own that it may write, with a file that is in its prompt. It is below a folder of the
//! user's or the project's; a link on the way, which may have come with a project, would show or open another folder.

use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use ah_beneath::Folder;
use rustix::fs::OFlags;

use crate::agents::{Agent, MemoryScope};

/// Maximum number of lines in the prompt.
const LINES: usize = 200;
/// Most bytes that are read.
const BYTES: u64 = 1_000_000;
/// The file that is part of the prompt.
const FILE: &str = "MEMORY.md";

/// Returns the folder of a subagent's memory, which need not exist; `None` without one, or if there is a link in its place.
pub(super) fn folder(scopes: &[(MemoryScope, PathBuf)], agent: &Agent) -> Option<PathBuf> {
    let wanted = agent.memory?;
    let (_, folder) = scopes.iter().find(|(scope, _)| *scope == wanted)?;
    // The name becomes a single folder name.
    let is_plain = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_');
    let name: String = agent
        .name
        .chars()
        .map(|c| if is_plain(c) { c } else { '-' })
        .collect();
    let folder = folder.join(name);
    let is_missing = |error: &io::Error| error.kind() == io::ErrorKind::NotFound;
    let is_usable = opened(&folder).map_or_else(|error| is_missing(&error), |_| true);
    is_usable.then_some(folder)
}

/// Returns the section on the memory for the prompt, with its content.
pub(super) fn told(folder: &Path) -> String {
    let text = opened(folder)
        .and_then(|folder| folder.open_file(FILE.as_ref(), OFlags::RDONLY))
        .and_then(|file| io::read_to_string(file.take(BYTES)));
    let text = text.unwrap_or_default();
    let lines: Vec<_> = text.lines().take(LINES).collect();
    let content = if lines.is_empty() {
        "It is empty so far.".to_owned()
    } else {
        format!("It says:\n\n{}", lines.join("\n"))
    };
    format!(
        "# Memory\n\nKeep what is worth knowing next time in `{}`: the file {FILE} there is shown to you \
         when you begin, so keep it short and let it name others. {content}",
        folder.display()
    )
}

/// Opens the folder of a memory, which is two names below the user's folder or the project's.
fn opened(folder: &Path) -> io::Result<Folder> {
    let mut above = folder.ancestors().skip(2);
    let above = above.next().ok_or(io::ErrorKind::NotFound)?;
    let below = folder.strip_prefix(above).map_err(io::Error::other)?;
    Folder::follow(above)?.folder(below)
}
