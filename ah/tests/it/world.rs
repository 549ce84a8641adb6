//! A folder of a project and one of a user, for queries that neither see this machine's nor leave anything there.

use std::fs;
use std::path::PathBuf;

use rusqlite::Connection;
use tempfile::TempDir;

/// The two folders, removed in the end.
pub struct World {
    root: TempDir,
}

impl World {
    pub fn new() -> Self {
        let root = TempDir::with_prefix("ah-library-").unwrap();
        for folder in ["project", "home"] {
            fs::create_dir(root.path().join(folder)).unwrap();
        }
        Self { root }
    }

    /// The working directory of the queries.
    pub fn project(&self) -> PathBuf {
        self.root.path().join("project")
    }

    /// The home directory of the queries.
    pub fn home(&self) -> PathBuf {
        self.root.path().join("home")
    }

    /// The path of a project file.
    pub fn file(&self, name: &str) -> PathBuf {
        self.project().join(name)
    }

    /// The content of a project file; empty if it does not exist.
    pub fn text(&self, name: &str) -> String {
        fs::read_to_string(self.file(name)).unwrap_or_default()
    }

    /// The texts of one role in the only session, oldest first. Its database has to be sound.
    pub fn texts(&self, role: &str) -> Vec<String> {
        let entries = fs::read_dir(self.file(".ah")).unwrap().flatten();
        let mut paths: Vec<_> = entries.map(|entry| entry.path()).collect();
        paths.retain(|path| {
            let name = path.to_string_lossy();
            name.ends_with(".db") && !name.ends_with(".queue.db")
        });
        assert_eq!(paths.len(), 1, "{paths:?}");
        let connection = Connection::open(&paths[0]).unwrap();
        let verdict: String = connection
            .query_row("PRAGMA integrity_check", [], |row| row.get(0))
            .unwrap();
        assert_eq!(verdict, "ok");
        let sql = "SELECT content FROM content_blocks JOIN messages ON messages.id = message_id
                   WHERE role = ? AND block_type = 'text' ORDER BY content_blocks.id";
        let mut statement = connection.prepare(sql).unwrap();
        let texts = statement.query_map([role], |row| row.get(0)).unwrap();
        texts.map(Result::unwrap).collect()
    }
}
