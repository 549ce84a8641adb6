//! The journal of tool calls: started calls, and the results of finished ones until a message stores them.

use std::collections::HashMap;

use ah_conversation::{
    Access, CallFinish, CallStart, CallState, Message, MessageId, ToolResult, ToolUse, ToolUseId,
};
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::Failure;
use super::details::Details;
use super::outputs::{FullOutput, ResultColumns, needed_output};

/// Records the start of a call. A model may reuse an id in a later message; the newer call replaces the older one.
pub(super) fn start(connection: &Connection, call: &CallStart) -> Result<(), Failure> {
    connection
        .prepare_cached(
            "INSERT OR REPLACE INTO tool_calls (tool_use_id, message_id, access, started_at) VALUES (?, ?, ?, ?)",
        )?
        .execute(params![
            call.tool_use_id.as_str(),
            call.message_id.as_str(),
            call.access,
            call.at.seconds()
        ])?;
    Ok(())
}

/// Records the end of a call, with its result; without it if the same transaction stores the message of results.
pub(super) fn finish(
    connection: &Connection,
    call: &CallFinish,
    result: Option<ResultColumns>,
) -> Result<(), Failure> {
    let (content, details, tool_output) = match result {
        Some(columns) => (
            columns.content,
            columns.details.encode()?,
            Some(columns.tool_output),
        ),
        None => (None, None, None),
    };
    connection
        .prepare_cached(
            "INSERT INTO tool_calls (tool_use_id, message_id, tool_name, finished_at, is_error, duration_ms, details,
                                     content, tool_output)
             VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
             ON CONFLICT (tool_use_id) DO UPDATE SET
                 message_id = excluded.message_id, tool_name = excluded.tool_name,
                 finished_at = excluded.finished_at, is_error = excluded.is_error,
                 duration_ms = excluded.duration_ms, details = excluded.details,
                 content = excluded.content, tool_output = excluded.tool_output",
        )?
        .execute(params![
            call.result.tool_use_id.as_str(),
            call.message_id.as_str(),
            call.result.tool_name,
            call.at.seconds(),
            call.result.is_error,
            super::number::signed(call.result.duration_ms),
            details,
            content,
            tool_output
        ])?;
    Ok(())
}

/// Removes the full output of a finished call from the journal and returns it. `asking` is the message with the call.
pub(super) fn take(
    connection: &Connection,
    call: &ToolUseId,
    asking: &MessageId,
) -> Result<Option<FullOutput>, Failure> {
    let full_output = full_output(connection, call, Some(asking))?;
    if full_output.is_some() {
        connection
            .prepare_cached(
                "UPDATE tool_calls SET details = NULL, content = NULL, tool_output = NULL WHERE tool_use_id = ?",
            )?
            .execute([call.as_str()])?;
    }
    Ok(full_output)
}

/// Returns the full output of a finished call whose result is not in a message yet.
pub(super) fn full_output(
    connection: &Connection,
    call: &ToolUseId,
    asking: Option<&MessageId>,
) -> Result<Option<FullOutput>, Failure> {
    let mut statement = connection.prepare_cached(
        "SELECT details, tool_output FROM tool_calls
         WHERE tool_use_id = ?1 AND finished_at IS NOT NULL AND message_id = ifnull(?2, message_id)",
    )?;
    let mut rows = statement.query(params![call.as_str(), asking.map(MessageId::as_str)])?;
    match rows.next()? {
        Some(row) => {
            let details: Option<String> = row.get("details")?;
            let spool = Details::decode(details.as_deref())?.spool;
            FullOutput::read(row.get_ref("tool_output")?, spool)
        }
        None => Ok(None),
    }
}

/// Returns the id of the message with `call`, if the call is in the journal.
pub(super) fn asking(connection: &Connection, call: &ToolUseId) -> Result<Option<String>, Failure> {
    let asking = connection
        .prepare_cached("SELECT message_id FROM tool_calls WHERE tool_use_id = ?")?
        .query_row([call.as_str()], |row| row.get(0))
        .optional()?;
    Ok(asking)
}

/// Returns the states of the calls of the message `asking`, as far as they are in the journal.
pub(super) fn states(
    connection: &Connection,
    asking: &Message,
) -> Result<HashMap<ToolUseId, CallState>, Failure> {
    let mut statement = connection.prepare_cached(concat!(
        "SELECT tool_name, access, finished_at, is_error, duration_ms, details, content, ",
        needed_output!(),
        " AS tool_output, tool_output IS NOT NULL AS is_whole,
                (SELECT agent_id FROM messages WHERE parent_id = ?1 AND spawned_by = ?2
                 AND rowid > (SELECT rowid FROM messages WHERE id = ?1) ORDER BY rowid DESC LIMIT 1) AS agent_id
         FROM tool_calls WHERE tool_use_id = ?2 AND message_id = ?1",
    ))?;
    let mut states = HashMap::new();
    for ToolUse { id, .. } in asking.tool_uses() {
        let mut rows = statement.query([asking.id.as_str(), id.as_str()])?;
        if let Some(row) = rows.next()? {
            states.insert(id.clone(), state(row, id)?);
        }
    }
    Ok(states)
}

fn state(row: &Row<'_>, id: &ToolUseId) -> Result<CallState, Failure> {
    let details = Details::decode(row.get::<_, Option<String>>("details")?.as_deref())?;
    let is_finished = row.get::<_, Option<i64>>("finished_at")?.is_some();
    // The result of a finished call is missing if the message that stored it was deleted.
    let has_result = row.get("is_whole")? || details.spool.is_some();
    if !is_finished || !has_result {
        let access: String = row.get("access")?;
        return Ok(CallState::Started {
            mutating: !Access::may_begin_again(&access),
            agent_id: row.get("agent_id")?,
        });
    }
    Ok(CallState::Finished(ToolResult {
        tool_use_id: id.clone(),
        tool_name: row
            .get::<_, Option<String>>("tool_name")?
            .unwrap_or_default(),
        content: ResultColumns::seen(
            row.get("content")?,
            row.get_ref("tool_output")?,
            details.is_blocks,
        )?,
        is_error: row.get::<_, Option<bool>>("is_error")?.unwrap_or(false),
        duration_ms: super::number::unsigned(row.get("duration_ms")?),
        lines: details.lines,
        details: details.whole(row.get_ref("tool_output")?.as_str().ok()),
    }))
}
