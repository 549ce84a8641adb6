//! File states before tools changed them, and the target of an undo.
//!
//! Every run that changes files is a step, and so is every rewind: the log is append-only. A place in it is the
//! moment just before a step. Going to a place restores, for each file, the first state noted from there on. So a
//! rewind can be undone like a run, and no state is lost.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::{MessageId, Time};

/// State of a path; `C` represents a file's content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FileState<C> {
    /// Nothing.
    Absent {
        /// Number of missing parent folders, counted from the lowest up.
        folders: usize,
    },
    /// A file.
    File {
        /// Content of the file.
        content: C,
        /// Unix permission bits.
        mode: u32,
    },
    /// A folder. What is in it has states of its own.
    Folder {
        /// Unix permission bits.
        mode: u32,
    },
    /// A symbolic link.
    Link {
        /// Where it leads, as it stands in the link.
        target: PathBuf,
    },
    /// A file that is too big for the database.
    Big {
        /// File with the content. A store takes it over and keeps it in a file of its own.
        file: PathBuf,
        /// Unix permission bits.
        mode: u32,
    },
    /// Something that is not kept: a device, a socket, or a file that is hidden or far too big.
    Unkept,
}

/// Cause of a file change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FileCause {
    /// The run that began with this message.
    Run(MessageId),
    /// A rewind to the place before the step of this number.
    Rewind(i64),
}

/// Files that are about to change, to be stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileChange {
    /// Cause. For a run, the first state of each file counts; each rewind is a step of its own.
    pub cause: FileCause,
    /// Time of the change.
    pub at: Time,
    /// State of each path before the change.
    pub before: Vec<(PathBuf, FileState<Arc<[u8]>>)>,
    /// Calls, each in a few words, whose changes are not seen and cannot be undone.
    pub unseen: Vec<String>,
}

/// Files that have changed, to be stored: whoever changes one later is somebody else.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilesLeft {
    /// The paths; `None` for all of the last step.
    pub paths: Option<Vec<PathBuf>>,
    /// When they had changed, by the clock of the file system; [`Self::ONGOING`] until then.
    pub until: Time,
}

impl FilesLeft {
    /// Time of files that a rewind is about to change. It stays if the process is killed meanwhile.
    pub const ONGOING: Time = Time(i64::MAX);
}

/// A step: files changed for one cause. File contents are given by their hash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileStep {
    /// Step number; later steps have higher ones.
    pub number: i64,
    /// Cause of the step.
    pub cause: FileCause,
    /// When the first of its files changed.
    pub at: Time,
    /// State of each path before the step.
    pub before: BTreeMap<PathBuf, FileState<String>>,
    /// When the step had changed each path, as far as that is known. Also of other names of the same files.
    pub until: BTreeMap<PathBuf, Time>,
    /// Calls whose changes were not seen.
    pub unseen: Vec<String>,
    /// Whether this user's program has recorded all of it, as far as the store can tell. A session may come from somebody else.
    pub is_own: bool,
}

impl FileStep {
    /// Returns whether the step is a rewind that was cut off.
    pub fn is_cut_off(&self) -> bool {
        let mut times = self.until.values();
        matches!(self.cause, FileCause::Rewind(_))
            && times.any(|until| *until == FilesLeft::ONGOING)
    }
}

/// Returns the place at which the run with the prompt `message`, created at `created_at`, begins; the run may have
/// changed nothing.
pub fn place_of(steps: &[FileStep], message: &MessageId, created_at: Time) -> usize {
    let is_of = |step: &FileStep| matches!(&step.cause, FileCause::Run(run) if run == message);
    let later = |step: &FileStep| step.at >= created_at;
    steps
        .iter()
        .position(is_of)
        .or_else(|| steps.iter().position(later))
        .unwrap_or(steps.len())
}

/// Returns the state at `place` of each path changed since.
pub fn states_at(steps: &[FileStep], place: usize) -> BTreeMap<&Path, &FileState<String>> {
    let mut states = BTreeMap::new();
    for (path, state) in steps.iter().skip(place).flat_map(|step| &step.before) {
        states.entry(path.as_path()).or_insert(state);
    }
    states
}

/// Returns when each path changed since `place` had changed for the last time by a step, as far as that is known.
pub fn left_at(steps: &[FileStep], place: usize) -> BTreeMap<&Path, Time> {
    let mut left = BTreeMap::new();
    for step in steps.iter().skip(place) {
        for path in step.before.keys() {
            // A later step without a time makes that of an earlier one void.
            left.remove(path.as_path());
        }
        // Among them may be other names of the files that it changed.
        left.extend(
            step.until
                .iter()
                .map(|(path, until)| (path.as_path(), *until)),
        );
    }
    left
}

