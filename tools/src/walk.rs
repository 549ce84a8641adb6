//! Lists the files below a folder as ripgrep does: without hidden and ignored ones.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};

use ah_conversation::HiddenFiles;
use ah_ignored::{Ignored, Sources, Taken};
use ignore::{DirEntry, WalkBuilder, WalkState};

use crate::blocking::Stop;

/// Result of a walk.
#[derive(Default)]
pub(crate) struct Walk {
    /// The files, sorted by path.
    pub(crate) files: Vec<PathBuf>,
    /// Entries that could not be read, and why.
    pub(crate) errors: Vec<String>,
    /// Number of files left out because permission rules hide them.
    pub(crate) hidden: usize,
}

impl Walk {
    /// Returns the walk without the hidden files.
    pub(crate) fn without(mut self, hidden: &HiddenFiles) -> Self {
        let count = self.files.len();
        self.files.retain(|file| !hidden.hides(file));
        self.hidden = count - self.files.len();
        self
    }

    /// Returns a remark on what is missing, to put below a result; empty if nothing is.
    pub(crate) fn remark(&self) -> String {
        remark(&self.errors, self.hidden)
    }
}

/// Walks from `root` without ignored files, in parallel, and returns the files for which `keep` is true.
pub(crate) fn walk(
    root: &Path,
    taken: Taken,
    stop: &Stop,
    keep: impl Fn(&DirEntry) -> bool + Sync,
) -> Walk {
    let ignored = Arc::new(Ignored::new(Sources::default()));
    let mut walk = walk_by(&ignored.walk(root, taken), stop, keep);
    let unread = ignored.unread().into_iter();
    walk.errors.extend(unread.map(|file| {
        let most = ah_ignored::MAX_BYTES >> 10;
        format!(
            "{}: not a regular file of up to {most} KiB, so its patterns do not count",
            file.display()
        )
    }));
    walk
}

/// Walks in parallel and returns the files for which `keep` is true.
pub(crate) fn walk_by(
    builder: &WalkBuilder,
    stop: &Stop,
    keep: impl Fn(&DirEntry) -> bool + Sync,
) -> Walk {
    let (found, finds) = mpsc::channel();
    builder.build_parallel().run(|| {
        let (found, keep) = (found.clone(), &keep);
        Box::new(move |entry| {
            let find = match entry {
                Ok(entry) if keep(&entry) => Some(Ok(entry.into_path())),
                Ok(_) => None,
                Err(error) => Some(Err(error.to_string())),
            };
            let is_heard = find.is_none_or(|find| found.send(find).is_ok());
            if is_heard && !stop.is_requested() {
                WalkState::Continue
            } else {
                WalkState::Quit
            }
        })
    });
    drop(found);
    let mut walk = Walk::default();
    for find in finds {
        match find {
            Ok(file) => walk.files.push(file),
            Err(error) => walk.errors.push(error),
        }
    }
    walk.files.sort_unstable();
    walk.errors.sort_unstable();
    walk
}

/// Returns what a walk from `root` leaves out because it is hidden or ignored: files, and folders without what is in them.
/// The folder of git is none of that.
pub(crate) fn left_out(root: &Path, stop: &Stop) -> Vec<PathBuf> {
    let seen = walk(root, Taken::default(), stop, |_| true).files;
    let known: HashSet<&PathBuf> = seen.iter().collect();
    let mut left_out = Vec::new();
    for folder in seen
        .iter()
        .filter(|path| path.is_dir() && !path.is_symlink())
    {
        if stop.is_requested() {
            break;
        }
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        let entries = entries.filter(|entry| entry.file_name() != ".git");
        let paths = entries.map(|entry| entry.path());
        left_out.extend(paths.filter(|path| !known.contains(path)));
    }
    left_out.sort_unstable();
    left_out
}

/// Returns a remark on what was left out; empty if nothing was.
pub(crate) fn left_out_remark(left_out: &[String], arguments: &str) -> String {
    const NAMED: usize = 5;
    if left_out.is_empty() {
        return String::new();
    }
    let named = left_out[..left_out.len().min(NAMED)].join(", ");
    let others = match left_out.len() {
        ..=NAMED => String::new(),
        count => format!(" and {} more", count - NAMED),
    };
    format!("\n[not searched, since hidden or ignored: {named}{others}; name one in {arguments}]")
}

/// Returns a remark on the files that could not be read and the number of hidden ones; empty without any.
pub(crate) fn remark(errors: &[String], hidden: usize) -> String {
    const NAMED: usize = 3;
    let count = errors.len();
    let mut remark = String::new();
    if count > 0 {
        let named = errors[..count.min(NAMED)].join("; ");
        let others = if count > NAMED { "; …" } else { "" };
        remark = format!("\n[{count} could not be read: {named}{others}]");
    }
    if hidden > 0 {
        remark.push_str(&format!(
            "\n[{hidden} left out: permission rules hide them]"
        ));
    }
    remark
}
