//! States of files before they were changed, grouped in steps. Each content is stored once.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::PathBuf;

use ah_conversation::{FileCause, FileChange, FileState, FileStep, FilesLeft, MessageId, Time};
use rusqlite::{Connection, OptionalExtension, Row, params};
use sha2::{Digest as _, Sha256};

use super::Failure;
use crate::paths::hex;

/// Words for the kinds of file states.
const ABSENT: &str = "absent";
const FILE: &str = "file";
const FOLDER: &str = "folder";
const LINK: &str = "link";
const UNKEPT: &str = "unkept";

/// Contents kept of one session, in bytes. Beyond it, those of the oldest steps go.
const MAX_KEPT: u64 = 256 * 1024 * 1024;
/// Contents of a change that make it worth while to count all.
const MUCH: usize = 1024 * 1024;

/// Inserts the states of files before a change. All changes of a run are one step, in which the first state of each
/// file counts; each rewind is a step of its own.
pub(super) fn insert(connection: &Connection, change: &FileChange) -> Result<(), Failure> {
    let step = step_of(connection, change)?;
    for (path, state) in &change.before {
        let (kind, mode, folders, content) = match state {
            FileState::Absent { folders } => {
                let folders = i64::try_from(*folders).unwrap_or(i64::MAX);
                (ABSENT, None, Some(folders), None)
            }
            FileState::File { content, mode } => (FILE, Some(*mode), None, Some(&content[..])),
            FileState::Folder { mode } => (FOLDER, Some(*mode), None, None),
            FileState::Link { target } => (LINK, None, None, Some(target.as_os_str().as_bytes())),
            FileState::Unkept => (UNKEPT, None, None, None),
        };
        let hash = content.map(|content| hex(&Sha256::digest(content)));
        connection
            .prepare_cached(
                "INSERT INTO file_states (step, path, kind, mode, folders, hash, content)
                 SELECT ?1, ?2, ?3, ?4, ?5, ?6, iif(EXISTS (SELECT 1 FROM file_states WHERE hash = ?6 AND content NOT NULL), NULL, ?7)
                 WHERE NOT EXISTS (SELECT 1 FROM file_states WHERE step = ?1 AND path = ?2)",
            )?
            .execute(params![
                step,
                path.as_os_str().as_bytes(),
                kind,
                mode,
                folders,
                hash,
                content,
            ])?;
    }
    let contents = change.before.iter().map(|(_, state)| match state {
        FileState::File { content, .. } => content.len(),
        _ => 0,
    });
    // Small changes add up, too.
    if contents.sum::<usize>() > MUCH || step % 64 == 0 {
        drop_oldest(connection, MAX_KEPT)?;
    }
    for call in &change.unseen {
        connection
            .prepare_cached("INSERT INTO file_notes (step, unseen) VALUES (?, ?)")?
            .execute(params![step, call])?;
    }
    Ok(())
}

/// Returns how many bytes of contents are kept.
pub(super) fn kept(connection: &Connection) -> Result<u64, Failure> {
    let sum = "SELECT coalesce(sum(length(content)), 0) FROM file_states WHERE content NOT NULL";
    let sum: i64 = connection.query_row(sum, [], |row| row.get(0))?;
    Ok(sum.unsigned_abs())
}

/// Drops the oldest contents until no more than `most` bytes are kept. Their files count as not kept then.
pub(super) fn drop_oldest(connection: &Connection, most: u64) -> Result<(), Failure> {
    let mut kept = kept(connection)?;
    while kept > most {
        let oldest: Option<(String, i64)> = connection
            .prepare_cached(
                "SELECT hash, length(content) FROM file_states WHERE content NOT NULL ORDER BY rowid LIMIT 1",
            )?
            .query_row([], |row| Ok((row.get(0)?, row.get(1)?)))
            .optional()?;
        let Some((hash, length)) = oldest else {
            return Ok(());
        };
        connection
            .prepare_cached(
                "UPDATE file_states SET kind = ?, hash = NULL, content = NULL WHERE hash = ?",
            )?
            .execute([UNKEPT, &hash])?;
        kept -= length.unsigned_abs();
    }
    Ok(())
}

