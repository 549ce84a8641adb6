//! Paths of a session's files: database, queue, lock and outputs, which share one stem.

use std::ffi::OsStr;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt as _, OpenOptionsExt};
use std::path::{Path, PathBuf};

use ah_beneath::Folder;
use ah_conversation::{SessionId, ToolUseId};
use rustix::fs::OFlags;
use sha2::{Digest, Sha256};

/// Name of a project's folder of sessions.
const SESSIONS_FOLDER: &str = ".ah";
/// Sessions are only accessible to their owner.
const FOLDER_MODE: u32 = 0o700;
pub(crate) const FILE_MODE: u32 = 0o600;
/// Ignores the files of sessions; the rest of the folder, such as `tools/` and `skills/`, belongs to the project.
const IGNORED: &str =
    "/.gitignore\n/*.db\n/*.db-*\n/*.db.*\n/*.lock\n/*.out/\n/*.queue*\n/leaving/\n/coming/\n";
/// Maximum length of a tool use id that is used as a file name unchanged.
const LONGEST_NAME: usize = 64;

/// Paths of the files of one session. Two are equal if their databases are one.
#[derive(Debug, Clone)]
pub struct Paths {
    folder: PathBuf,
    stem: String,
    database: PathBuf,
    /// File with the key of the user's seals.
    pub(crate) key: Option<PathBuf>,
}

impl PartialEq for Paths {
    fn eq(&self, other: &Self) -> bool {
        self.database == other.database
    }
}

impl Eq for Paths {}

impl Paths {
    /// Returns the paths for the session with this database; the other files are in the same folder.
    pub fn of(database: impl Into<PathBuf>) -> Self {
        let database = database.into();
        let name = database
            .file_name()
            .map(|name| name.to_string_lossy().into_owned())
            .unwrap_or_default();
        let stem = name.strip_suffix(".db").unwrap_or(&name).to_owned();
        let folder = database.parent().map(Path::to_owned).unwrap_or_default();
        Self {
            folder,
            stem,
            database,
            key: None,
        }
    }

    /// Returns the same paths, with the file of the key by which this user's own messages in the queue are known. Without it, all are
    /// taken for theirs.
    #[must_use]
    pub fn sealed_by(self, key: Option<PathBuf>) -> Self {
        Self { key, ..self }
    }

    pub(crate) fn in_folder(folder: &Path, id: &SessionId) -> Self {
        Self::of(folder.join(format!("{id}.db")))
    }

    /// Returns the path of the database, which holds the conversation.
    pub fn database(&self) -> &Path {
        &self.database
    }

    /// Returns the path of the database of queued messages, which the first sender creates.
    pub fn queue(&self) -> PathBuf {
        self.beside(".queue.db")
    }

    /// Beginning of the names of journals of file changes, beside the outputs.
    pub const CHANGES: &str = "changes-";

    /// Beginning of the names of outputs of a session's checks, beside those of calls.
    pub(crate) const CHECK: &str = "check-";

    /// Beginning of the names of versions of files that two agents have changed differently, beside the outputs.
    pub const CONFLICTS: &str = "conflict-";

    /// Beginning of the names of layers of files, beside the outputs.
    pub(crate) const LAYER: &str = "layer-";

    /// Beginning of the names of contents that are too big for the database, beside the outputs.
    pub const BIG: &str = "kept-";

    /// Returns the path of the file that the process locks which has the session open.
    pub fn lock(&self) -> PathBuf {
        self.beside(".lock")
    }

    /// Returns the folder of outputs that are too large for the database.
    pub fn outputs(&self) -> PathBuf {
        self.beside(".out")
    }

    /// Returns the session's id, if the database is named after it.
    pub fn id(&self) -> Option<SessionId> {
        ah_ids::is_ulid(&self.stem).then(|| SessionId::from(self.stem.as_str()))
    }

    /// Returns the folder of all files.
    pub fn folder(&self) -> &Path {
        if self.folder.as_os_str().is_empty() {
            Path::new(".")
        } else {
            &self.folder
        }
    }

    fn beside(&self, ending: &str) -> PathBuf {
        self.folder.join(format!("{}{ending}", self.stem))
    }
}

/// Returns the path of `database` with `ending` appended to the file name.
pub(crate) fn with_ending(database: &Path, ending: &str) -> PathBuf {
    let mut name = database.as_os_str().to_owned();
    name.push(ending);
    PathBuf::from(name)
}

/// Creates `folder` if it is missing, accessible to its owner only; returns whether it was created. If it is a project's
/// folder of sessions or stands in one, that gets its `.gitignore`.
pub fn create_folder(folder: &Path) -> io::Result<bool> {
    let is_new = !folder.is_dir();
    if is_new {
        DirBuilder::new()
            .recursive(true)
            .mode(FOLDER_MODE)
            .create(folder)?;
    }
    let mut places = folder.ancestors().take(2);
    let sessions = places.find(|place| is_sessions_folder(place));
    sessions.map_or(Ok(()), write_gitignore)?;
    Ok(is_new)
}

/// Returns whether a folder is a project's folder of sessions, by its name.
pub(crate) fn is_sessions_folder(folder: &Path) -> bool {
    folder
        .file_name()
        .is_some_and(|name| name == SESSIONS_FOLDER)
}

/// Writes a `.gitignore` that keeps sessions out of the project's repository, unless there already is one.
fn write_gitignore(folder: &Path) -> io::Result<()> {
    match new_file(&folder.join(".gitignore")) {
        Ok(mut file) => file.write_all(IGNORED.as_bytes()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error),
    }
}

/// Opens the folder of a session's outputs, which is created if it is missing. A symbolic link, which may have come with the
/// session, is refused.
pub(crate) fn outputs_folder(path: &Path) -> io::Result<Folder> {
    create_folder(path)?;
    Folder::at(path)
}

