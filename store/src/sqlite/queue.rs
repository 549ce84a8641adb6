//! Messages queued for a session by other processes: steering and follow-ups.
//!
//! The queue is a database of its own, so that a sender never waits for the writer; the first queued message creates
//! it. Two databases share no transaction, so delivery exactly once depends on the id: that of the queued message
//! becomes the id of the message in the conversation. The mark in the queue only saves a lookup.
//!
//! A message has the user's words, and the file may come with a folder, or be changed by a command: so each is sealed, and one without
//! a seal is removed, not said.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use ah_conversation::{Clock, Mail, MailKind, MessageId, StoreError, Time, title_of};
use rusqlite::{Connection, TransactionBehavior, params};

use super::connection::connect;
use super::schema::QUEUE;
use super::{Durability, Failure, salvage, set_durability};
use crate::notice::Notice;
use crate::paths::{Paths, create_folder, sync_folder};
use crate::seal::Seal;
use ah_ids::SystemClock;

/// Longest beginning of a message that is told, in characters.
const LONGEST_TITLE: usize = 80;

/// Queues messages for a session, which any process may have open.
#[derive(Debug)]
pub struct Queue {
    connection: Connection,
    path: PathBuf,
    clock: SystemClock,
    notice: Option<Notice>,
    seal: Option<Seal>,
}

impl Queue {
    /// Opens the queue of a session, or creates it. A damaged queue is salvaged (see [`Queue::notice`]).
    pub fn open(paths: &Paths) -> Result<Self, StoreError> {
        let path = paths.queue();
        let (connection, notice) = open_to_send(&path, paths.folder())
            .map_err(|failure| failure.at("cannot open", &path))?;
        Ok(Self {
            connection,
            path,
            clock: SystemClock::default(),
            notice,
            seal: paths.seal(),
        })
    }

    /// Returns the notice about a damaged queue.
    pub fn notice(&self) -> Option<&Notice> {
        self.notice.as_ref()
    }

    /// Queues `text`, durably, and returns the id that the message will have. An empty one says nothing, and is refused.
    pub fn send(&self, kind: MailKind, text: &str) -> Result<MessageId, StoreError> {
        self.send_with(&self.clock, kind, text)
    }

    /// As [`Self::send`], with an id of this clock.
    pub(crate) fn send_with(
        &self,
        clock: &dyn Clock,
        kind: MailKind,
        text: &str,
    ) -> Result<MessageId, StoreError> {
        if text.trim().is_empty() {
            return Err(StoreError {
                action: "cannot write",
                path: self.path.clone(),
                reason: "the message is empty".to_owned(),
                hint: None,
            });
        }
        let id = clock.message_id();
        self.send_as(&id, kind, text)?;
        Ok(id)
    }

    /// Queues `text` as the message `id`, durably.
    pub fn send_as(&self, id: &MessageId, kind: MailKind, text: &str) -> Result<(), StoreError> {
        insert(&self.connection, self.seal.as_ref(), (id, kind, text))
            .map_err(|failure| failure.at("cannot write", &self.path))
    }

    /// Returns the messages of `kind` that were not read yet, oldest first.
    pub fn waiting(&self, kind: MailKind) -> Result<Vec<Mail>, StoreError> {
        let waiting = waiting(&self.connection, self.seal.as_ref(), kind);
        let waiting = waiting.map_err(|failure| failure.at("cannot read", &self.path))?;
        Ok(waiting.own)
    }

    /// Takes a message back; returns whether it still waited. One that a run reads at this very moment is not held back.
    pub fn withdraw(&self, id: &MessageId) -> Result<bool, StoreError> {
        withdraw(&self.connection, id).map_err(|failure| failure.at("cannot write", &self.path))
    }

    /// Returns whether a message waits.
    pub(crate) fn has_waiting(&self) -> Result<bool, StoreError> {
        let waiting = self
            .connection
            .prepare("SELECT 1 FROM queue_messages WHERE consumed_at IS NULL LIMIT 1")
            .and_then(|mut statement| statement.exists([]));
        waiting.map_err(|error| Failure::from(error).at("cannot read", &self.path))
    }
}

/// The receiving end of the queue, used by the session's writer.
pub(super) struct Mailbox {
    /// `None` for a session in memory.
    paths: Option<Paths>,
    open: Option<OpenQueue>,
    notices: Vec<Notice>,
}

struct OpenQueue {
    connection: Connection,
    seal: Option<Seal>,
    /// State of the database in which the queue was empty.
    empty_at: Option<i64>,
    /// Ids of messages that were handed out and not marked yet.
    pending: Vec<MessageId>,
}

