//! A log in memory: the least that a log has to do.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use ah_conversation::{Clock as _, Mail, MailKind, MessageId, SessionId, StoreError};
use ah_ids::SystemClock;
use ah_store::SessionStore;
use ah_store::log::{Entry, Log};
use async_trait::async_trait;
use parking_lot::Mutex;

/// Sessions that several writers may open, of whom the last one writes.
#[derive(Debug, Default)]
pub struct MemoryLog {
    epoch: AtomicI64,
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    entries: Vec<String>,
    blobs: HashMap<String, Vec<u8>>,
    mail: Vec<(MailKind, Mail)>,
}

/// A writer's hold on the log.
#[derive(Debug)]
struct Held {
    log: Arc<MemoryLog>,
    epoch: i64,
}

impl MemoryLog {
    pub fn take_lease(&self) -> i64 {
        self.epoch.fetch_add(1, Ordering::SeqCst) + 1
    }

    pub async fn open(self: &Arc<Self>, scratch: &Path) -> SessionStore {
        let held = Arc::new(Held {
            epoch: self.take_lease(),
            log: self.clone(),
        });
        let id = SessionId::from("01ARZ3NDEKTSV4RRFFQ69G5FAV");
        SessionStore::of_log(id, held, scratch).await.unwrap()
    }
}

#[async_trait]
impl Log for Held {
    fn name(&self) -> &str {
        "a log in memory"
    }

    async fn entries(&self) -> Result<Vec<String>, StoreError> {
        Ok(self.log.kept.lock().entries.clone())
    }

    async fn blob(&self, hash: &str) -> Result<Vec<u8>, StoreError> {
        Ok(self.log.kept.lock().blobs[hash].clone())
    }

    async fn commit(&self, entry: Entry) -> Result<(), StoreError> {
        if self.log.epoch.load(Ordering::SeqCst) != self.epoch {
            return Err(StoreError {
                action: "cannot write",
                path: self.name().into(),
                reason: "another process has taken over the session".to_owned(),
                hint: None,
            });
        }
        let mut kept = self.log.kept.lock();
        kept.mail
            .retain(|(_, mail)| !entry.messages.contains(&mail.id));
        kept.entries.push(entry.body);
        for blob in entry.blobs {
            kept.blobs.insert(blob.hash, blob.content);
        }
        Ok(())
    }

    async fn mail(&self, kind: MailKind) -> Result<Vec<Mail>, StoreError> {
        let kept = self.log.kept.lock();
        let of_kind = kept.mail.iter().filter(|(of, _)| *of == kind);
        Ok(of_kind.map(|(_, mail)| mail.clone()).collect())
    }

    async fn send(&self, id: &MessageId, kind: MailKind, text: &str) -> Result<(), StoreError> {
        let mail = Mail {
            id: id.clone(),
            content: text.to_owned(),
            created_at: SystemClock::default().now(),
        };
        self.log.kept.lock().mail.push((kind, mail));
        Ok(())
    }

    async fn withdraw(&self, id: &MessageId) -> Result<bool, StoreError> {
        let mut kept = self.log.kept.lock();
        let before = kept.mail.len();
        kept.mail.retain(|(_, mail)| mail.id != *id);
        Ok(kept.mail.len() < before)
    }
}
