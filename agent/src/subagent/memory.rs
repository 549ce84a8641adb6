//! The memory of a subagent: a folder of its own that it may write, with a file that is in its prompt. It is below a folder of the
//! user's or the project's; a link on the way, which may have come with a project, would show or open another folder.

use std::io::{self, Read as _};
use std::path::PathBuf;

use ah_beneath::Folder;
use rustix::fs::OFlags;

use crate::agents::{Agent, MemoryScope};

/// Maximum number of lines in the prompt.
const LINES: usize = 200;
/// Most bytes that are read.
const BYTES: u64 = 1_000_000;
/// The file that is part of the prompt.
const FILE: &str = "MEMORY.md";

/// Where the memories of a scope are.
#[derive(Debug, Clone)]
pub struct MemoryPlace {
    /// The folder of the user's or the project's that they are below, which links may lead to.
    pub above: PathBuf,
    /// The path below, on which there may be no link.
    pub below: PathBuf,
}

impl MemoryPlace {
    /// Returns the path, as it is told and permitted.
    pub(super) fn path(&self) -> PathBuf {
        self.above.join(&self.below)
    }

    /// Returns the section on the memory for the prompt, with its content.
    pub(super) fn told(&self) -> String {
        let text = self.text().unwrap_or_default();
        let lines: Vec<_> = text.lines().take(LINES).collect();
        let content = if lines.is_empty() {
            "It is empty so far.".to_owned()
        } else {
            format!("It says:\n\n{}", lines.join("\n"))
        };
        format!(
            "# Memory\n\nKeep what is worth knowing next time in `{}`: the file {FILE} there is shown to you \
             when you begin, so keep it short and let it name others. {content}",
            self.path().display()
        )
    }

    /// Returns the start of the file, which may end within a character.
    fn text(&self) -> io::Result<String> {
        let file = self.opened()?.open_file(FILE.as_ref(), OFlags::RDONLY)?;
        let mut text = Vec::new();
        file.take(BYTES).read_to_end(&mut text)?;
        Ok(String::from_utf8_lossy(&text).into_owned())
    }

    fn is_usable(&self) -> bool {
        let is_missing = |error: &io::Error| error.kind() == io::ErrorKind::NotFound;
        self.opened()
            .map_or_else(|error| is_missing(&error), |_| true)
    }

    fn opened(&self) -> io::Result<Folder> {
        Folder::follow(&self.above)?.folder(&self.below)
    }
}

/// Returns the folder of a subagent's memory, which need not exist; `None` without one, or if there is a link in its place.
pub(super) fn folder(scopes: &[(MemoryScope, MemoryPlace)], agent: &Agent) -> Option<MemoryPlace> {
    let wanted = agent.memory?;
    let (_, place) = scopes.iter().find(|(scope, _)| *scope == wanted)?;
    // The name becomes a single folder name.
    let is_plain = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_');
    let name: String = agent
        .name
        .chars()
        .map(|c| if is_plain(c) { c } else { '-' })
        .collect();
    let place = MemoryPlace {
        above: place.above.clone(),
        below: place.below.join(name),
    };
    place.is_usable().then_some(place)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    fn place(above: PathBuf) -> MemoryPlace {
        MemoryPlace {
            above,
            below: ".claude/agent-memory/digger".into(),
        }
    }

    /// A project may be reached by a link; what is in it has come with it.
    #[test]
    fn a_memory_is_behind_no_link_of_the_project() {
        for at in [
            ".claude",
            ".claude/agent-memory",
            ".claude/agent-memory/digger",
        ] {
            let scratch = tempfile::tempdir().unwrap();
            let [project, other] = ["project", "other"].map(|name| scratch.path().join(name));
            fs::create_dir(&project).unwrap();
            fs::create_dir_all(other.join("agent-memory/digger")).unwrap();
            let linked = scratch.path().join("linked");
            symlink(&project, &linked).unwrap();
            assert!(place(linked.clone()).is_usable(), "it is missing");
            let at = project.join(at);
            fs::create_dir_all(at.parent().unwrap()).unwrap();
            symlink(&other, &at).unwrap();
            assert!(!place(linked.clone()).is_usable(), "{}", at.display());
            fs::remove_file(&at).unwrap();
            fs::create_dir_all(project.join(".claude/agent-memory/digger")).unwrap();
            assert!(place(linked).is_usable());
        }
    }

    #[test]
    fn a_long_memory_is_cut_within_a_character() {
        let scratch = tempfile::tempdir().unwrap();
        let place = place(scratch.path().to_owned());
        fs::create_dir_all(place.path()).unwrap();
        fs::write(
            place.path().join(FILE),
            format!("fact 1.\n.{}", "é".repeat(600_000)),
        )
        .unwrap();
        assert!(place.told().contains("fact 1."));
    }
}
