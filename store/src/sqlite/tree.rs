//! Reads the conversation tree of one session, even while another process has it open.

use std::collections::{HashMap, HashSet};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use ah_conversation::{
    CacheMiss, CallReason, Cost, Event, EventKind, Head, Message, MessageId, ModelUsage,
    OutputPage, PrefixBreak, SessionId, StoreError, Time, ToolUse, ToolUseId, Usage, Verdicts,
    command_in, is_note,
};
use rusqlite::{Connection, OptionalExtension, params};

use super::blocks::OF_MESSAGE;
use super::connection::{connect_immutable, connect_to_read};
use super::details::Details;
use super::outputs::{self, FullOutput};
use super::schema::CONVERSATION;
use super::{Failure, blocks, calls, context, events, files, messages, transcript};
use crate::paths::{Paths, with_ending};
use ah_ids::uuid_of;

/// Maximum number of characters of a message's text in a list.
const PREVIEW: usize = 400;

/// The conversation tree of one session, for reading.
#[derive(Debug)]
pub struct Tree {
    pub(super) connection: Connection,
    pub(super) outputs: PathBuf,
    path: PathBuf,
}

/// Difference between two branches.
#[derive(Debug, Clone, PartialEq)]
pub struct Diff {
    /// Last common message; `None` if the roots differ.
    pub fork: Option<Head>,
    /// Messages after it on the first branch; empty if the second branch continues the first.
    pub left: Vec<Head>,
    /// Messages after it on the second branch.
    pub right: Vec<Head>,
}

/// A request to a model, with its usage and cost.
#[derive(Debug, Clone, PartialEq)]
pub struct ApiCall {
    /// Id of the response, unless it has been deleted, or a tool has asked.
    pub message: Option<MessageId>,
    /// Id of the subagent that it is of.
    pub agent_id: Option<String>,
    /// Time of the end.
    pub at: Time,
    /// Model.
    pub model: String,
    /// Provider; `None` if the response has been deleted.
    pub provider: Option<String>,
    /// Tokens used.
    pub usage: Usage,
    /// Cost, if known.
    pub cost: Option<Cost>,
    /// Time from the request to the end in milliseconds, including retries.
    pub latency_ms: u64,
    /// Why the model was asked, if not for an answer in the conversation. Older versions kept none.
    pub reason: Option<CallReason>,
    /// Why the request did not continue the earlier ones of its branch, if it did not.
    pub broken: Option<PrefixBreak>,
    /// What was not read from the prompt cache, although the request before had left it there.
    pub cache_miss: Option<CacheMiss>,
}

/// Returns what an event says of the prompt cache, and the message that it is about.
fn miss(event: &EventKind) -> Option<(MessageId, CacheMiss)> {
    let EventKind::CacheMissed {
        message_id,
        expected_tokens,
        read_tokens,
        change,
    } = event
    else {
        return None;
    };
    let miss = CacheMiss {
        expected: *expected_tokens,
        read: *read_tokens,
        change: change.clone(),
    };
    Some((message_id.clone(), miss))
}

impl Tree {
    /// Opens an existing session for reading; nothing is changed.
    pub fn open(paths: &Paths) -> Result<Self, StoreError> {
        let path = paths.database();
        let open = |connect: fn(&Path) -> Result<Connection, Failure>| {
            std::fs::metadata(path)?;
            Self::prepared(connect(path)?, paths)
        };
        // An ordinary reader needs room for the index of the log. Where there is no log, the database is all there is.
        let has_log =
            || std::fs::metadata(with_ending(path, "-wal")).is_ok_and(|log| log.len() > 0);
        open(connect_to_read)
            .or_else(|failure: Failure| match failure.may_be_full_disk() {
                true if !has_log() => open(|path| connect_immutable(&std::path::absolute(path)?)),
                _ => Err(failure),
            })
            .map_err(|failure| failure.at("cannot open", path))
    }

    /// Returns the tree on a connection for reading, also if the session is of an earlier version.
    pub(super) fn prepared(connection: Connection, paths: &Paths) -> Result<Self, Failure> {
        CONVERSATION.prepare_to_read(&connection)?;
        Ok(Self::on(connection, paths.database(), paths.outputs()))
    }

