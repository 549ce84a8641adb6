//! The conversation tree of one session, to be read: by commands, also while another process works on the session.

use std::collections::HashMap;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use ah_conversation::{
    Cost, Event, EventKind, Message, MessageId, OutputPage, SessionId, StoreError, Time, ToolUse,
    ToolUseId, Usage,
};
use rusqlite::{Connection, OptionalExtension, params};

use super::details::Details;
use super::outputs::{self, Whole};
use super::schema::CONVERSATION;
use super::{Failure, blocks, calls, connect_to_read, context, events, messages, transcript};
use crate::id::uuid_of;
use crate::paths::Paths;

/// How many characters of a message's text are read for a list.
const PREVIEW: usize = 400;

/// The conversation tree of one session, to be read.
#[derive(Debug)]
pub struct Tree {
    pub(super) connection: Connection,
    pub(super) outputs: PathBuf,
    path: PathBuf,
}

/// A message as lists show it.
#[derive(Debug, Clone, PartialEq)]
pub struct Head {
    /// The message, without its content.
    pub message: Message,
    /// The beginning of its text, line breaks included.
    pub preview: String,
    /// The tool calls that it asks for.
    pub tool_uses: Vec<ToolUse>,
    /// The subagent whose conversation it is in; `None`: the main one.
    pub agent_id: Option<String>,
}

/// Where two branches part, and what is on one alone.
#[derive(Debug, Clone, PartialEq)]
pub struct Diff {
    /// The deepest message that both have; `None` if they have different roots.
    pub fork: Option<Head>,
    /// What follows it on the first branch; empty if the second goes on from the first.
    pub left: Vec<Head>,
    /// What follows it on the second branch.
    pub right: Vec<Head>,
}

/// One request to a model and what it cost.
#[derive(Debug, Clone, PartialEq)]
pub struct ApiCall {
    /// The answer, unless it has been deleted.
    pub message: Option<MessageId>,
    /// When it ended.
    pub at: Time,
    /// The model that was asked.
    pub model: String,
    /// The provider that was asked, as long as the answer is there.
    pub provider: Option<String>,
    /// What it cost in tokens.
    pub usage: Usage,
    /// What it cost in money, where that was known.
    pub cost: Option<Cost>,
    /// From the request to the end, retries included.
    pub latency_ms: u64,
}

impl Tree {
    /// Opens an existing session to read it; nothing is changed.
    pub fn open(paths: &Paths) -> Result<Self, StoreError> {
        let path = paths.database();
        let open = || {
            std::fs::metadata(path)?;
            let connection = connect_to_read(path)?;
            CONVERSATION.prepare_to_read(&connection)?;
            Ok(Self::on(connection, path, paths.outputs()))
        };
        open().map_err(|failure: Failure| failure.at("cannot open", path))
    }

    pub(super) fn on(connection: Connection, path: &Path, outputs: PathBuf) -> Self {
        Self {
            connection,
            outputs,
            path: path.to_owned(),
        }
    }

    /// The current message.
    pub fn current(&self) -> Result<Option<MessageId>, StoreError> {
        self.said(messages::current(&self.connection))
    }

    /// The session's name.
    pub fn name(&self) -> Result<Option<String>, StoreError> {
        self.said(context::get(&self.connection, context::NAME))
    }

    /// The session's state: `idle`, `processing` or `closed`.
    pub fn state(&self) -> Result<String, StoreError> {
        let state = self.said(context::get(&self.connection, context::STATE))?;
        Ok(state.unwrap_or_else(|| "idle".to_owned()))
    }

    /// All messages as lists show them, in the order in which they were stored.
    pub fn heads(&self) -> Result<Vec<Head>, StoreError> {
        self.said(self.read_heads())
    }

    /// The messages from the root to `leaf`, as lists show them.
    pub fn ancestry(&self, leaf: &MessageId) -> Result<Vec<Head>, StoreError> {
        Ok(ancestry(&self.heads()?, leaf))
    }

    /// The messages of the main conversation that nothing of it follows, newest first, each with the number of messages on its branch.
    pub fn leaves(&self) -> Result<Vec<(Head, usize)>, StoreError> {
        let heads = self.heads()?;
        let leaves = leaves(&heads).rev().cloned();
        Ok(leaves
            .map(|leaf| {
                let depth = ancestry(&heads, &leaf.message.id).len();
                (leaf, depth)
            })
            .collect())
    }

