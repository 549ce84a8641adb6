//! A session held for writing: its lease, its log and its mail.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

use ah_conversation::{Mail, MailKind, MessageId, SessionId, StoreError, Time};
use ah_store::log::{Entry, Log};
use async_trait::async_trait;
use tokio::sync::Mutex;
use tokio_postgres::types::{ToSql, Type};

use crate::connection::Postgres;
use crate::error::refused;

/// How long it is believed that no mail waits: an agent looks for mail right after most changes, and the answer to a change
/// says whether there was any. What is sent meanwhile is found at the next look.
const NO_MAIL: Duration = Duration::from_millis(50);

/// A lease on a session.
#[derive(Debug)]
pub(crate) struct Lease {
    server: Arc<Postgres>,
    session: SessionId,
    epoch: i64,
    /// Number of the next change.
    next: AtomicI64,
    /// When the server last said that no mail waits.
    without_mail: Mutex<Option<Instant>>,
}

impl Lease {
    /// Takes the lease on a session, unless another holder beats; a session that does not exist is made.
    pub(crate) async fn take(
        server: &Arc<Postgres>,
        session: &SessionId,
        owner: &str,
    ) -> Result<Option<Self>, StoreError> {
        let dead = server.timing.dead.as_secs_f64();
        let taken = server
            .rows(
                "cannot open",
                "SELECT epoch, next FROM ah.take($1, $2, $3)",
                &[
                    (&session.as_str(), Type::TEXT),
                    (&owner, Type::TEXT),
                    (&dead, Type::FLOAT8),
                ],
            )
            .await?;
        Ok(taken.first().map(|row| Self {
            server: server.clone(),
            session: session.clone(),
            epoch: row.get(0),
            next: AtomicI64::new(row.get(1)),
            without_mail: Mutex::default(),
        }))
    }

    /// Fails with the reason why a change was not stored, unless it was, by an attempt whose answer was lost.
    async fn explain(&self, seq: i64) -> Result<(), StoreError> {
        let found = self
            .server
            .rows(
                "cannot read",
                "SELECT epoch FROM ah.changes WHERE tenant = current_user AND session = $1 AND seq = $2",
                &[(&self.session.as_str(), Type::TEXT), (&seq, Type::INT8)],
            )
            .await?;
        if found
            .first()
            .is_some_and(|row| row.get::<_, i64>(0) == self.epoch)
        {
            return Ok(());
        }
        Err(refused(
            "cannot write",
            self.server.name(),
            "another process has taken over the session",
            Some("run again to continue from what that process has stored"),
        ))
    }
}

/// Gives a session back.
pub(crate) async fn release(
    server: &Postgres,
    session: &SessionId,
    owner: &str,
) -> Result<(), StoreError> {
    let free = "UPDATE ah.sessions SET owner = NULL
                WHERE tenant = current_user AND id = $1 AND owner = $2";
    let parameters: [(&(dyn ToSql + Sync), Type); 2] =
        [(&session.as_str(), Type::TEXT), (&owner, Type::TEXT)];
    server.rows("cannot write", free, &parameters).await?;
    Ok(())
}

/// Queues a message for a session; one with this id is queued once.
pub(crate) async fn send(
    server: &Postgres,
    session: &SessionId,
    id: &MessageId,
    kind: MailKind,
    text: &str,
) -> Result<(), StoreError> {
    if text.contains('\0') {
        let reason = "a queued message cannot have a NUL character";
        return Err(refused("cannot write", server.name(), reason, None));
    }
    server
        .rows(
            "cannot write",
            "SELECT ah.send($1, $2, $3, $4)",
            &[
                (&session.as_str(), Type::TEXT),
                (&id.as_str(), Type::TEXT),
                (&word(kind), Type::TEXT),
                (&text, Type::TEXT),
            ],
        )
        .await?;
    Ok(())
}

pub(crate) fn word(kind: MailKind) -> &'static str {
    match kind {
        MailKind::Steer => "steer",
        MailKind::FollowUp => "followup",
    }
}

