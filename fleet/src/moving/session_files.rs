//! The files of a session, as they go from folder to folder.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use ah_beneath::Folder;
use ah_config::Error;
use ah_conversation::SessionId;
use ah_store::{Paths, create_file, create_folder};
use rustix::fs::OFlags;

/// Returns the paths of a session in a folder.
pub(super) fn in_folder(folder: &Path, session: &SessionId) -> Paths {
    Paths::of(folder.join(format!("{session}.db")))
}

/// Returns the files of a session, each with its place for another one.
fn pairs(from: &Paths, to: &Paths) -> impl Iterator<Item = (PathBuf, PathBuf)> {
    let files = |paths: &Paths| [paths.outputs(), paths.queue(), paths.database().to_owned()];
    files(from).into_iter().zip(files(to))
}

/// Moves the files of a session within a file system, the database last. Repeated, it finishes.
pub(super) fn rename(from: &Paths, to: &Paths) -> Result<(), Error> {
    let done = create_folder(to.folder()).and_then(|_| {
        for (from, to) in pairs(from, to) {
            if from.exists() {
                fs::rename(from, to)?;
            }
        }
        sync(to.folder())?;
        let _ = fs::remove_file(from.lock());
        Ok(())
    });
    done.map_err(|error| unwritable(to.folder(), &error))
}

/// Copies the files of a session durably, the database last.
pub(super) fn copy(from: &Paths, to: &Paths) -> Result<(), Error> {
    let done = create_folder(to.folder()).and_then(|_| {
        for (from, to) in pairs(from, to) {
            match fs::symlink_metadata(&from) {
                Err(_) => {}
                Ok(found) if found.is_file() => copy_file(&from, &to)?,
                Ok(_) => {
                    create_folder(&to)?;
                    for name in files_in(&from)? {
                        copy_file(&from.join(&name), &to.join(&name))?;
                    }
                    sync(&to)?;
                }
            }
        }
        sync(to.folder())
    });
    done.map_err(|error| unwritable(to.folder(), &error))
}

fn copy_file(from: &Path, to: &Path) -> io::Result<()> {
    let mut file = create_file(to)?;
    io::copy(&mut source(from)?, &mut file)?;
    file.sync_all()
}

/// Opens a file of a session. A symbolic link, which may have come with it, could lead to any other file of the user.
pub(super) fn source(path: &Path) -> io::Result<fs::File> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let mut options = fs::OpenOptions::new();
    options.read(true).custom_flags(flags.bits().cast_signed());
    options.open(path)
}

/// Returns the names of the files in a session's folder of outputs, which is no symbolic link.
pub(super) fn files_in(outputs: &Path) -> io::Result<Vec<OsString>> {
    let folder = Folder::at(outputs)?;
    let is_file = |name: &OsString| {
        let found = folder.status(name);
        found.is_ok_and(|found| found.is_some_and(|found| found.is_file()))
    };
    let mut names: Vec<_> = folder.list()?.into_iter().filter(is_file).collect();
    names.sort();
    Ok(names)
}

/// Makes a file, or the names in a folder, durable.
pub(super) fn sync(path: &Path) -> io::Result<()> {
    fs::File::open(path)?.sync_all()
}

/// Removes the files of a session that is elsewhere now, the database first.
pub(super) fn remove(paths: &Paths) -> Result<(), Error> {
    let removed = |path: &Path| match path.is_dir() {
        true => fs::remove_dir_all(path),
        false if path.exists() => fs::remove_file(path),
        false => Ok(()),
    };
    let database = paths.database().to_owned();
    let all = [database, paths.queue(), paths.outputs(), paths.lock()];
    for path in all {
        removed(&path).map_err(|error| unwritable(&path, &error))?;
    }
    // The folder of those that are on their way, if it was the last one.
    let _ = fs::remove_dir(paths.folder());
    Ok(())
}

/// Returns the error for a path that cannot be written.
pub(super) fn unwritable(path: &Path, error: &io::Error) -> Error {
    Error::failure(format!("cannot write to `{}`: {error}", path.display()))
}

#[cfg(test)]
mod tests {
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
