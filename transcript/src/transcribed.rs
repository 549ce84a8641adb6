//! Transcripts of a session without a host, which its hooks read.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use ah_agent::{Ready, SessionUpdate, Watcher};
use ah_conversation::{Message, Task};
use parking_lot::Mutex;

use super::sidechain::Sidechains;
use super::{RowHead, TranscriptFile, unwritten};
use crate::Ids;

/// A watcher who transcribes a session: each message is in its file once the watcher was told of it.
pub struct Transcribed {
    /// Tells the user of a fault.
    notice: Box<dyn Fn(&str) + Send + Sync>,
    main: TranscriptFile,
    below: Mutex<Sidechains>,
    ids: Arc<dyn Ids>,
}

impl Transcribed {
    /// Opens the transcript at `path`, and completes it with the `messages` that the session has. `notice` tells the
    /// user what could not be written later.
    ///
    /// # Errors
    ///
    /// If the file cannot be read or written.
    pub fn new(
        notice: impl Fn(&str) + Send + Sync + 'static,
        path: PathBuf,
        head: RowHead,
        messages: &[Arc<Message>],
        ids: Arc<dyn Ids>,
    ) -> io::Result<Self> {
        let below = Mutex::new(Sidechains::of(&path, head.clone()));
        let (main, _) = TranscriptFile::open(path, head, None, messages, &*ids)?;
        Ok(Self {
            notice: Box::new(notice),
            main,
            below,
            ids,
        })
    }

    /// Writes a stored message of the session, or of the subagent `task`.
    fn write(&self, task: Option<&Task>, update: SessionUpdate<'_>) {
        let written = match (update, task) {
            (SessionUpdate::Subagent(task, part), _) => return self.write(Some(task), *part),
            (SessionUpdate::Stored(message), None) => {
                self.main.write(message, &*self.ids).map(drop)
            }
            (SessionUpdate::Stored(message), Some(task)) => {
                let mut below = self.below.lock();
                below.write(task, message, &*self.ids).map(drop)
            }
            _ => return,
        };
        if let Err(error) = written {
            (self.notice)(&unwritten(self.main.path(), &error));
        }
    }
}

impl Watcher for Transcribed {
    fn update(&self, update: SessionUpdate<'_>) {
        self.write(None, update);
    }

    fn ready(&self) -> Option<Ready<'_>> {
        None
    }
}
