//! Messages and their content blocks: to rows and back.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use ah_conversation::{
    ContentBlock, Message, MessageId, Origin, Response, Role, StopReason, Time, ToolUseId,
    Transcript, Usage,
};
use rusqlite::{Connection, Row, params};

use super::Failure;
use super::blocks::{self, BLOCK, TOOL_RESULT};
use super::details::Details;
use super::outputs::Whole;
use super::{calls, context};

/// The branch that ends at `?1`, leaf first, down to the depth `?2`. A parent always has a smaller number, so that
/// not even a damaged database can lead the query in circles.
const BRANCH: &str = "WITH RECURSIVE branch (id, parent_id, seq) AS (
    SELECT id, parent_id, seq FROM messages WHERE id = ?1
    UNION ALL
    SELECT m.id, m.parent_id, m.seq FROM branch JOIN messages m ON m.id = branch.parent_id
    WHERE m.seq < branch.seq AND m.seq >= ?2)";
/// What [`head`] reads of a message `m` and its first block `b`, in this order.
pub(super) const HEAD: &str =
    "m.id, m.parent_id, m.seq, m.role, m.created_at, m.created_ms, m.stop_reason, m.model,
    m.provider, m.api_latency_ms, m.input_tokens, m.output_tokens, m.cache_creation_input_tokens,
    m.cache_read_input_tokens, m.cache_creation_1h_input_tokens, b.block_type, b.details";
/// For the depth of a root: the branch is all there is.
const WHOLE: i64 = 0;
/// For a depth that no parent has: the branch is its leaf alone.
const LEAF_ALONE: i64 = i64::MAX;

/// Stores a message that is not there yet; tells whether it was not. `outputs` are the whole outputs of calls that
/// ended in this transaction; those of earlier ones are taken out of the journal.
pub(super) fn insert(
    connection: &Connection,
    message: &Message,
    outputs: &mut HashMap<ToolUseId, Whole>,
) -> Result<bool, Failure> {
    if !insert_row(connection, message)? {
        return Ok(false);
    }
    let begins_with_result = matches!(message.content.first(), Some(ContentBlock::ToolResult(_)));
    let is_plain = message.origin == origin_of(message.role, begins_with_result);
    let origin = (!is_plain).then(|| message.origin.clone());
    for (seq, block) in message.content.iter().enumerate() {
        let mut columns = match block {
            ContentBlock::ToolResult(result) => {
                let whole = match (outputs.remove(&result.tool_use_id), &message.parent) {
                    (None, Some(asking)) => calls::take(connection, &result.tool_use_id, asking)?,
                    (whole, _) => whole,
                };
                blocks::result_columns(result, whole)?
            }
            other => blocks::columns(other)?,
        };
        if seq == 0 {
            columns.details.origin.clone_from(&origin);
        }
        blocks::insert(connection, message, seq, columns)?;
    }
    Ok(true)
}

fn insert_row(connection: &Connection, message: &Message) -> Result<bool, Failure> {
    let response = message.response.as_ref();
    let usage = response.map(|response| response.usage);
    let tokens = |count: fn(&Usage) -> u64| usage.as_ref().map(|usage| signed(count(usage)));
    let inserted = connection
        .prepare_cached(
            "INSERT INTO messages (id, parent_id, role, seq, created_at, created_ms, stop_reason, model, provider,
                 api_latency_ms, input_tokens, output_tokens, cache_creation_input_tokens, cache_read_input_tokens,
                 cache_creation_1h_input_tokens)
             VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO NOTHING",
        )?
        .execute(params![
            message.id.as_str(),
            message.parent.as_ref().map(MessageId::as_str),
            role_word(message.role),
            message.seq,
            message.created_at.seconds(),
            message.created_at.0.rem_euclid(1000),
            response.map(|response| response.stop_reason.as_str()),
            response.map(|response| &response.model),
            response.map(|response| &response.provider),
            response.map(|response| signed(response.latency_ms)),
            tokens(|usage| {
                usage
                    .input_tokens
                    .saturating_add(usage.cache_creation_input_tokens)
                    .saturating_add(usage.cache_read_input_tokens)
            }),
            tokens(|usage| usage.output_tokens),
            tokens(|usage| usage.cache_creation_input_tokens),
            tokens(|usage| usage.cache_read_input_tokens),
            tokens(|usage| usage.cache_creation_1h_input_tokens),
        ])?;
    Ok(inserted == 1)
}

