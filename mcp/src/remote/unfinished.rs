//! Tasks of servers that outlive this program: while one is followed, a file beside the outputs of its session names it, for
//! the next process.

use std::fs;
use std::path::{Path, PathBuf};

use ah_conversation::json;
use serde::{Deserialize, Serialize};

const EXTENSION: &str = "task";
/// Most tasks that are offered.
const MOST: usize = 16;

/// A task that is followed.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Record {
    pub(crate) server: String,
    pub(crate) tool: String,
    pub(crate) task_id: String,
}

/// The file of a task, removed when dropped.
pub(crate) struct Noted(PathBuf);

impl Noted {
    /// Notes a task in a file beside `spool`, before it is followed. Without the file it only cannot be found again.
    pub(crate) fn new(spool: &Path, record: &Record) -> Self {
        let path = spool.with_extension(EXTENSION);
        let written = path.parent().map_or(Ok(()), fs::create_dir_all);
        let text = json::line(record);
        if let Err(error) = written.and_then(|()| fs::write(&path, text)) {
            tracing::debug!("a task is not noted: {error}");
        }
        Self(path)
    }
}

impl Drop for Noted {
    fn drop(&mut self) {
        // It may not have been written.
        let _ = fs::remove_file(&self.0);
    }
}

/// Returns the tasks that are noted in a folder, with their files.
pub(crate) fn noted(folder: &Path) -> Vec<(PathBuf, Record)> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let files = entries.map(|entry| entry.path());
    let files = files.filter(|path| path.extension().is_some_and(|it| it == EXTENSION));
    let read = |path: PathBuf| {
        let record = json::from_slice(&fs::read(&path).ok()?).ok()?;
        Some((path, record))
    };
    let mut noted: Vec<_> = files.filter_map(read).take(MOST).collect();
    noted.sort();
    noted
}
