//! States of files before they were changed, grouped in steps. Each content is stored once.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use ah_beneath::Folder;
use ah_conversation::{FileCause, FileChange, FileState, FileStep, FilesLeft, MessageId, Time};
use rusqlite::{Connection, OptionalExtension, Row, params};
use rustix::fs::Access;
use sha2::{Digest as _, Sha256};

use super::Failure;
use crate::big::{self, BigFiles, Held, MAX_BIG};
use crate::paths::{file_name, hex, stored_path};
use crate::seal::Seal;

/// Words for the kinds of file states.
const ABSENT: &str = "absent";
const FILE: &str = "file";
const FOLDER: &str = "folder";
const LINK: &str = "link";
const BIG: &str = "big";
const UNKEPT: &str = "unkept";
/// Stands for a path in the seal of a rewind in progress. No path is empty.
const IN_PROGRESS: &[u8] = b"";

/// Contents kept of one session in the database, in bytes. Beyond it, those of the oldest steps go; the same for
/// [`MAX_BIG`] and the contents in files.
const MAX_KEPT: u64 = 256 * 1024 * 1024;
/// Contents of a change that make it worth while to count all.
const MUCH: usize = 1024 * 1024;

/// Inserts the states of files before a change. All changes of a run are one step, in which the first state of each
/// file counts; each rewind is a step of its own.
///
/// Contents of big files are taken over into `outputs`. What cannot be counts as not kept.
pub(super) fn insert(
    connection: &Connection,
    outputs: &Path,
    change: &FileChange,
    seal: Option<&Seal>,
) -> Result<(), Failure> {
    let cause = columns(&change.cause);
    let step = step_of(connection, change)?;
    let big_files = BigFiles::new(outputs.to_owned());
    let (mut has_big, mut left) = (false, MAX_BIG);
    for (path, state) in &change.before {
        let kept;
        let (kind, mode, folders, content) = match state {
            FileState::Absent { folders } => {
                let folders = i64::try_from(*folders).unwrap_or(i64::MAX);
                (ABSENT, None, Some(folders), None)
            }
            FileState::File { content, mode } => (FILE, Some(*mode), None, Some(&content[..])),
            FileState::Folder { mode } => (FOLDER, Some(*mode), None, None),
            FileState::Link { target } => (LINK, None, None, Some(target.as_os_str().as_bytes())),
            FileState::Big { file, mode } => {
                match taken_over(file, &change.cause, &big_files, &mut left) {
                    Ok(name) => {
                        has_big = true;
                        kept = name;
                        (BIG, Some(*mode), None, Some(kept.as_bytes()))
                    }
                    Err(_) => (UNKEPT, None, None, None),
                }
            }
            FileState::Unkept => (UNKEPT, None, None, None),
        };
        let hash = content.map(|content| hex(&Sha256::digest(content)));
        let inserted = connection
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
        if let (Some(seal), true) = (seal, inserted > 0) {
            let path = path.as_os_str().as_bytes();
            let state = (kind, mode, folders, hash.as_deref());
            let code = code(seal, step, cause, path, state);
            connection
                .prepare_cached(
                    "INSERT OR REPLACE INTO file_seals (step, path, seal) VALUES (?, ?, ?)",
                )?
                .execute(params![step, path, code])?;
        }
    }
    let contents = change.before.iter().map(|(_, state)| match state {
        FileState::File { content, .. } => content.len(),
        _ => 0,
    });
    // Small changes add up, too.
    if contents.sum::<usize>() > MUCH || step % 64 == 0 {
        drop_oldest(connection, outputs, &Contents::InDatabase, MAX_KEPT)?;
    }
    if has_big {
        drop_oldest(connection, outputs, &Contents::InFiles, MAX_BIG)?;
    }
    for call in &change.unseen {
        connection
            .prepare_cached("INSERT INTO file_notes (step, unseen) VALUES (?, ?)")?
            .execute(params![step, call])?;
    }
    Ok(())
}

/// Returns the columns of a cause: its message, or its target.
fn columns(cause: &FileCause) -> (Option<&str>, Option<i64>) {
    match cause {
        FileCause::Run(message) => (Some(message.as_str()), None),
        FileCause::Rewind(number) => (None, Some(*number)),
    }
}

/// Returns the seal of a row.
fn code(
    seal: &Seal,
    step: i64,
    (message, target): (Option<&str>, Option<i64>),
    path: &[u8],
    (kind, mode, folders, hash): (&str, Option<u32>, Option<i64>, Option<&str>),
) -> [u8; 32] {
    let target = target.map(i64::to_le_bytes);
    let mode = mode.map(u32::to_le_bytes);
    let folders = folders.map(i64::to_le_bytes);
    seal.of(&[
        Some(&step.to_le_bytes()),
        message.map(str::as_bytes),
        target.as_ref().map(|bytes| &bytes[..]),
        Some(path),
        Some(kind.as_bytes()),
        mode.as_ref().map(|bytes| &bytes[..]),
        folders.as_ref().map(|bytes| &bytes[..]),
        hash.map(str::as_bytes),
    ])
}

