//! The writer's side of a session: the connection, the epoch under which it writes, and the mailbox.

use std::collections::{HashMap, HashSet};
use std::fs::{self, File};
use std::io::Write as _;
use std::path::Path;

use ah_beneath::Folder;
use ah_conversation::{
    Branch, CallFinish, FileStep, Mail, MailKind, Message, MessageId, Record, ToolUseId, Transcript,
};
use rusqlite::backup::Backup;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, Transaction, TransactionBehavior};

use super::connection::{connect, require_files};
use super::lock::{Lock, LockAttempt};
use super::outputs::{FullOutput, ResultColumns};
use super::queue::Mailbox;
use super::schema::CONVERSATION;
use super::tree::Tree;
use super::{
    ALL_PAGES, Durability, Failure, calls, context, events, fault, files, lease, log, messages,
    prefixes, prune, salvage, set_durability, transcript,
};
use crate::log::Image;
use crate::notice::Notice;
use crate::open_error::OpenError;
use crate::paths::{FILE_MODE, Paths, file_name, new_file, outputs_folder, sync_folder};
use crate::seal::Seal;
use ah_ids::uuid_of;

/// States of a session: with a run in progress, without one, and closed.
const PROCESSING: &str = "processing";
const IDLE: &str = "idle";
const CLOSED: &str = "closed";
/// Bytes of the log that are copied to the database at once: until then a page that each turn changes is written to the log alone.
const LARGEST_LOG: i64 = 4_096_000;

/// A conversation open for writing.
pub(super) struct Database {
    tree: Tree,
    epoch: i64,
    mailbox: Mailbox,
    notices: Vec<Notice>,
    location: DatabaseLocation,
    /// Whether commits are durable: a new file and its folder are synced, and the connection waits for the disk.
    is_durable: bool,
    /// Context that is written with the next records.
    noted: Vec<(&'static str, String)>,
    /// The key for seals of file states.
    seal: Option<Seal>,
}

enum DatabaseLocation {
    Disk {
        paths: Paths,
        is_new_folder: bool,
        /// `None` at rest.
        lock: Option<Lock>,
    },
    Memory,
}

/// A database that was opened for writing, and the notices about it.
struct OpenedDatabase {
    connection: Connection,
    epoch: i64,
    notices: Vec<Notice>,
    is_durable: bool,
}

impl Database {
    /// Opens the session at `paths`, whose lock the caller holds, or creates it.
    pub(super) fn open(paths: &Paths, lock: Lock, is_new_folder: bool) -> Result<Self, Failure> {
        let path = paths.database();
        require_files(path)?;
        refuse_link(&paths.outputs())?;
        let mut notices = Vec::new();
        notices.extend(log::set_aside_if_unreadable(path)?);
        if !path.exists() {
            match context::begun(paths, ah_ids::now()) {
                None => CONVERSATION.create_empty(path)?,
                Some(begun) => {
                    CONVERSATION
                        .create(path, |fresh| context::set(fresh, context::BEGUN, &begun))?;
                }
            }
        } else if log::is_missing_or_empty(path) {
            notices.push(salvage(path)?);
        }
        let opened = match open_for_writing(paths) {
            Err(failure) if failure.is_damage() => {
                notices.push(salvage(path)?);
                open_for_writing(paths)?
            }
            opened => opened?,
        };
        notices.extend(opened.notices);
        Ok(Self {
            tree: Tree::on(opened.connection, path, paths.outputs()),
            epoch: opened.epoch,
            mailbox: Mailbox::at(paths),
            notices,
            location: DatabaseLocation::Disk {
                paths: paths.clone(),
                is_new_folder,
                lock: Some(lock),
            },
            is_durable: opened.is_durable,
            noted: Vec::new(),
            seal: None,
        })
    }

    /// Creates a conversation in memory, with large outputs in the folder `outputs`.
    pub(super) fn in_memory(outputs: &Path) -> Result<Self, Failure> {
        let mut connection = super::settled(Connection::open_in_memory()?)?;
        CONVERSATION.migrate(&mut connection)?;
        let epoch = lease::take(&connection)?;
        Ok(Self {
            tree: Tree::on(connection, Path::new(":memory:"), outputs.to_owned()),
            epoch,
            mailbox: Mailbox::in_memory()?,
            notices: Vec::new(),
            location: DatabaseLocation::Memory,
            is_durable: true,
            noted: Vec::new(),
            // Nobody else can write it.
            seal: Some(Seal::random()?),
        })
    }

