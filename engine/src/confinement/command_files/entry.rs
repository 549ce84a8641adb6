//! The form of a journal: the id of the run, then for each path its kind, mode, name and content.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ah_conversation::FileState;

/// State of a path with its content.
pub(super) type State = FileState<Arc<[u8]>>;

/// Returns the beginning of a journal.
pub(super) fn header(run: &str) -> Vec<u8> {
    text(run.as_bytes())
}

/// Returns an entry.
pub(super) fn of(path: &Path, state: &State) -> Vec<u8> {
    let (kind, mode, content) = match state {
        FileState::Absent { .. } => (b'a', 0, &[][..]),
        FileState::File { content, mode } => (b'f', *mode, &content[..]),
        FileState::Folder { mode } => (b'd', *mode, &[][..]),
        FileState::Link { target } => (b'l', 0, target.as_os_str().as_bytes()),
        FileState::Big { file, mode } => (b'b', *mode, file.as_os_str().as_bytes()),
        FileState::Unkept => (b'u', 0, &[][..]),
    };
    let mut entry = vec![kind];
    entry.extend(mode.to_le_bytes());
    entry.extend(text(path.as_os_str().as_bytes()));
    entry.extend(text(content));
    entry
}

/// Returns the run and the entries of a journal; `None` if not even the run is there. An entry without its end is left
/// out: what it was written for has not happened.
pub(super) fn parse(mut bytes: &[u8]) -> Option<(String, Vec<(PathBuf, State)>)> {
    let run = String::from_utf8(take_text(&mut bytes)?.to_owned()).ok()?;
    let mut entries = Vec::new();
    while let Some(entry) = take_entry(&mut bytes) {
        entries.push(entry);
    }
    Some((run, entries))
}

fn take_entry(bytes: &mut &[u8]) -> Option<(PathBuf, State)> {
    let kind = take(bytes, 1)?[0];
    let mode = u32::from_le_bytes(take(bytes, 4)?.try_into().ok()?);
    let path = PathBuf::from(OsStr::from_bytes(take_text(bytes)?));
    let content = take_text(bytes)?;
    let state = match kind {
        b'a' => FileState::Absent { folders: 0 },
        b'f' => FileState::File {
            content: content.into(),
            mode,
        },
        b'b' => FileState::Big {
            file: OsStr::from_bytes(content).into(),
            mode,
        },
        b'd' => FileState::Folder { mode },
        b'l' => FileState::Link {
            target: OsStr::from_bytes(content).into(),
        },
        _ => FileState::Unkept,
    };
    Some((path, state))
}

/// Returns bytes behind their number.
fn text(bytes: &[u8]) -> Vec<u8> {
    let mut text = (bytes.len() as u64).to_le_bytes().to_vec();
    text.extend(bytes);
    text
}

fn take_text<'a>(bytes: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = u64::from_le_bytes(take(bytes, 8)?.try_into().ok()?);
    take(bytes, usize::try_from(length).ok()?)
}

fn take<'a>(bytes: &mut &'a [u8], count: usize) -> Option<&'a [u8]> {
    let (taken, rest) = bytes.split_at_checked(count)?;
    *bytes = rest;
    Some(taken)
}