/// Returns the place that an undo leads to: before the last run that was not undone and whose changes are known.
pub fn undo(steps: &[FileStep]) -> Option<usize> {
    let mut place = steps.len();
    loop {
        let last = place.checked_sub(1)?;
        match target(steps, last) {
            Some(target) => place = target,
            None if steps[last].before.is_empty() => place = last,
            None => return Some(last),
        }
    }
}

/// Returns the place that a redo leads to, if the last step was an undo.
pub fn redo(steps: &[FileStep]) -> Option<usize> {
    let rewinds = (0..steps.len())
        .rev()
        .take_while(|at| target(steps, *at).is_some());
    let first = steps.len() - rewinds.count();
    let mut places = vec![first];
    for place in (first..steps.len()).filter_map(|at| target(steps, at)) {
        match places[..] {
            [.., before, _] if before == place => {
                places.pop();
            }
            _ => places.push(place),
        }
    }
    places.pop();
    places.pop()
}

/// Returns the place that a rewind led to, if the last step is one that was cut off.
pub fn cut_off(steps: &[FileStep]) -> Option<usize> {
    let last = steps.len().checked_sub(1)?;
    steps[last].is_cut_off().then(|| target(steps, last))?
}

/// Returns the place that a rewind led to; the first place if the log has lost its beginning.
fn target(steps: &[FileStep], at: usize) -> Option<usize> {
    match steps[at].cause {
        FileCause::Run(_) => None,
        FileCause::Rewind(number) => {
            let place = steps[..=at].iter().position(|step| step.number >= number);
            // Even with a damaged log, an undo leads back.
            Some(place.unwrap_or(at).min(at))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A log in words: `a` is a run that changed file `a`, `<2` a rewind to place 2.
    fn steps(words: &str) -> Vec<FileStep> {
        let steps = words.split_whitespace().enumerate().map(|(at, word)| {
            let number = i64::try_from(at).unwrap() + 1;
            let (cause, paths) = match word.strip_prefix('<') {
                Some(target) => (FileCause::Rewind(target.parse::<i64>().unwrap() + 1), ""),
                None => (
                    FileCause::Run(MessageId::from(format!("m{at}").as_str())),
                    word,
                ),
            };
            let state = || FileState::File {
                content: at.to_string(),
                mode: 0o644,
            };
            FileStep {
                number,
                cause,
                at: Time(number * 10),
                before: paths
                    .chars()
                    .map(|path| (PathBuf::from(path.to_string()), state()))
                    .collect(),
                until: BTreeMap::new(),
                unseen: Vec::new(),
                is_own: true,
            }
        });
        steps.collect()
    }

    #[test]
    fn undo_goes_back_run_by_run_and_redo_forward() {
        for (log, back, forth) in [
            ("", None, None),
            ("a", Some(0), None),
            ("a b", Some(1), None),
            ("a b <1", Some(0), Some(2)),
            ("a b <1 <0", None, Some(1)),
            ("a b <1 <0 <1", Some(0), Some(2)),
            ("a b <1 <0 <1 <2", Some(1), None),
            // A new run ends the redo history and is the first to be undone.
            ("a b <1 c", Some(3), None),
            ("a b <1 c <3", Some(0), Some(4)),
            ("a b <1 c <3 <0", None, Some(3)),
            ("a b <1 c <3 <0 <3", Some(0), Some(4)),
            // A host goes back two at once.
            ("a b <0", None, Some(2)),
        ] {
            let steps = steps(log);
            assert_eq!((undo(&steps), redo(&steps)), (back, forth), "{log:?}");
        }
    }

    #[test]
    fn undo_works_without_the_beginning_of_the_log() {
        let mut steps = steps("a b <1 <0");
        steps.drain(..2);
        assert_eq!(undo(&steps), None);
        steps[0].cause = FileCause::Rewind(99);
        assert_eq!(undo(&steps), None);
    }

    #[test]
    fn the_first_state_after_a_place_counts() {
        let steps = steps("ab a b");
        let states = |place| {
            let states = states_at(&steps, place).into_iter();
            let lines = states.map(|(path, state)| match state {
                FileState::File { content, .. } => format!("{}{content}", path.display()),
                _ => String::new(),
            });
            lines.collect::<Vec<_>>().join(" ")
        };
        assert_eq!(
            [states(0), states(1), states(2), states(3)],
            ["a0 b0", "a1 b2", "b2", ""]
        );
    }

    #[test]
    fn a_run_without_changes_is_placed_by_time() {
        let steps = steps("a b");
        let place = |id: &str, at| place_of(&steps, &MessageId::from(id), Time(at));
        assert_eq!(place("m1", 0), 1);
        assert_eq!(place("other", 5), 0);
        assert_eq!(place("other", 15), 1);
        assert_eq!(place("other", 25), 2);
    }
}
