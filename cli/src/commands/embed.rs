//! `ah embed` and `ah extract`: embed a folder in a copy of this program, and extract it.

use std::fs::{self, File, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use ah_conversation::Embedded;

use crate::commands::output::print;
use ah_config::Error;
use ah_config::embedded;
use ah_config::overlay::{self, ArchiveEntry, Executable, MAX_BYTES, MAX_FILES, Overlay};
use ah_config::settings;

/// Default output file.
const OUTPUT: &str = "ah";

/// Writes a copy of the running program to `output` with the files of `folder` embedded, in place of any present.
pub fn embed(folder: &Path, output: Option<&Path>) -> Result<u8, Error> {
    let output = output.unwrap_or(Path::new(OUTPUT));
    // A link is replaced by its target.
    let output = fs::canonicalize(output).unwrap_or_else(|_| output.to_owned());
    let source = fs::canonicalize(folder).map_err(|error| failed("read", folder, &error))?;
    let place = match output.parent() {
        Some(place) if !place.as_os_str().is_empty() => place,
        _ => Path::new("."),
    };
    let place = fs::canonicalize(place).map_err(|error| failed("write to", place, &error))?;
    if place.starts_with(&source) {
        let message = format!("`{}` is inside the folder to embed", output.display());
        return Err(Error::failure(message).hint("choose another path with -o"));
    }
    if output.is_dir() {
        let message = format!("`{}` is a folder", output.display());
        return Err(Error::failure(message).hint("choose a file with -o"));
    }
    let entries = collect(&source)?;
    check(entries.clone())?;
    let count = entries.len();
    write(&place, &output, &entries)?;
    let size = fs::metadata(&output).map_or(0, |file| file.len());
    print(&format!(
        "embedded {count} file(s) in {} ({:.1} MB)\n",
        output.display(),
        size as f64 / 1e6
    ))
}

/// Extracts the embedded files of the running program, or the built-in files, into `folder`.
pub fn extract(folder: &Path, builtin: bool) -> Result<u8, Error> {
    let entries = if builtin {
        built_in()
    } else {
        Executable::running()
            .map_err(|error| Error::failure(format!("cannot read the running program: {error}")))?
            .entries()
            .map_err(|error| damaged(&error))?
    };
    if entries.is_empty() {
        return Err(Error::failure("this program has no embedded files").hint(
            "`ah embed DIR` makes a copy with embedded files; --builtin extracts the built-in files",
        ));
    }
    // All files are checked before any is written.
    check(entries.clone())?;
    for entry in &entries {
        put(folder, entry).map_err(|error| failed("write", &folder.join(&entry.path), &error))?;
    }
    let (count, folder) = (entries.len(), folder.display());
    print(&format!("extracted {count} file(s) to {folder}\n"))
}

/// Returns the regular files below a folder, sorted by path.
fn collect(folder: &Path) -> Result<Vec<ArchiveEntry>, Error> {
    let mut entries = Vec::new();
    let mut folders = vec![folder.to_owned()];
    let mut left = MAX_BYTES;
    while let Some(place) = folders.pop() {
        for entry in fs::read_dir(&place).map_err(|error| failed("read", &place, &error))? {
            let path = entry
                .map_err(|error| failed("read", &place, &error))?
                .path();
            let metadata =
                fs::symlink_metadata(&path).map_err(|error| failed("read", &path, &error))?;
            if metadata.is_dir() {
                folders.push(path);
                continue;
            }
            if !metadata.is_file() {
                let message = format!("cannot embed `{}`: not a regular file", path.display());
                return Err(Error::failure(message).hint("replace it with a copy of its target"));
            }
            let below = path.strip_prefix(folder).unwrap_or(&path);
            let Some(name) = below.to_str() else {
                return Err(Error::failure(format!(
                    "the name of `{}` is not UTF-8",
                    path.display()
                )));
            };
            left = left.checked_sub(metadata.len()).ok_or_else(too_large)?;
            entries.push(ArchiveEntry {
                path: name.to_owned(),
                mode: metadata.permissions().mode() & 0o777,
                content: fs::read(&path).map_err(|error| failed("read", &path, &error))?,
            });
            if entries.len() > MAX_FILES {
                return Err(too_large());
            }
        }
    }
    entries.sort_by(|one, other| one.path.cmp(&other.path));
    Ok(entries)
}

/// Rejects files that the resulting program could not use.
fn check(entries: Vec<ArchiveEntry>) -> Result<(), Error> {
    let overlay = Overlay::of(entries).map_err(Error::failure)?;
    match overlay.settings {
        Some(text) => settings::read("settings.json", &text, false).map(drop),
        None => Ok(()),
    }
}

/// Replaces the output file atomically.
fn write(place: &Path, output: &Path, entries: &[ArchiveEntry]) -> Result<(), Error> {
    let cannot = |error: &dyn std::fmt::Display| {
        Error::failure(format!("cannot write `{}`: {error}", output.display()))
    };
    let running = Executable::running()
        .map_err(|error| Error::failure(format!("cannot read the running program: {error}")))?;
    let mut copy = tempfile::Builder::new()
        .prefix(".ah-")
        .tempfile_in(place)
        .map_err(|error| cannot(&error))?;
    running
        .copy_plain(&mut copy)
        .map_err(|error| damaged(&error))?;
    if !entries.is_empty() {
        let archive = overlay::pack(entries).map_err(Error::failure)?;
        copy.write_all(&archive).map_err(|error| cannot(&error))?;
    }
    let mode = running
        .permissions()
        .map_err(|error| cannot(&error))?
        .mode()
        & 0o777;
    let done = copy
        .as_file()
        .set_permissions(Permissions::from_mode(mode))
        .and_then(|()| copy.as_file().sync_all());
    done.map_err(|error| cannot(&error))?;
    copy.persist(output).map_err(|error| cannot(&error.error))?;
    // The directory entry must be durable as well.
    let synced = File::open(place).and_then(|place| place.sync_all());
    synced.map_err(|error| cannot(&error))
}

/// Writes one file below `folder`. Links on the path are replaced or rejected, never followed.
fn put(folder: &Path, entry: &ArchiveEntry) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    let (place, _) = entry.path.rsplit_once('/').unwrap_or_default();
    let mut at = PathBuf::from(folder);
    for part in place.split('/').filter(|part| !part.is_empty()) {
        at.push(part);
        match fs::symlink_metadata(&at) {
            Ok(there) if there.is_dir() => {}
            Ok(_) => {
                return Err(io::Error::other(format!(
                    "`{}` is not a folder",
                    at.display()
                )));
            }
            Err(_) => fs::create_dir(&at)?,
        }
    }
    let mut file = tempfile::Builder::new().prefix(".ah-").tempfile_in(&at)?;
    file.write_all(&entry.content)?;
    file.as_file()
        .set_permissions(Permissions::from_mode(entry.mode))?;
    file.persist(folder.join(&entry.path))?;
    Ok(())
}

fn built_in() -> Vec<ArchiveEntry> {
    let root = Path::new(Embedded::ROOT).join(Embedded::BUILT_IN);
    let embedded = embedded::built_in();
    let entry = |(path, file): (PathBuf, &ah_conversation::EmbeddedFile)| ArchiveEntry {
        path: path
            .strip_prefix(&root)
            .unwrap_or(&path)
            .to_string_lossy()
            .into_owned(),
        mode: if file.is_executable { 0o755 } else { 0o644 },
        content: file.content.to_vec(),
    };
    embedded.files(&root).map(entry).collect()
}

fn failed(what: &str, path: &Path, error: &io::Error) -> Error {
    Error::failure(format!("cannot {what} `{}`: {error}", path.display()))
}

fn too_large() -> Error {
    let megabytes = MAX_BYTES >> 20;
    Error::failure(format!(
        "the folder is too large: at most {MAX_FILES} files of {megabytes} MB in total can be embedded"
    ))
}

/// Returns the error of a damaged archive.
pub fn damaged(error: &str) -> Error {
    Error::failure(format!(
        "the files embedded in this program are damaged: {error}"
    ))
    .hint("get a fresh copy of the program and embed the folder again")
}