impl Mailbox {
    /// Returns the mailbox of a session on disk. The queue is opened when its file exists.
    pub(super) fn at(paths: &Paths) -> Self {
        Self {
            paths: Some(paths.clone()),
            open: None,
            notices: Vec::new(),
        }
    }

    /// Creates a mailbox in memory.
    pub(super) fn in_memory() -> Result<Self, Failure> {
        let mut connection = Connection::open_in_memory()?;
        QUEUE.migrate(&mut connection)?;
        Ok(Self {
            paths: None,
            open: Some(OpenQueue::new(connection, None)),
            notices: Vec::new(),
        })
    }

    pub(super) fn take_notices(&mut self) -> Vec<Notice> {
        std::mem::take(&mut self.notices)
    }

    /// Queues a message for this session.
    pub(super) fn send(
        &mut self,
        id: &MessageId,
        kind: MailKind,
        text: &str,
    ) -> Result<(), Failure> {
        match &self.paths {
            Some(paths) => {
                let (connection, notice) = open_to_send(&paths.queue(), paths.folder())?;
                self.notices.extend(notice);
                insert(&connection, paths.seal().as_ref(), (id, kind, text))
            }
            None => match &self.open {
                Some(open) => insert(&open.connection, None, (id, kind, text)),
                None => Ok(()),
            },
        }
    }

    /// Removes a queued message that is not marked as read; returns whether it was there.
    pub(super) fn withdraw(&mut self, id: &MessageId) -> Result<bool, Failure> {
        let Some(open) = self.opened()? else {
            return Ok(false);
        };
        withdraw(&open.connection, id)
    }

    /// Returns the queued messages of `kind` that are not marked as read, oldest first. A damaged queue is salvaged.
    pub(super) fn waiting(&mut self, kind: MailKind) -> Result<Vec<Mail>, Failure> {
        let mut waiting = self.look(kind);
        if let (Err(failure), Some(paths)) = (&waiting, &self.paths)
            && failure.is_damage()
        {
            self.open = None;
            self.notices.push(save(&paths.queue())?);
            waiting = self.look(kind);
        }
        waiting.map_err(Failure::of_queue)
    }

    /// Returns those of the `waiting` messages that are not in the conversation yet; marks the `known` ones as read.
    pub(super) fn hand_out(&mut self, waiting: Vec<Mail>, known: &HashSet<MessageId>) -> Vec<Mail> {
        if let Some(open) = &mut self.open {
            open.pending = waiting.iter().map(|mail| mail.id.clone()).collect();
        }
        self.consume(|id| known.contains(id));
        let is_fresh = |mail: &Mail| !known.contains(&mail.id);
        waiting.into_iter().filter(is_fresh).collect()
    }

    /// Marks messages as read that were handed out and are in the conversation now. Errors are ignored, since the ids
    /// already prevent a second delivery.
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

    /// Updates the heartbeat of this process in the queue, if there is one.
    pub(super) fn heartbeat(&mut self) -> Result<(), Failure> {
        if let Some(open) = self.opened()? {
            open.show_holder()?;
        }
        Ok(())
    }

    /// Removes this process as the holder of the session.
    pub(super) fn release(&mut self) {
        if let Some(open) = &self.open {
            let _ = open.connection.execute("DELETE FROM session_lock", []);
        }
    }

    fn look(&mut self, kind: MailKind) -> Result<Vec<Mail>, Failure> {
        let Some(open) = self.opened()? else {
            return Ok(Vec::new());
        };
        // The state is read first: messages queued meanwhile change it.
        let state = open.state()?;
        if open.empty_at == Some(state) {
            return Ok(Vec::new());
        }
        let waiting = waiting(&open.connection, open.seal.as_ref(), kind)?;
        for mail in &waiting.of_others {
            withdraw(&open.connection, &mail.id)?;
        }
        if waiting.own.is_empty() && open.is_empty()? {
            open.empty_at = Some(state);
        }
        self.notices.extend(
            waiting
                .of_others
                .first()
                .map(|first| Notice::QueuedByOthers {
                    count: waiting.of_others.len(),
                    first: title_of(&first.content, LONGEST_TITLE),
                }),
        );
        Ok(waiting.own)
    }