#[async_trait]
impl Log for Lease {
    fn name(&self) -> &str {
        self.server.name()
    }

    async fn entries(&self) -> Result<Vec<String>, StoreError> {
        if self.next.load(Ordering::SeqCst) == 0 {
            return Ok(Vec::new());
        }
        let rows = self
            .server
            .rows(
                "cannot read",
                "SELECT body::text FROM ah.changes WHERE tenant = current_user AND session = $1 ORDER BY seq",
                &[(&self.session.as_str(), Type::TEXT)],
            )
            .await?;
        Ok(rows.iter().map(|row| row.get(0)).collect())
    }

    async fn blob(&self, hash: &str) -> Result<Vec<u8>, StoreError> {
        let select = "SELECT content FROM ah.blobs WHERE tenant = current_user AND hash = $1";
        let row = self
            .server
            .row("cannot read", select, &[(&hash, Type::TEXT)])
            .await?;
        Ok(row.get(0))
    }

    async fn commit(&self, entry: Entry) -> Result<(), StoreError> {
        let seq = self.next.load(Ordering::SeqCst);
        let count = i64::try_from(entry.messages.len()).unwrap_or(i64::MAX);
        let ids: Vec<_> = entry.messages.iter().map(MessageId::as_str).collect();
        let hashes: Vec<_> = entry.blobs.iter().map(|blob| blob.hash.as_str()).collect();
        let contents: Vec<_> = entry
            .blobs
            .iter()
            .map(|blob| blob.content.as_slice())
            .collect();
        let stored = self
            .server
            .row(
                "cannot write",
                "SELECT ah.append($1, $2, $3, $4, $5, $6, $7, $8, $9)",
                &[
                    (&self.session.as_str(), Type::TEXT),
                    (&self.epoch, Type::INT8),
                    (&seq, Type::INT8),
                    (&entry.body, Type::TEXT),
                    (&count, Type::INT8),
                    (&entry.cost, Type::INT8),
                    (&ids, Type::TEXT_ARRAY),
                    (&hashes, Type::TEXT_ARRAY),
                    (&contents, Type::BYTEA_ARRAY),
                ],
            )
            .await?;
        let mail_waits: Option<bool> = stored.get(0);
        if mail_waits.is_none() {
            self.explain(seq).await?;
        }
        *self.without_mail.lock().await = (mail_waits == Some(false)).then(Instant::now);
        self.next.store(seq + 1, Ordering::SeqCst);
        Ok(())
    }

    async fn mail(&self, kind: MailKind) -> Result<Vec<Mail>, StoreError> {
        let without_mail = *self.without_mail.lock().await;
        if without_mail.is_some_and(|since| since.elapsed() < NO_MAIL) {
            return Ok(Vec::new());
        }
        let rows = self
            .server
            .rows(
                "cannot read the queue of",
                "SELECT id, content, sent_at_ms FROM ah.waiting($1, $2)",
                &[
                    (&self.session.as_str(), Type::TEXT),
                    (&word(kind), Type::TEXT),
                ],
            )
            .await?;
        let mail = rows.iter().map(|row| Mail {
            id: MessageId::from(row.get::<_, String>(0)),
            content: row.get(1),
            created_at: Time(row.get(2)),
        });
        Ok(mail.collect())
    }

    async fn send(&self, id: &MessageId, kind: MailKind, text: &str) -> Result<(), StoreError> {
        send(&self.server, &self.session, id, kind, text).await?;
        *self.without_mail.lock().await = None;
        Ok(())
    }

    async fn withdraw(&self, id: &MessageId) -> Result<bool, StoreError> {
        let rows = self
            .server
            .rows(
                "cannot write",
                "DELETE FROM ah.mail
                 WHERE tenant = current_user AND session = $1 AND id = $2 AND consumed_by IS NULL RETURNING id",
                &[(&self.session.as_str(), Type::TEXT), (&id.as_str(), Type::TEXT)],
            )
            .await?;
        Ok(!rows.is_empty())
    }
}
