//! The open folders on the way to the last path that was looked at, kept for the paths after it: so a plan opens each folder
//! about once, however deep the tree is.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use ah_beneath::Folder;

/// Most folders that are kept open. Of a longer way, those at even distances stay, and the ones between are opened again on
/// the way back.
const MOST: usize = 128;
/// Folders at the end of the way that all stay open, whatever its length.
const NEAR: usize = 32;

/// The open folders on the way to a path, the outermost first.
pub(super) struct Way {
    /// Path of the innermost one.
    last: PathBuf,
    open: Vec<Opened>,
    /// Distance of those that stay open.
    distance: usize,
}

struct Opened {
    /// Length of its path in bytes.
    length: usize,
    /// How many names below the folder of the workspace it is.
    depth: usize,
    folder: Folder,
}

/// The deepest folder that exists on a way.
pub(super) struct Reached<'a> {
    pub folder: &'a Folder,
    /// What is missing behind it.
    pub missing: &'a Path,
}

impl Way {
    pub fn new() -> Self {
        Self {
            last: PathBuf::new(),
            open: Vec::new(),
            distance: 1,
        }
    }

    /// Opens the deepest folder that exists on the way to `path`, which is `below` the folder `root` of the workspace.
    pub fn open<'a>(
        &'a mut self,
        path: &'a Path,
        root: &'a Folder,
        below: &'a Path,
    ) -> io::Result<Reached<'a>> {
        let bytes = path.as_os_str().as_bytes();
        let start = bytes.len().saturating_sub(below.as_os_str().len());
        match &bytes[start..] == below.as_os_str().as_bytes() {
            true => self.leave(bytes),
            // It is spelled in an unusual way.
            false => self.open.clear(),
        }
        let (mut at, mut depth) = match self.open.last() {
            Some(opened) => (opened.length, opened.depth),
            None => (start, 0),
        };
        self.last.clear();
        self.last.push(path);
        while let Some((name, end)) = next_name(bytes, at) {
            let above = self.open.last().map_or(root, |opened| &opened.folder);
            about_to_open();
            let (folder, missing) = above.descend(Path::new(name))?;
            if missing > 0 {
                let missing = Path::new(OsStr::from_bytes(&bytes[end - name.len()..]));
                let folder = self.open.last().map_or(root, |opened| &opened.folder);
                return Ok(Reached { folder, missing });
            }
            (at, depth) = (end, depth + 1);
            let length = end;
            self.open.push(Opened {
                length,
                depth,
                folder,
            });
            self.close_some();
        }
        let folder = self.open.last().map_or(root, |opened| &opened.folder);
        let missing = Path::new("");
        Ok(Reached { folder, missing })
    }

    /// Closes the folders that are not on the way to a path.
    fn leave(&mut self, path: &[u8]) {
        let last = self.last.as_os_str().as_bytes();
        while let Some(Opened { length, .. }) = self.open.last() {
            let is_name = path.get(*length).is_none_or(|next| *next == b'/');
            if is_name && path.starts_with(&last[..*length]) {
                return;
            }
            self.open.pop();
        }
    }

    fn close_some(&mut self) {
        if self.open.len() <= MOST {
            return;
        }
        let far = self.open.len() - NEAR;
        let innermost = self.open[far].length;
        loop {
            let distance = self.distance;
            let stays = |opened: &Opened| {
                opened.length >= innermost || opened.depth.is_multiple_of(distance)
            };
            self.open.retain(stays);
            if self.open.len() <= MOST - NEAR {
                return;
            }
            self.distance *= 2;
        }
    }
}

/// Where a folder is opened. Tests count it.
fn about_to_open() {
    #[cfg(test)]
    super::tests::count();
}

/// Returns the next name of a path from a place on, and where it ends.
fn next_name(path: &[u8], at: usize) -> Option<(&OsStr, usize)> {
    let start = at + path[at..].iter().position(|byte| *byte != b'/')?;
    let length = path[start..].iter().position(|byte| *byte == b'/');
    let end = length.map_or(path.len(), |length| start + length);
    Some((OsStr::from_bytes(&path[start..end]), end))
}