    /// The message `id`, whole.
    pub fn message(&self, id: &MessageId) -> Result<Option<Message>, StoreError> {
        self.said(transcript::message(&self.connection, id))
    }

    /// The messages from the root to `leaf`, whole.
    pub fn branch(&self, leaf: &MessageId) -> Result<Vec<Message>, StoreError> {
        self.said(transcript::branch(&self.connection, leaf))
    }

    /// The message that a person calls `@seq`: the one on the current branch or, where that has none, the oldest.
    pub fn numbered(&self, seq: u32) -> Result<Option<MessageId>, StoreError> {
        let heads = self.heads()?;
        let current = self.current()?;
        Ok(numbered(&heads, current.as_ref(), seq))
    }

    /// What is different between the branches that end at `@left` and `@right`; `None` if there is no such message.
    /// The same number twice means two messages of that number, leaves before others.
    pub fn diff(&self, left: u32, right: u32) -> Result<Option<Diff>, StoreError> {
        let heads = self.heads()?;
        let ends = match left == right {
            true => pair(&heads, left),
            false => {
                let current = self.current()?;
                let end = |seq| numbered(&heads, current.as_ref(), seq);
                end(left).zip(end(right))
            }
        };
        Ok(ends.map(|(left, right)| diff(ancestry(&heads, &left), ancestry(&heads, &right))))
    }

    /// All stored events, oldest first.
    pub fn events(&self) -> Result<Vec<Event>, StoreError> {
        self.said(events::all(&self.connection))
    }

    /// All requests to models, oldest first, also those whose answers have been deleted since.
    pub fn api_calls(&self) -> Result<Vec<ApiCall>, StoreError> {
        let heads = self.heads()?;
        let answers: HashMap<_, _> = heads
            .iter()
            .filter_map(|head| Some((&head.message.id, head.message.response.as_ref()?)))
            .collect();
        let calls = self.events()?.into_iter().filter_map(|event| {
            let EventKind::ApiCallEnd {
                message_id,
                input_tokens,
                output_tokens,
                cache_creation_input_tokens,
                cache_read_input_tokens,
                api_latency_ms,
                model,
                cost_usd,
            } = event.kind
            else {
                return None;
            };
            let answer = answers.get(&message_id);
            let told = Usage {
                input_tokens,
                output_tokens,
                cache_creation_input_tokens,
                cache_read_input_tokens,
                cache_creation_1h_input_tokens: 0,
            };
            Some(ApiCall {
                usage: answer.map_or(told, |answer| answer.usage),
                cost: match answer {
                    Some(answer) => answer.cost,
                    None => cost_usd.map(Cost::from_usd),
                },
                provider: answer.map(|answer| answer.provider.clone()),
                message: answer.is_some().then_some(message_id),
                at: Time(event.timestamp.saturating_mul(1000)),
                model,
                latency_ms: api_latency_ms,
            })
        });
        Ok(calls.collect())
    }

    /// Writes the whole output of a call to `to`, as it came, and gives its length; `None` if there is no such call.
    pub fn copy_output(
        &self,
        call: &ToolUseId,
        to: &mut dyn Write,
    ) -> Result<Option<u64>, StoreError> {
        let whole = self.said(whole(&self.connection, call))?;
        let output = whole.map(|whole| whole.open(&self.outputs));
        let copied = output.map(|output| io::copy(&mut output?, to));
        self.said(copied.transpose().map_err(Failure::from))
    }

    /// What SQLite finds wrong with the database; empty if it is sound.
    pub fn faults(&self) -> Result<Vec<String>, StoreError> {
        let check = || {
            let mut statement = self.connection.prepare("PRAGMA integrity_check")?;
            let lines = statement.query_map([], |row| row.get::<_, String>(0))?;
            let lines = lines.collect::<Result<Vec<_>, _>>()?;
            Ok(lines.into_iter().filter(|line| line != "ok").collect())
        };
        self.said(check())
    }