/// Returns the seal of a rewind in progress.
fn progress_code(seal: &Seal, step: i64) -> [u8; 32] {
    seal.of(&[Some(&step.to_le_bytes()), Some(b"in progress")])
}

/// Returns whether this user's program has noted that a rewind is in progress.
fn is_progress_sealed(
    connection: &Connection,
    step: i64,
    seal: Option<&Seal>,
) -> Result<bool, Failure> {
    let found: Option<Vec<u8>> = connection
        .prepare_cached("SELECT seal FROM file_seals WHERE step = ? AND path = ?")?
        .query_row(params![step, IN_PROGRESS], |row| row.get(0))
        .optional()?;
    let wanted = seal.map(|seal| progress_code(seal, step).to_vec());
    Ok(wanted.is_some() && found == wanted)
}

/// Contents that are kept, by their place.
pub(super) enum Contents {
    InDatabase,
    InFiles,
    All,
}

impl Contents {
    /// Returns the condition on rows of these kinds.
    fn condition(&self) -> &'static str {
        match self {
            Self::InDatabase => "kind <> 'big'",
            Self::InFiles => "kind = 'big'",
            Self::All => "TRUE",
        }
    }
}

/// A kept content: its hash, and the file that it is in, if it is in none of the database.
struct Kept {
    hash: String,
    file: Option<PathBuf>,
    bytes: u64,
}

/// Takes the content of a big file over, unless it is among those already. Returns its name. `left` is the number of bytes
/// that may be taken over yet.
fn taken_over(
    file: &Path,
    cause: &FileCause,
    big_files: &BigFiles,
    left: &mut u64,
) -> io::Result<String> {
    if big_files.holds(file) {
        return Ok(file_name(file));
    }
    // A rewind only replaces and removes, where it can. What a call will do is not known.
    let may_be_written = matches!(cause, FileCause::Run(_)) || is_written_by_rewinds(file);
    let held = Held::open(file)?;
    let kept = big_files.keep(held.path(), may_be_written, left)?;
    Ok(file_name(&kept))
}

/// Whether a rewind writes a file in place, since its folder cannot be changed.
fn is_written_by_rewinds(file: &Path) -> bool {
    let folder = file.parent().unwrap_or(Path::new("/"));
    rustix::fs::access(folder, Access::WRITE_OK).is_err()
}

/// Returns how many bytes of contents are kept.
pub(super) fn kept(connection: &Connection, outputs: &Path) -> Result<u64, Failure> {
    let all = contents(connection, outputs, &Contents::All)?;
    Ok(all.iter().map(|kept| kept.bytes).sum())
}

/// Returns the names of all contents in files.
pub(super) fn big_files(connection: &Connection) -> Result<Vec<String>, Failure> {
    let all = contents(connection, Path::new(""), &Contents::InFiles)?;
    let files = all.iter().filter_map(|kept| kept.file.as_deref());
    Ok(files.map(file_name).collect())
}

