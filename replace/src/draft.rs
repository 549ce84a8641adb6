//! A new file with the new content, beside the old one.

use std::fs::{self, File, Metadata, OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _, chown};
use std::path::{Path, PathBuf};

use crate::attributes;
use crate::replacement::{Content, Replacement};

/// A complete new file. Dropping it removes it, unless it has been renamed.
pub(crate) struct Draft<'a> {
    target: &'a Path,
    path: PathBuf,
    is_alike: bool,
}

impl<'a> Draft<'a> {
    /// Makes the file, and makes it like the old one as far as possible.
    pub(crate) fn make(new: &Replacement<'a>, old: Option<&Metadata>) -> io::Result<Self> {
        let folder = new.path.parent().unwrap_or(Path::new("/"));
        let path = folder.join(new.draft);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Ok(()) | Err(_) => {}
        }
        let file = create(&path, new, old)?;
        let mut draft = Self {
            target: new.path,
            path,
            is_alike: true,
        };
        if let (Some(mut file), Content::Bytes(bytes)) = (file.as_ref(), new.content) {
            file.write_all(bytes)?;
        }
        if let Some(old) = old {
            draft.is_alike = draft.liken(old)?;
        }
        let mode = new.mode.or(old.map(|old| old.mode() & 0o7777));
        if let Some(mode) = mode {
            // Behind the attributes, since a file that may not be written gets none.
            fs::set_permissions(&draft.path, Permissions::from_mode(mode))?;
        }
        // Without this a power failure could leave an empty file.
        file.map_or(Ok(()), |file| file.sync_all())?;
        Ok(draft)
    }

    /// Gives the draft owner and attributes of the old file; returns whether it has them.
    fn liken(&self, old: &Metadata) -> io::Result<bool> {
        let found = fs::symlink_metadata(&self.path)?;
        let has_owner = (found.uid(), found.gid()) == (old.uid(), old.gid())
            || chown(&self.path, Some(old.uid()), Some(old.gid())).is_ok();
        Ok(attributes::copy(self.target, &self.path) && has_owner)
    }

    /// Whether it is like the old file, but for the content.
    pub(crate) fn is_alike(&self) -> bool {
        self.is_alike
    }

    /// Puts it in the place of the old file.
    pub(crate) fn rename(self) -> io::Result<()> {
        fs::rename(&self.path, self.target)
    }
}

impl Drop for Draft<'_> {
    fn drop(&mut self) {
        // It is still there after an error, and after a rename if it was another name of what is there.
        let _ = fs::remove_file(&self.path);
    }
}

/// Creates the file. It is empty if its content is in memory. Returns it, unless it is a name of one that was there.
fn create(path: &Path, new: &Replacement<'_>, old: Option<&Metadata>) -> io::Result<Option<File>> {
    if let Content::File(kept) = new.content {
        if fs::hard_link(kept, path).is_ok() {
            return Ok(None);
        }
        fs::copy(kept, path)?;
        return File::open(path).map(Some);
    }
    let is_open = old.is_none() && new.mode.is_none();
    let mode = if is_open { 0o644 } else { 0o600 };
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(mode);
    options.open(path).map(Some)
}