    pub(super) fn on(connection: Connection, path: &Path, outputs: PathBuf) -> Self {
        Self {
            connection,
            outputs,
            path: path.to_owned(),
        }
    }

    /// Returns how many bytes of files' contents are kept for undo.
    pub fn kept_for_undo(&self) -> Result<u64, StoreError> {
        self.at_path(files::kept(&self.connection, &self.outputs))
    }

    /// Returns the id of the current message.
    pub fn current(&self) -> Result<Option<MessageId>, StoreError> {
        self.at_path(messages::current(&self.connection))
    }

    /// Returns the session's name.
    pub fn name(&self) -> Result<Option<String>, StoreError> {
        self.at_path(context::get(&self.connection, context::NAME))
    }

    /// Returns the UUID of the session with this id: the assigned one, or the bits of the id.
    pub fn uuid(&self, id: Option<&SessionId>) -> Result<String, StoreError> {
        self.at_path(self.uuid_of(id))
    }

    /// Returns the model that the session continues with, as `--model` names it.
    pub fn model(&self) -> Result<Option<String>, StoreError> {
        self.at_path(context::get(&self.connection, context::MODEL))
    }

    /// Returns the permission mode that was chosen in the session, as `--permission-mode` names it.
    pub fn permission_mode(&self) -> Result<Option<String>, StoreError> {
        self.at_path(context::get(&self.connection, context::PERMISSION_MODE))
    }

    /// Returns the session's state: `idle`, `processing` or `closed`.
    pub fn state(&self) -> Result<String, StoreError> {
        let state = self.at_path(context::get(&self.connection, context::STATE))?;
        Ok(state.unwrap_or_else(|| "idle".to_owned()))
    }

    /// Returns summaries of all messages, in the order of storing.
    pub fn heads(&self) -> Result<Vec<Head>, StoreError> {
        self.at_path(self.read_heads())
    }

    /// Returns summaries of the messages from the root to `leaf`.
    pub fn ancestry(&self, leaf: &MessageId) -> Result<Vec<Head>, StoreError> {
        Ok(ancestry(&self.heads()?, leaf))
    }

    /// Returns the leaves of the main conversation, newest first, each with the number of messages on its branch.
    pub fn leaves(&self) -> Result<Vec<(Head, usize)>, StoreError> {
        let heads = self.heads()?;
        let depths = depths(&heads);
        let with_depth = |leaf: &Head| (leaf.clone(), depths[&leaf.message.id]);
        Ok(leaves(&heads).rev().map(with_depth).collect())
    }

    /// Returns the message `id`, with content.
    pub fn message(&self, id: &MessageId) -> Result<Option<Message>, StoreError> {
        self.at_path(transcript::message(&self.connection, id))
    }

    /// Returns the messages of all branches of the main conversation, with content, in the order of storing.
    pub fn messages(&self) -> Result<Vec<Message>, StoreError> {
        let mut messages = Vec::new();
        for head in self.heads()? {
            if head.agent_id.is_none() {
                messages.extend(self.message(&head.message.id)?);
            }
        }
        Ok(messages)
    }

    /// Returns the messages from the root to `leaf`, with content.
    pub fn branch(&self, leaf: &MessageId) -> Result<Vec<Message>, StoreError> {
        self.at_path(transcript::branch(&self.connection, leaf))
    }

    /// Returns the message that `@seq` stands for: the one on the current branch or else the oldest.
    pub fn numbered(&self, seq: u32) -> Result<Option<MessageId>, StoreError> {
        self.at_path(transcript::numbered(&self.connection, seq))
    }

    /// Compares the branches that end at `@left` and `@right`; returns `None` if there is no such message. The same
    /// number twice stands for two messages of that number, leaves first.
    pub fn diff(&self, left: u32, right: u32) -> Result<Option<Diff>, StoreError> {
        let heads = self.heads()?;
        let ends = if left == right {
            pair(&heads, left)
        } else {
            self.numbered(left)?.zip(self.numbered(right)?)
        };
        Ok(ends.map(|(left, right)| diff(ancestry(&heads, &left), ancestry(&heads, &right))))
    }

