//! The files of a session, as they go from folder to folder.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::Path;

use ah_beneath::Folder;
use ah_config::Error;
use ah_conversation::SessionId;
use ah_store::{Paths, create_folder};
use rustix::fs::OFlags;

/// Returns the paths of a session in a folder.
pub(super) fn in_folder(folder: &Path, session: &SessionId) -> Paths {
    Paths::of(folder.join(format!("{session}.db")))
}

/// Returns the names of the files of a session, which are the same in each folder; the database last.
fn names(paths: &Paths) -> impl Iterator<Item = OsString> {
    let files = [paths.outputs(), paths.queue(), paths.database().to_owned()];
    let names = files.map(|path| path.file_name().map(OsStr::to_owned));
    names.into_iter().flatten()
}

/// Moves the files of a session within a file system, the database last. Repeated, it finishes.
pub(super) fn rename(from: &Paths, to: &Paths) -> Result<(), Error> {
    let done = create_folder(to.folder()).and_then(|_| {
        let (here, there) = (Folder::follow(from.folder())?, Folder::follow(to.folder())?);
        for name in names(from) {
            if here.status(&name)?.is_some() {
                here.move_to(&name, &there, &name)?;
            }
        }
        there.sync()?;
        let lock = from.lock();
        let _ = here.remove_file(lock.file_name().unwrap_or_default());
        Ok(())
    });
    done.map_err(|error| unwritable(to.folder(), &error))
}

/// Copies the files of a session durably, the database last.
pub(super) fn copy(from: &Paths, to: &Paths) -> Result<(), Error> {
    let done = create_folder(to.folder()).and_then(|_| {
        let (here, there) = (Folder::follow(from.folder())?, Folder::follow(to.folder())?);
        for name in names(from) {
            match here.status(&name)? {
                None => {}
                Some(found) if found.is_file() => copy_file(&here, &there, &name)?,
                Some(_) => {
                    let outputs = here.folder(Path::new(&name))?;
                    let copies = there.make_folders(Path::new(&name), 0o700)?;
                    for name in outputs.files()? {
                        copy_file(&outputs, &copies, &name)?;
                    }
                    copies.sync()?;
                }
            }
        }
        there.sync()
    });
    done.map_err(|error| unwritable(to.folder(), &error))
}

fn copy_file(from: &Folder, to: &Folder, name: &OsStr) -> io::Result<()> {
    // From a move that was cut off.
    let _ = to.remove_file(name);
    let mut copy = to.create_file(name, 0o600)?;
    io::copy(&mut from.open_file(name, OFlags::RDONLY)?, &mut copy)?;
    copy.sync_all()
}

/// Removes the files of a session that is elsewhere now, the database first.
pub(super) fn remove(paths: &Paths) -> Result<(), Error> {
    let folder = match Folder::follow(paths.folder()) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        opened => opened.map_err(|error| unwritable(paths.folder(), &error))?,
    };
    let database = paths.database().to_owned();
    for path in [database, paths.queue(), paths.outputs(), paths.lock()] {
        let removed = folder.remove_all(path.file_name().unwrap_or_default());
        removed.map_err(|error| unwritable(&path, &error))?;
    }
    // The folder of those that are on their way, if it was the last one.
    if let (Some(above), Some(name)) = (paths.folder().parent(), paths.folder().file_name()) {
        let _ = Folder::follow(above).and_then(|above| above.remove_folder(name));
    }
    Ok(())
}

/// Returns the error for a path that cannot be written.
pub(super) fn unwritable(path: &Path, error: &io::Error) -> Error {
    Error::failure(format!("cannot write to `{}`: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn what_is_linked_into_a_session_stays_where_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        let session = SessionId::from("01ARZ3NDEKTSV4RRFFQ69G5FAV");
        let [from, to] = ["from", "to"].map(|name| in_folder(&root.join(name), &session));
        fs::create_dir_all(from.outputs()).unwrap();
        fs::write(root.join("key"), "secret").unwrap();
        fs::write(from.database(), "database").unwrap();
        fs::write(from.outputs().join("output"), "output").unwrap();
        symlink(root.join("key"), from.outputs().join("linked")).unwrap();
        copy(&from, &to).unwrap();
        let names: Vec<_> = fs::read_dir(to.outputs()).unwrap().flatten().collect();
        assert_eq!(names.len(), 1);
        assert_eq!(names[0].file_name(), "output");
        // As a whole.
        fs::remove_dir_all(from.outputs()).unwrap();
        for (link, target) in [(from.outputs(), "from"), (from.queue(), "key")] {
            symlink(root.join(target), &link).unwrap();
            assert!(copy(&from, &to).is_err(), "{}", link.display());
            fs::remove_file(link).unwrap();
        }
        copy(&from, &to).unwrap();
    }
}