/// The transcript that ends at the current message. What stands before the model's view comes without content.
pub(super) fn load(connection: &Connection) -> Result<Transcript, Failure> {
    let Some(leaf) = current(connection)? else {
        return Ok(Transcript::default());
    };
    let mut messages = heads(connection, &leaf, WHOLE)?;
    let from = view_start(&messages);
    fill(connection, &leaf, &mut messages[from..])?;
    let calls = match messages.last() {
        Some(last) if last.role == Role::Assistant => calls::states(connection, &last.id)?,
        _ => HashMap::new(),
    };
    let messages = messages.into_iter().map(Arc::new).collect();
    Ok(Transcript::new(messages, calls))
}

/// The messages from the root to `leaf`, whole.
pub(super) fn branch(connection: &Connection, leaf: &MessageId) -> Result<Vec<Message>, Failure> {
    let mut messages = heads(connection, leaf, WHOLE)?;
    fill(connection, leaf, &mut messages)?;
    Ok(messages)
}

/// One message, whole.
pub(super) fn message(connection: &Connection, id: &MessageId) -> Result<Option<Message>, Failure> {
    let mut messages = heads(connection, id, LEAF_ALONE)?;
    fill(connection, id, &mut messages)?;
    Ok(messages.pop())
}

/// The current message of the main conversation: the one noted, or, if it is gone, the newest leaf.
pub(super) fn current(connection: &Connection) -> Result<Option<MessageId>, Failure> {
    let id: Option<String> = connection
        .prepare_cached(
            "SELECT coalesce(
                 (SELECT id FROM messages WHERE id = (SELECT value FROM context WHERE key = 'current_message')),
                 (SELECT id FROM messages m WHERE agent_id IS NULL
                  AND NOT EXISTS (SELECT 1 FROM messages c WHERE c.parent_id = m.id) ORDER BY rowid DESC LIMIT 1))",
        )?
        .query_row([], |row| row.get(0))?;
    Ok(id.map(MessageId::from))
}

/// Makes `id` the current message.
pub(super) fn set_current(connection: &Connection, id: &MessageId) -> Result<(), Failure> {
    context::set(connection, context::CURRENT_MESSAGE, id.as_str())
}

/// Those of `ids` that are messages of the conversation.
pub(super) fn known<'a>(
    connection: &Connection,
    ids: impl Iterator<Item = &'a MessageId>,
) -> Result<HashSet<MessageId>, Failure> {
    let mut statement = connection.prepare_cached("SELECT 1 FROM messages WHERE id = ?")?;
    let mut known = HashSet::new();
    for id in ids {
        if statement.exists([id.as_str()])? {
            known.insert(id.clone());
        }
    }
    Ok(known)
}

/// The messages of a branch, root first, without their content.
fn heads(connection: &Connection, leaf: &MessageId, depth: i64) -> Result<Vec<Message>, Failure> {
    let sql = format!(
        "{BRANCH} SELECT {HEAD} FROM branch CROSS JOIN messages m ON m.id = branch.id
         LEFT JOIN content_blocks b ON b.message_id = branch.id AND b.seq = 0"
    );
    let mut statement = connection.prepare_cached(&sql)?;
    let mut rows = statement.query(params![leaf.as_str(), depth])?;
    let mut messages: Vec<Message> = Vec::new();
    while let Some(row) = rows.next()? {
        let message = head(row)?;
        if messages.last().is_some_and(|child| child.id == message.id) {
            return Err(Failure::Damaged(format!(
                "the message {} begins twice",
                message.id
            )));
        }
        messages.push(message);
    }
    messages.reverse();
    match messages.first() {
        Some(first) if depth == WHOLE && first.parent.is_some() => Err(Failure::Damaged(format!(
            "the message before {} is missing",
            first.id
        ))),
        _ => Ok(messages),
    }
}

