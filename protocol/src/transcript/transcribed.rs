//! Transcripts of a session without a host, which its hooks read.

use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use ah_agent::{Frontend, SessionUpdate};
use ah_conversation::{Event, Host, Message, Task};

use super::sidechain::Sidechains;
use super::{RowHead, TranscriptFile, unwritten};
use crate::Ids;

/// A frontend whose session is transcribed: each message is in its file once the frontend was told of it.
pub struct Transcribed {
    frontend: Arc<dyn Frontend>,
    main: TranscriptFile,
    below: Mutex<Sidechains>,
    ids: Arc<dyn Ids>,
}

impl Transcribed {
    /// Opens the transcript at `path`, and completes it with the `messages` that the session has.
    ///
    /// # Errors
    ///
    /// If the file cannot be read or written.
    pub fn new(
        frontend: Arc<dyn Frontend>,
        path: PathBuf,
        head: RowHead,
        messages: &[Arc<Message>],
        ids: Arc<dyn Ids>,
    ) -> io::Result<Self> {
        let below = Mutex::new(Sidechains::of(&path, head.clone()));
        let (main, _) = TranscriptFile::open(path, head, None, messages, &*ids)?;
        Ok(Self {
            frontend,
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
                let mut below = self.below.lock().unwrap_or_else(PoisonError::into_inner);
                below.write(task, message, &*self.ids).map(drop)
            }
            _ => return,
        };
        if let Err(error) = written {
            self.frontend.notice(&unwritten(self.main.path(), &error));
        }
    }
}

impl Host for Transcribed {
    fn inner_host(&self) -> Option<&dyn Host> {
        Some(&*self.frontend)
    }
}

impl Frontend for Transcribed {
    fn inner_frontend(&self) -> Option<&dyn Frontend> {
        Some(&*self.frontend)
    }

    fn show(&self, event: &Event) {
        self.frontend.show(event);
    }

    fn notice(&self, text: &str) {
        self.frontend.notice(text);
    }

    fn update(&self, update: SessionUpdate<'_>) {
        self.write(None, update);
        self.frontend.update(update);
    }
}
