//! Where the files of a session are: four names with one stem.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use ah_conversation::{SessionId, ToolUseId};
use sha2::{Digest, Sha256};

use crate::id;

/// Only its owner may look into a session.
const FOLDER_MODE: u32 = 0o700;
const FILE_MODE: u32 = 0o600;
/// What of the sessions' folder is no part of the project; `tools/`, `skills/` and their like are.
const IGNORED: &str = "/.gitignore\n/*.db\n/*.db-*\n/*.db.*\n/*.lock\n/*.out/\n";
/// The longest tool_use id that names a file as it is.
const LONGEST_NAME: usize = 64;

/// The files of one session.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Paths {
    folder: PathBuf,
    stem: String,
    database: PathBuf,
}

impl Paths {
    /// The files of the session whose database is `database`; the others stand beside it.
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
        }
    }

    pub(crate) fn in_folder(folder: &Path, id: &SessionId) -> Self {
        Self::of(folder.join(format!("{id}.db")))
    }

    /// The conversation.
    pub fn database(&self) -> &Path {
        &self.database
    }

    /// The mail that waits for the session, made by the first who sends some.
    pub fn queue(&self) -> PathBuf {
        self.beside(".queue.db")
    }

    /// The file whose lock says that a process holds the session.
    pub fn lock(&self) -> PathBuf {
        self.beside(".lock")
    }

    /// The folder of outputs that are too big for the database.
    pub fn outputs(&self) -> PathBuf {
        self.beside(".out")
    }

    /// The session's id, if the database is named by one.
    pub fn id(&self) -> Option<SessionId> {
        id::is_ulid(&self.stem).then(|| SessionId::from(self.stem.as_str()))
    }

    /// The folder that all of them are in.
    pub(crate) fn folder(&self) -> &Path {
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

/// A file like `database` with `ending` behind its whole name.
pub(crate) fn with_ending(database: &Path, ending: &str) -> PathBuf {
    let mut name = database.as_os_str().to_owned();
    name.push(ending);
    PathBuf::from(name)
}

/// Makes `folder` for its owner alone, where it is missing; tells whether it did.
pub(crate) fn create_folder(folder: &Path) -> io::Result<bool> {
    if folder.is_dir() {
        return Ok(false);
    }
    DirBuilder::new()
        .recursive(true)
        .mode(FOLDER_MODE)
        .create(folder)?;
    Ok(true)
}

/// Keeps the sessions' folder out of the project's repository, unless the project has said something itself.
pub(crate) fn write_gitignore(folder: &Path) -> io::Result<()> {
    match new_file(&folder.join(".gitignore")) {
        Ok(mut file) => file.write_all(IGNORED.as_bytes()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error),
    }
}

/// Makes the file `path`, which must not exist, for its owner alone.
pub(crate) fn new_file(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create_new(true)
        .mode(FILE_MODE)
        .open(path)
}

/// Opens the file `path` for writing and makes it, for its owner alone, where it is missing.
pub(crate) fn open_or_create(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(FILE_MODE)
        .open(path)
}

/// Makes a file that another part of the program has written its owner's alone.
pub(crate) fn restrict(path: &Path) -> io::Result<()> {
    fs::set_permissions(path, fs::Permissions::from_mode(FILE_MODE))
}

/// Makes the names in `folder` durable.
pub(crate) fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

/// A file name for the output of `call`, the `attempt`th one of that id. Ids come from the model: one that is not
/// plain is written as far as it is, with a hash behind it.
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

/// `bytes` in lower-case hexadecimal.
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
    fn an_output_stays_in_its_folder_whatever_its_call_is_called() {
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
