//! Mail to a session from other processes: steering and follow-ups.
//!
//! The queue is a database of its own, so that a sender never waits for the writer. It comes into being with the first
//! letter; a session without mail has none. Two databases share no transaction, so a letter is delivered exactly once
//! by its id: it becomes the id of the message, and the mark in the queue only saves looking again.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use ah_conversation::{Clock, Mail, MailKind, MessageId, StoreError, Time};
use rusqlite::{Connection, TransactionBehavior, params};

use super::schema::QUEUE;
use super::session::Notice;
use super::{Durability, Failure, connect, salvage, set_durability};
use crate::id::{self, SystemClock};
use crate::paths::{Paths, create_folder, sync_folder};

/// Sends words to a session, whoever holds it.
#[derive(Debug)]
pub struct Queue {
    connection: Connection,
    path: PathBuf,
    clock: SystemClock,
    notice: Option<Notice>,
}

impl Queue {
    /// Opens the queue of a session, and makes it where it is missing. A damaged one is kept aside and what can be
    /// read of it is saved (see [`Queue::notice`]).
    pub fn open(paths: &Paths) -> Result<Self, StoreError> {
        let path = paths.queue();
        let (connection, notice) = open_to_send(&path, paths.folder())
            .map_err(|failure| failure.at("cannot open", &path))?;
        Ok(Self {
            connection,
            path,
            clock: SystemClock::default(),
            notice,
        })
    }

    /// What there is to tell of the queue.
    pub fn notice(&self) -> Option<&Notice> {
        self.notice.as_ref()
    }

    /// Sends `text`; durable when it returns. The id will be that of the message.
    pub fn send(&self, kind: MailKind, text: &str) -> Result<MessageId, StoreError> {
        let id = self.clock.message_id();
        insert(&self.connection, &id, kind, text)
            .map_err(|failure| failure.at("cannot write", &self.path))?;
        Ok(id)
    }
}

/// The receiving end, with the session's writer.
pub(super) struct Mailbox {
    /// `None` for a session in memory.
    path: Option<PathBuf>,
    open: Option<Open>,
    notices: Vec<Notice>,
}

struct Open {
    connection: Connection,
    /// The state of the database in which nothing was waiting.
    empty_at: Option<i64>,
    /// What was handed out and not marked yet.
    pending: Vec<MessageId>,
}

impl Mailbox {
    /// The mailbox of a session on disk. Nothing is opened before there is mail.
    pub(super) fn at(path: PathBuf) -> Self {
        Self {
            path: Some(path),
            open: None,
            notices: Vec::new(),
        }
    }

    /// A mailbox in memory.
    pub(super) fn in_memory() -> Result<Self, Failure> {
        let mut connection = Connection::open_in_memory()?;
        QUEUE.bring_up_to_date(&mut connection)?;
        Ok(Self {
            path: None,
            open: Some(Open::new(connection)),
            notices: Vec::new(),
        })
    }

    pub(super) fn take_notices(&mut self) -> Vec<Notice> {
        std::mem::take(&mut self.notices)
    }

    /// Sends mail to the own session.
    pub(super) fn send(
        &mut self,
        id: &MessageId,
        kind: MailKind,
        text: &str,
    ) -> Result<(), Failure> {
        match &self.path {
            Some(path) => {
                let folder = path.parent().unwrap_or(Path::new("."));
                let (connection, notice) = open_to_send(path, folder)?;
                self.notices.extend(notice);
                insert(&connection, id, kind, text)
            }
            None => match &self.open {
                Some(open) => insert(&open.connection, id, kind, text),
                None => Ok(()),
            },
        }
    }

    /// Removes mail that is not marked as read; gives whether it was there.
    pub(super) fn withdraw(&mut self, id: &MessageId) -> Result<bool, Failure> {
        let Some(open) = self.opened()? else {
            return Ok(false);
        };
        let sql = "DELETE FROM queue_messages WHERE id = ? AND consumed_at IS NULL";
        Ok(open.connection.execute(sql, [id.as_str()])? > 0)
    }

    /// The mail of `kind` that is not marked as read, oldest first. A damaged queue is replaced by what can be read of
    /// it.
    pub(super) fn waiting(&mut self, kind: MailKind) -> Result<Vec<Mail>, Failure> {
        let mut waiting = self.look(kind);
        if let (Err(failure), Some(path)) = (&waiting, &self.path)
            && failure.is_damage()
        {
            self.open = None;
            self.notices.push(save(path)?);
            waiting = self.look(kind);
        }
        waiting.map_err(Failure::of_queue)
    }

    /// Hands out what of the `waiting` mail is not in the conversation yet, and marks what is `known` there.
    pub(super) fn hand_out(&mut self, waiting: Vec<Mail>, known: &HashSet<MessageId>) -> Vec<Mail> {
        if let Some(open) = &mut self.open {
            open.pending = waiting.iter().map(|mail| mail.id.clone()).collect();
        }
        self.consume(|id| known.contains(id));
        let is_fresh = |mail: &Mail| !known.contains(&mail.id);
        waiting.into_iter().filter(is_fresh).collect()
    }

    /// Marks the mail that was handed out and is in the conversation now. That this failed is no failure of the append:
    /// the ids keep the mail from being read twice.
    pub(super) fn consume(&mut self, is_stored: impl Fn(&MessageId) -> bool) {
        let Some(open) = &mut self.open else {
            return;
        };
        let (stored, waiting): (Vec<_>, _) = std::mem::take(&mut open.pending)
            .into_iter()
            .partition(is_stored);
        open.pending = waiting;
        let _ = open.mark(&stored);
    }

