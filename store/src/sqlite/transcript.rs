//! Reads branches of the tree, from a message back to its root.
//!
//! A message is stored after its parent, and together with its blocks, so one pass over each table from the newest row
//! back finds a branch. A recursive query along the parents needs several text lookups for each message, which is many
//! times slower if most of the tree is on the branch, as it nearly always is.

use std::collections::HashMap;
use std::ops::RangeInclusive;
use std::sync::Arc;

use ah_conversation::{Message, MessageId, Origin, Role, Transcript};
use rusqlite::{Connection, params};

use super::blocks::{self, BLOCK, OF_MESSAGE, TOOL_RESULT};
use super::messages::{self, HEAD};
use super::{Failure, calls, prefixes};

/// Rows of all content blocks.
const ALL: RangeInclusive<i64> = 0..=i64::MAX;

/// Loads the transcript that ends at the current message. If that is a response whose calls have run, because the user
/// went back to it, their results are included. Messages before the model's view are loaded without content.
pub(super) fn load(connection: &Connection) -> Result<Transcript, Failure> {
    let Some(leaf) = messages::current(connection)? else {
        return Ok(Transcript::default());
    };
    let mut branch = ancestry(connection, &leaf)?;
    branch.extend(results_after(connection, &branch)?);
    viewed(connection, branch)
}

/// Loads the transcript of a subagent, from its first message to its last.
pub(super) fn load_agent(connection: &Connection, agent_id: &str) -> Result<Transcript, Failure> {
    let Some(leaf) = messages::last_of(connection, agent_id)? else {
        return Ok(Transcript::default());
    };
    let mut branch = ancestry(connection, &leaf)?;
    let own = messages::of_agents(connection)?;
    branch.retain(|message| own.get(&message.id).is_some_and(|agent| agent == agent_id));
    viewed(connection, branch)
}

/// Converts a branch to a transcript: loads the content of the model's view and the states of open calls.
fn viewed(connection: &Connection, mut branch: Vec<Arc<Message>>) -> Result<Transcript, Failure> {
    let from = view_start(&branch);
    let first = match from {
        0 => 0,
        _ => *rows_of(connection, &branch[from].id)?.start(),
    };
    fill(connection, &mut branch[from..], first..=i64::MAX)?;
    let calls = match branch.last() {
        Some(last) if last.role == Role::Assistant => calls::states(connection, last)?,
        _ => HashMap::new(),
    };
    let prefix = prefixes::last_of(connection, &branch)?;
    let transcript = Transcript::new(branch, calls);
    Ok(match prefix {
        Some((since, prefix)) => transcript.with_prefix(&since, Arc::new(prefix)),
        None => transcript,
    })
}

/// Returns the messages from the root to `leaf`, with content.
pub(super) fn branch(connection: &Connection, leaf: &MessageId) -> Result<Vec<Message>, Failure> {
    let mut branch = ancestry(connection, leaf)?;
    fill(connection, &mut branch, ALL)?;
    Ok(branch.into_iter().map(Arc::unwrap_or_clone).collect())
}

/// Returns one message, with content.
pub(super) fn message(connection: &Connection, id: &MessageId) -> Result<Option<Message>, Failure> {
    let sql = format!("SELECT {HEAD} FROM messages WHERE id = ?");
    let mut statement = connection.prepare_cached(&sql)?;
    let mut rows = statement.query([id.as_str()])?;
    let Some(row) = rows.next()? else {
        return Ok(None);
    };
    let mut message = Arc::new(messages::head(row)?);
    let only = std::slice::from_mut(&mut message);
    fill(connection, only, rows_of(connection, id)?)?;
    Ok(Some(Arc::unwrap_or_clone(message)))
}

/// Returns the message with this number: the one on the current branch, else the oldest of the main conversation, else the
/// oldest. No content is read, and no other message where the number is of one alone.
pub(super) fn numbered(connection: &Connection, seq: u32) -> Result<Option<MessageId>, Failure> {
    let mut statement = connection.prepare_cached(
        "SELECT id FROM messages WHERE seq = ? ORDER BY agent_id IS NOT NULL, rowid",
    )?;
    let ids = statement.query_map([seq], |row| row.get::<_, String>(0))?;
    let found = ids.collect::<Result<Vec<_>, _>>()?;
    let on_branch = match (found.len(), messages::current(connection)?) {
        (2.., Some(current)) => ancestor(connection, &current, seq)?,
        _ => None,
    };
    Ok(on_branch.or_else(|| found.into_iter().next().map(MessageId::from)))
}

/// Returns the message with this number among `leaf` and the messages before it.
fn ancestor(
    connection: &Connection,
    leaf: &MessageId,
    seq: u32,
) -> Result<Option<MessageId>, Failure> {
    // A parent always has a smaller number, so this ends even with damaged data.
    let mut statement = connection.prepare_cached(
        "WITH RECURSIVE branch (id, parent_id, seq) AS (
             SELECT id, parent_id, seq FROM messages WHERE id = ?1
             UNION ALL SELECT m.id, m.parent_id, m.seq FROM branch
             JOIN messages m ON m.id = branch.parent_id AND m.seq < branch.seq WHERE branch.seq > ?2)
         SELECT id FROM branch WHERE seq = ?2",
    )?;
    let mut rows = statement.query(params![leaf.as_str(), seq])?;
    let id = rows
        .next()?
        .map(|row| row.get::<_, String>(0))
        .transpose()?;
    Ok(id.map(MessageId::from))
}

