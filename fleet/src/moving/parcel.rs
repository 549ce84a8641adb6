//! A session in one file: a tar archive whose first entry lists all others with their sizes and hashes. It may come from
//! anybody, so nothing is used that is not as listed, and nothing is written but files of these names.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

use ah_beneath::Folder;
use ah_config::Error;
use ah_conversation::json;
use ah_store::{Paths, create_file, create_folder, is_file_name};
use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use tar::{Archive, Builder, EntryType, Header};

use super::session_files::{in_folder, unwritable};

/// Version of the format.
const VERSION: u32 = 1;
/// Name of the list.
const LIST: &str = "ah-session.json";
/// Longest list, and most bytes in all.
const LONGEST_LIST: u64 = 16 << 20;
const MOST: u64 = 8 << 30;

#[derive(Serialize, Deserialize)]
struct List {
    version: u32,
    session: String,
    files: Vec<Listed>,
}

#[derive(Serialize, Deserialize)]
struct Listed {
    /// `.db`, `.queue.db`, or the name of a file below `.out/`.
    name: String,
    size: u64,
    sha256: String,
}

/// Writes the session at `paths` into a new file.
pub(super) fn pack(paths: &Paths, file: &Path) -> Result<(), Error> {
    let session = paths.id().map(|id| id.to_string()).unwrap_or_default();
    // The same session may be there from a move that was cut off.
    if file.exists() && session_in(file) != Some(session.clone()) {
        return Err(Error::failure(format!("`{}` exists", file.display())));
    }
    let draft = file.with_extension("new");
    let write = || {
        let mut list = List {
            version: VERSION,
            session,
            files: Vec::new(),
        };
        for name in names(paths)? {
            let (size, sha256) = copied(opened(paths, &name)?, io::sink())?;
            list.files.push(Listed { name, size, sha256 });
        }
        let mut archive = Builder::new(create_file(&draft)?);
        let text = serde_json::to_vec(&list)?;
        append(&mut archive, LIST, text.len() as u64, &*text)?;
        for Listed { name, size, .. } in &list.files {
            append(&mut archive, name, *size, opened(paths, name)?)?;
        }
        let mut written = archive.into_inner()?;
        written.flush()?;
        written.sync_all()?;
        std::fs::rename(&draft, file)?;
        // The session is given up once the file is there to stay.
        Folder::follow(&folder_of(file))?.sync()
    };
    write().map_err(|error| unwritable(file, &error))
}

/// Returns the id of the session in a file.
fn session_in(file: &Path) -> Option<String> {
    let mut archive = Archive::new(File::open(file).ok()?);
    let first = archive.entries().ok()?.next()?.ok()?;
    let mut text = Vec::new();
    first.take(LONGEST_LIST).read_to_end(&mut text).ok()?;
    let list: List = json::from_slice(&text).ok()?;
    Some(list.session)
}

fn append(
    archive: &mut Builder<File>,
    name: &str,
    size: u64,
    content: impl io::Read,
) -> io::Result<()> {
    let mut header = Header::new_gnu();
    header.set_size(size);
    header.set_mode(0o600);
    archive.append_data(&mut header, format!("session{}", slashed(name)), content)
}

/// Returns the name of an entry after `session`: a list is beside the files.
fn slashed(name: &str) -> String {
    match name.starts_with('.') {
        true => name.to_owned(),
        false => format!("/{name}"),
    }
}

/// Returns the names in the list of the files of a session.
fn names(paths: &Paths) -> io::Result<Vec<String>> {
    let folder = Folder::follow(paths.folder())?;
    let is_there = |path: &Path| folder.look(Path::new(path.file_name().unwrap_or_default()));
    let mut names = vec![".db".to_owned()];
    if is_there(&paths.queue())?.is_some() {
        names.push(".queue.db".to_owned());
    }
    if is_there(&paths.outputs())?.is_some() {
        let outputs = Folder::at(&paths.outputs())?.files()?;
        let outputs = outputs.iter().map(|name| name.to_string_lossy());
        names.extend(outputs.map(|name| format!(".out/{name}")));
    }
    Ok(names)
}

/// Opens a listed file. A symbolic link, which may have come with the session, could lead to any other file of the user.
fn opened(paths: &Paths, name: &str) -> io::Result<File> {
    let (below, name) = target(paths, name).ok_or(io::ErrorKind::InvalidInput)?;
    let folder = Folder::follow(paths.folder())?.folder(&below)?;
    folder.open_file(&name, OFlags::RDONLY)
}

