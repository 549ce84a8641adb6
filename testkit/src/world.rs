//! Surroundings of a conversation, the same in every run: a temporary folder, a store in memory, and a clock that only
//! advances when it is read.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use ah_conversation::{Clock, MessageId, Time};
pub use ah_store::SessionStore;
use tempfile::TempDir;

/// 2026-01-01, midnight in Greenwich.
const START: Time = Time(1_767_225_600_000);

/// A temporary folder, a session in memory, and a clock. The folder is removed when the value is dropped.
pub struct World {
    folder: TempDir,
    /// Store of the conversation.
    pub store: Arc<SessionStore>,
    /// Source of time and ids.
    pub clock: Arc<Steps>,
}

impl World {
    /// Creates a world with an empty folder.
    pub fn new() -> Self {
        let folder =
            tempfile::tempdir().unwrap_or_else(|error| panic!("no temporary folder: {error}"));
        let store =
            SessionStore::in_memory(folder.path()).unwrap_or_else(|error| panic!("{error}"));
        Self {
            folder,
            store: Arc::new(store),
            clock: Arc::default(),
        }
    }

    /// Creates a world whose folder holds `files`, given by name and content.
    pub fn with_files(files: &[(&str, &str)]) -> Self {
        let world = Self::new();
        for (name, text) in files {
            let path = world.folder().join(name);
            let written = path
                .parent()
                .map_or(Ok(()), std::fs::create_dir_all)
                .and_then(|()| std::fs::write(&path, text));
            written.unwrap_or_else(|error| panic!("cannot write {}: {error}", path.display()));
        }
        world
    }

    /// Returns the folder.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }
}

impl Default for World {
    fn default() -> Self {
        Self::new()
    }
}

/// Clock that advances by a millisecond at each reading, and counts its ids.
#[derive(Debug, Default)]
pub struct Steps {
    milliseconds: AtomicI64,
    ids: AtomicI64,
}

impl Steps {
    /// Advances the clock.
    pub fn advance(&self, milliseconds: i64) {
        self.milliseconds.fetch_add(milliseconds, Ordering::SeqCst);
    }
}

impl Clock for Steps {
    fn now(&self) -> Time {
        Time(START.0 + self.milliseconds.fetch_add(1, Ordering::SeqCst))
    }

    fn message_id(&self) -> MessageId {
        format!("{:026}", self.ids.fetch_add(1, Ordering::SeqCst) + 1).into()
    }
}
