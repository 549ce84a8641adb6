//! What the writer owns: the connection, the epoch under which it may write, and the mailbox.

use std::collections::{HashMap, HashSet};
use std::fs::{self, File};
use std::path::Path;

use ah_conversation::{
    Branch, CallFinish, FileStep, Mail, MailKind, Message, MessageId, Record, ToolUseId, Transcript,
};
use rusqlite::config::DbConfig;
use rusqlite::{Connection, Transaction, TransactionBehavior};

use super::lock::Lock;
use super::outputs::{ResultColumns, Whole};
use super::queue::Mailbox;
use super::schema::CONVERSATION;
use super::session::Notice;
use super::tree::Tree;
use super::{
    Durability, Failure, calls, connect, context, events, fault, files, lease, log, messages,
    prune, salvage, set_durability, transcript,
};
use crate::id::{self, uuid_of};
use crate::paths::{Paths, sync_folder};

/// The state of a session that a run works on, and of one that nothing works on.
const PROCESSING: &str = "processing";
const IDLE: &str = "idle";
const CLOSED: &str = "closed";

/// A conversation that this process may write.
pub(super) struct Database {
    tree: Tree,
    epoch: i64,
    mailbox: Mailbox,
    notices: Vec<Notice>,
    place: Place,
    /// Whether commits are durable: the file's beginnings are, and the connection is set to wait for the disk.
    is_settled: bool,
}

enum Place {
    Disk {
        paths: Paths,
        is_new_folder: bool,
        _lock: Lock,
    },
    Memory,
}

/// An opened database, and what opening it showed.
struct Begun {
    connection: Connection,
    epoch: i64,
    notices: Vec<Notice>,
    is_settled: bool,
}

impl Database {
    /// Opens the session at `paths`, whose lock is held, and makes it where it is missing.
    pub(super) fn open(paths: &Paths, lock: Lock, is_new_folder: bool) -> Result<Self, Failure> {
        let path = paths.database();
        let mut notices = Vec::new();
        notices.extend(log::set_aside_if_unreadable(path)?);
        if !path.exists() {
            CONVERSATION.create(path, |_| Ok(()))?;
        } else if log::is_missing_or_empty(path) {
            notices.push(save(path)?);
        }
        let begun = match begin(paths) {
            Err(failure) if failure.is_damage() => {
                notices.push(save(path)?);
                begin(paths)?
            }
            begun => begun?,
        };
        notices.extend(begun.notices);
        Ok(Self {
            tree: Tree::on(begun.connection, path, paths.outputs()),
            epoch: begun.epoch,
            mailbox: Mailbox::at(paths.queue()),
            notices,
            place: Place::Disk {
                paths: paths.clone(),
                is_new_folder,
                _lock: lock,
            },
            is_settled: begun.is_settled,
        })
    }

    /// A conversation in memory, whose big outputs go below `outputs`.
    pub(super) fn in_memory(outputs: &Path) -> Result<Self, Failure> {
        let mut connection = super::configured(Connection::open_in_memory()?)?;
        CONVERSATION.bring_up_to_date(&mut connection)?;
        let epoch = lease::take(&connection)?;
        Ok(Self {
            tree: Tree::on(connection, Path::new(":memory:"), outputs.to_owned()),
            epoch,
            mailbox: Mailbox::in_memory()?,
            notices: Vec::new(),
            place: Place::Memory,
            is_settled: true,
        })
    }

    /// The conversation, to be read.
    pub(super) fn tree(&self) -> &Tree {
        &self.tree
    }

    pub(super) fn take_notices(&mut self) -> Vec<Notice> {
        let mut notices = std::mem::take(&mut self.notices);
        notices.extend(self.mailbox.take_notices());
        notices
    }

    /// Makes the beginnings of a new session durable. The writer does so first of all, while the rest of the program
    /// is still starting; the first append waits for it.
    pub(super) fn settle(&mut self) -> Result<(), Failure> {
        if self.is_settled {
            return Ok(());
        }
        if let Place::Disk {
            paths,
            is_new_folder,
            ..
        } = &self.place
        {
            File::open(paths.database())?.sync_all()?;
            sync_folder(paths.folder())?;
            if let (true, Some(parent)) = (is_new_folder, paths.folder().parent()) {
                let parent = match parent.as_os_str().is_empty() {
                    true => Path::new("."),
                    false => parent,
                };
                sync_folder(parent)?;
            }
            set_durability(&self.tree.connection, Durability::Full)?;
        }
        self.is_settled = true;
        Ok(())
    }

    pub(super) fn load(&self) -> Result<Transcript, Failure> {
        transcript::load(&self.tree.connection)
    }

    pub(super) fn load_agent(&self, agent_id: &str) -> Result<Transcript, Failure> {
        transcript::load_agent(&self.tree.connection, agent_id)
    }