    /// Returns all stored events, oldest first.
    pub fn events(&self) -> Result<Vec<Event>, StoreError> {
        self.at_path(events::all(&self.connection))
    }

    /// Returns what the checks of runs have shown at their ends.
    pub fn verdicts(&self) -> Result<Verdicts, StoreError> {
        self.at_path(events::verdicts(&self.connection))
    }

    /// Returns all requests to models, oldest first, including those whose responses have been deleted.
    pub fn api_calls(&self) -> Result<Vec<ApiCall>, StoreError> {
        let heads = self.heads()?;
        let responses: HashMap<_, _> = heads
            .iter()
            .filter_map(|head| {
                let response = head.message.response.as_ref()?;
                Some((&head.message.id, (response, &head.agent_id)))
            })
            .collect();
        let events = self.events()?;
        let broken: HashMap<_, _> = events
            .iter()
            .filter_map(|event| match &event.kind {
                EventKind::PrefixBroken { message_id, reason } => {
                    Some((message_id.clone(), *reason))
                }
                _ => None,
            })
            .collect();
        let misses: HashMap<_, _> = events
            .iter()
            .filter_map(|event| miss(&event.kind))
            .collect();
        let own = events.iter().cloned().filter_map(|event| {
            let EventKind::ApiCallEnd {
                message_id,
                input_tokens,
                output_tokens,
                cache_creation_input_tokens,
                cache_read_input_tokens,
                api_latency_ms,
                model,
                cost_usd,
                reason,
            } = event.kind
            else {
                return None;
            };
            let known = responses.get(&message_id);
            let response = known.map(|(response, _)| *response);
            let reported = Usage {
                input_tokens,
                output_tokens,
                cache_creation_input_tokens,
                cache_read_input_tokens,
                cache_creation_1h_input_tokens: 0,
                web_search_requests: 0,
            };
            Some(ApiCall {
                agent_id: known.and_then(|(_, agent)| (*agent).clone()),
                broken: broken.get(&message_id).copied(),
                cache_miss: misses.get(&message_id).cloned(),
                usage: response.map_or(reported, |response| response.usage),
                cost: match response {
                    Some(response) => response.cost,
                    None => cost_usd.map(Cost::from_usd),
                },
                provider: response.map(|response| response.provider.clone()),
                message: response.is_some().then_some(message_id),
                at: Time(event.timestamp.saturating_mul(1000)),
                model,
                latency_ms: api_latency_ms,
                reason,
            })
        });
        let mut calls: Vec<_> = own.collect();
        calls.extend(self.at_path(self.read_calls_of_tools())?);
        calls.sort_by_key(|call| call.at);
        Ok(calls)
    }

    /// Returns what all requests have cost, as far as prices are known: the one sum that people and programs are shown.
    pub fn spent(&self) -> Result<Cost, StoreError> {
        Ok(self.api_calls()?.iter().filter_map(|call| call.cost).sum())
    }

    /// Writes the full output of a call to `to`, byte for byte; returns its length, or `None` if there is no such call.
    pub fn copy_output(
        &self,
        call: &ToolUseId,
        to: &mut dyn Write,
    ) -> Result<Option<u64>, StoreError> {
        let full_output = self.at_path(full_output(&self.connection, call))?;
        let output = full_output.map(|full_output| full_output.open(&self.outputs));
        let copied = output.map(|output| io::copy(&mut output?, to));
        self.at_path(copied.transpose().map_err(Failure::from))
    }

    /// Returns the errors that SQLite finds in the database; empty if it is intact.
    pub fn integrity_errors(&self) -> Result<Vec<String>, StoreError> {
        let check = || {
            let mut statement = self.connection.prepare("PRAGMA integrity_check")?;
            let lines = statement
                .query_map([], |row| row.get::<_, String>(0))?
                .collect::<Result<Vec<_>, _>>()?;
            Ok(lines.into_iter().filter(|line| line != "ok").collect())
        };
        self.at_path(check())
    }

