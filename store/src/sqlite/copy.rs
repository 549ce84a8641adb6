//! Copies sessions, for forks that leave the original unchanged.

use std::fs;
use std::io;
use std::path::Path;

use ah_conversation::StoreError;
use rusqlite::Connection;
use rusqlite::backup::Backup;

use super::sessions::Sessions;
use super::{ALL_PAGES, Failure, connect, connect_to_read, context};
use crate::id;
use crate::paths::{Paths, create_folder, new_file, sync_folder};

impl Sessions {
    /// Copies the current state of a session, even while a process has it open. The copy has an id of its own, and
    /// neither the name nor the assigned UUID of the original; queued messages stay with the original.
    pub fn copy(&self, original: &Paths) -> Result<Paths, StoreError> {
        let copy = self.fresh()?;
        match copy_files(original, &copy) {
            Ok(()) => Ok(copy),
            Err(failure) => {
                // A partial copy would look like a session.
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
    if let Some(begun) = context::begun(copy, id::now()) {
        context::set(&to, context::BEGUN, &begun)?;
    }
    drop(to);
    copy_outputs(&original.outputs(), &copy.outputs())?;
    Ok(sync_folder(copy.folder())?)
}

/// Removes what is of the original only: names should be unique, no process works on the copy, and it begins now.
fn forget_names(connection: &Connection) -> Result<(), Failure> {
    connection.execute(
        "DELETE FROM context WHERE key IN (?, ?, ?, ?)",
        [context::NAME, context::UUID, context::STATE, context::BEGUN],
    )?;
    Ok(())
}

/// Copies a file with its time, by which big files of undo are known.
fn copy_output(from: &Path, to: &Path) -> io::Result<()> {
    fs::copy(from, to)?;
    let modified = fs::metadata(from)?.modified()?;
    fs::File::open(to)?.set_modified(modified)
}

/// Links the output files, or copies them if links are not possible. Outputs never change, so they can be shared.
pub(super) fn copy_outputs(from: &Path, to: &Path) -> io::Result<()> {
    if !from.exists() {
        return Ok(());
    }
    create_folder(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        fs::hard_link(entry.path(), &target).or_else(|_| copy_output(&entry.path(), &target))?;
    }
    sync_folder(to)
}
