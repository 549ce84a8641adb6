//! Changes as JSON, and back.

use std::collections::{BTreeSet, HashMap};
use std::ffi::OsString;
use std::io::{self, Write as _};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ah_conversation::{
    Branch, CallFinish, CallStart, Content, Event, FileCause, FileChange, FileState, FilesLeft,
    Message, MessageId, Prefix, Record, ResultBlock, Spool, Time, ToolResult, ToolUseId, json,
};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::entry::{Blob, Change, Entry, Image};
use crate::paths::{FILE_MODE, Paths, hex, outputs_folder};

/// Largest content within an entry, in bytes.
const INLINE: usize = 16 * 1024;

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum StoredChange {
    Append {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        agent: Option<(String, ToolUseId)>,
        records: Vec<StoredRecord>,
    },
    Checkout(MessageId),
    Delete(MessageId),
    DeleteSubtree(MessageId),
    Context(String, String),
    Whole {
        database: String,
        outputs: Vec<(String, String)>,
        messages: Vec<Arc<Message>>,
    },
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum StoredRecord {
    Message(Arc<Message>),
    CallStarted {
        call: ToolUseId,
        message: MessageId,
        access: String,
        at: Time,
    },
    CallFinished {
        message: MessageId,
        result: Box<ToolResult>,
        output: StoredContent,
        at: Time,
    },
    Event(Box<Event>),
    Files {
        cause: StoredCause,
        at: Time,
        before: Vec<(StoredBytes, StoredState)>,
        unseen: Vec<String>,
    },
    FilesLeft {
        paths: Option<Vec<StoredBytes>>,
        until: Time,
    },
    Prefix(MessageId, Arc<Prefix>),
    Note(String, String),
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum StoredContent {
    Bytes(StoredBytes),
    Blocks(Vec<ResultBlock>),
    Spool {
        file: StoredBytes,
        len: u64,
        #[serde(default)]
        lines: u64,
        left_out: u64,
        head: StoredBytes,
        tail: StoredBytes,
    },
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum StoredCause {
    Run(MessageId),
    Rewind(i64),
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum StoredState {
    Absent { folders: usize },
    File { content: StoredBytes, mode: u32 },
    Folder { mode: u32 },
    Link { target: StoredBytes },
    Unkept,
}

/// Bytes: short text as it is, all else by its hash.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum StoredBytes {
    Text(String),
    Blob(String),
}

/// Returns the entry of a change. Spooled outputs are read.
pub(crate) fn encode(change: &Change) -> io::Result<Entry> {
    let mut entry = Entry::default();
    let stored = match change {
        Change::Append(branch, records) => {
            let mut stored = Vec::new();
            for record in records {
                stored.extend(entry.record(record)?);
            }
            let agent = branch.as_ref();
            StoredChange::Append {
                agent: agent.map(|of| (of.agent_id.clone(), of.spawned_by.clone())),
                records: stored,
            }
        }
        Change::Checkout(id) => StoredChange::Checkout(id.clone()),
        Change::Delete(id) => StoredChange::Delete(id.clone()),
        Change::DeleteSubtree(id) => StoredChange::DeleteSubtree(id.clone()),
        Change::Context(key, value) => StoredChange::Context(key.clone(), value.clone()),
        Change::Whole(image) => entry.whole(image),
    };
    entry.body = serde_json::to_string(&stored)?;
    Ok(entry)
}

/// Returns a content with its hash.
pub(crate) fn blob(content: Vec<u8>) -> Blob {
    let hash = hex(&Sha256::digest(&content));
    Blob { hash, content }
}

impl Entry {
    fn whole(&mut self, image: &Image) -> StoredChange {
        let mut kept = |content: &Vec<u8>| {
            self.blobs.push(blob(content.clone()));
            self.blobs.last().map(|blob| blob.hash.clone())
        };
        let database = kept(&image.database).unwrap_or_default();
        let outputs = image.outputs.iter();
        let outputs = outputs.filter_map(|(name, content)| Some((name.clone(), kept(content)?)));
        let outputs = outputs.collect();
        self.messages
            .extend(image.messages.iter().map(|message| message.id.clone()));
        self.cost = image.cost;
        StoredChange::Whole {
            database,
            outputs,
            messages: image.messages.clone(),
        }
    }

    fn record(&mut self, record: &Record) -> io::Result<Option<StoredRecord>> {
        Ok(Some(match record {
            Record::Message(message) => {
                self.messages.push(message.id.clone());
                let cost = message.response.as_ref().and_then(|of| of.cost);
                let cost = cost.and_then(|cost| i64::try_from(cost.0).ok());
                self.cost = self.cost.saturating_add(cost.unwrap_or(0));
                StoredRecord::Message(message.clone())
            }
            Record::CallStarted(call) => StoredRecord::CallStarted {
                call: call.tool_use_id.clone(),
                message: call.message_id.clone(),
                access: call.access.clone(),
                at: call.at,
            },
            Record::CallFinished(call) => StoredRecord::CallFinished {
                message: call.message_id.clone(),
                result: Box::new(call.result.clone()),
                output: self.content(&call.output)?,
                at: call.at,
            },
            Record::Event(event) if !event.kind.is_stored() => return Ok(None),
            Record::Event(event) => StoredRecord::Event(Box::new(event.clone())),
            Record::Files(change) => StoredRecord::Files {
                cause: match &change.cause {
                    FileCause::Run(id) => StoredCause::Run(id.clone()),
                    FileCause::Rewind(step) => StoredCause::Rewind(*step),
                },
                at: change.at,
                before: change
                    .before
                    .iter()
                    .map(|(path, state)| (self.path(path), self.state(state)))
                    .collect(),
                unseen: change.unseen.clone(),
            },
            Record::FilesLeft(left) => StoredRecord::FilesLeft {
                paths: left
                    .paths
                    .as_ref()
                    .map(|paths| paths.iter().map(|path| self.path(path)).collect()),
                until: left.until,
            },
            Record::Note(key, value) => StoredRecord::Note(key.clone(), value.clone()),
            Record::Prefix(message, prefix) => {
                StoredRecord::Prefix(message.clone(), prefix.clone())
            }
        }))
    }

    fn content(&mut self, content: &Content) -> io::Result<StoredContent> {
        Ok(match content {
            Content::Bytes(bytes) => StoredContent::Bytes(self.bytes(bytes)),
            Content::Blocks(blocks) => StoredContent::Blocks(blocks.clone()),
            Content::Spool(spool) => StoredContent::Spool {
                file: self.bytes(&std::fs::read(&spool.path)?),
                len: spool.len,
                lines: spool.lines,
                left_out: spool.left_out,
                head: self.bytes(&spool.head),
                tail: self.bytes(&spool.tail),
            },
        })
    }

    fn state(&mut self, state: &FileState<Arc<[u8]>>) -> StoredState {
        match state {
            FileState::Absent { folders } => StoredState::Absent { folders: *folders },
            FileState::File { content, mode } => StoredState::File {
                content: self.bytes(content),
                mode: *mode,
            },
            FileState::Folder { mode } => StoredState::Folder { mode: *mode },
            FileState::Link { target } => StoredState::Link {
                target: self.path(target),
            },
            // What is kept of a big file is a further name on this machine's disk.
            FileState::Big { .. } | FileState::Unkept => StoredState::Unkept,
        }
    }

    fn path(&mut self, path: &Path) -> StoredBytes {
        self.bytes(path.as_os_str().as_bytes())
    }

    fn bytes(&mut self, bytes: &[u8]) -> StoredBytes {
        match std::str::from_utf8(bytes) {
            Ok(text) if bytes.len() <= INLINE => StoredBytes::Text(text.to_owned()),
            _ => {
                let blob = blob(bytes.to_vec());
                let hash = blob.hash.clone();
                self.blobs.push(blob);
                StoredBytes::Blob(hash)
            }
        }
    }
}

/// Returns whether a file beside a database is needed as soon as it is opened.
fn is_eager(name: &str) -> bool {
    !name.starts_with(Paths::LAYER)
}

/// Returns the hashes of the blobs that an entry names and that its change needs.
pub(crate) fn hashes(body: &str) -> serde_json::Result<BTreeSet<String>> {
    let mut hashes = BTreeSet::new();
    match json::from_str(body)? {
        StoredChange::Append { records, .. } => {
            for record in &records {
                let named = record.bytes().into_iter();
                hashes.extend(named.filter_map(|bytes| match bytes {
                    StoredBytes::Blob(hash) => Some(hash.clone()),
                    StoredBytes::Text(_) => None,
                }));
            }
        }
        StoredChange::Whole {
            database, outputs, ..
        } => {
            let outputs = outputs.into_iter().filter(|(name, _)| is_eager(name));
            hashes.extend(outputs.map(|(_, hash)| hash));
            hashes.insert(database);
        }
        _ => {}
    }
    Ok(hashes)
}

/// Returns the messages of an entry's body, without those of subagents.
///
/// # Errors
///
/// If it is not one that this version understands.
pub fn messages(body: &str) -> serde_json::Result<Vec<Arc<Message>>> {
    Ok(match json::from_str(body)? {
        StoredChange::Append {
            agent: None,
            records,
        } => {
            let messages = records.into_iter().filter_map(|record| match record {
                StoredRecord::Message(message) => Some(message),
                _ => None,
            });
            messages.collect()
        }
        StoredChange::Whole { messages, .. } => messages,
        _ => Vec::new(),
    })
}

/// Returns the change of an entry, with `blobs` for the contents that it names. Spooled outputs are written into
/// `folder`.
pub(crate) fn decode(
    body: &str,
    blobs: &HashMap<String, Vec<u8>>,
    folder: &Path,
) -> io::Result<Change> {
    let reader = Reader { blobs, folder };
    Ok(match json::from_str(body)? {
        StoredChange::Append { agent, records } => {
            let branch = agent.map(|(agent_id, spawned_by)| Branch {
                agent_id,
                spawned_by,
            });
            let records = records.into_iter().map(|record| reader.record(record));
            Change::Append(branch, records.collect::<io::Result<_>>()?)
        }
        StoredChange::Checkout(id) => Change::Checkout(id),
        StoredChange::Delete(id) => Change::Delete(id),
        StoredChange::DeleteSubtree(id) => Change::DeleteSubtree(id),
        StoredChange::Context(key, value) => Change::Context(key, value),
        StoredChange::Whole {
            database,
            outputs,
            messages,
        } => {
            let outputs = outputs.into_iter().filter(|(name, _)| is_eager(name));
            let read = |(name, hash)| Ok((name, reader.bytes(StoredBytes::Blob(hash))?));
            Change::Whole(Arc::new(Image {
                database: reader.bytes(StoredBytes::Blob(database))?,
                outputs: outputs.map(read).collect::<io::Result<_>>()?,
                messages,
                cost: 0,
            }))
        }
    })
}

impl StoredRecord {
    fn bytes(&self) -> Vec<&StoredBytes> {
        match self {
            Self::CallFinished { output, .. } => match output {
                StoredContent::Bytes(bytes) => vec![bytes],
                StoredContent::Spool {
                    file, head, tail, ..
                } => vec![file, head, tail],
                StoredContent::Blocks(_) => Vec::new(),
            },
            Self::Files { before, .. } => {
                let states = before.iter().map(|(_, state)| state);
                let contents = states.filter_map(|state| match state {
                    StoredState::File { content, .. } => Some(content),
                    StoredState::Link { target } => Some(target),
                    _ => None,
                });
                before
                    .iter()
                    .map(|(path, _)| path)
                    .chain(contents)
                    .collect()
            }
            Self::FilesLeft { paths, .. } => paths.iter().flatten().collect(),
            Self::Message(_)
            | Self::CallStarted { .. }
            | Self::Event(_)
            | Self::Prefix(..)
            | Self::Note(..) => Vec::new(),
        }
    }
}

/// Reads records whose large contents are in `blobs`.
struct Reader<'a> {
    blobs: &'a HashMap<String, Vec<u8>>,
    folder: &'a Path,
}

impl Reader<'_> {
    fn record(&self, record: StoredRecord) -> io::Result<Record> {
        Ok(match record {
            StoredRecord::Message(message) => Record::Message(message),
            StoredRecord::CallStarted {
                call,
                message,
                access,
                at,
            } => Record::CallStarted(CallStart {
                tool_use_id: call,
                message_id: message,
                access,
                at,
            }),
            StoredRecord::CallFinished {
                message,
                result,
                output,
                at,
            } => Record::CallFinished(CallFinish {
                message_id: message,
                result: *result,
                output: self.content(output)?,
                at,
            }),
            StoredRecord::Event(event) => Record::Event(*event),
            StoredRecord::Files {
                cause,
                at,
                before,
                unseen,
            } => Record::Files(FileChange {
                cause: match cause {
                    StoredCause::Run(id) => FileCause::Run(id),
                    StoredCause::Rewind(step) => FileCause::Rewind(step),
                },
                at,
                before: before
                    .into_iter()
                    .map(|(path, state)| Ok((self.path(path)?, self.state(state)?)))
                    .collect::<io::Result<_>>()?,
                unseen,
            }),
            StoredRecord::FilesLeft { paths, until } => {
                let paths = paths.map(|paths| paths.into_iter().map(|path| self.path(path)));
                Record::FilesLeft(FilesLeft {
                    paths: paths.map(Iterator::collect::<io::Result<_>>).transpose()?,
                    until,
                })
            }
            StoredRecord::Prefix(message, prefix) => Record::Prefix(message, prefix),
            StoredRecord::Note(key, value) => Record::Note(key, value),
        })
    }

    fn content(&self, content: StoredContent) -> io::Result<Content> {
        Ok(match content {
            StoredContent::Bytes(bytes) => Content::Bytes(self.bytes(bytes)?),
            StoredContent::Blocks(blocks) => Content::Blocks(blocks),
            StoredContent::Spool {
                file,
                len,
                lines,
                left_out,
                head,
                tail,
            } => {
                let content = self.bytes(file)?;
                let sha256 = hex(&Sha256::digest(&content));
                let outputs = outputs_folder(self.folder)?;
                let _ = outputs.remove_file(sha256.as_ref());
                let mut file = outputs.create_file(sha256.as_ref(), FILE_MODE)?;
                file.write_all(&content)?;
                let path = self.folder.join(&sha256);
                Content::Spool(Spool {
                    path,
                    len,
                    lines,
                    left_out,
                    sha256,
                    head: self.bytes(head)?,
                    tail: self.bytes(tail)?,
                })
            }
        })
    }

    fn state(&self, state: StoredState) -> io::Result<FileState<Arc<[u8]>>> {
        Ok(match state {
            StoredState::Absent { folders } => FileState::Absent { folders },
            StoredState::File { content, mode } => FileState::File {
                content: self.bytes(content)?.into(),
                mode,
            },
            StoredState::Folder { mode } => FileState::Folder { mode },
            StoredState::Link { target } => FileState::Link {
                target: self.path(target)?,
            },
            StoredState::Unkept => FileState::Unkept,
        })
    }

    fn path(&self, bytes: StoredBytes) -> io::Result<PathBuf> {
        Ok(OsString::from_vec(self.bytes(bytes)?).into())
    }

    fn bytes(&self, bytes: StoredBytes) -> io::Result<Vec<u8>> {
        match bytes {
            StoredBytes::Text(text) => Ok(text.into_bytes()),
            StoredBytes::Blob(hash) => self.blobs.get(&hash).cloned().ok_or_else(|| {
                io::Error::new(
                    io::ErrorKind::NotFound,
                    format!("the content {hash} is missing"),
                )
            }),
        }
    }
}
