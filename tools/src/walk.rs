//! The files below a folder, as `rg` sees them: without hidden ones and what `.gitignore` and its like leave out.

use std::path::PathBuf;
use std::sync::mpsc;

use ignore::{DirEntry, WalkBuilder, WalkState};

use crate::blocking::Stop;

/// What a walk came upon.
#[derive(Default)]
pub(crate) struct Walk {
    /// The files, sorted by path.
    pub(crate) files: Vec<PathBuf>,
    /// What could not be looked into, and why.
    pub(crate) faults: Vec<String>,
}

/// Walks with all processors, and keeps what `keep` wants.
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
                Err(fault) => Some(Err(fault.to_string())),
            };
            let is_heard = find.is_none_or(|find| found.send(find).is_ok());
            match is_heard && !stop.is_requested() {
                true => WalkState::Continue,
                false => WalkState::Quit,
            }
        })
    });
    drop(found);
    let mut walk = Walk::default();
    for find in finds {
        match find {
            Ok(file) => walk.files.push(file),
            Err(fault) => walk.faults.push(fault),
        }
    }
    walk.files.sort_unstable();
    walk.faults.sort_unstable();
    walk
}

/// A remark on what could not be read, for below a result; empty if there was nothing.
pub(crate) fn remark(faults: &[String]) -> String {
    const NAMED: usize = 3;
    match faults.len() {
        0 => String::new(),
        count => {
            let named = faults[..count.min(NAMED)].join("; ");
            let others = if count > NAMED { "; …" } else { "" };
            format!("\n[{count} could not be read: {named}{others}]")
        }
    }
}
