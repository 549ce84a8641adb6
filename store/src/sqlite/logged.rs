//! The log behind a copy in memory, and whether the copy may differ from it.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use ah_conversation::StoreError;
use tokio::sync::Mutex;

use super::Failure;
use crate::log::{Blob, Change, Log, decode, encode, hashes};

/// The log of a session, and why its copy may differ from it.
#[derive(Debug)]
pub(super) struct Logged {
    log: Arc<dyn Log>,
    /// One change at a time, so that the order in the log is that in the copy.
    lost: Mutex<Option<StoreError>>,
}

impl Logged {
    pub(super) fn new(log: Arc<dyn Log>) -> Self {
        Self {
            log,
            lost: Mutex::default(),
        }
    }

    pub(super) fn log(&self) -> &dyn Log {
        &*self.log
    }

    /// Waits until no change is being made.
    pub(super) async fn at_rest(&self) {
        drop(self.lost.lock().await);
    }

    /// Fails if the copy is ahead of the log.
    pub(super) async fn check(&self) -> Result<(), StoreError> {
        self.lost.lock().await.clone().map_or(Ok(()), Err)
    }

    /// Makes a change by `apply` in the copy, and then, with further contents, in the log.
    pub(super) async fn commit<T>(
        &self,
        change: &Change,
        contents: Vec<Blob>,
        apply: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let path = Path::new(self.log.name());
        let mut lost = self.lost.lock().await;
        if let Some(error) = &*lost {
            return Err(error.clone());
        }
        let entry = encode(change);
        let mut entry = entry.map_err(|error| failed(&error).at("cannot write", path))?;
        entry.blobs.extend(contents);
        let cut_off = Failure::Refused {
            reason: "an earlier change was cut off".to_owned(),
            hint: Some("open the session again".to_owned()),
        };
        // Whoever drops this future leaves it so.
        *lost = Some(cut_off.at("cannot write", path));
        let committed = match apply.await {
            Ok(value) => self.log.commit(entry).await.map(|()| value),
            // The copy has refused it, so nothing has changed.
            refused => {
                *lost = None;
                return refused;
            }
        };
        *lost = committed.as_ref().err().cloned();
        committed
    }

    /// Returns the change of an entry; the contents that it names are fetched.
    pub(super) async fn read(
        log: &dyn Log,
        body: &str,
        outputs: &Path,
    ) -> Result<Change, StoreError> {
        let unreadable = |failure: Failure| failure.at("cannot read", Path::new(log.name()));
        let mut blobs = HashMap::new();
        for hash in hashes(body).map_err(|error| unreadable(failed(&error.into())))? {
            let content = log.blob(&hash).await?;
            blobs.insert(hash, content);
        }
        decode(body, &blobs, outputs).map_err(|error| unreadable(failed(&error)))
    }
}

fn failed(error: &std::io::Error) -> Failure {
    Failure::Refused {
        reason: error.to_string(),
        hint: None,
    }
}