/// Notes when the last step had changed paths.
pub(super) fn note_left(connection: &Connection, left: &FilesLeft) -> Result<(), Failure> {
    let last: Option<i64> =
        connection.query_row("SELECT max(id) FROM file_steps", [], |row| row.get(0))?;
    let Some(step) = last else {
        return Ok(());
    };
    let Some(paths) = &left.paths else {
        connection
            .prepare_cached("DELETE FROM file_notes WHERE step = ? AND path NOT NULL")?
            .execute([step])?;
        connection
            .prepare_cached(
                "INSERT INTO file_notes (step, path, until_ms)
                 SELECT step, path, ?2 FROM file_states WHERE step = ?1",
            )?
            .execute(params![step, left.until.0])?;
        return Ok(());
    };
    for path in paths {
        connection
            .prepare_cached(
                "INSERT INTO file_notes (step, path, until_ms) VALUES (?, ?, ?)
                 ON CONFLICT (step, path) WHERE path NOT NULL DO UPDATE SET until_ms = excluded.until_ms",
            )?
            .execute(params![step, path.as_os_str().as_bytes(), left.until.0])?;
    }
    Ok(())
}

/// Returns the number of the step that the change belongs to; creates the step if necessary.
fn step_of(connection: &Connection, change: &FileChange) -> Result<i64, Failure> {
    let (run, target) = match &change.cause {
        FileCause::Run(message) => (Some(message.as_str()), None),
        FileCause::Rewind(number) => (None, Some(*number)),
    };
    if let Some(run) = run {
        let last: Option<(i64, Option<String>)> = connection
            .prepare_cached("SELECT id, message_id FROM file_steps ORDER BY id DESC LIMIT 1")?
            .query_row([], |row| Ok((row.get(0)?, row.get(1)?)))
            .optional()?;
        if let Some((step, of)) = last
            && of.as_deref() == Some(run)
        {
            return Ok(step);
        }
    }
    connection
        .prepare_cached("INSERT INTO file_steps (message_id, target, at_ms) VALUES (?, ?, ?)")?
        .execute(params![run, target, change.at.0])?;
    Ok(connection.last_insert_rowid())
}

/// Returns all steps, oldest first.
pub(super) fn steps(connection: &Connection) -> Result<Vec<FileStep>, Failure> {
    let mut statement = connection
        .prepare_cached("SELECT id, message_id, target, at_ms FROM file_steps ORDER BY id")?;
    let mut rows = statement.query([])?;
    let mut steps = Vec::new();
    while let Some(row) = rows.next()? {
        let run: Option<String> = row.get(1)?;
        let number = row.get(0)?;
        steps.push(FileStep {
            number,
            cause: match run {
                Some(run) => FileCause::Run(MessageId::from(run.as_str())),
                None => FileCause::Rewind(row.get::<_, Option<i64>>(2)?.unwrap_or(number)),
            },
            at: Time(row.get(3)?),
            before: states(connection, number)?,
            until: left(connection, number)?,
            unseen: unseen(connection, number)?,
        });
    }
    Ok(steps)
}

/// Returns whether the last step is a rewind that was cut off.
pub(super) fn has_rewind_cut_off(connection: &Connection) -> Result<bool, Failure> {
    let found = connection
        .prepare_cached(
            "SELECT EXISTS (SELECT 1 FROM file_notes
             WHERE step = (SELECT max(id) FROM file_steps) AND path NOT NULL AND until_ms = ?)",
        )?
        .query_row([FilesLeft::ONGOING.0], |row| row.get(0))?;
    Ok(found)
}

