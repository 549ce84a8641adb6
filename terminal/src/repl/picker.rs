//! A list to choose from, filtered by the typed text: sessions, messages, models, lines typed before, or all that can be
//! found.

use nucleo_matcher::pattern::{CaseMatching, Normalization, Pattern};
use nucleo_matcher::{Config, Matcher};

/// Largest number of rows of entries shown at once.
pub const SHOWN: usize = 10;

/// Subject of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subject {
    /// Lines typed before.
    History,
    /// Sessions of the folder.
    Session,
    /// Sessions of all folders.
    SessionAnywhere,
    /// Messages of the session, as a tree.
    Message,
    /// What the user has said on this branch.
    Prompt,
    /// Models.
    Model,
    /// Commands, sessions and files.
    All,
    /// Outputs of tool calls.
    Output,
    /// Tasks beside the conversation.
    Task,
}

/// An entry of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Text that is shown and searched: a row, or two.
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
    entries: Vec<Entry>,
    /// Indices of the entries that match.
    left: Vec<usize>,
    /// Index in `left` of the marked one.
    at: usize,
    /// Index of the entry that is marked while nothing is typed.
    first: usize,
    /// Whether each entry is of the branch that is checked out; empty where there are no branches.
    of_branch: Vec<bool>,
    /// Whether only those of the branch are shown.
    is_of_branch: bool,
}

impl Picker {
    /// Returns a list whose first entry is marked.
    pub fn new(subject: Subject, entries: Vec<Entry>) -> Self {
        let left = (0..entries.len()).collect();
        Self {
            subject,
            entries,
            left,
            at: 0,
            first: 0,
            of_branch: Vec::new(),
            is_of_branch: false,
        }
    }

    /// Returns the list with the entry of this index marked.
    pub fn starting_at(self, first: usize) -> Self {
        Self {
            at: first,
            first,
            ..self
        }
    }

    /// Returns the list, of which a part is of the branch that is checked out: `of_branch` says it of each entry.
    pub fn with_branch(self, of_branch: Vec<bool>) -> Self {
        Self { of_branch, ..self }
    }

    /// Shows only the entries of the branch, or all again.
    pub fn turn_branch(&mut self, typed: &str) {
        self.is_of_branch = !self.is_of_branch && self.of_branch.contains(&true);
        self.narrow(typed);
    }

    /// Keeps the entries that match `typed`, the best first; for lines typed before, the newest first.
    pub fn narrow(&mut self, typed: &str) {
        self.at = match typed.trim() {
            "" => self.first,
            _ => 0,
        };
        let all = 0..self.entries.len();
        self.left = match (self.subject, typed.trim()) {
            (_, "") => all.collect(),
            (Subject::History, words) => all
                .filter(|at| self.entries[*at].value.contains(words))
                .collect(),
            (_, words) => best(words, &self.entries),
        };
        if self.is_of_branch {
            let of_branch = &self.of_branch;
            self.left.retain(|at| of_branch.get(*at) == Some(&true));
        }
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

    /// Returns the entries around the marked one that fit into `rows`, and whether each is that.
    pub fn window(&self, rows: usize) -> impl Iterator<Item = (&Entry, bool)> {
        let is_high = |entry: &Entry| entry.label.contains('\n');
        let height = 1 + usize::from(self.entries.iter().any(is_high));
        let most = (rows.min(SHOWN) / height).max(1);
        let first = (self.at + 1).saturating_sub(most);
        let shown = self.left.iter().enumerate().skip(first).take(most);
        shown.map(|(place, at)| (&self.entries[*at], place == self.at))
    }

    /// Returns which entries are shown when `rows` rows are: `1-10 of 149`; `None` if all fit.
    pub fn extent(&self, rows: usize) -> Option<String> {
        let shown = self.window(rows).count();
        let first = (self.at + 1).saturating_sub(shown);
        extent(first, shown, self.left.len())
    }

    /// Returns what its keys do besides choosing, if there are any.
    pub fn keys(&self) -> Option<String> {
        let all = match self.subject {
            Subject::Session => "Ctrl-A all folders",
            Subject::SessionAnywhere => "Ctrl-A this folder",
            Subject::Task => return Some("Enter shows its output · Ctrl-X stops it".to_owned()),
            Subject::Prompt => {
                return Some(
                    "Enter puts it into the input and continues from before it".to_owned(),
                );
            }
            Subject::History
            | Subject::Message
            | Subject::Model
            | Subject::All
            | Subject::Output => return None,
        };
        Some(match (self.of_branch.contains(&true), self.is_of_branch) {
            (false, _) => all.to_owned(),
            (true, false) => format!("{all} · Ctrl-B this branch"),
            (true, true) => format!("{all} · Ctrl-B all branches"),
        })
    }

    /// Returns the prompt of the typed text.
    pub fn prompt(&self) -> &'static str {
        match self.subject {
            Subject::History => "history: ",
            Subject::Session => "session: ",
            Subject::SessionAnywhere => "session in any folder: ",
            Subject::Message => "message: ",
            Subject::Prompt => "edit: ",
            Subject::Model => "model: ",
            Subject::All => "find: ",
            Subject::Output => "output of: ",
            Subject::Task => "task: ",
        }
    }
}

/// Returns which of a list are shown: `1-10 of 149`; `None` if that are all.
pub fn extent(first: usize, shown: usize, all: usize) -> Option<String> {
    (shown < all).then(|| format!("{}-{} of {all}", first + 1, first + shown))
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
    fn sessions_are_those_of_a_branch_or_all() {
        let labels = ["one\nmain", "two\nside", "three\nmain"];
        let mut picker = picker(Subject::Session, &labels).with_branch(vec![true, false, true]);
        let shown = |picker: &Picker, rows| {
            let shown = picker.window(rows).map(|(entry, _)| entry.value.clone());
            shown.collect::<Vec<_>>()
        };
        assert_eq!(shown(&picker, 10), labels);
        // Each takes two rows.
        assert_eq!(shown(&picker, 5), labels[..2]);
        assert_eq!(shown(&picker, 1), labels[..1]);
        picker.turn_branch("");
        assert_eq!(shown(&picker, 10), [labels[0], labels[2]]);
        picker.narrow("thr");
        assert_eq!(shown(&picker, 10), [labels[2]]);
        picker.turn_branch("");
        assert_eq!(shown(&picker, 10), labels);
    }

    #[test]
    fn the_mark_stays_in_the_window() {
        let labels: Vec<_> = (0..25).map(|n| n.to_string()).collect();
        let labels: Vec<_> = labels.iter().map(String::as_str).collect();
        let mut picker = picker(Subject::Model, &labels);
        (0..12).for_each(|_| picker.down());
        let shown: Vec<_> = picker
            .window(SHOWN)
            .map(|(entry, _)| entry.label.as_str())
            .collect();
        assert_eq!((shown.len(), shown[0], shown[9]), (10, "3", "12"));
        assert_eq!(picker.extent(SHOWN).as_deref(), Some("4-13 of 25"));
        (0..40).for_each(|_| picker.down());
        assert_eq!(picker.chosen().unwrap().label, "24");
        (0..40).for_each(|_| picker.up());
        assert_eq!(picker.chosen().unwrap().label, "0");
    }
}
