//! Removes messages from the tree: on request, because they are empty, or because they are unreadable.

use std::collections::HashSet;

use ah_conversation::MessageId;
use rusqlite::{Connection, Row};

use super::blocks::OF_MESSAGE;
use super::details::Details;
use super::messages::{self, HEAD};
use super::{Failure, blocks};

/// Returns the message `root` and all its descendants, parents before children.
pub(super) fn subtree(
    connection: &Connection,
    root: &MessageId,
) -> Result<Vec<MessageId>, Failure> {
    // A message is stored after its parent, so one pass finds them all.
    let mut statement = connection.prepare_cached(
        "SELECT id, parent_id FROM messages WHERE rowid >= (SELECT rowid FROM messages WHERE id = ?) ORDER BY rowid",
    )?;
    let mut rows = statement.query([root.as_str()])?;
    let (mut ids, mut known) = (Vec::new(), HashSet::new());
    while let Some(row) = rows.next()? {
        let [id, parent]: [Option<String>; 2] = [row.get(0)?, row.get(1)?];
        let Some(id) = id else { continue };
        if ids.is_empty() || parent.is_some_and(|parent| known.contains(&parent)) {
            ids.push(MessageId::from(id.clone()));
            known.insert(id);
        }
    }
    Ok(ids)
}

/// Moves the children of `id` to its parent.
pub(super) fn reparent_children(connection: &Connection, id: &MessageId) -> Result<(), Failure> {
    connection.execute(
        "UPDATE messages SET parent_id = (SELECT parent_id FROM messages WHERE id = ?1) WHERE parent_id = ?1",
        [id.as_str()],
    )?;
    Ok(())
}

/// Indexes of what refers to a message, by which SQLite finds it for each message that is deleted. A turn would write a page
/// of each, so they are there only while many are.
const MAKE_INDEXES: &str = "DROP INDEX IF EXISTS messages_parent;
    DROP INDEX IF EXISTS content_blocks_message;
    DROP INDEX IF EXISTS tool_calls_message;
    DROP INDEX IF EXISTS events_message;
    CREATE INDEX messages_parent ON messages (parent_id);
    CREATE INDEX content_blocks_message ON content_blocks (message_id);
    CREATE INDEX tool_calls_message ON tool_calls (message_id);
    CREATE INDEX events_message ON events (message_id);";
const DROP_INDEXES: &str = "DROP INDEX messages_parent; DROP INDEX content_blocks_message;
    DROP INDEX tool_calls_message; DROP INDEX events_message;";

/// Deletes messages with their blocks, and returns how many existed. If the current message is among them, it is unset.
pub(super) fn delete(connection: &Connection, ids: &[MessageId]) -> Result<usize, Failure> {
    if let [] | [_] = ids {
        return delete_each(connection, ids);
    }
    connection.execute_batch(MAKE_INDEXES)?;
    let count = delete_each(connection, ids)?;
    connection.execute_batch(DROP_INDEXES)?;
    Ok(count)
}

fn delete_each(connection: &Connection, ids: &[MessageId]) -> Result<usize, Failure> {
    let mut current = connection
        .prepare_cached("DELETE FROM context WHERE key = 'current_message' AND value = ?")?;
    let mut message = connection.prepare_cached("DELETE FROM messages WHERE id = ?")?;
    let mut count = 0;
    // A message comes after its parent in the list and must be deleted before it.
    for id in ids.iter().rev() {
        current.execute([id.as_str()])?;
        count += message.execute([id.as_str()])?;
    }
    Ok(count)
}

/// Returns the names of the output files of the messages `ids`.
pub(super) fn spooled(connection: &Connection, ids: &[MessageId]) -> Result<Vec<String>, Failure> {
    let mut files = Vec::new();
    let sql = format!(
        "SELECT details FROM messages CROSS JOIN content_blocks ON {OF_MESSAGE} WHERE messages.id = ?"
    );
    for id in ids {
        files.extend(spooled_by(connection, &sql, [id.as_str()])?);
    }
    Ok(files)
}

