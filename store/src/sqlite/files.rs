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

/// Words for the kinds of file states.
const ABSENT: &str = "absent";
const FILE: &str = "file";
const FOLDER: &str = "folder";
const LINK: &str = "link";
const BIG: &str = "big";
const UNKEPT: &str = "unkept";

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
) -> Result<(), Failure> {
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
pub(super) fn steps(connection: &Connection, outputs: &Path) -> Result<Vec<FileStep>, Failure> {
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
            before: states(connection, outputs, number)?,
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
    outputs: &Path,
    step: i64,
) -> Result<BTreeMap<PathBuf, FileState<String>>, Failure> {
    let mut statement = connection
        .prepare_cached("SELECT path, kind, mode, folders, hash FROM file_states WHERE step = ?")?;
    let mut rows = statement.query([step])?;
    let mut states = BTreeMap::new();
    while let Some(row) = rows.next()? {
        // Any other is not of this program.
        if let Some(path) = stored_path(row.get_ref(0)?.as_bytes()?) {
            states.insert(path, state(connection, outputs, row)?);
        }
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
mod tests {
    use std::fs;
    use std::sync::Arc;

    use super::*;

    #[test]
    fn the_oldest_contents_go_first_and_all_their_files_with_them() {
        let outputs = tempfile::tempdir().unwrap();
        let mut connection = Connection::open_in_memory().unwrap();
        super::super::schema::CONVERSATION
            .migrate(&mut connection)
            .unwrap();
        let file = |byte: u8| FileState::File {
            content: Arc::from(vec![byte; 100]),
            mode: 0o644,
        };
        for (run, files) in [("1", [("/a", 1), ("/b", 2)]), ("2", [("/c", 1), ("/d", 3)])] {
            let change = FileChange {
                cause: FileCause::Run(MessageId::from(run)),
                at: Time(0),
                before: files.map(|(name, byte)| (name.into(), file(byte))).into(),
                unseen: Vec::new(),
            };
            insert(&connection, outputs.path(), &change).unwrap();
        }
        drop_oldest(&connection, outputs.path(), &Contents::All, 250).unwrap();
        let kept = |path: &str| {
            let steps = steps(&connection, outputs.path()).unwrap();
            let mut states = steps.into_iter().flat_map(|step| step.before);
            let (_, state) = states.find(|(name, _)| name.as_os_str() == path).unwrap();
            matches!(state, FileState::File { .. })
        };
        assert_eq!(
            ["/a", "/b", "/c", "/d"].map(kept),
            [false, true, false, true]
        );
    }
    /// A database that somebody else has written, or changed.
    #[test]
    fn rows_that_name_files_elsewhere_are_no_steps_and_delete_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(folder.path()).unwrap();
        let outputs = root.join("session.out");
        fs::create_dir(&outputs).unwrap();
        let kept = "kept-1-2-3.000000004-5";
        let victims = ["victim", "session.out/victim", "session.out/kept-x", kept];
        let names: [&[u8]; 8] = [
            b"../victim",
            b"victim",
            b"kept-x",
            b"../kept-1-2-3.000000004-5",
            b"kept-1/../../victim",
            b"/victim",
            b"",
            kept.as_bytes(),
        ];
        for victim in victims {
            fs::write(root.join(victim), "victim").unwrap();
        }
        fs::write(outputs.join(kept), "ours").unwrap();
        let mut connection = Connection::open_in_memory().unwrap();
        super::super::schema::CONVERSATION
            .migrate(&mut connection)
            .unwrap();
        connection
            .execute("INSERT INTO file_steps VALUES (1, 'run', NULL, 0)", [])
            .unwrap();
        let insert = |path: &[u8], kind: &str, content: &[u8]| {
            let hash = hex(&Sha256::digest(content));
            let row = params![path, kind, hash, content];
            connection
                .execute(
                    "INSERT INTO file_states VALUES (1, ?, ?, 420, NULL, ?, ?)",
                    row,
                )
                .unwrap();
        };
        for (number, name) in names.into_iter().enumerate() {
            insert(format!("/work/{number}").as_bytes(), BIG, name);
        }
        for path in ["/work/x/../../y", "relative", "/", "/work/", "/work\0/x"] {
            insert(path.as_bytes(), FILE, path.as_bytes());
            connection
                .execute(
                    "INSERT INTO file_notes VALUES (1, ?, ?, NULL)",
                    params![path.as_bytes(), i64::MAX],
                )
                .unwrap();
        }
        insert(b"/work/good", FILE, b"good");
        connection
            .execute(
                "UPDATE file_states SET content = 'forged' WHERE path = ?",
                [b"/work/0"],
            )
            .unwrap();
        let steps = steps(&connection, &outputs).unwrap();
        let of_a_path: Vec<_> = steps[0]
            .before
            .keys()
            .map(|path| path.to_str().unwrap())
            .collect();
        let expected = (0..names.len()).map(|number| format!("/work/{number}"));
        assert_eq!(
            of_a_path,
            expected
                .chain(["/work/good".to_owned()])
                .collect::<Vec<_>>()
        );
        assert!(steps[0].until.is_empty());
        let others = steps[0]
            .before
            .iter()
            .filter(|(path, _)| !path.ends_with("good"));
        for (path, state) in others {
            assert_eq!(*state, FileState::Unkept, "{path:?}");
        }
        drop_oldest(&connection, &outputs, &Contents::All, 0).unwrap();
        for victim in victims {
            assert!(root.join(victim).exists(), "{victim}");
        }
        // A control: the content that is ours goes.
        assert!(!outputs.join(kept).exists());
    }

    #[test]
    fn a_content_that_has_another_hash_is_none() {
        let mut connection = Connection::open_in_memory().unwrap();
        super::super::schema::CONVERSATION
            .migrate(&mut connection)
            .unwrap();
        for (stored, is_found) in [("text", true), ("forged", false)] {
            connection.execute("DELETE FROM file_states", []).unwrap();
            let hash = hex(&Sha256::digest("text"));
            connection
                .execute(
                    "INSERT INTO file_states VALUES (1, 'x', 'file', 420, NULL, ?, ?)",
                    params![hash, stored.as_bytes()],
                )
                .unwrap();
            assert_eq!(content(&connection, &hash).unwrap().is_some(), is_found);
        }
    }
}