    /// Stores `records` in one transaction, in the conversation of a subagent or in the main one. Big outputs are
    /// durable in files of their own before it begins.
    pub(super) fn append(
        &mut self,
        records: &[Record],
        branch: Option<&Branch>,
    ) -> Result<(), Failure> {
        let mut outputs = HashMap::new();
        for finish in finishes(records) {
            let call = &finish.result.tool_use_id;
            let whole = Whole::keep(&finish.output, call, &self.tree.outputs)?;
            outputs.insert(call.clone(), whole);
        }
        self.write(|transaction| append(transaction, records, branch, outputs))?;
        let stored: HashSet<_> = new_messages(records).map(|message| &message.id).collect();
        self.mailbox.consume(|id| stored.contains(id));
        Ok(())
    }

    pub(super) fn file_steps(&self) -> Result<Vec<FileStep>, Failure> {
        files::steps(&self.tree.connection)
    }

    pub(super) fn file_content(&self, hash: &str) -> Result<Option<Vec<u8>>, Failure> {
        files::content(&self.tree.connection, hash)
    }

    pub(super) fn mail(&mut self, kind: MailKind) -> Result<Vec<Mail>, Failure> {
        let waiting = self.mailbox.waiting(kind)?;
        let ids = waiting.iter().map(|mail| &mail.id);
        let known = messages::known(&self.tree.connection, ids)?;
        Ok(self.mailbox.hand_out(waiting, &known))
    }

    pub(super) fn send(
        &mut self,
        id: &MessageId,
        kind: MailKind,
        text: &str,
    ) -> Result<(), Failure> {
        self.mailbox.send(id, kind, text).map_err(Failure::of_queue)
    }

    pub(super) fn withdraw(&mut self, id: &MessageId) -> Result<bool, Failure> {
        if !messages::known(&self.tree.connection, [id].into_iter())?.is_empty() {
            return Ok(false);
        }
        self.mailbox.withdraw(id).map_err(Failure::of_queue)
    }

    pub(super) fn set_context(&mut self, key: &str, value: &str) -> Result<(), Failure> {
        self.write(|transaction| context::set(transaction, key, value))
    }

    pub(super) fn checkout(&mut self, id: &MessageId) -> Result<(), Failure> {
        self.write(|transaction| {
            if messages::known(transaction, [id].into_iter())?.is_empty() {
                return Err(Failure::Refused {
                    reason: format!("there is no message {id}"),
                    hint: None,
                });
            }
            messages::set_current(transaction, id)
        })
    }

    pub(super) fn delete(&mut self, id: &MessageId) -> Result<bool, Failure> {
        let doomed = [id.clone()];
        let count = self.delete_all(&doomed, |transaction| {
            prune::hang_children_higher(transaction, id)
        })?;
        Ok(count == 1)
    }

    pub(super) fn delete_subtree(&mut self, id: &MessageId) -> Result<usize, Failure> {
        let doomed = prune::subtree(&self.tree.connection, id)?;
        self.delete_all(&doomed, |_| Ok(()))
    }

    /// Keeps a damaged database aside and goes on with what can be read of it.
    pub(super) fn salvage(&mut self) -> Result<(), Failure> {
        let Place::Disk { paths, .. } = &self.place else {
            return Err(Failure::Damaged("it is in memory alone".to_owned()));
        };
        let paths = paths.clone();
        // The damaged file must be closed before another takes its place.
        drop(std::mem::replace(
            &mut self.tree.connection,
            Connection::open_in_memory()?,
        ));
        self.notices.push(save(paths.database())?);
        let begun = begin(&paths)?;
        self.tree.connection = begun.connection;
        self.epoch = begun.epoch;
        self.notices.extend(begun.notices);
        self.is_settled = begun.is_settled;
        Ok(())
    }

    /// Shows that the session is held. That this fails now and then is no reason to stop.
    pub(super) fn beat(&mut self) {
        let _ = lease::beat(&self.tree.connection, self.epoch);
        let _ = self.mailbox.beat();
    }

    /// Leaves the session to others.
    pub(super) fn close(mut self) {
        let _ = self.release();
        self.mailbox.release();
        if let Place::Memory = self.place {
            let _ = fs::remove_dir_all(&self.tree.outputs);
        }
    }

    fn release(&mut self) -> Result<(), Failure> {
        // The log is synced when it is written into the database.
        keep_log_on_close(&self.tree.connection, false)?;
        set_durability(&self.tree.connection, Durability::Deferred)?;
        let epoch = self.epoch;
        let transaction = self.transaction()?;
        lease::check(&transaction, epoch)?;
        lease::release(&transaction, epoch)?;
        context::set(&transaction, context::STATE, CLOSED)?;
        transaction.commit()?;
        Ok(())
    }