    /// Returns the session's UUID: the assigned one, or the bits of its id.
    pub(super) fn uuid_of(&self, id: Option<&SessionId>) -> Result<String, Failure> {
        let given = context::get(&self.connection, context::UUID)?;
        Ok(given.or_else(|| id.map(uuid_of)).unwrap_or_default())
    }

    pub(super) fn page(
        &self,
        call: &ToolUseId,
        offset: usize,
        limit: usize,
    ) -> Result<Option<OutputPage>, Failure> {
        match full_output(&self.connection, call)? {
            Some(full_output) => Ok(Some(outputs::page(
                full_output.open(&self.outputs)?,
                offset,
                limit,
            )?)),
            None => Ok(None),
        }
    }

    /// Returns the requests of tools that ask a model themselves.
    fn read_calls_of_tools(&self) -> Result<Vec<ApiCall>, Failure> {
        let mut statement = self.connection.prepare_cached(
            "SELECT details, messages.created_at FROM content_blocks JOIN messages ON messages.id = message_id
             WHERE block_type = 'tool_result' AND details LIKE '%\"spent\"%' ORDER BY content_blocks.id",
        )?;
        let mut rows = statement.query([])?;
        let mut calls = Vec::new();
        while let Some(row) = rows.next()? {
            let details = Details::decode(row.get_ref(0)?.as_str_or_null()?)?;
            let at = Time(row.get::<_, i64>(1)?.saturating_mul(1000));
            let shares = details.own.as_ref().map(ModelUsage::by_tool);
            calls.extend(shares.into_iter().flatten().map(|share| ApiCall {
                message: None,
                agent_id: None,
                at,
                model: share.model,
                provider: Some(share.provider),
                usage: share.usage,
                cost: share.cost,
                latency_ms: 0,
                reason: Some(CallReason::Tool),
                broken: None,
                cache_miss: None,
            }));
        }
        Ok(calls)
    }

    fn read_heads(&self) -> Result<Vec<Head>, Failure> {
        let mut agents = messages::of_agents(&self.connection)?;
        let bare = |message: Message| Head {
            agent_id: agents.remove(&message.id),
            message,
            preview: String::new(),
            tool_uses: Vec::new(),
        };
        let mut heads: Vec<_> = transcript::all(&self.connection)?
            .into_iter()
            .map(bare)
            .collect();
        let positions: HashMap<_, _> = heads
            .iter()
            .enumerate()
            .map(|(at, head)| (head.message.id.clone(), at))
            .collect();
        // A parent has a smaller number. Any other may be a message below, and whoever followed it would go round in a circle.
        let numbers: Vec<_> = heads.iter().map(|head| head.message.seq).collect();
        for head in &mut heads {
            let above = head.message.parent.as_ref();
            let above = above.and_then(|parent| positions.get(parent));
            if above.is_some_and(|at| numbers[*at] >= head.message.seq) {
                head.message.parent = None;
            }
        }
        let mut statement = self.connection.prepare_cached(
            "SELECT message_id, substr(content, 1, ?), tool_id, tool_name, tool_input FROM content_blocks
             WHERE block_type IN ('text', 'tool_use') ORDER BY id",
        )?;
        let mut rows = statement.query([PREVIEW as i64])?;
        // Their text is not what was said.
        let mut commands = HashSet::new();
        while let Some(row) = rows.next()? {
            let id = MessageId::from(row.get::<_, String>(0)?);
            let Some(head) = positions.get(&id).and_then(|at| heads.get_mut(*at)) else {
                continue;
            };
            match row.get::<_, Option<String>>(2)? {
                Some(id) => head.tool_uses.push(ToolUse {
                    id: ToolUseId::from(id),
                    name: row.get::<_, Option<String>>(3)?.unwrap_or_default(),
                    input: blocks::input(row.get::<_, Option<String>>(4)?.as_deref())?,
                }),
                None if head.preview.len() < PREVIEW => {
                    let text = row.get::<_, Option<String>>(1)?.unwrap_or_default();
                    match command_in(&text) {
                        Some(typed) => {
                            typed.clone_into(&mut head.preview);
                            commands.insert(id);
                        }
                        None if is_note(&text) || commands.contains(&id) => {}
                        None => head.preview.push_str(&text),
                    }
                }
                None => {}
            }
        }
        Ok(heads)
    }

