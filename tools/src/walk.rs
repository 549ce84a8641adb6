//! Lists the files below a folder as ripgrep does: without hidden and ignored ones.

use std::path::PathBuf;
use std::sync::mpsc;

use ah_conversation::HiddenFiles;
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

/// Walks in parallel and returns the files for which `keep` is true.
pub(crate) fn walk(
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