/// Returns all messages in the order of storing, without content.
pub(super) fn all(connection: &Connection) -> Result<Vec<Message>, Failure> {
    let sql = format!("SELECT {HEAD} FROM messages ORDER BY rowid");
    let mut statement = connection.prepare_cached(&sql)?;
    let mut rows = statement.query([])?;
    let mut all = Vec::new();
    while let Some(row) = rows.next()? {
        all.push(messages::head(row)?);
    }
    Ok(all)
}

/// Returns the messages from the root to `leaf`, without content.
fn ancestry(connection: &Connection, leaf: &MessageId) -> Result<Vec<Arc<Message>>, Failure> {
    let sql = format!(
        "SELECT {HEAD} FROM messages WHERE rowid <= (SELECT rowid FROM messages WHERE id = ?)
         ORDER BY rowid DESC"
    );
    let mut statement = connection.prepare_cached(&sql)?;
    let mut rows = statement.query([leaf.as_str()])?;
    let mut branch = Vec::new();
    let mut wanted = Some(leaf.clone());
    while let (Some(id), Some(row)) = (&wanted, rows.next()?) {
        if row.get_ref(0)?.as_str()? == id.as_str() {
            let mut message = messages::head(row)?;
            // The id is the one that its child has, once in memory.
            message.id = id.clone();
            wanted = message.parent.clone();
            branch.push(Arc::new(message));
        }
    }
    match wanted {
        Some(lost) if !branch.is_empty() => {
            Err(Failure::Damaged(format!("message {lost} is missing")))
        }
        _ => {
            branch.reverse();
            Ok(branch)
        }
    }
}

/// Returns the first message of results after the response at the end of `branch`, without content.
fn results_after(
    connection: &Connection,
    branch: &[Arc<Message>],
) -> Result<Option<Arc<Message>>, Failure> {
    let Some(asking) = branch.last().filter(|last| last.role == Role::Assistant) else {
        return Ok(None);
    };
    let sql = format!(
        "SELECT {HEAD} FROM messages WHERE parent_id = ?1 AND rowid > (SELECT rowid FROM messages WHERE id = ?1) AND EXISTS (
             SELECT 1 FROM content_blocks WHERE {OF_MESSAGE} AND block_type = '{TOOL_RESULT}')
         ORDER BY rowid LIMIT 1"
    );
    let mut statement = connection.prepare_cached(&sql)?;
    let mut rows = statement.query([asking.id.as_str()])?;
    let message = rows.next()?.map(messages::head).transpose()?;
    Ok(message.map(Arc::new))
}

/// Returns the rows of the blocks of a message; all, if they are not known.
fn rows_of(connection: &Connection, id: &MessageId) -> Result<RangeInclusive<i64>, Failure> {
    let (first, last): (Option<i64>, Option<i64>) = connection
        .prepare_cached("SELECT first_block, last_block FROM messages WHERE id = ?")?
        .query_one([id.as_str()], |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(first.unwrap_or(*ALL.start())..=last.unwrap_or(*ALL.end()))
}

/// Loads the content of `messages`, whose blocks are all among `numbers`.
fn fill(
    connection: &Connection,
    messages: &mut [Arc<Message>],
    numbers: RangeInclusive<i64>,
) -> Result<(), Failure> {
    // Blocks come in the order of their messages, so most are of the last message or the next.
    let (mut last, mut positions) = (0, None);
    let sql = format!("SELECT {BLOCK} FROM content_blocks WHERE id BETWEEN ? AND ? ORDER BY id");
    let mut statement = connection.prepare_cached(&sql)?;
    let mut rows = statement.query([numbers.start(), numbers.end()])?;
    while let Some(row) = rows.next()? {
        let id = row.get_ref(0)?.as_str()?;
        let is_of = |at: &usize| {
            let message = messages.get(*at);
            message.is_some_and(|message| message.id.as_str() == id)
        };
        let found = [last, last + 1].into_iter().find(is_of);
        let found = found.or_else(|| {
            let positions = positions.get_or_insert_with(|| positions_of(messages));
            positions.get(id).copied()
        });
        let Some(at) = found else {
            continue;
        };
        last = at;
        let content = &mut Arc::make_mut(&mut messages[at]).content;
        // Nearly all messages have one or two blocks; the default capacity of four would double the memory.
        content.reserve_exact(1);
        content.push(blocks::block(row)?);
    }
    Ok(())
}

/// Returns the position of each message in the list, by its id.
fn positions_of(messages: &[Arc<Message>]) -> HashMap<String, usize> {
    messages
        .iter()
        .enumerate()
        .map(|(at, message)| (message.id.to_string(), at))
        .collect()
}

/// Returns the position of the first message in the model's view.
fn view_start(messages: &[Arc<Message>]) -> usize {
    let Some(at) = messages.iter().rposition(|message| message.is_summary()) else {
        return 0;
    };
    match &messages[at].origin {
        Origin::Summary {
            kept_from: Some(first),
            ..
        } => messages[..at]
            .iter()
            .rposition(|message| message.id == *first)
            .unwrap_or(at),
        _ => at,
    }
}
