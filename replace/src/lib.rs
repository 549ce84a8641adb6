//! Replaces the content of a file, so that all else about it stays as it is: its names, owner, mode, access list and
//! attributes.
//!
//! Where that is possible and loses nothing, a new file is renamed over the old one: there is never half a file. A file is
//! written in place if it has further names (hard links), if it is a mount point of its own, as a single file of a container
//! is, if its folder may not be changed, or if the new file cannot be made like it. If writing in place fails, the old content
//! is written back; against a kill in the midst of it, the caller keeps the old content. Which file may be changed is decided
//! by the caller as well.

mod attributes;
mod draft;
mod in_place;
mod replacement;

use std::io;

use ah_beneath::Status;

use self::draft::Draft;
use self::in_place::OpenFile;
use self::replacement::is_refused;
pub use self::replacement::{Content, FurtherNames, Replacement};

impl Replacement<'_> {
    /// Performs the replacement, unless `proceed` fails: it is called when only the last step is left.
    ///
    /// # Errors
    ///
    /// If the content cannot be written. The old content is there then, unless it cannot be written either. No error names a
    /// path.
    pub fn perform(&self, proceed: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        let found = self.folder.status(self.name)?;
        let Some(old) = found.filter(Status::is_file) else {
            let draft = Draft::make(self, None)?;
            proceed()?;
            return draft.rename();
        };
        if old.names > 1 && self.names == FurtherNames::Stay {
            proceed()?;
            return OpenFile::open(self, &old)?.write(self);
        }
        let draft = match Draft::make(self, Some(&old)) {
            Err(error) if is_refused(&error) => None,
            made => Some(made?),
        };
        proceed()?;
        let in_place = || OpenFile::open(self, &old);
        match draft {
            None => in_place()?.write(self),
            Some(draft) if draft.is_alike() => match draft.rename() {
                Err(error) if is_refused(&error) => in_place()?.write(self),
                renamed => renamed,
            },
            // Only its owner may write it, for instance, and its owner is to be another.
            Some(draft) => match in_place() {
                Err(error) if is_refused(&error) => draft.rename(),
                opened => opened?.write(self),
            },
        }
    }
}

#[cfg(test)]
mod tests;
