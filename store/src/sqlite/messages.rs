//! Conversion of messages to rows and back. Their content is handled by [`blocks`], branches by
//! [`transcript`](super::transcript).

use std::collections::{HashMap, HashSet};

use ah_conversation::{
    Branch, ContentBlock, Cost, Message, MessageId, Origin, Response, Role, StopReason, Time,
    ToolUseId, Usage, json,
};
use rusqlite::{Connection, OptionalExtension, Row, params};
use serde_json::Value;

use super::Failure;
use super::number::{signed, unsigned};
use super::outputs::FullOutput;
use super::{blocks, calls, context};

/// Most tokens of one kind that a message counts for: whoever has made a session may have written any number, and sums must fit.
pub(super) const MOST_TOKENS: u64 = 1 << 40;

/// Columns that [`head`] reads, in this order.
pub(super) const HEAD: &str = "id, parent_id, seq, role, created_at, created_ms, stop_reason, model, provider,
    api_latency_ms, input_tokens, output_tokens, cache_creation_input_tokens, cache_read_input_tokens,
    cache_creation_1h_input_tokens, cost, request_id, origin, opaque";

/// Inserts a message into the conversation of a subagent or the main one, unless it is already stored; returns whether
/// it was inserted. `outputs` are the full outputs of calls that ended in this transaction; those of earlier calls are
/// taken from the journal.
pub(super) fn insert(
    connection: &Connection,
    message: &Message,
    branch: Option<&Branch>,
    outputs: &mut HashMap<ToolUseId, FullOutput>,
) -> Result<bool, Failure> {
    let first_block = blocks::next_id(connection)?;
    if !insert_row(connection, message, first_block)? {
        return Ok(false);
    }
    if let Some(branch) = branch {
        assign(connection, message, branch)?;
    }
    for (seq, block) in message.content.iter().enumerate() {
        let columns = match block {
            ContentBlock::ToolResult(result) => {
                let full_output = match (outputs.remove(&result.tool_use_id), &message.parent) {
                    (None, Some(asking)) => calls::take(connection, &result.tool_use_id, asking)?,
                    (full_output, _) => full_output,
                };
                blocks::result_columns(result, full_output)?
            }
            other => blocks::columns(other)?,
        };
        blocks::insert(connection, message, first_block, seq, columns)?;
    }
    Ok(true)
}

fn insert_row(
    connection: &Connection,
    message: &Message,
    first_block: i64,
) -> Result<bool, Failure> {
    let response = message.response.as_ref();
    let usage = response.map(|response| response.usage);
    let opaque = response.and_then(|response| response.opaque.as_ref());
    let tokens = |count: fn(&Usage) -> u64| usage.as_ref().map(|usage| signed(count(usage)));
    let inserted = connection
        .prepare_cached(
            "INSERT INTO messages (id, parent_id, role, seq, created_at, created_ms, stop_reason, model, provider,
                 api_latency_ms, input_tokens, output_tokens, cache_creation_input_tokens, cache_read_input_tokens,
                 cache_creation_1h_input_tokens, cost, request_id, origin, opaque, first_block, last_block)
             VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO NOTHING",
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
            response.and_then(|response| response.request_id.as_deref()),
            origin_text(&message.origin)?,
            opaque.map(serde_json::to_string).transpose()?,
            first_block,
            first_block.saturating_add(signed(message.content.len() as u64) - 1),
        ])?;
    Ok(inserted == 1)
}

/// Assigns a message to a subagent. Its first message becomes a child of the message with the call, and depths continue
/// from there.
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

/// Returns the last message of a subagent.
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

/// Returns the subagent of each message that belongs to one.
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

/// Returns the current message of the main conversation: the recorded one or, if that is missing, the newest leaf.
pub(super) fn current(connection: &Connection) -> Result<Option<MessageId>, Failure> {
    let id: Option<String> = connection
        .prepare_cached(
            "SELECT coalesce(
                 (SELECT id FROM messages WHERE id = (SELECT value FROM context WHERE key = 'current_message')),
                 (SELECT id FROM messages m WHERE agent_id IS NULL
                  AND NOT EXISTS (SELECT 1 FROM messages c WHERE c.rowid > m.rowid AND c.parent_id = m.id)
                  ORDER BY rowid DESC LIMIT 1))",
        )?
        .query_row([], |row| row.get(0))?;
    Ok(id.map(MessageId::from))
}

/// Makes `id` the current message.
pub(super) fn set_current(connection: &Connection, id: &MessageId) -> Result<(), Failure> {
    context::set(connection, context::CURRENT_MESSAGE, id.as_str())
}

/// Returns those of `ids` that are messages of the conversation.
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

/// Reads a message without its content from the columns [`HEAD`].
pub(super) fn head(row: &Row<'_>) -> Result<Message, Failure> {
    let role = match row.get_ref(3)?.as_str() {
        Ok("user") => Role::User,
        Ok("assistant") => Role::Assistant,
        _ => return Err(Failure::Damaged("a message has no valid role".to_owned())),
    };
    // The model also writes summaries, which have the role `user`.
    let has_model = row.get_ref(7)?.as_str_or_null()?.is_some();
    let response = match role {
        Role::User if !has_model => None,
        Role::User | Role::Assistant => Some(response(row)?),
    };
    let seconds: i64 = row.get(4)?;
    let milliseconds: i64 = row.get(5)?;
    Ok(Message {
        id: MessageId::from(row.get_ref(0)?.as_str()?),
        parent: row.get_ref(1)?.as_str_or_null()?.map(MessageId::from),
        seq: row.get(2)?,
        role,
        origin: origin(row.get_ref(17)?.as_str_or_null()?, role)?,
        created_at: Time(seconds.saturating_mul(1000).saturating_add(milliseconds)),
        content: Vec::new(),
        response,
    })
}

fn response(row: &Row<'_>) -> Result<Response, Failure> {
    let tokens = |column| Ok::<_, Failure>(unsigned(row.get(column)?).min(MOST_TOKENS));
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
            // They are in the cost.
            web_search_requests: 0,
        },
        cost: row
            .get::<_, Option<i64>>(15)?
            .and_then(|cost| u128::try_from(cost).ok())
            .map(Cost),
        model: row.get::<_, Option<String>>(7)?.unwrap_or_default(),
        provider: row.get::<_, Option<String>>(8)?.unwrap_or_default(),
        latency_ms: tokens(9)?,
        request_id: row.get(16)?,
        // Without it the server may refuse the message; a damaged one is no reason to lose the rest.
        opaque: { row.get_ref(18)?.as_str_or_null()? }.and_then(|text| json::own(text).ok()),
    })
}

/// Returns an origin as a word, or as JSON if there is more to it.
fn origin_text(origin: &Origin) -> Result<String, Failure> {
    Ok(match serde_json::to_value(origin)? {
        Value::String(word) => word,
        more => more.to_string(),
    })
}

/// Reads an origin; one that is missing is that of a message of its own.
fn origin(text: Option<&str>, role: Role) -> Result<Origin, Failure> {
    Ok(match (text, role) {
        (Some(json), _) if json.starts_with('{') => json::from_str(json)?,
        (Some(word), _) => serde_json::from_value(word.into())?,
        (None, Role::Assistant) => Origin::Model,
        (None, Role::User) => Origin::Prompt,
    })
}

fn role_word(role: Role) -> &'static str {
    match role {
        Role::User => "user",
        Role::Assistant => "assistant",
    }
}