    fn opened(&mut self) -> Result<Option<&mut OpenQueue>, Failure> {
        if let (None, Some(paths)) = (&self.open, &self.paths)
            && paths.queue().exists()
        {
            let (connection, notice) = open_existing(&paths.queue())?;
            self.notices.extend(notice);
            // A mark lost in a power failure is set again because of the id.
            set_durability(&connection, Durability::Deferred)?;
            let open = OpenQueue::new(connection, paths.seal());
            open.show_holder()?;
            self.open = Some(open);
        }
        Ok(self.open.as_mut())
    }
}

impl OpenQueue {
    fn new(connection: Connection, seal: Option<Seal>) -> Self {
        Self {
            connection,
            seal,
            empty_at: None,
            pending: Vec::new(),
        }
    }

    /// Returns a number that changes when another connection changes the database or this one inserts a row.
    fn state(&self) -> Result<i64, Failure> {
        let version = self
            .connection
            .prepare_cached("PRAGMA data_version")?
            .query_row([], |row| row.get::<_, i64>(0))?;
        Ok(version.wrapping_add(self.connection.last_insert_rowid()))
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
        let now = ah_ids::now().seconds();
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

    /// Replaces the row, since SQLite does not write one that is updated to what it was: the same steps write the same pages, whatever
    /// the time is.
    fn show_holder(&self) -> Result<(), Failure> {
        let now = ah_ids::now().seconds();
        self.connection
            .prepare_cached(
                "REPLACE INTO session_lock (key, owner_pid, started_at, heartbeat_at) VALUES ('lock', ?1, coalesce(
                     (SELECT started_at FROM session_lock WHERE key = 'lock' AND owner_pid = ?1), ?2), ?2)",
            )?
            .execute(params![std::process::id(), now])?;
        Ok(())
    }
}

/// Messages that were not read yet, oldest first.
#[derive(Default)]
struct WaitingMail {
    own: Vec<Mail>,
    /// Those that this user has not sent: they came with the files, or somebody has written them there since.
    of_others: Vec<Mail>,
}

/// Without a key, all are taken for the user's.
fn waiting(
    connection: &Connection,
    seal: Option<&Seal>,
    kind: MailKind,
) -> Result<WaitingMail, Failure> {
    let mut statement = connection.prepare_cached(
        "SELECT id, content, created_at, seal FROM queue_messages
         WHERE message_type = ? AND consumed_at IS NULL ORDER BY rowid",
    )?;
    let rows = statement.query_map([word(kind)], |row| {
        let mail = Mail {
            id: MessageId::from(row.get::<_, String>(0)?),
            content: row.get(1)?,
            created_at: Time(row.get::<_, i64>(2)?.saturating_mul(1000)),
        };
        Ok((mail, row.get::<_, Option<Vec<u8>>>(3)?))
    })?;
    let mut found = WaitingMail::default();
    for row in rows {
        let (mail, sealed) = row?;
        let wanted = seal.map(|seal| code(seal, &mail.id, kind, &mail.content));
        match wanted.is_none_or(|code| sealed.as_deref() == Some(&code[..])) {
            true => found.own.push(mail),
            false => found.of_others.push(mail),
        }
    }
    Ok(found)
}

/// Returns the seal of a message.
fn code(seal: &Seal, id: &MessageId, kind: MailKind, text: &str) -> [u8; 32] {
    let values = ["queued", id.as_str(), word(kind), text];
    seal.of(&values.map(|value| Some(value.as_bytes())))
}

fn withdraw(connection: &Connection, id: &MessageId) -> Result<bool, Failure> {
    let sql = "DELETE FROM queue_messages WHERE id = ? AND consumed_at IS NULL";
    Ok(connection.execute(sql, [id.as_str()])? > 0)
}

fn insert(
    connection: &Connection,
    seal: Option<&Seal>,
    (id, kind, text): (&MessageId, MailKind, &str),
) -> Result<(), Failure> {
    connection
        .prepare_cached(
            "INSERT INTO queue_messages (id, message_type, content, created_at, seal) VALUES (?, ?, ?, ?, ?)",
        )?
        .execute(params![
            id.as_str(),
            word(kind),
            text,
            ah_ids::now().seconds(),
            seal.map(|seal| code(seal, id, kind, text))
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
        messages: saved.messages,
    })
}

fn try_open(path: &Path) -> Result<Connection, Failure> {
    let mut connection = connect(path)?;
    QUEUE.migrate(&mut connection)?;
    set_durability(&connection, Durability::Full)?;
    connection.prepare("SELECT id FROM queue_messages")?;
    Ok(connection)
}

/// Returns the word for the kind in the database.
fn word(kind: MailKind) -> &'static str {
    match kind {
        MailKind::Steer => "steer",
        MailKind::FollowUp => "followup",
    }
}
