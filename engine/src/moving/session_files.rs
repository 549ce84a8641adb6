//! The files of a session, as they go from folder to folder.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use ah_config::Error;
use ah_conversation::SessionId;
use ah_store::{Paths, create_file, create_folder};

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
            if from.is_dir() {
                create_folder(&to)?;
                for entry in fs::read_dir(&from)? {
                    let entry = entry?;
                    copy_file(&entry.path(), &to.join(entry.file_name()))?;
                }
                sync(&to)?;
            } else if from.exists() {
                copy_file(&from, &to)?;
            }
        }
        sync(to.folder())
    });
    done.map_err(|error| unwritable(to.folder(), &error))
}

fn copy_file(from: &Path, to: &Path) -> io::Result<()> {
    let mut file = create_file(to)?;
    io::copy(&mut fs::File::open(from)?, &mut file)?;
    file.sync_all()
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
