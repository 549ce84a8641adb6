//! Files that the user has open in an editor and has changed without saving them: a call works on what the user sees,
//! and undo gives that back.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use ah_conversation::{Access, FileState, Record, ToolUse, Unsaved};

use super::prepared::{CallPlan, PreparedCall};
use crate::Session;

impl Session {
    /// Returns the unsaved texts of the files that a call touches. Files that are hidden from it are not asked about.
    pub(crate) async fn unsaved(&self, call: &ToolUse, accesses: &[Access]) -> Vec<Unsaved> {
        let Some(editor) = &self.ports.audience.editor else {
            return Vec::new();
        };
        let hidden = self.settings.permissions.hidden_from(call, accesses);
        let mut found: Vec<Unsaved> = Vec::new();
        for path in accesses.iter().filter_map(named) {
            if hidden.hides(path) || found.iter().any(|unsaved| unsaved.path == *path) {
                continue;
            }
            if let Some(text) = editor.unsaved(path).await {
                found.push(Unsaved {
                    path: path.clone(),
                    text: Arc::from(text),
                });
            }
        }
        found
    }

    /// Asks for the unsaved texts of the files of calls that are about to run.
    pub(super) async fn take_unsaved(&self, calls: &mut [PreparedCall], starting: &[usize]) {
        for at in starting {
            let PreparedCall { call, plan, .. } = &calls[*at];
            if let CallPlan::Run { accesses, .. } = plan {
                calls[*at].unsaved = self.unsaved(call, accesses).await;
            }
        }
    }
}

/// Makes an unsaved text the state before the call, which undo restores.
pub(super) fn before(record: Option<Record>, unsaved: &[Unsaved]) -> Option<Record> {
    let mut record = record?;
    if let Record::Files(change) = &mut record {
        for (path, state) in &mut change.before {
            let text = unsaved.iter().find(|unsaved| unsaved.path == *path);
            if let (Some(Unsaved { text, .. }), FileState::File { content, .. }) = (text, state) {
                *content = Arc::from(text.as_bytes());
            }
        }
    }
    Some(record)
}

/// Returns the files that a call has written, if it names them.
pub(super) fn written(plan: &CallPlan) -> Vec<PathBuf> {
    let CallPlan::Run { accesses, .. } = plan else {
        return Vec::new();
    };
    let paths = accesses.iter().filter_map(|access| match access {
        Access::Write(path) if path.is_absolute() => Some(path.clone()),
        _ => None,
    });
    paths.collect()
}

fn named(access: &Access) -> Option<&PathBuf> {
    match access {
        Access::Read(path) | Access::Write(path) if is_file(path) => Some(path),
        _ => None,
    }
}

fn is_file(path: &Path) -> bool {
    path.is_absolute() && std::fs::symlink_metadata(path).is_ok_and(|found| found.is_file())
}