    fn at_path<T>(&self, result: Result<T, Failure>) -> Result<T, StoreError> {
        result.map_err(|failure| failure.at("cannot read", &self.path))
    }
}

/// Returns the full output of `call`; if a model used the id more than once, that of the newest call.
fn full_output(connection: &Connection, call: &ToolUseId) -> Result<Option<FullOutput>, Failure> {
    if let Some(waiting) = calls::full_output(connection, call, None)? {
        return Ok(Some(waiting));
    }
    let asking = calls::asking(connection, call)?;
    // The message of results is the next one, or soon after.
    let by_parent = format!(
        "SELECT content_blocks.details, content_blocks.tool_output FROM messages CROSS JOIN content_blocks ON {OF_MESSAGE}
         WHERE messages.parent_id = ?2 AND messages.rowid > (SELECT rowid FROM messages WHERE id = ?2) AND tool_id = ?1
         AND block_type = 'tool_result' ORDER BY messages.rowid LIMIT 1"
    );
    let by_call = "SELECT details, tool_output FROM content_blocks
         WHERE ?2 IS NULL AND tool_id = ?1 AND block_type = 'tool_result' ORDER BY id DESC LIMIT 1";
    // The journal saves a search for the message, but does not have calls that never ran.
    for (sql, asking) in [(by_parent.as_str(), asking.as_deref()), (by_call, None)] {
        let found = connection
            .prepare_cached(sql)?
            .query_row(params![call.as_str(), asking], |row| {
                let details: Option<String> = row.get(0)?;
                Ok(Details::decode(details.as_deref())
                    .and_then(|details| FullOutput::read(row.get_ref(1)?, details.spool)))
            })
            .optional()?;
        if let Some(full_output) = found {
            return full_output;
        }
    }
    Ok(None)
}

/// Returns for each message how many there are from the root to it.
fn depths(heads: &[Head]) -> HashMap<&MessageId, usize> {
    let mut by_number: Vec<_> = heads.iter().map(|head| &head.message).collect();
    by_number.sort_by_key(|message| message.seq);
    let mut depths = HashMap::new();
    for message in by_number {
        let above = message.parent.as_ref();
        let above = above.and_then(|parent| depths.get(parent)).copied();
        depths.insert(&message.id, above.unwrap_or(0) + 1);
    }
    depths
}

fn ancestry(heads: &[Head], leaf: &MessageId) -> Vec<Head> {
    let by_id: HashMap<_, _> = heads.iter().map(|head| (&head.message.id, head)).collect();
    let mut branch = Vec::new();
    let mut next = by_id.get(leaf);
    while let Some(head) = next {
        branch.push((*head).clone());
        let parent = head.message.parent.as_ref();
        next = parent.and_then(|parent| by_id.get(parent));
    }
    branch.reverse();
    branch
}

fn leaves(heads: &[Head]) -> impl DoubleEndedIterator<Item = &Head> {
    let main = || heads.iter().filter(|head| head.agent_id.is_none());
    let parents: HashSet<_> = main()
        .filter_map(|head| head.message.parent.as_ref())
        .collect();
    main().filter(move |head| !parents.contains(&head.message.id))
}

fn pair(heads: &[Head], seq: u32) -> Option<(MessageId, MessageId)> {
    let has_number = |head: &&Head| head.message.seq == seq;
    let mut found: Vec<_> = leaves(heads)
        .filter(has_number)
        .chain(heads.iter().filter(has_number))
        .map(|head| head.message.id.clone())
        .collect();
    let first = found.first()?.clone();
    found.retain(|id| *id != first);
    let second = found.first().unwrap_or(&first).clone();
    Some((first, second))
}

fn diff(left: Vec<Head>, right: Vec<Head>) -> Diff {
    let shared = left
        .iter()
        .zip(&right)
        .take_while(|(left, right)| left.message.id == right.message.id)
        .count();
    Diff {
        fork: shared.checked_sub(1).map(|at| left[at].clone()),
        left: left.into_iter().skip(shared).collect(),
        right: right.into_iter().skip(shared).collect(),
    }
}