    /// Shows in the queue, where there is one, who holds the session.
    pub(super) fn beat(&mut self) -> Result<(), Failure> {
        if let Some(open) = self.opened()? {
            open.show_holder()?;
        }
        Ok(())
    }

    /// Shows that nobody holds the session any more.
    pub(super) fn release(&mut self) {
        if let Some(open) = &self.open {
            let _ = open.connection.execute("DELETE FROM session_lock", []);
        }
    }

    fn look(&mut self, kind: MailKind) -> Result<Vec<Mail>, Failure> {
        let Some(open) = self.opened()? else {
            return Ok(Vec::new());
        };
        // The state from before the look: mail that comes meanwhile changes it.
        let state = open.state()?;
        if open.empty_at == Some(state) {
            return Ok(Vec::new());
        }
        let waiting = open.waiting(kind)?;
        if waiting.is_empty() && open.is_empty()? {
            open.empty_at = Some(state);
        }
        Ok(waiting)
    }

    fn opened(&mut self) -> Result<Option<&mut Open>, Failure> {
        if let (None, Some(path)) = (&self.open, &self.path)
            && path.exists()
        {
            let (connection, notice) = open_existing(path)?;
            self.notices.extend(notice);
            // A mark that a power loss undoes is set again by the id.
            set_durability(&connection, Durability::Deferred)?;
            let open = Open::new(connection);
            open.show_holder()?;
            self.open = Some(open);
        }
        Ok(self.open.as_mut())
    }
}

impl Open {
    fn new(connection: Connection) -> Self {
        Self {
            connection,
            empty_at: None,
            pending: Vec::new(),
        }
    }

    /// A number that changes when another connection changes the database, or when this one adds to it.
    fn state(&self) -> Result<i64, Failure> {
        let state = self
            .connection
            .prepare_cached("PRAGMA data_version")?
            .query_row([], |row| row.get::<_, i64>(0))?;
        Ok(state.wrapping_add(self.connection.last_insert_rowid()))
    }

    fn waiting(&self, kind: MailKind) -> Result<Vec<Mail>, Failure> {
        let mut statement = self.connection.prepare_cached(
            "SELECT id, content, created_at FROM queue_messages
             WHERE message_type = ? AND consumed_at IS NULL ORDER BY rowid",
        )?;
        let mail = statement.query_map([word(kind)], |row| {
            Ok(Mail {
                id: MessageId::from(row.get::<_, String>(0)?),
                content: row.get(1)?,
                created_at: Time(row.get::<_, i64>(2)?.saturating_mul(1000)),
            })
        })?;
        Ok(mail.collect::<Result<_, _>>()?)
    }

    fn is_empty(&self) -> Result<bool, Failure> {
        let mut statement = self
            .connection
            .prepare_cached("SELECT 1 FROM queue_messages WHERE consumed_at IS NULL LIMIT 1")?;
        Ok(!statement.exists([])?)
    }

    fn mark(&mut self, read: &[MessageId]) -> Result<(), Failure> {
        if read.is_empty() {
            return Ok(());
        }
        let now = id::now().seconds();
        let transaction = self
            .connection
            .transaction_with_behavior(TransactionBehavior::Immediate)?;
        {
            let mut statement = transaction
                .prepare_cached("UPDATE queue_messages SET consumed_at = ? WHERE id = ?")?;
            for id in read {
                statement.execute(params![now, id.as_str()])?;
            }
        }
        transaction.commit()?;
        Ok(())
    }

    fn show_holder(&self) -> Result<(), Failure> {
        let now = id::now().seconds();
        self.connection
            .prepare_cached(
                "INSERT INTO session_lock (key, owner_pid, started_at, heartbeat_at) VALUES ('lock', ?1, ?2, ?2)
                 ON CONFLICT (key) DO UPDATE SET
                     started_at = CASE WHEN owner_pid = ?1 THEN started_at ELSE ?2 END,
                     owner_pid = ?1, heartbeat_at = ?2",
            )?
            .execute(params![std::process::id(), now])?;
        Ok(())
    }
}

fn insert(
    connection: &Connection,
    id: &MessageId,
    kind: MailKind,
    text: &str,
) -> Result<(), Failure> {
    connection
        .prepare_cached(
            "INSERT INTO queue_messages (id, message_type, content, created_at) VALUES (?, ?, ?, ?)",
        )?
        .execute(params![
            id.as_str(),
            word(kind),
            text,
            id::now().seconds()
        ])?;
    Ok(())
}

fn open_to_send(path: &Path, folder: &Path) -> Result<(Connection, Option<Notice>), Failure> {
    if !path.exists() {
        create_folder(folder)?;
        QUEUE.create_unless_exists(path)?;
        sync_folder(folder)?;
    }
    open_existing(path)
}

fn open_existing(path: &Path) -> Result<(Connection, Option<Notice>), Failure> {
    match try_open(path) {
        Err(failure) if failure.is_damage() => {
            let notice = save(path)?;
            Ok((try_open(path)?, Some(notice)))
        }
        result => Ok((result?, None)),
    }
}

fn save(path: &Path) -> Result<Notice, Failure> {
    let saved = salvage::queue(path)?;
    Ok(Notice::QueueSalvaged {
        kept: saved.kept,
        letters: saved.messages,
    })
}

fn try_open(path: &Path) -> Result<Connection, Failure> {
    let mut connection = connect(path)?;
    QUEUE.bring_up_to_date(&mut connection)?;
    set_durability(&connection, Durability::Full)?;
    connection.prepare("SELECT id FROM queue_messages")?;
    Ok(connection)
}

/// The kind's word in the database.
fn word(kind: MailKind) -> &'static str {
    match kind {
        MailKind::Steer => "steer",
        MailKind::FollowUp => "followup",
    }
}