    /// Returns the conversation for reading.
    pub(super) fn tree(&self) -> &Tree {
        &self.tree
    }

    pub(super) fn take_notices(&mut self) -> Vec<Notice> {
        let mut notices = std::mem::take(&mut self.notices);
        notices.extend(self.mailbox.take_notices());
        notices
    }

    /// Syncs the files of a new session. The writer does this first, while the rest of the program is still starting;
    /// the first append waits for it.
    pub(super) fn make_durable(&mut self) -> Result<(), Failure> {
        if self.is_durable {
            return Ok(());
        }
        if let DatabaseLocation::Disk {
            paths,
            is_new_folder,
            ..
        } = &self.location
        {
            File::open(paths.database())?.sync_all()?;
            sync_folder(paths.folder())?;
            if *is_new_folder && let Some(parent) = paths.folder().parent() {
                sync_folder(if parent.as_os_str().is_empty() {
                    Path::new(".")
                } else {
                    parent
                })?;
            }
            set_durability(&self.tree.connection, Durability::Full)?;
        }
        self.is_durable = true;
        Ok(())
    }

    /// Lets other processes open the session. What is written meanwhile is refused if one does.
    pub(super) fn rest(&mut self) {
        if let DatabaseLocation::Disk { lock, .. } = &mut self.location {
            *lock = None;
        }
    }

    /// Takes the session back; returns whether another process has had it.
    pub(super) fn wake(&mut self) -> Result<bool, Failure> {
        let DatabaseLocation::Disk { paths, lock, .. } = &mut self.location else {
            return Ok(false);
        };
        if lock.is_some() {
            return Ok(false);
        }
        require_files(paths.database())?;
        if !paths.database().exists() {
            return Err(Failure::Refused {
                reason: "the session has been deleted".to_owned(),
                hint: None,
            });
        }
        match Lock::try_take(&paths.lock())? {
            LockAttempt::Held(taken) => *lock = Some(taken),
            LockAttempt::Busy(holder) => {
                return Err(Failure::Refused {
                    reason: OpenError::Busy(holder).to_string(),
                    hint: Some("try again when its run has ended".to_owned()),
                });
            }
        }
        let is_changed = lease::check(&self.tree.connection, self.epoch).is_err();
        if is_changed {
            self.epoch = lease::take(&self.tree.connection)?;
        }
        Ok(is_changed)
    }

    pub(super) fn load(&self) -> Result<Transcript, Failure> {
        transcript::load(&self.tree.connection)
    }

    pub(super) fn load_agent(&self, agent_id: &str) -> Result<Transcript, Failure> {
        transcript::load_agent(&self.tree.connection, agent_id)
    }

    /// Appends `records` in one transaction to the conversation of a subagent or the main one. Large outputs are
    /// written to files, durably, before it starts.
    pub(super) fn append(
        &mut self,
        records: &[Record],
        branch: Option<&Branch>,
    ) -> Result<(), Failure> {
        let mut outputs = HashMap::new();
        for finish in finishes(records) {
            let call = &finish.result.tool_use_id;
            let full_output = FullOutput::store(&finish.output, call, &self.tree.outputs)?;
            outputs.insert(call.clone(), full_output);
        }
        let folder = self.tree.outputs.clone();
        let noted = self.noted.clone();
        let seal = self.seal.clone();
        self.write(|transaction| {
            for (key, value) in &noted {
                context::set(transaction, key, value)?;
            }
            append(
                transaction,
                (&folder, seal.as_ref()),
                records,
                branch,
                outputs,
            )
        })?;
        self.noted.clear();
        let stored: HashSet<_> = new_messages(records).map(|message| &message.id).collect();
        self.mailbox.consume(|id| stored.contains(id));
        Ok(())
    }

    pub(super) fn file_steps(&self) -> Result<Vec<FileStep>, Failure> {
        let seal = self.seal.as_ref();
        files::steps(&self.tree.connection, &self.tree.outputs, seal)
    }

    /// Seals file states with this key from now on, and knows them by it.
    pub(super) fn seal_with(&mut self, seal: Seal) {
        self.seal = Some(seal);
    }