    /// The session's UUID: the one it was given, or the bits of its id.
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
        match whole(&self.connection, call)? {
            Some(whole) => Ok(Some(outputs::page(
                whole.open(&self.outputs)?,
                offset,
                limit,
            )?)),
            None => Ok(None),
        }
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
        let places: HashMap<_, _> = heads
            .iter()
            .enumerate()
            .map(|(at, head)| (head.message.id.clone(), at))
            .collect();
        let mut statement = self.connection.prepare_cached(
            "SELECT message_id, substr(content, 1, ?), tool_id, tool_name, tool_input FROM content_blocks
             WHERE block_type IN ('text', 'tool_use') ORDER BY id",
        )?;
        let mut rows = statement.query([PREVIEW as i64])?;
        while let Some(row) = rows.next()? {
            let id = MessageId::from(row.get::<_, String>(0)?);
            let Some(head) = places.get(&id).and_then(|at| heads.get_mut(*at)) else {
                continue;
            };
            match row.get::<_, Option<String>>(2)? {
                Some(id) => head.tool_uses.push(ToolUse {
                    id: ToolUseId::from(id),
                    name: row.get::<_, Option<String>>(3)?.unwrap_or_default(),
                    input: blocks::input(row.get::<_, Option<String>>(4)?.as_deref())?,
                }),
                None if head.preview.len() < PREVIEW => head
                    .preview
                    .push_str(&row.get::<_, Option<String>>(1)?.unwrap_or_default()),
                None => {}
            }
        }
        Ok(heads)
    }

    fn said<T>(&self, result: Result<T, Failure>) -> Result<T, StoreError> {
        result.map_err(|failure| failure.at("cannot read", &self.path))
    }
}

/// The whole output of `call`, of the newest call if a model used the id more than once.
fn whole(connection: &Connection, call: &ToolUseId) -> Result<Option<Whole>, Failure> {
    if let Some(waiting) = calls::whole(connection, call, None)? {
        return Ok(Some(waiting));
    }
    let asking = calls::asking(connection, call)?;
    let by_parent = "SELECT b.details, b.tool_output FROM messages m JOIN content_blocks b ON b.message_id = m.id
         WHERE m.parent_id = ?2 AND b.tool_id = ?1 AND b.block_type = 'tool_result' ORDER BY b.id DESC LIMIT 1";
    let by_call = "SELECT details, tool_output FROM content_blocks
         WHERE ?2 IS NULL AND tool_id = ?1 AND block_type = 'tool_result' ORDER BY id DESC LIMIT 1";
    // The journal leads to the message without a search, but results of calls that never ran are not in it.
    for (sql, asking) in [(by_parent, asking.as_deref()), (by_call, None)] {
        let found = connection
            .prepare_cached(sql)?
            .query_row(params![call.as_str(), asking], |row| {
                let details: Option<String> = row.get(0)?;
                Ok(Details::decode(details.as_deref())
                    .and_then(|details| Whole::read(row.get_ref(1)?, details.spool)))
            })
            .optional()?;
        if let Some(whole) = found {
            return whole;
        }
    }
    Ok(None)
}

fn ancestry(heads: &[Head], leaf: &MessageId) -> Vec<Head> {
    let by_id: HashMap<_, _> = heads.iter().map(|head| (&head.message.id, head)).collect();
    let mut branch = Vec::new();
    let mut next = by_id.get(leaf);
    while let Some(head) = next {
        branch.push((*head).clone());
        // A parent always has a smaller number, so this ends whatever the database says.
        next = head
            .message
            .parent
            .as_ref()
            .and_then(|parent| by_id.get(parent))
            .filter(|parent| parent.message.seq < head.message.seq);
    }
    branch.reverse();
    branch
}

fn leaves(heads: &[Head]) -> impl DoubleEndedIterator<Item = &Head> {
    let main = || heads.iter().filter(|head| head.agent_id.is_none());
    let parents: std::collections::HashSet<_> = main()
        .filter_map(|head| head.message.parent.as_ref())
        .collect();
    heads
        .iter()
        .filter(|head| head.agent_id.is_none())
        .filter(move |head| !parents.contains(&head.message.id))
}

fn numbered(heads: &[Head], current: Option<&MessageId>, seq: u32) -> Option<MessageId> {
    let branch = current.map_or_else(Vec::new, |current| ancestry(heads, current));
    let (main, below): (Vec<_>, Vec<_>) = heads.iter().partition(|head| head.agent_id.is_none());
    branch
        .iter()
        .chain(main)
        .chain(below)
        .find(|head| head.message.seq == seq)
        .map(|head| head.message.id.clone())
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
