//! System prompt and tools as the requests of a branch begin with them. Each content is stored once.

use std::collections::HashMap;
use std::sync::Arc;

use ah_conversation::{Message, MessageId, Prefix, json};
use rusqlite::{Connection, OptionalExtension, params};
use sha2::{Digest as _, Sha256};

use super::Failure;
use crate::paths::hex;

/// Stores the beginning of the requests from the one that ends with `message` on.
pub(super) fn insert(
    connection: &Connection,
    message: &MessageId,
    prefix: &Prefix,
) -> Result<(), Failure> {
    let content = serde_json::to_string(prefix)?;
    let hash = hex(&Sha256::digest(&content));
    connection
        .prepare_cached(
            "INSERT INTO prefixes (message_id, hash, content)
             SELECT ?1, ?2, iif(EXISTS (SELECT 1 FROM prefixes WHERE hash = ?2), NULL, ?3)",
        )?
        .execute(params![message.as_str(), hash, content])?;
    Ok(())
}

/// Returns the beginning of the requests that end with the last message of `branch`, and the message since which it is
/// sent.
pub(super) fn last_of(
    connection: &Connection,
    branch: &[Arc<Message>],
) -> Result<Option<(MessageId, Prefix)>, Failure> {
    let positions: HashMap<_, _> = branch
        .iter()
        .enumerate()
        .map(|(at, message)| (message.id.as_str(), at))
        .collect();
    let mut statement =
        connection.prepare_cached("SELECT message_id, hash FROM prefixes ORDER BY id")?;
    let mut rows = statement.query([])?;
    let mut last: Option<(usize, String)> = None;
    // A message deleted anywhere on the branch may have been in the view of all later requests.
    let mut is_valid = true;
    while let Some(row) = rows.next()? {
        let Some(at) = positions.get(row.get_ref(0)?.as_str()?) else {
            continue;
        };
        let hash: String = row.get(1)?;
        if hash.is_empty() {
            is_valid = false;
        } else if last.as_ref().is_none_or(|(known, _)| known <= at) {
            (last, is_valid) = (Some((*at, hash)), true);
        }
    }
    let Some((at, hash)) = last.filter(|_| is_valid) else {
        return Ok(None);
    };
    let content: Option<String> = connection
        .prepare_cached("SELECT content FROM prefixes WHERE hash = ? AND content IS NOT NULL")?
        .query_row([&hash], |row| row.get(0))
        .optional()?;
    // A damaged content is as good as none: the requests begin anew.
    let content = content.filter(|content| hex(&Sha256::digest(content)) == hash);
    let Some(content) = content else {
        return Ok(None);
    };
    Ok(Some((branch[at].id.clone(), json::from_str(&content)?)))
}

/// Marks the branches through the children of `message`, which is about to be deleted: their earlier requests had a
/// message that later ones lack, so no stored beginning holds for them.
pub(super) fn invalidate_below(
    connection: &Connection,
    message: &MessageId,
) -> Result<(), Failure> {
    connection.execute(
        "INSERT INTO prefixes (message_id, hash) SELECT id, '' FROM messages WHERE parent_id = ?",
        [message.as_str()],
    )?;
    Ok(())
}