/// Reads a session from a file into a folder, and checks all of it.
pub(super) fn unpack(file: &Path, folder: &Path) -> Result<Paths, Error> {
    let refused = |reason: &str| {
        Error::failure(format!("`{}` is not a session: {reason}", file.display()))
            .hint("it is a file that `ah move SESSION --to FILE` has written")
    };
    let unreadable = |error: io::Error| refused(&error.to_string());
    let opened = File::open(file)
        .map_err(|error| Error::failure(format!("cannot read `{}`: {error}", file.display())))?;
    let mut archive = Archive::new(opened);
    let mut entries = archive.entries().map_err(unreadable)?;
    let first = entries.next().ok_or_else(|| refused("it is empty"))?;
    let first = first.map_err(unreadable)?;
    if &*first.path_bytes() != format!("session/{LIST}").as_bytes() {
        return Err(refused("it does not begin with a list"));
    }
    let mut text = Vec::new();
    let mut first = first.take(LONGEST_LIST);
    first.read_to_end(&mut text).map_err(unreadable)?;
    let list: List = json::from_slice(&text).map_err(|_| refused("its list is damaged"))?;
    if list.version != VERSION {
        return Err(refused("it was written by another version of ah"));
    }
    let paths = in_folder(folder, &list.session.as_str().into());
    // Anything else could name a place elsewhere.
    if paths.id().is_none_or(|id| id.as_str() != list.session) {
        return Err(refused("it has no id"));
    }
    let sum = list
        .files
        .iter()
        .map(|it| it.size)
        .fold(0, u64::saturating_add);
    if sum > MOST {
        return Err(refused("it is too large"));
    }
    let top = create_folder(folder).and_then(|_| Folder::follow(folder));
    let top = top.map_err(|error| unwritable(folder, &error))?;
    for listed in &list.files {
        let entry = entries.next().ok_or_else(|| refused("it is cut off"))?;
        let entry = entry.map_err(unreadable)?;
        let is_listed = entry.header().entry_type() == EntryType::Regular
            && &*entry.path_bytes() == format!("session{}", slashed(&listed.name)).as_bytes()
            && entry.size() == listed.size;
        let place = target(&paths, &listed.name).filter(|_| is_listed);
        let (below, name) = place.ok_or_else(|| refused("its contents do not match its list"))?;
        let created = top.make_folders(&below, 0o700);
        let created = created.and_then(|folder| folder.create_file(&name, 0o600));
        let written = created.map_err(|error| unwritable(&folder.join(below), &error))?;
        let (_, sha256) = copied(entry, written).map_err(unreadable)?;
        if sha256 != listed.sha256 {
            return Err(refused("it is damaged"));
        }
    }
    match paths.database().exists() {
        true => Ok(paths),
        false => Err(refused("it has no conversation")),
    }
}

/// Returns the folder of a listed file below that of the session, and its name there; `None` if it has no place.
fn target(paths: &Paths, name: &str) -> Option<(PathBuf, OsString)> {
    if let Some(name) = name.strip_prefix(".out/") {
        let outputs = paths.outputs();
        return is_file_name(name)
            .then(|| (outputs.file_name().into_iter().collect(), name.into()));
    }
    let path = match name {
        ".db" => paths.database().to_owned(),
        ".queue.db" => paths.queue(),
        _ => return None,
    };
    Some((PathBuf::new(), path.file_name()?.to_owned()))
}

/// Returns the folder around the file of a session that the user has named.
fn folder_of(file: &Path) -> PathBuf {
    let folder = file
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    folder.unwrap_or(Path::new(".")).to_owned()
}

/// Copies everything; returns its size and its SHA-256.
fn copied(mut from: impl io::Read, mut to: impl io::Write) -> io::Result<(u64, String)> {
    let (mut size, mut hash, mut buffer) = (0, Sha256::new(), [0; 1 << 16]);
    loop {
        let read = from.read(&mut buffer)?;
        if read == 0 {
            break;
        }
        to.write_all(&buffer[..read])?;
        hash.update(&buffer[..read]);
        size += read as u64;
    }
    let hash = hash.finalize();
    let hash = hash.iter().map(|byte| format!("{byte:02x}")).collect();
    Ok((size, hash))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const SESSION: &str = "01M8AJ8T6CECJBXGYQQG6TVZC3";

    /// Writes an archive of one file that is listed under `name`, and is there as `entry` of a kind.
    fn written(folder: &Path, session: &str, name: &str, entry: &str, kind: EntryType) -> PathBuf {
        let content = b"a conversation";
        let (size, sha256) = copied(&content[..], io::sink()).unwrap();
        let name = name.to_owned();
        let list = List {
            version: VERSION,
            session: session.to_owned(),
            files: vec![Listed { name, size, sha256 }],
        };
        let list = serde_json::to_vec(&list).unwrap();
        let file = folder.join("hostile");
        let mut archive = Builder::new(File::create(&file).unwrap());
        append(&mut archive, LIST, list.len() as u64, &*list).unwrap();
        let mut header = Header::new_gnu();
        header.set_size(size);
        header.set_entry_type(kind);
        header.set_link_name("/etc/passwd").unwrap();
        // Names that the library would refuse to write.
        header.as_old_mut().name[..entry.len()].copy_from_slice(entry.as_bytes());
        header.set_cksum();
        archive.append(&header, &content[..]).unwrap();
        archive.into_inner().unwrap();
        file
    }

    #[test]
    fn what_names_another_place_is_refused() {
        let outer = tempfile::tempdir().unwrap();
        let inner = outer.path().join("inner");
        let regular = EntryType::Regular;
        let escaping = format!("../{SESSION}");
        let cases = [
            (SESSION, ".db", "session.db", regular, true),
            (&escaping, ".db", "session.db", regular, false),
            ("name", ".db", "session.db", regular, false),
            (SESSION, ".db", "session.db", EntryType::Symlink, false),
            (SESSION, ".db", "session.queue.db", regular, false),
            (SESSION, ".out/../x", "session.out/../x", regular, false),
            (SESSION, ".out/..", "session.out/..", regular, false),
            (SESSION, "/../../x", "session//../../x", regular, false),
        ];
        for (session, name, entry, kind, is_good) in cases {
            fs::create_dir(&inner).unwrap();
            let file = written(outer.path(), session, name, entry, kind);
            let unpacked = unpack(&file, &inner);
            assert_eq!(unpacked.is_ok(), is_good, "{session} {name} {entry}");
            fs::remove_dir_all(&inner).unwrap();
            fs::remove_file(file).unwrap();
            let left = fs::read_dir(outer.path()).unwrap().count();
            assert_eq!(left, 0, "{session} {name} {entry}");
        }
    }
}