    /// Writes in one durable transaction, if this process still may.
    fn write<T>(
        &mut self,
        write: impl FnOnce(&Transaction<'_>) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        self.settle()?;
        let epoch = self.epoch;
        let transaction = self.transaction()?;
        lease::check(&transaction, epoch)?;
        let written = write(&transaction)?;
        fault::commit(transaction)?;
        Ok(written)
    }

    fn transaction(&mut self) -> Result<Transaction<'_>, Failure> {
        let immediate = TransactionBehavior::Immediate;
        Ok(self.tree.connection.transaction_with_behavior(immediate)?)
    }

    fn delete_all(
        &mut self,
        doomed: &[MessageId],
        prepare: impl FnOnce(&Connection) -> Result<(), Failure>,
    ) -> Result<usize, Failure> {
        let (count, files) = self.write(|transaction| {
            prepare(transaction)?;
            let files = prune::spooled(transaction, doomed)?;
            Ok((prune::delete(transaction, doomed)?, files))
        })?;
        for file in files {
            // What stays behind is found by the next collection.
            let _ = fs::remove_file(self.tree.outputs.join(file));
        }
        Ok(count)
    }
}

/// Connects to an existing database, brings it up to date and begins a new epoch.
fn begin(paths: &Paths) -> Result<Begun, Failure> {
    let path = paths.database();
    let is_new_log = log::is_new(path);
    let mut connection = connect(path)?;
    keep_log_on_close(&connection, true)?;
    CONVERSATION.bring_up_to_date(&mut connection)?;
    connection.query_row("PRAGMA journal_mode = WAL", [], |_| Ok(()))?;
    // Nothing in here is missed after a power loss, so it need not wait for the disk.
    let durability = match is_new_log {
        true => Durability::DeferredInNewLog,
        false => Durability::Deferred,
    };
    set_durability(&connection, durability)?;
    let mut notices = Vec::new();
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let was_released = lease::was_released(&transaction)?;
    let epoch = lease::take(&transaction)?;
    match prune::remove_orphans(&transaction)? {
        0 => {}
        orphans => notices.push(Notice::Orphans(orphans)),
    }
    if context::get(&transaction, context::STATE)?.as_deref() == Some(PROCESSING) {
        context::set(&transaction, context::STATE, IDLE)?;
        notices.push(Notice::Interrupted);
    }
    if paths.id().is_none() && context::get(&transaction, context::UUID)?.is_none() {
        let uuid = uuid_of(&id::fresh_session_id(None));
        context::set(&transaction, context::UUID, &uuid)?;
    }
    transaction.commit()?;
    if was_released {
        set_durability(&connection, Durability::Full)?;
    }
    Ok(Begun {
        connection,
        epoch,
        notices,
        is_settled: was_released,
    })
}

/// Whether closing leaves the log as it is. Only a session that ends in order writes its log into the database: a
/// damaged database must not be written to once more.
fn keep_log_on_close(connection: &Connection, keep: bool) -> Result<(), Failure> {
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, keep)?;
    Ok(())
}

fn save(path: &Path) -> Result<Notice, Failure> {
    let saved = salvage::conversation(path)?;
    Ok(Notice::Salvaged {
        kept: saved.kept,
        messages: saved.messages,
    })
}

fn append(
    connection: &Connection,
    records: &[Record],
    branch: Option<&Branch>,
    mut outputs: HashMap<ToolUseId, Whole>,
) -> Result<(), Failure> {
    // Results that go into a message at once need not go through the journal.
    let taken: HashSet<_> = new_messages(records)
        .flat_map(|message| message.tool_results())
        .map(|result| &result.tool_use_id)
        .collect();
    for record in records {
        match record {
            Record::Message(message) => {
                let is_new = messages::insert(connection, message, branch, &mut outputs)?;
                if is_new && branch.is_none() {
                    messages::set_current(connection, &message.id)?;
                }
            }
            Record::CallStarted(call) => calls::start(connection, call)?,
            Record::CallFinished(call) => {
                let id = &call.result.tool_use_id;
                let columns = match taken.contains(id) {
                    true => None,
                    false => Some(ResultColumns::new(&call.result, outputs.remove(id))?),
                };
                calls::finish(connection, call, columns)?;
            }
            Record::Files(change) => files::insert(connection, change)?,
            Record::Event(_) => {}
        }
    }
    // Events come last: they may be about a message that comes after them.
    for record in records {
        if let Record::Event(event) = record {
            events::insert(connection, event)?;
        }
    }
    Ok(())
}

fn finishes(records: &[Record]) -> impl Iterator<Item = &CallFinish> {
    records.iter().filter_map(|record| match record {
        Record::CallFinished(finish) => Some(finish),
        _ => None,
    })
}

fn new_messages(records: &[Record]) -> impl Iterator<Item = &Message> {
    records.iter().filter_map(|record| match record {
        Record::Message(message) => Some(&**message),
        _ => None,
    })
}
