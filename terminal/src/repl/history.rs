//! What was typed before: the file that keeps it, the way up and down, and the search.

use std::fs::{self, DirBuilder, OpenOptions};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;

use reedline::{FileBackedHistory, History as _, HistoryItem, SearchDirection, SearchQuery};

/// So many lines are kept.
const KEPT: usize = 10_000;
/// A line that is longer is not kept.
const LONGEST: usize = 64 * 1024;

/// What was typed before.
#[derive(Default)]
pub struct History {
    file: Option<FileBackedHistory>,
    /// Oldest first.
    lines: Vec<String>,
    /// Which of them is shown, and what was typed before one was.
    at: Option<(usize, String)>,
}

impl History {
    /// What the file holds; only its user may read it. Without one, what was typed is known as long as this value is.
    ///
    /// # Errors
    ///
    /// Where the file cannot be made or read.
    pub fn open(path: &Path) -> Result<Self, String> {
        let private = |error: std::io::Error| error.to_string();
        if let Some(folder) = path.parent().filter(|folder| !folder.exists()) {
            let mut builder = DirBuilder::new();
            builder.recursive(true).mode(0o700);
            builder.create(folder).map_err(private)?;
        }
        let mut options = OpenOptions::new();
        options.append(true).create(true).mode(0o600);
        options.open(path).map_err(private)?;
        // Reedline reads lines, and would give up where one is no text.
        let bytes = fs::read(path).map_err(private)?;
        if std::str::from_utf8(&bytes).is_err() {
            fs::write(path, String::from_utf8_lossy(&bytes).as_bytes()).map_err(private)?;
        }
        let file = FileBackedHistory::with_file(KEPT, path.to_owned());
        let file = file.map_err(|error| error.to_string())?;
        let all = SearchQuery::everything(SearchDirection::Forward, None);
        let lines = file.search(all).map_err(|error| error.to_string())?;
        Ok(Self {
            lines: lines.into_iter().map(|line| line.command_line).collect(),
            file: Some(file),
            at: None,
        })
    }

    /// Keeps a line.
    pub fn keep(&mut self, line: &str) {
        self.at = None;
        let is_known = self.lines.last().is_some_and(|last| last == line);
        if line.is_empty() || line.len() > LONGEST || is_known {
            return;
        }
        self.lines.push(line.to_owned());
        if let Some(file) = &mut self.file {
            // A history that cannot be written is no reason to stop.
            let _ = file.save(HistoryItem::from_command_line(line));
            let _ = file.sync();
        }
    }

    /// The line before the one that is shown; `typed` is kept for the way back.
    pub fn earlier(&mut self, typed: &str) -> Option<String> {
        let (at, draft) = match self.at.take() {
            Some((at, draft)) => (at, draft),
            None => (self.lines.len(), typed.to_owned()),
        };
        let before = at.saturating_sub(1);
        if self.lines.is_empty() {
            return None;
        }
        self.at = Some((before, draft));
        (at > 0).then(|| self.lines[before].clone())
    }

    /// The line after the one that is shown, or what was typed.
    pub fn later(&mut self) -> Option<String> {
        let (at, draft) = self.at.take()?;
        match self.lines.get(at + 1) {
            Some(line) => {
                self.at = Some((at + 1, draft));
                Some(line.clone())
            }
            None => Some(draft),
        }
    }

    /// Forgets which line is shown: it was changed.
    pub fn settle(&mut self) {
        self.at = None;
    }

    /// Lines that hold `words`, newest first, each once.
    pub fn search(&self, words: &str) -> impl Iterator<Item = &str> {
        let mut seen = std::collections::HashSet::new();
        let is_so = move |line: &&String| line.contains(words);
        let found = self.lines.iter().rev().filter(is_so);
        found
            .map(String::as_str)
            .filter(move |line| seen.insert(*line))
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn lines_come_back_in_order_and_lead_to_what_was_typed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("own/history");
        let mut history = History::open(&path).unwrap();
        for line in ["one", "two\nlines", "two\nlines", "three"] {
            history.keep(line);
        }
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let mut again = History::open(&path).unwrap();
        let shown: Vec<_> = (0..4).map(|_| again.earlier("draft")).collect();
        let shown: Vec<_> = shown.iter().map(Option::as_deref).collect();
        assert_eq!(
            shown,
            [Some("three"), Some("two\nlines"), Some("one"), None]
        );
        assert_eq!(again.later().as_deref(), Some("two\nlines"));
        assert_eq!(again.later().as_deref(), Some("three"));
        assert_eq!(again.later().as_deref(), Some("draft"));
        assert_eq!(again.later(), None);
        assert_eq!(
            again.search("t").collect::<Vec<_>>(),
            ["three", "two\nlines"]
        );
    }
}
