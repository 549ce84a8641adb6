//! Input history: its file, moving through it, and searching it.

use std::fs::{self, DirBuilder, OpenOptions};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;

use reedline::{FileBackedHistory, History as _, HistoryItem, SearchDirection, SearchQuery};

/// Number of lines kept.
const KEPT: usize = 10_000;
/// Longest line that is kept, in bytes.
const LONGEST: usize = 64 * 1024;

/// Input history.
#[derive(Default)]
pub struct History {
    file: Option<FileBackedHistory>,
    /// Oldest first.
    lines: Vec<String>,
    /// Index of the line shown, and the text typed before it was.
    at: Option<(usize, String)>,
}

impl History {
    /// Opens the history file, or creates it, readable for its owner only.
    ///
    /// # Errors
    ///
    /// If the file cannot be created or read.
    pub fn open(path: &Path) -> Result<Self, String> {
        let text = |error: std::io::Error| error.to_string();
        if let Some(folder) = path.parent().filter(|folder| !folder.exists()) {
            let mut builder = DirBuilder::new();
            builder.recursive(true).mode(0o700);
            builder.create(folder).map_err(text)?;
        }
        let mut options = OpenOptions::new();
        options.append(true).create(true).mode(0o600);
        options.open(path).map_err(text)?;
        // Reedline fails on a file that is not UTF-8.
        let bytes = fs::read(path).map_err(text)?;
        if std::str::from_utf8(&bytes).is_err() {
            fs::write(path, String::from_utf8_lossy(&bytes).as_bytes()).map_err(text)?;
        }
        let file = FileBackedHistory::with_file(KEPT, path.to_owned())
            .map_err(|error| error.to_string())?;
        let all = SearchQuery::everything(SearchDirection::Forward, None);
        let lines = file.search(all).map_err(|error| error.to_string())?;
        Ok(Self {
            lines: lines.into_iter().map(|line| line.command_line).collect(),
            file: Some(file),
            at: None,
        })
    }

    /// Adds a line.
    pub fn keep(&mut self, line: &str) {
        self.at = None;
        let is_known = self.lines.last().is_some_and(|last| last == line);
        if line.is_empty() || line.len() > LONGEST || is_known {
            return;
        }
        self.lines.push(line.to_owned());
        if let Some(file) = &mut self.file {
            // A failed write must not stop the conversation.
            let _ = file.save(HistoryItem::from_command_line(line));
            let _ = file.sync();
        }
    }

    /// Returns the line before the one shown. `typed` is kept for the way back.
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

    /// Returns the line after the one shown, or the text typed before.
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

    /// Returns the text that was typed before a line was shown, while one is.
    pub fn draft(&self) -> Option<&str> {
        self.at.as_ref().map(|(_, draft)| draft.as_str())
    }

    /// Ends moving through the history: the line was edited.
    pub fn settle(&mut self) {
        self.at = None;
    }

    /// Returns the lines that contain `words`, newest first, without duplicates.
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
    fn moving_through_the_history_ends_at_the_typed_text() {
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
