//! Files that git ignores: what builds and tests leave is told below what a person works on.

use std::path::Path;

use ah_agent::checkpoint::FileEdit;
use ah_conversation::FileState;
use ah_ignored::{Ignored, Sources};

/// Divides changes into those of files that git ignores, which come second, and all others. The patterns are those below `root`.
pub fn divide<'a>(changes: &'a [FileEdit], root: &Path) -> (Vec<&'a FileEdit>, Vec<&'a FileEdit>) {
    let ignored = Ignored::new(Sources {
        ignore: false,
        users: false,
        without_git: true,
        top: Some(root.to_owned()),
    });
    changes.iter().partition(|edit| {
        let is_folder = |state: &_| matches!(state, FileState::Folder { .. });
        !ignored.is_ignored(&edit.path, is_folder(&edit.now) || is_folder(&edit.then))
    })
}
