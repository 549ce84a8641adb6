//! Copies of whole sessions: a fork that leaves the original as it is.

use std::fs;
use std::io;
use std::path::Path;

use ah_conversation::StoreError;
use rusqlite::Connection;
use rusqlite::backup::Backup;

use super::sessions::Sessions;
use super::{Failure, connect, connect_to_read, context};
use crate::paths::{Paths, create_folder, new_file, sync_folder};

/// Pages that are copied at a time: more than any session has, so that a copy is of one moment.
const ALL_PAGES: i32 = -1;

impl Sessions {
    /// Copies a session, also one that a process holds, as it is at this moment. The copy has an id of its own and
    /// neither the original's name nor the UUID that it was given; mail that waits for the original stays there.
    pub fn copy(&self, original: &Paths) -> Result<Paths, StoreError> {
        let copy = self.fresh()?;
        match copy_files(original, &copy) {
            Ok(()) => Ok(copy),
            Err(failure) => {
                // Half a copy would look like a session; the original is whole whatever becomes of it.
                let _ = fs::remove_file(copy.database());
                Err(failure.at("cannot copy", original.database()))
            }
        }
    }
}

fn copy_files(original: &Paths, copy: &Paths) -> Result<(), Failure> {
    create_folder(copy.folder())?;
    let from = connect_to_read(original.database())?;
    drop(new_file(copy.database())?);
    let mut to = connect(copy.database())?;
    Backup::new(&from, &mut to)?.step(ALL_PAGES)?;
    forget_names(&to)?;
    drop(to);
    copy_outputs(&original.outputs(), &copy.outputs())?;
    Ok(sync_folder(copy.folder())?)
}

/// Two sessions of one name could not be told apart, and nobody works on the copy even if the original is held.
fn forget_names(connection: &Connection) -> Result<(), Failure> {
    connection.execute(
        "DELETE FROM context WHERE key IN (?, ?, ?)",
        [context::NAME, context::UUID, context::STATE],
    )?;
    Ok(())
}

/// Outputs never change, so both sessions may name the same bytes.
fn copy_outputs(from: &Path, to: &Path) -> io::Result<()> {
    if !from.exists() {
        return Ok(());
    }
    create_folder(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        fs::hard_link(entry.path(), &target)
            .or_else(|_| fs::copy(entry.path(), &target).map(drop))?;
    }
    sync_folder(to)
}
