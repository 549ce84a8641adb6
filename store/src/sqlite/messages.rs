//! Messages: to rows and back. Their content is the matter of [`blocks`], how they hang together that of
//! [`transcript`](super::transcript).

use std::collections::{HashMap, HashSet};

use ah_conversation::{
    Branch, ContentBlock, Cost, Message, MessageId, Origin, Response, Role, StopReason, Time,
    ToolUseId, Usage,
};
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::Failure;
use super::outputs::Whole;
use super::{blocks, calls, context};

/// What [`head`] reads, in this order.
pub(super) const HEAD: &str = "id, parent_id, seq, role, created_at, created_ms, stop_reason, model, provider,
    api_latency_ms, input_tokens, output_tokens, cache_creation_input_tokens, cache_read_input_tokens,
    cache_creation_1h_input_tokens, cost";
/// Stores a message that is not there yet, in the conversation of a subagent or in the main one; tells whether it was
/// not. `outputs` are the whole outputs of calls that ended in this transaction; those of earlier ones are taken out of
/// the journal.
pub(super) fn insert(
    connection: &Connection,
    message: &Message,
    branch: Option<&Branch>,
    outputs: &mut HashMap<ToolUseId, Whole>,
) -> Result<bool, Failure> {
    if !insert_row(connection, message)? {
        return Ok(false);
    }
    if let Some(branch) = branch {
        assign(connection, message, branch)?;
    }
    let begins_with_result = matches!(message.content.first(), Some(ContentBlock::ToolResult(_)));
    let is_plain = message.origin == plain_origin(message.role, begins_with_result);
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
                 cache_creation_1h_input_tokens, cost)
             VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO NOTHING",
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
            response.and_then(|response| i64::try_from(response.cost?.0).ok()),
        ])?;
    Ok(inserted == 1)
}

/// Makes a message one of a subagent. The first hangs below the message of the call, and depths count on from there.
fn assign(connection: &Connection, message: &Message, branch: &Branch) -> Result<(), Failure> {
    connection
        .prepare_cached(
            "UPDATE messages SET agent_id = ?2, spawned_by = ?3,
                 parent_id = coalesce(parent_id, (SELECT message_id FROM tool_calls WHERE tool_use_id = ?3))
             WHERE id = ?1",
        )?
        .execute([
            message.id.as_str(),
            branch.agent_id.as_str(),
            branch.spawned_by.as_str(),
        ])?;
    connection
        .prepare_cached(
            "UPDATE messages SET seq = 1 + coalesce(
                 (SELECT p.seq FROM messages p WHERE p.id = messages.parent_id), -1) WHERE id = ?",
        )?
        .execute([message.id.as_str()])?;
    Ok(())
}

/// The last message of a subagent.
pub(super) fn last_of(
    connection: &Connection,
    agent_id: &str,
) -> Result<Option<MessageId>, Failure> {
    let id: Option<String> = connection
        .prepare_cached("SELECT id FROM messages WHERE agent_id = ? ORDER BY rowid DESC LIMIT 1")?
        .query_row([agent_id], |row| row.get(0))
        .optional()?;
    Ok(id.map(MessageId::from))
}

/// Which messages are of which subagent.
pub(super) fn of_agents(connection: &Connection) -> Result<HashMap<MessageId, String>, Failure> {
    let mut statement = connection
        .prepare_cached("SELECT id, agent_id FROM messages WHERE agent_id IS NOT NULL")?;
    let mut rows = statement.query([])?;
    let mut agents = HashMap::new();
    while let Some(row) = rows.next()? {
        let id: String = row.get(0)?;
        agents.insert(MessageId::from(id), row.get(1)?);
    }
    Ok(agents)
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

/// A message without its content, from the columns [`HEAD`]. Its origin is what its role alone says.
pub(super) fn head(row: &Row<'_>) -> Result<Message, Failure> {
    let role = match row.get_ref(3)?.as_str() {
        Ok("user") => Role::User,
        Ok("assistant") => Role::Assistant,
        _ => return Err(Failure::Damaged("a message has no role".to_owned())),
    };
    // The model also writes summaries, which stand in the user's place.
    let was_asked = row.get_ref(7)?.as_str_or_null()?.is_some();
    let response = match role {
        Role::User if !was_asked => None,
        Role::User | Role::Assistant => Some(response(row)?),
    };
    let seconds: i64 = row.get(4)?;
    let milliseconds: i64 = row.get(5)?;
    Ok(Message {
        id: MessageId::from(row.get_ref(0)?.as_str()?),
        parent: row.get_ref(1)?.as_str_or_null()?.map(MessageId::from),
        seq: row.get(2)?,
        role,
        origin: plain_origin(role, false),
        created_at: Time(seconds.saturating_mul(1000).saturating_add(milliseconds)),
        content: Vec::new(),
        response,
    })
}

fn response(row: &Row<'_>) -> Result<Response, Failure> {
    let tokens = |column| Ok::<_, Failure>(unsigned(row.get(column)?));
    let (written, read) = (tokens(12)?, tokens(13)?);
    let word = row.get_ref(6)?.as_str_or_null()?.unwrap_or_default();
    Ok(Response {
        stop_reason: StopReason::from(word),
        usage: Usage {
            input_tokens: tokens(10)?.saturating_sub(written).saturating_sub(read),
            output_tokens: tokens(11)?,
            cache_creation_input_tokens: written,
            cache_read_input_tokens: read,
            cache_creation_1h_input_tokens: tokens(14)?,
        },
        cost: row
            .get::<_, Option<i64>>(15)?
            .and_then(|cost| u128::try_from(cost).ok())
            .map(Cost),
        model: row.get::<_, Option<String>>(7)?.unwrap_or_default(),
        provider: row.get::<_, Option<String>>(8)?.unwrap_or_default(),
        latency_ms: tokens(9)?,
    })
}

/// Why a message is there if nothing else is noted.
pub(super) fn plain_origin(role: Role, begins_with_result: bool) -> Origin {
    match role {
        Role::Assistant => Origin::Model,
        Role::User if begins_with_result => Origin::Results,
        Role::User => Origin::Prompt,
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
