//! One path that a rewind restores, and the steps by which that is done. Between any two of them another process may put
//! something else there, so each looks again, in open folders of the workspace only.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ah_beneath::{Folder, Status};
use ah_conversation::FileState;
use ah_replace::{Content, FurtherNames, Replacement};

use super::state::{Found, State, Workspace, between_steps};

/// Maximum size for a line diff; for bigger files only the lines are counted.
const MAX_COMPARED: usize = 1024 * 1024;

/// A path that a rewind restores.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileEdit {
    /// The path.
    pub path: PathBuf,
    /// Current state.
    pub now: FileState<Arc<[u8]>>,
    /// State after the rewind.
    pub then: FileState<Arc<[u8]>>,
    /// Number of added lines.
    pub insertions: usize,
    /// Number of removed lines.
    pub deletions: usize,
    /// What was there when the rewind was planned.
    pub(super) seen: Option<Status>,
    /// Whether the file has further names, which lead to the earlier content as well afterwards.
    pub(super) has_names: bool,
}

impl FileEdit {
    pub(super) fn new(path: PathBuf, now: Found, then: State) -> Self {
        let (insertions, deletions) = lines_between(text(&now.state), text(&then));
        Self {
            path,
            now: now.state,
            then,
            insertions,
            deletions,
            seen: now.status,
            has_names: false,
        }
    }

    /// Returns the content after the rewind and the one now, if both are text.
    pub fn texts(&self) -> Option<(&str, &str)> {
        fn text(state: &State) -> Option<&str> {
            match state {
                FileState::File { content, .. } => str::from_utf8(content).ok(),
                FileState::Link { target } => target.to_str(),
                FileState::Big { .. } => None,
                FileState::Absent { .. } | FileState::Folder { .. } | FileState::Unkept => Some(""),
            }
        }
        Some((text(&self.then)?, text(&self.now)?))
    }

    /// Whether what is there now goes before anything comes.
    pub(super) fn takes_away(&self) -> bool {
        let is_folder = |state: &State| matches!(state, FileState::Folder { .. });
        match (&self.now, &self.then) {
            (FileState::Absent { .. }, _) => false,
            (_, FileState::Absent { .. }) => true,
            (now, then) => is_folder(now) != is_folder(then),
        }
    }

    /// Checks that what was seen when the rewind was planned is there.
    pub(super) fn check(&self, workspace: &Workspace) -> io::Result<()> {
        let (folder, below) = workspace.place(&self.path)?;
        expect(self.seen, folder.look(below)?)
    }

    pub(super) fn remove(&self, workspace: &Workspace) -> io::Result<()> {
        let (around, name) = workspace.entry(&self.path)?;
        expect(self.seen, around.status(name)?)?;
        match self.now {
            FileState::Folder { .. } => around.remove_folder(name),
            _ => around.remove_file(name),
        }
    }

    /// Puts the earlier state in place.
    pub(super) fn put(&self, workspace: &Workspace) -> io::Result<()> {
        if matches!(self.then, FileState::Unkept | FileState::Absent { .. }) {
            return Ok(());
        }
        let (folder, below) = workspace.place(&self.path)?;
        let (Some(above), Some(name)) = (below.parent(), below.file_name()) else {
            return Err(io::Error::other("it has no name"));
        };
        let around = folder.make_folders(above, 0o777)?;
        let found = around.status(name)?;
        if let FileState::Folder { .. } = self.then {
            match found {
                None => around.create_folder(name, 0o777)?,
                Some(found) if found.is_folder() => {}
                Some(_) => return Err(changed()),
            }
            // Files can be put into it, whatever mode it will have.
            let mode = around.status(name)?.map_or(0, |found| found.mode);
            return around.set_mode(name, mode | 0o700);
        }
        let seen = self.seen.filter(|_| !self.takes_away());
        expect(seen, found)?;
        match &self.then {
            FileState::Link { target } => {
                let draft = draft(name);
                let made = around.create_link(target, &draft);
                let made = made.and_then(|()| around.rename(&draft, name));
                if made.is_err() {
                    let _ = around.remove_file(&draft);
                }
                made
            }
            FileState::File { content, mode } => {
                self.replace(&around, name, Content::Bytes(content), *mode)
            }
            FileState::Big { file, mode } => {
                self.replace(&around, name, Content::File(file), *mode)
            }
            FileState::Folder { .. } | FileState::Unkept | FileState::Absent { .. } => Ok(()),
        }
    }

    fn replace(
        &self,
        folder: &Folder,
        name: &OsStr,
        content: Content<'_>,
        mode: u32,
    ) -> io::Result<()> {
        let replacement = Replacement {
            folder,
            name,
            content,
            mode: Some(mode),
            draft: &draft(name),
            names: match self.has_names {
                true => FurtherNames::Stay,
                false => FurtherNames::Part,
            },
        };
        replacement.perform(|| {
            expect(
                self.seen.filter(|_| !self.takes_away()),
                folder.status(name)?,
            )
        })
    }

    /// Gives a folder the mode that it had.
    pub(super) fn close(&self, workspace: &Workspace) -> io::Result<()> {
        let FileState::Folder { mode } = self.then else {
            return Ok(());
        };
        let (around, name) = workspace.entry(&self.path)?;
        match around.status(name)? {
            Some(found) if found.is_folder() => around.set_mode(name, mode),
            _ => Err(changed()),
        }
    }

    /// Removes drafts that a killed process has left beside a file.
    pub(super) fn remove_drafts(path: &Path, workspace: &Workspace) -> io::Result<()> {
        let (around, name) = workspace.entry(path)?;
        let (start, end) = draft_name(name);
        for name in around.list()? {
            let between = { name.as_bytes().strip_prefix(start.as_bytes()) }
                .and_then(|rest| rest.strip_suffix(end.as_bytes()));
            let is_number = |text: &[u8]| !text.is_empty() && text.iter().all(u8::is_ascii_digit);
            if between.is_some_and(is_number) {
                let _ = around.remove_file(&name);
            }
        }
        Ok(())
    }
}

/// Checks that what is there is what was seen before.
fn expect(seen: Option<Status>, found: Option<Status>) -> io::Result<()> {
    let is_same = match (&seen, &found) {
        (Some(seen), Some(found)) => found.is_same(seen),
        (None, None) => true,
        _ => false,
    };
    between_steps();
    if is_same { Ok(()) } else { Err(changed()) }
}

fn changed() -> io::Error {
    io::Error::other("something else is there now")
}

/// Returns the name of the draft of a file.
fn draft(name: &OsStr) -> OsString {
    let (mut draft, end) = draft_name(name);
    draft.push(format!("{}{end}", std::process::id()));
    draft
}

/// Returns the beginning and the end of the names of drafts for a file; a process number is between.
fn draft_name(name: &OsStr) -> (OsString, &'static str) {
    // A name may be 255 bytes long.
    let mut start = if name.len() > 200 {
        OsString::new()
    } else {
        name.to_owned()
    };
    start.push(".");
    (start, ".ah-rewind")
}

fn text(state: &State) -> &[u8] {
    match state {
        FileState::File { content, .. } => content,
        _ => &[],
    }
}

/// Counts the lines added and removed between two contents.
fn lines_between(now: &[u8], then: &[u8]) -> (usize, usize) {
    if now.len().max(then.len()) > MAX_COMPARED {
        let count = |bytes: &[u8]| bytes.split_inclusive(|byte| *byte == b'\n').count();
        return (count(then), count(now));
    }
    let (now, then) = (String::from_utf8_lossy(now), String::from_utf8_lossy(then));
    ah_diff::counts(&now, &then)
}