    pub(super) fn has_rewind_cut_off(&self) -> Result<bool, Failure> {
        files::has_rewind_cut_off(&self.tree.connection)
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

    pub(super) fn context(&self, key: &str) -> Result<Option<String>, Failure> {
        context::get(&self.tree.connection, key)
    }

    pub(super) fn set_context(&mut self, key: &str, value: &str) -> Result<(), Failure> {
        self.write(|transaction| context::set(transaction, key, value))
    }

    /// Sets context with the next records, unless it is so already: it is not worth a transaction of its own.
    pub(super) fn note_context(&mut self, key: &'static str, value: String) {
        let known = context::get(&self.tree.connection, key);
        if known.is_ok_and(|known| known.unwrap_or_default() != value) {
            self.noted.push((key, value));
        }
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
        let ids = [id.clone()];
        let count = self.delete_all(&ids, |transaction| {
            prefixes::invalidate_below(transaction, id)?;
            prune::reparent_children(transaction, id)
        })?;
        Ok(count == 1)
    }

    pub(super) fn delete_subtree(&mut self, id: &MessageId) -> Result<usize, Failure> {
        let ids = prune::subtree(&self.tree.connection, id)?;
        self.delete_all(&ids, |_| Ok(()))
    }

    /// Salvages the damaged database and reopens it.
    pub(super) fn salvage(&mut self) -> Result<(), Failure> {
        let DatabaseLocation::Disk { paths, .. } = &self.location else {
            return Err(Failure::Damaged("it exists in memory only".to_owned()));
        };
        let paths = paths.clone();
        // The damaged file must be closed before it is replaced.
        drop(std::mem::replace(
            &mut self.tree.connection,
            Connection::open_in_memory()?,
        ));
        self.notices.push(salvage(paths.database())?);
        let opened = open_for_writing(&paths)?;
        self.tree.connection = opened.connection;
        self.epoch = opened.epoch;
        self.notices.extend(opened.notices);
        self.is_durable = opened.is_durable;
        Ok(())
    }

    /// Copies the conversation to a new file, as of a process that has closed it.
    pub(super) fn copy_to(&self, path: &Path) -> Result<(), Failure> {
        drop(new_file(path)?);
        let mut copy = connect(path)?;
        Backup::new(&self.tree.connection, &mut copy)?.step(ALL_PAGES)?;
        copy.execute("UPDATE lease SET owner = NULL", [])?;
        // All pages are in the file, whatever mode the original has.
        copy.pragma_update(None, "journal_mode", "DELETE")?;
        copy.pragma_update(None, "journal_mode", "WAL")?;
        copy.close().map_err(|(_, error)| error)?;
        File::open(path)?.sync_all()?;
        Ok(())
    }

    /// Replaces a conversation in memory by that of an image.
    pub(super) fn replace(&mut self, image: &Image) -> Result<(), Failure> {
        let folder = self.tree.outputs.clone();
        let outputs = outputs_folder(&folder)?;
        for (name, content) in &image.outputs {
            let mut file = outputs.create_file(name.as_ref(), FILE_MODE)?;
            file.write_all(content)?;
        }
        let path = folder.join("moved.db");
        fs::write(&path, &image.database)?;
        let mut original = connect(&path)?;
        CONVERSATION.migrate(&mut original)?;
        // A database in memory has no log.
        original.pragma_update(None, "journal_mode", "DELETE")?;
        // The size of its pages is that of the image only while it has none.
        let mut fresh = super::settled(Connection::open_in_memory()?)?;
        Backup::new(&original, &mut fresh)?.step(ALL_PAGES)?;
        self.tree.connection = fresh;
        drop(original);
        fs::remove_file(&path)?;
        self.epoch = lease::take(&self.tree.connection)?;
        Ok(())
    }

    /// Updates the heartbeats; errors are ignored, since the next one may succeed.
    pub(super) fn heartbeat(&mut self) {
        let _ = lease::heartbeat(&self.tree.connection, self.epoch);
        let _ = self.mailbox.heartbeat();
    }

    /// Closes the session and releases it.
    pub(super) fn close(mut self) {
        let _ = self.release();
        self.mailbox.release();
        if let DatabaseLocation::Memory = self.location {
            let _ = fs::remove_dir_all(&self.tree.outputs);
        }
    }

    fn release(&mut self) -> Result<(), Failure> {
        // The checkpoint on close syncs the log.
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

    /// Writes in one durable transaction; fails if another process has taken over the session.
    fn write<T>(
        &mut self,
        write: impl FnOnce(&Transaction<'_>) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        self.make_durable()?;
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
        ids: &[MessageId],
        prepare: impl FnOnce(&Connection) -> Result<(), Failure>,
    ) -> Result<usize, Failure> {
        let (count, files) = self.write(|transaction| {
            prepare(transaction)?;
            let files = prune::spooled(transaction, ids)?;
            Ok((prune::delete(transaction, ids)?, files))
        })?;
        if let Ok(outputs) = Folder::at(&self.tree.outputs) {
            for file in files {
                // A file that remains is removed by the next garbage collection.
                let _ = outputs.remove_file(file.as_ref());
            }
        }
        Ok(count)
    }
}

/// Fails if the folder of outputs is a symbolic link: it may have come with the session, and what is written there would go
/// elsewhere.
fn refuse_link(outputs: &Path) -> Result<(), Failure> {
    match outputs.is_symlink() {
        false => Ok(()),
        true => Err(Failure::Refused {
            reason: format!("`{}` is a symbolic link", file_name(outputs)),
            hint: Some("remove it".to_owned()),
        }),
    }
}

/// Opens an existing database for writing: migrates it, removes empty messages and starts a new epoch.
fn open_for_writing(paths: &Paths) -> Result<OpenedDatabase, Failure> {
    let path = paths.database();
    let is_new_log = log::is_new(path);
    let mut connection = connect(path)?;
    keep_log_on_close(&connection, true)?;
    CONVERSATION.migrate(&mut connection)?;
    connection.query_row("PRAGMA journal_mode = WAL", [], |_| Ok(()))?;
    let page: i64 = connection.pragma_query_value(None, "page_size", |row| row.get(0))?;
    connection.pragma_update(None, "wal_autocheckpoint", LARGEST_LOG / page.max(1))?;
    // A power loss may undo all of this without harm, so it need not wait for the disk.
    set_durability(
        &connection,
        if is_new_log {
            Durability::DeferredInNewLog
        } else {
            Durability::Deferred
        },
    )?;
    let mut notices = Vec::new();
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let was_released = lease::was_released(&transaction)?;
    let epoch = lease::take(&transaction)?;
    match prune::remove_empty(&transaction)? {
        0 => {}
        count => notices.push(Notice::EmptyMessages(count)),
    }
    if context::get(&transaction, context::STATE)?.as_deref() == Some(PROCESSING) {
        context::set(&transaction, context::STATE, IDLE)?;
        notices.push(Notice::Interrupted);
    }
    if paths.id().is_none() && context::get(&transaction, context::UUID)?.is_none() {
        let uuid = uuid_of(&ah_ids::fresh_session_id(None));
        context::set(&transaction, context::UUID, &uuid)?;
    }
    transaction.commit()?;
    if was_released {
        set_durability(&connection, Durability::Full)?;
    }
    Ok(OpenedDatabase {
        connection,
        epoch,
        notices,
        is_durable: was_released,
    })
}

/// Sets whether closing leaves the log as it is. Only a clean close writes the log into the database, since a damaged
/// database must not be written to again.
fn keep_log_on_close(connection: &Connection, keep: bool) -> Result<(), Failure> {
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, keep)?;
    Ok(())
}

fn salvage(path: &Path) -> Result<Notice, Failure> {
    let saved = salvage::conversation(path)?;
    Ok(Notice::Salvaged {
        kept: saved.kept,
        messages: saved.messages,
    })
}

fn append(
    connection: &Connection,
    (folder, seal): (&Path, Option<&Seal>),
    records: &[Record],
    branch: Option<&Branch>,
    mut outputs: HashMap<ToolUseId, FullOutput>,
) -> Result<(), Failure> {
    // Results that a message of the same transaction stores are left out of the journal.
    let in_messages: HashSet<_> = new_messages(records)
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
                let columns = if in_messages.contains(id) {
                    None
                } else {
                    Some(ResultColumns::new(&call.result, outputs.remove(id))?)
                };
                calls::finish(connection, call, columns)?;
            }
            Record::Files(change) => files::insert(connection, folder, change, seal)?,
            Record::FilesLeft(left) => files::note_left(connection, left, seal)?,
            Record::Prefix(message, prefix) => prefixes::insert(connection, message, prefix)?,
            Record::Note(key, value) => context::set(connection, &context::note(key), value)?,
            Record::Event(_) => {}
        }
    }
    // Events come last, since they may reference a later message.
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