/// Creates the file `path`, or empties it. A new one is accessible to its owner only. A symbolic link is refused.
pub fn create_file(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(FILE_MODE)
        .custom_flags(OFlags::NOFOLLOW.bits().cast_signed())
        .open(path)
}

/// Creates the file `path`, which must not exist, accessible to its owner only.
pub(crate) fn new_file(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create_new(true)
        .mode(FILE_MODE)
        .open(path)
}

/// Opens the file `path` for reading and writing; creates it, accessible to its owner only, if it is missing. What is no plain
/// file, such as a symbolic link or a named pipe, which may have come with a session, is refused at once.
pub(crate) fn open_or_create(path: &Path) -> io::Result<File> {
    let mut how = OpenOptions::new();
    how.write(true).create(true).truncate(false).mode(FILE_MODE);
    plain(how, path)
}

/// Opens the file `path` for reading. What is no plain file is refused at once.
pub(crate) fn open_to_read(path: &Path) -> io::Result<File> {
    plain(OpenOptions::new(), path)
}

fn plain(mut how: OpenOptions, path: &Path) -> io::Result<File> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let how = how.read(true).custom_flags(flags.bits().cast_signed());
    let file = how.open(path)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::other("it is not a regular file")),
    }
}

/// Removes a file; succeeds if it does not exist.
pub(crate) fn remove_if_exists(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Returns what lies at `path` if it is neither a file nor missing. Opening it could wait forever.
pub(crate) fn not_a_file(path: &Path) -> Option<&'static str> {
    let kind = fs::metadata(path).ok()?.file_type();
    match kind {
        kind if kind.is_file() => None,
        kind if kind.is_dir() => Some("a folder"),
        kind if kind.is_fifo() => Some("a named pipe"),
        kind if kind.is_socket() => Some("a socket"),
        _ => Some("a device"),
    }
}

/// Syncs the directory entries of `folder` to disk.
pub(crate) fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

/// Returns the last component of `path` as text.
pub(crate) fn file_name(path: &Path) -> String {
    path.file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned()
}

/// Returns a file name for the output of `call`; `attempt` tells outputs of the same id apart. Ids come from the model,
/// so only the plain characters of an id are used, followed by its hash if there are others.
pub(crate) fn output_name(call: &ToolUseId, attempt: usize) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let id = call.as_str();
    let mut name = if !id.is_empty() && id.len() <= LONGEST_NAME && id.chars().all(is_plain) {
        id.to_owned()
    } else {
        let plain: String = id.chars().filter(|c| is_plain(*c)).take(32).collect();
        format!("{plain}-{}", &hex(&Sha256::digest(id.as_bytes()))[..16])
    };
    if attempt > 0 {
        name.push_str(&format!(".{attempt}"));
    }
    name
}

/// Returns the path that a row names: absolute, and of nothing but names. `None` if it is anything else, which this program
/// never stores.
pub(crate) fn stored_path(bytes: &[u8]) -> Option<PathBuf> {
    let below = bytes.strip_prefix(b"/")?;
    // A long path is not taken apart into names: there may be thousands of them.
    let is_name = |part: &[u8]| !matches!(part, b"" | b"." | b"..");
    let is_path = below.split(|byte| *byte == b'/').all(is_name) && !below.contains(&0);
    is_path.then(|| PathBuf::from(OsStr::from_bytes(bytes)))
}

/// Returns whether `name` is that of a file within a folder.
pub fn is_file_name(name: &str) -> bool {
    !name.is_empty() && !name.contains(['/', '\0']) && name != "." && name != ".."
}

/// Returns `bytes` in lower-case hexadecimal.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_four_files_share_a_stem() {
        for (database, queue, outputs) in [
            (".ah/X.db", ".ah/X.queue.db", ".ah/X.out"),
            ("talk.sqlite", "talk.sqlite.queue.db", "talk.sqlite.out"),
        ] {
            let paths = Paths::of(database);
            assert_eq!(paths.queue(), Path::new(queue));
            assert_eq!(paths.outputs(), Path::new(outputs));
            assert_eq!(paths.database(), Path::new(database));
        }
    }

    #[test]
    fn a_row_is_a_path_only_if_it_is_absolute_and_of_names() {
        for (row, is_path) in [
            ("/a", true),
            ("/a/b c/…", true),
            ("/a/...", true),
            ("/", false),
            ("", false),
            ("a/b", false),
            ("/a/../b", false),
            ("/a/..", false),
            ("/../a", false),
            ("/a/./b", false),
            ("/a//b", false),
            ("//a", false),
            ("/a/", false),
            ("/a\0b", false),
            ("~/a", false),
        ] {
            let found = stored_path(row.as_bytes());
            let expected = is_path.then(|| PathBuf::from(row));
            assert_eq!(found, expected, "{row:?}");
        }
        assert!(stored_path(b"/not-UTF-8/\xff").is_some());
    }

    #[test]
    fn an_output_stays_in_its_folder_for_any_call_id() {
        let names = [
            "toolu_01",
            "../../etc/passwd",
            "..",
            "",
            "a/b",
            "a\\b",
            "ä",
            ".",
        ]
        .map(|id| output_name(&ToolUseId::from(id), 0));
        assert_eq!(names[0], "toolu_01");
        for name in &names[1..] {
            assert!(!name.contains(['/', '.', '\\']), "{name}");
        }
        assert_ne!(names[4], names[5]);
        assert_eq!(output_name(&ToolUseId::from("x"), 2), "x.2");
        assert!(output_name(&ToolUseId::from("x".repeat(5000)), 0).len() < 64);
    }
}