/// Reads the content of `messages`, the newest ones of the branch that ends at `leaf`.
fn fill(
    connection: &Connection,
    leaf: &MessageId,
    messages: &mut [Message],
) -> Result<(), Failure> {
    let Some(first) = messages.first() else {
        return Ok(());
    };
    let depth = match messages.len() {
        1 => LEAF_ALONE,
        _ => i64::from(first.seq),
    };
    let sql = format!(
        "{BRANCH} SELECT {BLOCK} FROM branch CROSS JOIN content_blocks b ON b.message_id = branch.id"
    );
    let mut statement = connection.prepare_cached(&sql)?;
    let mut rows = statement.query(params![leaf.as_str(), depth])?;
    let mut contents: HashMap<MessageId, Vec<(i64, ContentBlock)>> = HashMap::new();
    while let Some(row) = rows.next()? {
        let id = MessageId::from(row.get_ref(0)?.as_str()?);
        contents
            .entry(id)
            .or_default()
            .push((row.get(1)?, blocks::block(row)?));
    }
    for message in messages {
        if let Some(mut content) = contents.remove(&message.id) {
            content.sort_by_key(|(seq, _)| *seq);
            message.content = content.into_iter().map(|(_, block)| block).collect();
        }
    }
    Ok(())
}

/// A message without its content, from the columns [`HEAD`].
pub(super) fn head(row: &Row<'_>) -> Result<Message, Failure> {
    let role = match row.get_ref(3)?.as_str() {
        Ok("user") => Role::User,
        Ok("assistant") => Role::Assistant,
        _ => return Err(Failure::Damaged("a message has no role".to_owned())),
    };
    let response = match role {
        Role::User => None,
        Role::Assistant => Some(response(row)?),
    };
    let first_block = row.get_ref(15)?.as_str_or_null()?;
    let details = row.get_ref(16)?.as_str_or_null()?;
    let explicit = match details.filter(|details| details.contains("\"origin\"")) {
        Some(details) => Details::decode(Some(details))?.origin,
        None => None,
    };
    let seconds: i64 = row.get(4)?;
    let milliseconds: i64 = row.get(5)?;
    Ok(Message {
        id: MessageId::from(row.get::<_, String>(0)?),
        parent: row.get::<_, Option<String>>(1)?.map(MessageId::from),
        seq: row.get(2)?,
        role,
        origin: explicit.unwrap_or_else(|| origin_of(role, first_block == Some(TOOL_RESULT))),
        created_at: Time(seconds.saturating_mul(1000).saturating_add(milliseconds)),
        content: Vec::new(),
        response,
    })
}

fn response(row: &Row<'_>) -> Result<Response, Failure> {
    let tokens = |column| Ok::<_, Failure>(unsigned(row.get(column)?));
    let (written, read) = (tokens(12)?, tokens(13)?);
    let word = row.get::<_, Option<String>>(6)?;
    Ok(Response {
        stop_reason: StopReason::from(word.unwrap_or_default()),
        usage: Usage {
            input_tokens: tokens(10)?.saturating_sub(written).saturating_sub(read),
            output_tokens: tokens(11)?,
            cache_creation_input_tokens: written,
            cache_read_input_tokens: read,
            cache_creation_1h_input_tokens: tokens(14)?,
        },
        model: row.get::<_, Option<String>>(7)?.unwrap_or_default(),
        provider: row.get::<_, Option<String>>(8)?.unwrap_or_default(),
        latency_ms: tokens(9)?,
    })
}

/// Why a message is there if nothing else is noted.
fn origin_of(role: Role, begins_with_result: bool) -> Origin {
    match role {
        Role::Assistant => Origin::Model,
        Role::User if begins_with_result => Origin::Results,
        Role::User => Origin::Prompt,
    }
}

/// Where the content of the model's view begins.
fn view_start(messages: &[Message]) -> usize {
    let Some(at) = messages.iter().rposition(Message::is_summary) else {
        return 0;
    };
    match &messages[at].origin {
        Origin::Summary {
            kept_from: Some(first),
        } => messages[..at]
            .iter()
            .rposition(|message| message.id == *first)
            .unwrap_or(at),
        _ => at,
    }
}

fn role_word(role: Role) -> &'static str {
    match role {
        Role::User => "user",
        Role::Assistant => "assistant",
    }
}

/// SQLite's integers are signed; what does not fit is as good as infinite.
pub(super) fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

pub(super) fn unsigned(number: Option<i64>) -> u64 {
    u64::try_from(number.unwrap_or(0)).unwrap_or(0)
}
