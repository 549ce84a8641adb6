//! The event log. Only events that cannot be derived from the messages are stored, each with its fields as JSON.

use ah_conversation::{Event, EventKind, MessageId, Verdicts, Verification, json};
use rusqlite::{Connection, params};
use serde_json::{Map, Value};

use super::{Failure, context};

/// Fields for kind and time of an event, which have columns of their own.
const KIND: &str = "event_type";
const TIMESTAMP: &str = "timestamp";

/// Inserts `event` if its kind is stored. A change of state also updates the session's context.
pub(super) fn insert(connection: &Connection, event: &Event) -> Result<(), Failure> {
    if !event.kind.is_stored() {
        return Ok(());
    }
    if let EventKind::StateChange { to_state, .. } = &event.kind {
        context::set(connection, context::STATE, to_state)?;
    }
    let mut fields = match serde_json::to_value(event)? {
        Value::Object(fields) => fields,
        _ => Map::new(),
    };
    fields.shift_remove(KIND);
    fields.shift_remove(TIMESTAMP);
    if let EventKind::ToolCallEnd { .. } = event.kind {
        // The output is already in the conversation.
        fields.insert("tool_output".to_owned(), "".into());
    }
    connection
        .prepare_cached(
            "INSERT INTO events (message_id, event_type, created_at, details)
             VALUES ((SELECT id FROM messages WHERE id = ?), ?, ?, ?)",
        )?
        .execute(params![
            event.kind.message_id().map(|id| id.as_str()),
            event.kind.name(),
            event.timestamp,
            serde_json::to_string(&fields)?
        ])?;
    Ok(())
}

/// Returns all stored events, oldest first, without those of kinds unknown to this version.
pub(super) fn all(connection: &Connection) -> Result<Vec<Event>, Failure> {
    let mut statement = connection
        .prepare_cached("SELECT event_type, created_at, details FROM events ORDER BY id")?;
    let mut rows = statement.query([])?;
    let mut events = Vec::new();
    while let Some(row) = rows.next()? {
        let kind: String = row.get(0)?;
        let details: Option<String> = row.get(2)?;
        let mut fields: Map<String, Value> = json::from_str(details.as_deref().unwrap_or("{}"))?;
        fields.insert(KIND.to_owned(), kind.into());
        fields.insert(TIMESTAMP.to_owned(), row.get::<_, i64>(1)?.into());
        events.extend(serde_json::from_value::<Event>(Value::Object(fields)).ok());
    }
    Ok(events)
}

/// Returns what the checks of runs have shown at their ends.
pub(super) fn verdicts(connection: &Connection) -> Result<Verdicts, Failure> {
    let mut statement = connection
        .prepare_cached("SELECT details FROM events WHERE event_type = 'checked' ORDER BY id")?;
    let mut rows = statement.query([])?;
    let mut verdicts = Verdicts::new();
    while let Some(row) = rows.next()? {
        let details: Option<String> = row.get(0)?;
        let mut fields: Map<String, Value> = json::from_str(details.as_deref().unwrap_or("{}"))?;
        fields.insert(KIND.to_owned(), "checked".into());
        let kind = serde_json::from_value::<EventKind>(Value::Object(fields));
        verdicts.extend(kind.ok().and_then(end));
    }
    Ok(verdicts)
}

fn end(kind: EventKind) -> Option<(MessageId, Verification)> {
    match kind {
        EventKind::Checked {
            verification,
            is_last: true,
            message_id: Some(id),
        } => Some((id, verification)),
        _ => None,
    }
}
