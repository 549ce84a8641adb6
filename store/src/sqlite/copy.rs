//! Copies sessions, for forks that leave the original unchanged.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::Path;

use ah_beneath::Folder;
use ah_conversation::StoreError;
use rusqlite::Connection;
use rusqlite::backup::Backup;
use rustix::fs::OFlags;

use super::connection::{connect, connect_to_read};
use super::sessions::Sessions;
use super::{ALL_PAGES, Failure, context};
use crate::paths::{
    FILE_MODE, Paths, create_folder, new_file, outputs_folder, remove_if_exists, sync_folder,
};

impl Sessions {
    /// Copies the current state of a session, even while a process has it open. The copy has an id of its own, and
    /// neither the name nor the assigned UUID of the original; queued messages stay with the original.
    pub fn copy(&self, original: &Paths) -> Result<Paths, StoreError> {
        let copy = self.fresh()?;
        match copy_files(original, &copy) {
            Ok(()) => Ok(copy),
            Err(failure) => {
                // A partial copy would look like a session.
                let _ = remove_if_exists(copy.database());
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
    if let Some(begun) = context::begun(copy, ah_ids::now()) {
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

/// Links the output files, or copies them if links are not possible. Outputs never change, so they can be shared.
pub(super) fn copy_outputs(from: &Path, to: &Path) -> io::Result<()> {
    let Some((from, names)) = outputs_in(from)? else {
        return Ok(());
    };
    let to = outputs_folder(to)?;
    for name in names {
        let linked = from.place(&name).and_then(|file| to.add_name(&file, &name));
        linked.or_else(|_| copy_output(&from, &to, &name))?;
    }
    to.sync()
}

/// Returns a session's folder of outputs, and the names of the files in it; `None` if there is none. What a symbolic link
/// leads to is not of the session.
pub(super) fn outputs_in(path: &Path) -> io::Result<Option<(Folder, Vec<OsString>)>> {
    let folder = match Folder::at(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened?,
    };
    let names = folder.files()?;
    Ok(Some((folder, names)))
}

/// Copies a file with its time, by which big files of undo are known.
fn copy_output(from: &Folder, to: &Folder, name: &OsStr) -> io::Result<()> {
    let mut original = from.open_file(name, OFlags::RDONLY)?;
    let mut copy = to.create_file(name, FILE_MODE)?;
    io::copy(&mut original, &mut copy)?;
    copy.set_modified(original.metadata()?.modified()?)
}