fn states(
    connection: &Connection,
    step: i64,
) -> Result<BTreeMap<PathBuf, FileState<String>>, Failure> {
    let mut statement = connection
        .prepare_cached("SELECT path, kind, mode, folders, hash FROM file_states WHERE step = ?")?;
    let mut rows = statement.query([step])?;
    let mut states = BTreeMap::new();
    while let Some(row) = rows.next()? {
        let path = row.get_ref(0)?.as_bytes()?;
        states.insert(
            PathBuf::from(OsStr::from_bytes(path)),
            state(connection, row)?,
        );
    }
    Ok(states)
}

/// Returns when a step had changed each path for the last time.
fn left(connection: &Connection, step: i64) -> Result<BTreeMap<PathBuf, Time>, Failure> {
    let mut statement = connection
        .prepare_cached("SELECT path, until_ms FROM file_notes WHERE step = ? AND path NOT NULL")?;
    let mut rows = statement.query([step])?;
    let mut left = BTreeMap::new();
    while let Some(row) = rows.next()? {
        let path = PathBuf::from(OsStr::from_bytes(row.get_ref(0)?.as_bytes()?));
        left.insert(path, Time(row.get(1)?));
    }
    Ok(left)
}

fn unseen(connection: &Connection, step: i64) -> Result<Vec<String>, Failure> {
    let mut statement = connection.prepare_cached(
        "SELECT unseen FROM file_notes WHERE step = ? AND unseen NOT NULL ORDER BY rowid",
    )?;
    let calls = statement.query_map([step], |row| row.get(0))?;
    Ok(calls.collect::<Result<_, _>>()?)
}

fn state(connection: &Connection, row: &Row<'_>) -> Result<FileState<String>, Failure> {
    let kind: String = row.get(1)?;
    let hash: Option<String> = row.get(4)?;
    let mode = |usual| Ok::<_, Failure>(row.get::<_, Option<u32>>(2)?.unwrap_or(usual));
    Ok(match (kind.as_str(), hash) {
        (ABSENT, _) => {
            let count: Option<i64> = row.get(3)?;
            let folders = usize::try_from(count.unwrap_or(0)).unwrap_or(0);
            FileState::Absent { folders }
        }
        (FILE, Some(content)) => FileState::File {
            content,
            mode: mode(0o644)?,
        },
        (LINK, Some(hash)) => match content(connection, &hash)? {
            Some(target) => FileState::Link {
                target: OsString::from_vec(target).into(),
            },
            None => FileState::Unkept,
        },
        (FOLDER, _) => FileState::Folder { mode: mode(0o755)? },
        _ => FileState::Unkept,
    })
}

/// Returns the content with this hash.
pub(super) fn content(connection: &Connection, hash: &str) -> Result<Option<Vec<u8>>, Failure> {
    let content = connection
        .prepare_cached("SELECT content FROM file_states WHERE hash = ? AND content NOT NULL")?
        .query_row([hash], |row| row.get(0))
        .optional()?;
    Ok(content)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn the_oldest_contents_go_first_and_all_their_files_with_them() {
        let mut connection = Connection::open_in_memory().unwrap();
        super::super::schema::CONVERSATION
            .migrate(&mut connection)
            .unwrap();
        let file = |byte: u8| FileState::File {
            content: Arc::from(vec![byte; 100]),
            mode: 0o644,
        };
        for (run, files) in [("1", [("a", 1), ("b", 2)]), ("2", [("c", 1), ("d", 3)])] {
            let change = FileChange {
                cause: FileCause::Run(MessageId::from(run)),
                at: Time(0),
                before: files.map(|(name, byte)| (name.into(), file(byte))).into(),
                unseen: Vec::new(),
            };
            insert(&connection, &change).unwrap();
        }
        drop_oldest(&connection, 250).unwrap();
        let kept = |path: &str| {
            let steps = steps(&connection).unwrap();
            let mut states = steps.into_iter().flat_map(|step| step.before);
            let (_, state) = states.find(|(name, _)| name.as_os_str() == path).unwrap();
            matches!(state, FileState::File { .. })
        };
        assert_eq!(["a", "b", "c", "d"].map(kept), [false, true, false, true]);
    }
}
