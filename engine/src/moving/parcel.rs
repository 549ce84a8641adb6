//! A session in one file: a tar archive whose first entry lists all others with their sizes and hashes. It may come from
//! anybody, so nothing is used that is not as listed, and nothing is written but files of these names.

use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

use ah_config::Error;
use ah_store::Paths;
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
        let sources = sources(paths)?;
        for (name, path) in &sources {
            let content = fs::read(path)?;
            list.files.push(Listed {
                name: name.clone(),
                size: content.len() as u64,
                sha256: hex(&Sha256::digest(&content)),
            });
        }
        let mut archive = Builder::new(File::create(&draft)?);
        let text = serde_json::to_vec(&list)?;
        append(&mut archive, LIST, text.len() as u64, &*text)?;
        for ((name, path), listed) in sources.iter().zip(&list.files) {
            append(&mut archive, name, listed.size, File::open(path)?)?;
        }
        let mut written = archive.into_inner()?;
        written.flush()?;
        written.sync_all()?;
        fs::rename(&draft, file)
    };
    write().map_err(|error| unwritable(file, &error))
}

/// Returns the id of the session in a file.
fn session_in(file: &Path) -> Option<String> {
    let mut archive = Archive::new(File::open(file).ok()?);
    let first = archive.entries().ok()?.next()?.ok()?;
    let list: List = serde_json::from_reader(first.take(LONGEST_LIST)).ok()?;
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

/// Returns the files of a session, with their names in the list.
fn sources(paths: &Paths) -> io::Result<Vec<(String, PathBuf)>> {
    let mut sources = vec![(".db".to_owned(), paths.database().to_owned())];
    if paths.queue().exists() {
        sources.push((".queue.db".to_owned(), paths.queue()));
    }
    if paths.outputs().exists() {
        let mut names = Vec::new();
        for entry in fs::read_dir(paths.outputs())? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            names.push((format!(".out/{name}"), entry.path()));
        }
        names.sort();
        sources.extend(names);
    }
    Ok(sources)
}

/// Reads a session from a file into a folder, and checks all of it.
pub(super) fn unpack(file: &Path, folder: &Path) -> Result<Paths, Error> {
    let refused = |reason: &str| {
        Error::failure(format!("`{}` is no session: {reason}", file.display()))
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
    let list: List = serde_json::from_slice(&text).map_err(|_| refused("its list is damaged"))?;
    if list.version != VERSION {
        return Err(refused("it was written by another version of ah"));
    }
    let paths = in_folder(folder, &list.session.as_str().into());
    if paths.id().is_none() {
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
    for listed in &list.files {
        let entry = entries.next().ok_or_else(|| refused("it is cut off"))?;
        let mut entry = entry.map_err(unreadable)?;
        let is_listed = entry.header().entry_type() == EntryType::Regular
            && &*entry.path_bytes() == format!("session{}", slashed(&listed.name)).as_bytes()
            && entry.size() == listed.size;
        let path = target(&paths, &listed.name).filter(|_| is_listed);
        let path = path.ok_or_else(|| refused("it is not as its list says"))?;
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).map_err(unreadable)?;
        }
        let mut content = Vec::new();
        entry.read_to_end(&mut content).map_err(unreadable)?;
        if hex(&Sha256::digest(&content)) != listed.sha256 {
            return Err(refused("it is damaged"));
        }
        fs::write(&path, content).map_err(|error| unwritable(&path, &error))?;
    }
    match paths.database().exists() {
        true => Ok(paths),
        false => Err(refused("it has no conversation")),
    }
}

/// Returns the place of a listed file; `None` if it has none.
fn target(paths: &Paths, name: &str) -> Option<PathBuf> {
    if let Some(name) = name.strip_prefix(".out/") {
        let is_plain =
            !name.is_empty() && !name.contains(['/', '\0']) && name != "." && name != "..";
        return is_plain.then(|| paths.outputs().join(name));
    }
    match name {
        ".db" => Some(paths.database().to_owned()),
        ".queue.db" => Some(paths.queue()),
        _ => None,
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