/// Returns the contents, oldest first.
fn contents(
    connection: &Connection,
    outputs: &Path,
    which: &Contents,
) -> Result<Vec<Kept>, Failure> {
    let mut statement = connection.prepare_cached(&format!(
        "SELECT hash, length(content), iif(kind = 'big', content, NULL) FROM file_states
         WHERE content NOT NULL AND {} ORDER BY rowid",
        which.condition()
    ))?;
    let rows = statement.query_map([], |row| {
        let name = row.get_ref(2)?.as_bytes_or_null()?;
        let name = name.and_then(big::stored_name);
        let file = name.map(|name| outputs.join(name));
        let bytes = match &file {
            None => row.get::<_, i64>(1)?.unsigned_abs(),
            Some(file) => big::bytes_of(file),
        };
        Ok(Kept {
            hash: row.get(0)?,
            file,
            bytes,
        })
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Drops the oldest contents until no more than `most` bytes are kept. Their files count as not kept then.
pub(super) fn drop_oldest(
    connection: &Connection,
    outputs: &Path,
    which: &Contents,
    most: u64,
) -> Result<(), Failure> {
    let all = contents(connection, outputs, which)?;
    let mut left: u64 = all.iter().map(|kept| kept.bytes).sum();
    for Kept { hash, file, bytes } in all {
        if left <= most {
            break;
        }
        connection
            .prepare_cached(
                "UPDATE file_states SET kind = ?, hash = NULL, content = NULL WHERE hash = ?",
            )?
            .execute([UNKEPT, &hash])?;
        if let Some(file) = file {
            let outputs = Folder::at(outputs);
            let _ = outputs.and_then(|outputs| outputs.remove_file(file_name(&file).as_ref()));
        }
        left -= bytes;
    }
    Ok(())
}

/// Notes when the last step had changed paths. That a rewind is in progress is sealed as well, since it will be finished unasked.
pub(super) fn note_left(
    connection: &Connection,
    left: &FilesLeft,
    seal: Option<&Seal>,
) -> Result<(), Failure> {
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
        let seal = seal.filter(|_| left.until == FilesLeft::ONGOING);
        connection
            .prepare_cached("DELETE FROM file_seals WHERE step = ? AND path = ?")?
            .execute(params![step, IN_PROGRESS])?;
        if let Some(seal) = seal {
            connection
                .prepare_cached("INSERT INTO file_seals (step, path, seal) VALUES (?, ?, ?)")?
                .execute(params![step, IN_PROGRESS, progress_code(seal, step)])?;
        }
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
    let (run, target) = columns(&change.cause);
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
pub(super) fn steps(
    connection: &Connection,
    outputs: &Path,
    seal: Option<&Seal>,
) -> Result<Vec<FileStep>, Failure> {
    let mut statement = connection
        .prepare_cached("SELECT id, message_id, target, at_ms FROM file_steps ORDER BY id")?;
    let mut rows = statement.query([])?;
    let mut steps = Vec::new();
    while let Some(row) = rows.next()? {
        let run: Option<String> = row.get(1)?;
        let number = row.get(0)?;
        let target: Option<i64> = row.get(2)?;
        let cause = (run.as_deref(), target);
        let (before, is_own) = states(connection, outputs, number, cause, seal)?;
        let until = left(connection, number)?;
        let is_in_progress = until.values().any(|until| *until == FilesLeft::ONGOING);
        steps.push(FileStep {
            number,
            is_own: is_own && (!is_in_progress || is_progress_sealed(connection, number, seal)?),
            cause: match run {
                Some(run) => FileCause::Run(MessageId::from(run.as_str())),
                None => FileCause::Rewind(target.unwrap_or(number)),
            },
            at: Time(row.get(3)?),
            before,
            until,
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

/// Returns the states of a step, and whether each of them has its seal.
fn states(
    connection: &Connection,
    outputs: &Path,
    step: i64,
    cause: (Option<&str>, Option<i64>),
    seal: Option<&Seal>,
) -> Result<(BTreeMap<PathBuf, FileState<String>>, bool), Failure> {
    let mut statement = connection.prepare_cached(
        "SELECT path, kind, mode, folders, hash, seal FROM file_states LEFT JOIN file_seals USING (step, path)
         WHERE step = ?",
    )?;
    let mut rows = statement.query([step])?;
    let (mut states, mut is_own) = (BTreeMap::new(), true);
    while let Some(row) = rows.next()? {
        let path = row.get_ref(0)?.as_bytes()?;
        is_own &= is_sealed(row, step, cause, path, seal)?;
        // Any other is not of this program.
        match stored_path(path) {
            Some(path) => drop(states.insert(path, state(connection, outputs, row)?)),
            None => is_own = false,
        }
    }
    Ok((states, is_own))
}

/// Returns whether a row has its seal. One whose content is not kept gives nothing back, and needs none.
fn is_sealed(
    row: &Row<'_>,
    step: i64,
    cause: (Option<&str>, Option<i64>),
    path: &[u8],
    seal: Option<&Seal>,
) -> Result<bool, Failure> {
    let kind: String = row.get(1)?;
    let hash: Option<String> = row.get(4)?;
    let state = (kind.as_str(), row.get(2)?, row.get(3)?, hash.as_deref());
    let found = row.get_ref(5)?.as_bytes_or_null()?;
    let wanted = seal.map(|seal| code(seal, step, cause, path, state));
    Ok(kind == UNKEPT || wanted.is_some_and(|wanted| found == Some(&wanted[..])))
}

/// Returns when a step had changed each path for the last time.
fn left(connection: &Connection, step: i64) -> Result<BTreeMap<PathBuf, Time>, Failure> {
    let mut statement = connection
        .prepare_cached("SELECT path, until_ms FROM file_notes WHERE step = ? AND path NOT NULL")?;
    let mut rows = statement.query([step])?;
    let mut left = BTreeMap::new();
    while let Some(row) = rows.next()? {
        if let Some(path) = stored_path(row.get_ref(0)?.as_bytes()?) {
            left.insert(path, Time(row.get(1)?));
        }
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

fn state(
    connection: &Connection,
    outputs: &Path,
    row: &Row<'_>,
) -> Result<FileState<String>, Failure> {
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
        (BIG, Some(hash)) => {
            let name = content(connection, &hash)?;
            let name = name.as_deref().and_then(big::stored_name);
            match name.map(|name| outputs.join(name)) {
                Some(file) if big::is_intact(&file) => FileState::Big {
                    file,
                    mode: mode(0o644)?,
                },
                _ => FileState::Unkept,
            }
        }
        (FOLDER, _) => FileState::Folder { mode: mode(0o755)? },
        _ => FileState::Unkept,
    })
}

/// Returns the content with this hash, if it has it.
pub(super) fn content(connection: &Connection, hash: &str) -> Result<Option<Vec<u8>>, Failure> {
    let content: Option<Vec<u8>> = connection
        .prepare_cached("SELECT content FROM file_states WHERE hash = ? AND content NOT NULL")?
        .query_row([hash], |row| Ok(row.get_ref(0)?.as_bytes()?.to_vec()))
        .optional()?;
    Ok(content.filter(|content| hex(&Sha256::digest(content)) == hash))
}

#[cfg(test)]
mod tests;