/// Returns the names of the output files of all messages and of calls in the journal.
pub(super) fn all_spooled(connection: &Connection) -> Result<Vec<String>, Failure> {
    let sql = "SELECT details FROM content_blocks UNION ALL SELECT details FROM tool_calls";
    spooled_by(connection, sql, [])
}

fn spooled_by(
    connection: &Connection,
    sql: &str,
    params: impl rusqlite::Params,
) -> Result<Vec<String>, Failure> {
    let mut statement = connection.prepare_cached(sql)?;
    let mut rows = statement.query(params)?;
    let mut files = Vec::new();
    while let Some(row) = rows.next()? {
        let details = row
            .get_ref(0)?
            .as_str_or_null()?
            .filter(|details| details.contains("\"spool\""));
        files.extend(Details::decode(details)?.spool.map(|note| note.file));
    }
    Ok(files)
}

/// Removes messages without content and without children, and returns how many there were. Responses of the model stay
/// even without content, since their stop reason and cost count.
pub(super) fn remove_empty(connection: &Connection) -> Result<usize, Failure> {
    let mut statement = connection.prepare(&format!(
        "SELECT id, parent_id FROM (SELECT rowid, * FROM messages ORDER BY rowid DESC LIMIT 100) AS messages
         WHERE stop_reason IS NULL
           AND NOT EXISTS (SELECT 1 FROM content_blocks WHERE {OF_MESSAGE})
           AND NOT EXISTS (SELECT 1 FROM messages c WHERE c.rowid > messages.rowid AND c.parent_id = messages.id)"
    ))?;
    let mut removed = 0;
    loop {
        let empty = statement
            .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?
            .collect::<Result<Vec<(String, Option<String>)>, _>>()?;
        if empty.is_empty() {
            return Ok(removed);
        }
        let current = messages::current(connection)?;
        for (id, parent) in empty {
            let id = MessageId::from(id);
            // With an index that contradicts its table, the loop would not end.
            match delete(connection, std::slice::from_ref(&id))? {
                0 => {
                    return Err(Failure::Damaged(format!(
                        "index and table disagree about message {id}"
                    )));
                }
                count => removed += count,
            }
            if let Some(parent) = parent
                && current.as_ref() == Some(&id)
            {
                messages::set_current(connection, &MessageId::from(parent))?;
            }
        }
    }
}

/// Removes blocks and messages that cannot be parsed, and references to missing messages, so that all that remains is
/// readable.
pub(super) fn delete_unreadable(connection: &Connection) -> Result<(), Failure> {
    let unreadable = |select: &str, is_readable: fn(&Row<'_>) -> bool| {
        let mut statement = connection.prepare(select)?;
        let mut rows = statement.query([])?;
        let mut unreadable = Vec::new();
        while let Some(row) = rows.next()? {
            if !is_readable(row) {
                unreadable.push(row.get::<_, i64>("number")?);
            }
        }
        Ok::<_, Failure>(unreadable)
    };
    let blocks = format!("SELECT {}, id AS number FROM content_blocks", blocks::BLOCK);
    for number in unreadable(&blocks, |row| {
        row.get::<_, i64>(1).is_ok() && blocks::block(row).is_ok()
    })? {
        connection.execute("DELETE FROM content_blocks WHERE id = ?", [number])?;
    }
    let heads = format!("SELECT {HEAD}, rowid AS number FROM messages");
    for number in unreadable(&heads, |row| messages::head(row).is_ok())? {
        connection.execute("DELETE FROM messages WHERE rowid = ?", [number])?;
    }
    connection.execute_batch(
        "UPDATE messages SET parent_id = NULL WHERE parent_id NOT IN (SELECT id FROM messages);
         DELETE FROM content_blocks WHERE message_id NOT IN (SELECT id FROM messages);
         DELETE FROM tool_calls WHERE message_id NOT IN (SELECT id FROM messages);
         UPDATE events SET message_id = NULL WHERE message_id NOT IN (SELECT id FROM messages);",
    )?;
    Ok(())
}
