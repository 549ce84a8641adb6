//! A new file with the new content, beside the old one.

use std::ffi::OsStr;
use std::fs::{File, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::PermissionsExt as _;

use ah_beneath::{Folder, Status};

use crate::attributes;
use crate::replacement::{Content, Replacement, open_source};

/// A complete new file. Dropping it removes it, unless it has been renamed.
pub(crate) struct Draft<'a> {
    folder: &'a Folder,
    target: &'a OsStr,
    name: &'a OsStr,
    is_alike: bool,
}

impl<'a> Draft<'a> {
    /// Makes the file, and makes it like the old one as far as possible.
    pub(crate) fn make(new: &Replacement<'a>, old: Option<&Status>) -> io::Result<Self> {
        match new.folder.remove_file(new.draft) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Ok(()) | Err(_) => {}
        }
        let file = create(new, old)?;
        let mut draft = Self {
            folder: new.folder,
            target: new.name,
            name: new.draft,
            is_alike: true,
        };
        if let (Some(mut file), Content::Bytes(bytes)) = (file.as_ref(), new.content) {
            file.write_all(bytes)?;
        }
        if let Some(old) = old {
            draft.is_alike = draft.liken(old)?;
        }
        // Behind the attributes, since a file that may not be written gets none.
        match (new.mode.or(old.map(|old| old.mode)), &file) {
            (Some(mode), Some(file)) => file.set_permissions(Permissions::from_mode(mode))?,
            (Some(mode), None) => draft.folder.set_mode(draft.name, mode)?,
            (None, _) => {}
        }
        // Without this a power failure could leave an empty file.
        file.map_or(Ok(()), |file| file.sync_all())?;
        Ok(draft)
    }

    /// Gives the draft owner and attributes of the old file; returns whether it has them.
    fn liken(&self, old: &Status) -> io::Result<bool> {
        let found = self.folder.status(self.name)?;
        let has_owner = found.is_some_and(|found| found.owner == old.owner)
            || self.folder.set_owner(self.name, old.owner).is_ok();
        let [from, to] = [self.target, self.name].map(|name| self.folder.place(name));
        Ok(attributes::copy(&from?, &to?) && has_owner)
    }

    /// Whether it is like the old file, but for the content.
    pub(crate) fn is_alike(&self) -> bool {
        self.is_alike
    }

    /// Puts it in the place of the old file.
    pub(crate) fn rename(self) -> io::Result<()> {
        self.folder.rename(self.name, self.target)
    }
}

impl Drop for Draft<'_> {
    fn drop(&mut self) {
        // It is still there after an error, and after a rename if it was another name of what is there.
        let _ = self.folder.remove_file(self.name);
    }
}

/// Creates the file. It is empty if its content is in memory. Returns it, unless it is a name of one that was there.
fn create(new: &Replacement<'_>, old: Option<&Status>) -> io::Result<Option<File>> {
    if let Content::File(kept) = new.content {
        let mut source = open_source(kept)?;
        if new.folder.add_name(kept, new.draft).is_ok() {
            return Ok(None);
        }
        let mut file = new.folder.create_file(new.draft, 0o600)?;
        io::copy(&mut source, &mut file)?;
        return Ok(Some(file));
    }
    let is_open = old.is_none() && new.mode.is_none();
    let mode = if is_open { 0o644 } else { 0o600 };
    new.folder.create_file(new.draft, mode).map(Some)
}
