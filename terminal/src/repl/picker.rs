//! A list to choose from, filtered by the typed text: sessions, messages, models, lines typed before, or all that can be
//! found.

use nucleo_matcher::pattern::{CaseMatching, Normalization, Pattern};
use nucleo_matcher::{Config, Matcher};

/// Number of entries shown at once.
pub const SHOWN: usize = 10;

/// Subject of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subject {
    /// Lines typed before.
    History,
    /// Sessions of the folder.
    Session,
    /// Messages of the session.
    Message,
    /// Models.
    Model,
    /// Commands, sessions and files.
    All,
}

/// An entry of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Text that is shown and searched.
    pub label: String,
    /// Value of the choice.
    pub value: String,
}

impl AsRef<str> for Entry {
    fn as_ref(&self) -> &str {
        &self.label
    }
}

/// A list to choose from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Picker {
    /// Its subject.
    pub subject: Subject,
    /// Typed text that the list was opened over.
    pub typed_before: String,
    entries: Vec<Entry>,
    /// Indices of the entries that match.
    left: Vec<usize>,
    /// Index in `left` of the marked one.
    at: usize,
}

impl Picker {
    /// Returns a list whose first entry is marked.
    pub fn new(subject: Subject, entries: Vec<Entry>) -> Self {
        let left = (0..entries.len()).collect();
        Self {
            subject,
            typed_before: String::new(),
            entries,
            left,
            at: 0,
        }
    }

    /// Keeps the entries that match `typed`, the best first; for lines typed before, the newest first.
    pub fn narrow(&mut self, typed: &str) {
        self.at = 0;
        let all = 0..self.entries.len();
        self.left = match (self.subject, typed.trim()) {
            (_, "") => all.collect(),
            (Subject::History, words) => all
                .filter(|at| self.entries[*at].value.contains(words))
                .collect(),
            (_, words) => best(words, &self.entries),
        };
    }

    /// Adds entries behind the others, or replaces them, under what is `typed`. An entry that the user has gone to stays
    /// marked.
    pub fn add(&mut self, entries: Vec<Entry>, replaces: bool, typed: &str) {
        let marked = self.chosen().filter(|_| self.at > 0);
        let marked = marked.map(|entry| entry.value.clone());
        if replaces {
            self.entries.clear();
        }
        self.entries.extend(entries);
        self.narrow(typed);
        let value = |at: &usize| &self.entries[*at].value;
        let place = self
            .left
            .iter()
            .position(|at| Some(value(at)) == marked.as_ref());
        self.at = place.unwrap_or(0);
    }

    /// Marks the next entry.
    pub fn down(&mut self) {
        self.at = (self.at + 1).min(self.left.len().saturating_sub(1));
    }

    /// Marks the previous entry.
    pub fn up(&mut self) {
        self.at = self.at.saturating_sub(1);
    }

    /// Returns all entries.
    pub fn into_entries(self) -> Vec<Entry> {
        self.entries
    }

    /// Returns the marked entry, if any matches.
    pub fn chosen(&self) -> Option<&Entry> {
        self.left.get(self.at).map(|at| &self.entries[*at])
    }

    /// Returns the entries around the marked one, and whether each is that.
    pub fn window(&self) -> impl Iterator<Item = (&Entry, bool)> {
        let first = (self.at + 1).saturating_sub(SHOWN);
        let shown = self.left.iter().enumerate().skip(first).take(SHOWN);
        shown.map(|(place, at)| (&self.entries[*at], place == self.at))
    }

    /// Returns the prompt of the typed text.
    pub fn prompt(&self) -> &'static str {
        match self.subject {
            Subject::History => "history: ",
            Subject::Session => "session: ",
            Subject::Message => "message: ",
            Subject::Model => "model: ",
            Subject::All => "find: ",
        }
    }
}

/// Returns the indices of entries that match `words`, the best first; equals stay in order.
pub fn best(words: &str, among: &[impl AsRef<str>]) -> Vec<usize> {
    let mut matcher = Matcher::new(Config::DEFAULT.match_paths());
    let pattern = Pattern::parse(words, CaseMatching::Smart, Normalization::Smart);
    let mut buffer = Vec::new();
    let mut found: Vec<_> = among
        .iter()
        .enumerate()
        .filter_map(|(at, entry)| {
            let text = nucleo_matcher::Utf32Str::new(entry.as_ref(), &mut buffer);
            Some((pattern.score(text, &mut matcher)?, at))
        })
        .collect();
    found.sort_by_key(|(score, at)| (std::cmp::Reverse(*score), *at));
    found.into_iter().map(|(_, at)| at).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn picker(subject: Subject, labels: &[&str]) -> Picker {
        let entry = |label: &&str| Entry {
            label: (*label).to_owned(),
            value: (*label).to_owned(),
        };
        Picker::new(subject, labels.iter().map(entry).collect())
    }

    #[test]
    fn typed_text_filters_the_list() {
        let labels = ["fix the parser", "write docs", "parse dates", "docs again"];
        for (subject, typed, expected) in [
            (Subject::Session, "", "fix the parser"),
            (Subject::Session, "prsd", "parse dates"),
            (Subject::Session, "wdcs", "write docs"),
            (Subject::Session, "nothing", "-"),
            (Subject::History, "parse", "fix the parser"),
            (Subject::History, "prs", "-"),
        ] {
            let mut picker = picker(subject, &labels);
            picker.narrow(typed);
            let chosen = picker.chosen().map_or("-", |entry| &entry.value);
            assert_eq!(chosen, expected, "{typed:?}");
        }
    }

    #[test]
    fn the_mark_stays_in_the_window() {
        let labels: Vec<_> = (0..25).map(|n| n.to_string()).collect();
        let labels: Vec<_> = labels.iter().map(String::as_str).collect();
        let mut picker = picker(Subject::Model, &labels);
        (0..12).for_each(|_| picker.down());
        let shown: Vec<_> = picker
            .window()
            .map(|(entry, _)| entry.label.as_str())
            .collect();
        assert_eq!((shown.len(), shown[0], shown[9]), (10, "3", "12"));
        (0..40).for_each(|_| picker.down());
        assert_eq!(picker.chosen().unwrap().label, "24");
        (0..40).for_each(|_| picker.up());
        assert_eq!(picker.chosen().unwrap().label, "0");
    }
}
