//! The tables and their migrations.
//!
//! Tables and columns of the original program keep its names and meanings. `created_at` and similar columns are Unix
//! seconds; `input_tokens` of an assistant message counts all input, cached or not. Added here:
//!
//! - `messages`: `origin` (a word, or JSON if there is more to it), `cost` (in pico-dollars; NULL if unknown),
//!   `request_id` (the server's id of the request; NULL if none), `opaque` (what the server gave with the answer for
//!   itself, as JSON; NULL if nothing), `agent_id` and `spawned_by` (of a subagent's messages, whose root is a child of the
//!   message with the call), `provider`, `created_ms` (the milliseconds within the second), and the parts of
//!   `input_tokens` written to and read from the cache, which give the uncached rest and the exact price. `first_block` and
//!   `last_block` are the rows of its blocks, which follow one another: an index of them would cost each turn a tenth of its writes.
//! - `content_blocks`: the types `thinking`, `redacted_thinking`, `image`, `other`. `tool_output` is NULL if
//!   `details.spool` names a file; it is the last column, so that the other columns are read without loading it. For a
//!   tool result, `content` is what the model saw, NULL if it saw the full output.
//!   `details.output_in` names the one of the tool's details that is null because it is the text in `tool_output`.
//! - `tool_calls`: the journal of calls. A finished call keeps its result here until the message of results is stored.
//! - `file_steps`, `file_states`: states of files before they were changed by a run (`message_id` is its prompt) or by
//!   a rewind to the state before the step `target`. Each content is stored once, in the first row with its SHA-256; it
//!   is the last column, so that a search does not load contents.
//! - `file_seals`: for each state of a file, and with an empty path for a rewind in progress, the code by which this user's `ah`
//!   knows that it has recorded it.
//! - `file_notes`: of a step, when it had changed a path (`path`, `until_ms`), or a call whose changes were not seen
//!   (`unseen`).
//! - `prefixes`: system prompt and tools as the requests of a branch begin with them, from the request that ends with
//!   `message_id` on. Each content is stored once, in the first row with its SHA-256. Rows are never changed or removed.
//! - `lease`: the process that writes, and its epoch.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use rusqlite::Connection;
use rusqlite_migration::{M, Migrations};

use super::{Failure, settled};
use crate::paths::{new_file, remove_if_exists, with_ending};

/// The origin of a row of `messages` where it has no column: in the details of its first block, if it does not follow from
/// role and content.
macro_rules! former_origin {
    () => {
        "coalesce(
            (SELECT CASE
                 WHEN json_valid(details) AND details ->> 'origin' = 'summary'
                     THEN json_object('summary', json_object('kept_from', details ->> 'kept_from'))
                 WHEN json_valid(details) AND details ->> 'origin' NOT NULL THEN details ->> 'origin'
                 WHEN block_type = 'tool_result' THEN 'results' END
             FROM content_blocks WHERE message_id = messages.id AND seq = 0),
            iif(role = 'assistant', 'model', 'prompt'))"
    };
}

macro_rules! find_origins {
    () => {
        concat!(
            "UPDATE messages SET origin = ",
            former_origin!(),
            " WHERE origin IS NULL;"
        )
    };
}

/// Writes the column `origin` of messages of older versions.
pub(super) const FIND_ORIGINS: &str = find_origins!();

macro_rules! find_blocks {
    () => {
        "UPDATE messages SET first_block = first, last_block = last
         FROM (SELECT message_id, min(id) AS first, max(id) AS last FROM content_blocks GROUP BY message_id)
         WHERE message_id = messages.id;"
    };
}

/// Writes the columns `first_block` and `last_block` of all messages.
pub(super) const FIND_BLOCKS: &str = find_blocks!();

/// Migrations to the current schema of a conversation; `user_version` is the number of those applied.
pub(super) const CONVERSATION: Schema = Schema {
    image: Some(include_bytes!("conversation.db")),
    page: SMALL_PAGE,
    steps: &[
    "
CREATE TABLE messages (
    id TEXT PRIMARY KEY NOT NULL,
    parent_id TEXT REFERENCES messages (id),
    role TEXT NOT NULL,
    seq INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    input_tokens INTEGER,
    output_tokens INTEGER,
    stop_reason TEXT,
    model TEXT,
    api_latency_ms INTEGER,
    agent_id TEXT,
    spawned_by TEXT,
    provider TEXT,
    created_ms INTEGER NOT NULL DEFAULT 0,
    cache_creation_input_tokens INTEGER,
    cache_read_input_tokens INTEGER,
    cache_creation_1h_input_tokens INTEGER
);
CREATE INDEX messages_parent ON messages (parent_id);
CREATE TABLE content_blocks (
    id INTEGER PRIMARY KEY,
    message_id TEXT NOT NULL REFERENCES messages (id) ON DELETE CASCADE,
    block_type TEXT NOT NULL,
    seq INTEGER NOT NULL,
    tool_id TEXT,
    tool_name TEXT,
    is_error INTEGER NOT NULL DEFAULT 0,
    duration_ms INTEGER,
    details TEXT,
    tool_input TEXT,
    content TEXT,
    tool_output
);
CREATE INDEX content_blocks_message ON content_blocks (message_id);
CREATE TABLE tool_calls (
    tool_use_id TEXT PRIMARY KEY NOT NULL,
    message_id TEXT NOT NULL REFERENCES messages (id) ON DELETE CASCADE,
    tool_name TEXT,
    access TEXT NOT NULL DEFAULT '',
    started_at INTEGER,
    finished_at INTEGER,
    is_error INTEGER,
    duration_ms INTEGER,
    details TEXT,
    content TEXT,
    tool_output
);
CREATE INDEX tool_calls_message ON tool_calls (message_id);
CREATE TABLE events (
    id INTEGER PRIMARY KEY,
    message_id TEXT REFERENCES messages (id) ON DELETE SET NULL,
    event_type TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    details TEXT
);
CREATE INDEX events_message ON events (message_id);
CREATE INDEX events_type ON events (event_type);
CREATE TABLE context (key TEXT PRIMARY KEY NOT NULL, value TEXT) WITHOUT ROWID;
CREATE TABLE lease (
    key TEXT PRIMARY KEY NOT NULL,
    epoch INTEGER NOT NULL,
    owner TEXT,
    heartbeat_at INTEGER
) WITHOUT ROWID;
",
    "
ALTER TABLE messages ADD COLUMN cost INTEGER;
",
    "
CREATE TABLE file_steps (id INTEGER PRIMARY KEY, message_id TEXT, target INTEGER, at_ms INTEGER NOT NULL);
CREATE TABLE file_states (
    step INTEGER NOT NULL,
    path BLOB NOT NULL,
    kind TEXT NOT NULL,
    mode INTEGER,
    folders INTEGER,
    hash TEXT,
    content BLOB
);
",
    "
CREATE TABLE prefixes (id INTEGER PRIMARY KEY, message_id TEXT NOT NULL, hash TEXT NOT NULL, content TEXT);
",
    "
ALTER TABLE messages ADD COLUMN request_id TEXT;
",
    "
CREATE TABLE file_notes (step INTEGER NOT NULL, path BLOB, until_ms INTEGER, unseen TEXT);
CREATE UNIQUE INDEX file_notes_path ON file_notes (step, path) WHERE path NOT NULL;
CREATE INDEX file_states_path ON file_states (step, path);
CREATE INDEX file_states_hash ON file_states (hash) WHERE content NOT NULL;
",
    concat!(
        // Nothing looks events up by their type, and each turn wrote a page of it more.
        "DROP INDEX IF EXISTS events_type; ALTER TABLE messages ADD COLUMN origin TEXT; ",
        find_origins!()
    ),
    "
ALTER TABLE messages ADD COLUMN opaque TEXT;
",
    "
CREATE TABLE file_seals (step INTEGER NOT NULL, path BLOB NOT NULL, seal BLOB NOT NULL, PRIMARY KEY (step, path)) WITHOUT ROWID;
",
    // Each turn wrote a page of each, and what looked there finds it by other ways; a deletion makes its own.
    "
DROP INDEX IF EXISTS messages_parent;
DROP INDEX IF EXISTS tool_calls_message;
DROP INDEX IF EXISTS events_message;
",
    concat!(
        "ALTER TABLE messages ADD COLUMN first_block INTEGER; ALTER TABLE messages ADD COLUMN last_block INTEGER; ",
        find_blocks!(),
        " DROP INDEX IF EXISTS content_blocks_message;"
    ),
]};

/// Returns the temporary views and tables that make an older conversation readable without migrating it.
fn to_read(version: i64) -> String {
    let absent = match version {
        1 => "NULL AS cost, NULL AS request_id, ",
        2..=4 => "NULL AS request_id, ",
        _ => "",
    };
    let origin = match version {
        ..=6 => concat!(former_origin!(), " AS origin, "),
        _ => "",
    };
    let opaque = match version {
        ..=7 => "NULL AS opaque, ",
        _ => "",
    };
    let mut sql = format!(
        "CREATE TEMP VIEW messages AS SELECT rowid, *, {absent}{origin}{opaque}
             (SELECT min(id) FROM content_blocks WHERE message_id = messages.id) AS first_block,
             (SELECT max(id) FROM content_blocks WHERE message_id = messages.id) AS last_block
         FROM main.messages;"
    );
    if (2..=5).contains(&version) {
        sql += "CREATE TEMP TABLE file_notes (step INTEGER NOT NULL, path BLOB, until_ms INTEGER, unseen TEXT);";
    }
    sql
}

/// Migrations to the current schema of a folder's queue of runs.
pub(super) const RUNS: Schema = Schema {
    image: None,
    page: PAGE,
    steps: &[
        "
CREATE TABLE runs (
    id INTEGER PRIMARY KEY,
    session TEXT NOT NULL,
    folder TEXT NOT NULL,
    model TEXT,
    priority INTEGER NOT NULL,
    state TEXT NOT NULL DEFAULT 'queued',
    due_at INTEGER NOT NULL,
    attempt INTEGER NOT NULL DEFAULT 0,
    attempts INTEGER NOT NULL,
    owner TEXT,
    beat_at INTEGER,
    wish TEXT,
    error TEXT,
    queued_at INTEGER NOT NULL,
    ended_at INTEGER
);
CREATE INDEX runs_open ON runs (priority DESC, due_at, id) WHERE state IN ('queued', 'running');
CREATE INDEX runs_of_session ON runs (session);
",
        "
ALTER TABLE runs ADD COLUMN answer_within REAL;
CREATE TABLE questions (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    session TEXT NOT NULL,
    digest TEXT NOT NULL,
    body TEXT NOT NULL,
    asker TEXT NOT NULL,
    answer TEXT,
    is_taken INTEGER NOT NULL DEFAULT 0,
    UNIQUE (session, digest)
);
CREATE TABLE limits (
    model TEXT PRIMARY KEY NOT NULL,
    per_minute REAL,
    next_at REAL NOT NULL DEFAULT 0,
    budget INTEGER
);
CREATE TABLE schedules (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    cron TEXT NOT NULL,
    next_at INTEGER NOT NULL,
    prompt TEXT NOT NULL,
    folder TEXT NOT NULL,
    model TEXT,
    priority INTEGER NOT NULL,
    attempts INTEGER NOT NULL,
    answer_within REAL
);
",
        "
ALTER TABLE runs ADD COLUMN title TEXT NOT NULL DEFAULT '';
ALTER TABLE runs ADD COLUMN command TEXT;
ALTER TABLE schedules ADD COLUMN title TEXT NOT NULL DEFAULT '';
ALTER TABLE schedules ADD COLUMN command TEXT;
",
        "
ALTER TABLE limits ADD COLUMN admitted_at REAL NOT NULL DEFAULT 0;
",
        "
DROP INDEX runs_open;
CREATE INDEX runs_open ON runs (priority DESC, id) WHERE state IN ('queued', 'running');
",
    ],
};

/// Migrations to the current schema of a queue.
pub(super) const QUEUE: Schema = Schema {
    image: None,
    page: PAGE,
    steps: &[
        "
CREATE TABLE queue_messages (
    id TEXT PRIMARY KEY NOT NULL,
    message_type TEXT NOT NULL,
    content TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    consumed_at INTEGER
);
CREATE INDEX queue_messages_waiting ON queue_messages (message_type) WHERE consumed_at IS NULL;
CREATE TABLE session_lock (
    key TEXT PRIMARY KEY NOT NULL CHECK (key = 'lock'),
    owner_pid INTEGER NOT NULL,
    started_at INTEGER NOT NULL,
    heartbeat_at INTEGER NOT NULL
);
",
        "
ALTER TABLE queue_messages ADD COLUMN seal BLOB;
",
    ],
};

/// Bytes of a page of a conversation: a turn changes a few rows in each of a dozen pages, and writes these whole.
const SMALL_PAGE: u16 = 512;
/// Bytes of the pages of conversations, of earlier versions, too.
pub(super) const PAGES: [u16; 3] = [SMALL_PAGE, 1024, PAGE];
/// Bytes of a page of the other databases, of conversations of earlier versions, and of what a disk loses at once.
pub(super) const PAGE: u16 = 4096;
/// Position of the journal mode in the header of a database file, and its value for the write-ahead log.
const JOURNAL_OFFSET: u64 = 18;
const WRITE_AHEAD: [u8; 2] = [2, 2];

/// One kind of database.
pub(super) struct Schema {
    /// The file of an empty one, if many are made: to make the tables takes a quarter of a start. The test below writes it.
    image: Option<&'static [u8]>,
    /// Bytes of a page of a new one.
    page: u16,
    /// Migrations, oldest first.
    steps: &'static [&'static str],
}

impl Schema {
    /// Returns the migrations, oldest first.
    pub(super) fn steps(&self) -> &'static [&'static str] {
        self.steps
    }

    /// Returns the `user_version` of an up-to-date database: the number of migrations.
    pub(super) fn version(&self) -> i64 {
        i64::try_from(self.steps.len()).unwrap_or(i64::MAX)
    }

    /// Migrates the database to the current schema, in one transaction. The database of a newer version is refused and
    /// left unchanged.
    pub(super) fn migrate(&self, connection: &mut Connection) -> Result<(), Failure> {
        let found = self.readable_version(connection)?;
        if found == self.version() {
            return Ok(());
        }
        self.apply_steps(connection)
    }

    /// Applies those migrations that the database lacks, in one transaction.
    fn apply_steps(&self, connection: &mut Connection) -> Result<(), Failure> {
        let steps = self.steps.iter().map(|step| M::up(step)).collect();
        Migrations::new(steps)
            .to_latest(connection)
            .map_err(|error| match error {
                rusqlite_migration::Error::RusqliteError { err, .. } => Failure::Sqlite(err),
                other => Failure::Refused {
                    reason: other.to_string(),
                    hint: None,
                },
            })
    }

    /// Returns the schema version of a database; fails if this program cannot read it. Older versions are readable.
    pub(super) fn readable_version(&self, connection: &Connection) -> Result<i64, Failure> {
        let found = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
        if found > self.version() || found < 0 {
            return Err(Failure::Refused {
                reason: format!(
                    "it was written by a newer version of ah (schema {found}; this version supports up to {})",
                    self.version()
                ),
                hint: Some("use the newer `ah`, or start a new session".to_owned()),
            });
        }
        if found == 0 && !is_empty(connection)? {
            return Err(foreign_or_damaged(connection)?);
        }
        Ok(found)
    }

    /// Makes an older database readable as one of the current schema, without writing to it.
    pub(super) fn prepare_to_read(&self, connection: &Connection) -> Result<(), Failure> {
        let version = self.readable_version(connection)?;
        if !(1..self.version()).contains(&version) {
            return Ok(());
        }
        // `query_only` also forbids temporary views, though they are not in the file.
        connection.pragma_update(None, "query_only", false)?;
        connection.execute_batch(&to_read(version))?;
        Ok(connection.pragma_update(None, "query_only", true)?)
    }

    /// Fails unless all tables are readable.
    pub(super) fn try_tables(&self, connection: &Connection) -> Result<(), Failure> {
        for table in self.tables() {
            connection.prepare(&format!("SELECT * FROM {table} LIMIT 1"))?;
        }
        Ok(())
    }

    /// Returns the names of all tables.
    fn tables(&self) -> impl Iterator<Item = &'static str> {
        let made = |step: &&'static str| step.split("CREATE TABLE ").skip(1);
        let made = self.steps.iter().flat_map(made);
        made.filter_map(|rest| rest.split_whitespace().next())
    }

    /// Returns the same kind, which makes its tables itself, with pages of this size.
    pub(super) fn by_steps(&self, page: u16) -> Self {
        Self {
            image: None,
            page,
            ..*self
        }
    }

    /// Returns the bytes of a page of a new one.
    pub(super) fn page(&self) -> u16 {
        self.page
    }

    /// Creates an empty database at `path`, replacing an existing file atomically. It is not durable until the file and
    /// its folder are synced.
    pub(super) fn create_empty(&self, path: &Path) -> Result<(), Failure> {
        let Some(image) = self.image else {
            return self.create(path, |_| Ok(()));
        };
        let draft = with_ending(path, ".new");
        remove_if_exists(&draft)?;
        new_file(&draft)?.write_all_at(image, 0)?;
        fs::rename(&draft, path)?;
        Ok(())
    }

    /// The same, filled by `fill`.
    pub(super) fn create(
        &self,
        path: &Path,
        fill: impl FnOnce(&Connection) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let draft = with_ending(path, ".new");
        self.write_draft(&draft, fill)?;
        fs::rename(&draft, path)?;
        Ok(())
    }

    /// Creates a database at `path` unless another process is faster. The file is synced, its folder is not.
    pub(super) fn create_unless_exists(&self, path: &Path) -> Result<(), Failure> {
        let draft = with_ending(path, &format!(".{}.new", ah_ids::fresh_session_id(None)));
        self.write_draft(&draft, |_| Ok(()))?;
        File::open(&draft)?.sync_all()?;
        // Unlike a rename, a link never replaces an existing file.
        let linked = fs::hard_link(&draft, path);
        fs::remove_file(&draft)?;
        match linked {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error.into()),
            _ => Ok(()),
        }
    }

    fn write_draft(
        &self,
        draft: &Path,
        fill: impl FnOnce(&Connection) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        remove_if_exists(draft)?;
        let file = new_file(draft)?;
        let mut connection = settled(Connection::open(std::path::absolute(draft)?)?)?;
        // No other process uses the draft, so it needs neither a journal nor syncs.
        connection.execute_batch("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF;")?;
        connection.pragma_update(None, "page_size", self.page)?;
        // What a disk loses at once with the first page are pages that will have rows, and not the roots of the tables.
        let rest = PAGE.saturating_sub(self.page);
        if rest > 0 {
            connection.execute_batch("CREATE TABLE spare (content)")?;
            connection.execute("INSERT INTO spare VALUES (zeroblob(?))", [rest])?;
        }
        self.apply_steps(&mut connection)?;
        connection.execute_batch("DROP TABLE IF EXISTS spare")?;
        fill(&connection)?;
        connection.close().map_err(|(_, error)| error)?;
        file.write_all_at(&WRITE_AHEAD, JOURNAL_OFFSET)?;
        Ok(())
    }
}

fn is_empty(connection: &Connection) -> Result<bool, Failure> {
    let tables: i64 =
        connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    Ok(tables == 0)
}

/// Returns why a database with tables but without a version cannot be used.
fn foreign_or_damaged(connection: &Connection) -> Result<Failure, Failure> {
    let is_ours = connection.prepare("SELECT epoch FROM lease").is_ok();
    Ok(if is_ours {
        Failure::Damaged("the schema version is missing".to_owned())
    } else {
        Failure::Refused {
            reason: "it is the database of another program".to_owned(),
            hint: None,
        }
    })
}

#[cfg(test)]
mod tests {
    use rusqlite::OpenFlags;

    use super::*;

    /// Returns what there is in a database file, apart from what depends on the version of SQLite.
    fn content(path: &Path) -> Vec<String> {
        let connection =
            Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
        let lines = |statement| {
            let mut statement = connection.prepare(statement).unwrap();
            let lines = statement.query_map([], |row| row.get(0)).unwrap();
            lines.collect::<Result<Vec<String>, _>>().unwrap()
        };
        let tables = "SELECT concat_ws(' ', type, name, sql) FROM sqlite_schema ORDER BY rowid";
        let version = "SELECT 'version ' || user_version FROM pragma_user_version";
        let sound = "SELECT integrity_check FROM pragma_integrity_check";
        let mut content = [tables, version, sound].map(lines).concat();
        let header = fs::read(path).unwrap();
        content.push(format!("page size and journal {:?}", &header[16..20]));
        content
    }

    /// With `AH_WRITE_DOCS=1` the image is written anew.
    #[test]
    fn the_image_is_what_the_migrations_make() {
        let folder = tempfile::tempdir().unwrap();
        let [made, copied] = ["made", "copied"].map(|name| folder.path().join(name));
        CONVERSATION
            .by_steps(SMALL_PAGE)
            .create_empty(&made)
            .unwrap();
        let image = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/sqlite/conversation.db");
        if std::env::var("AH_WRITE_DOCS").as_deref() == Ok("1") {
            fs::copy(&made, &image).unwrap();
        }
        fs::copy(&image, &copied).unwrap();
        let found = content(&copied);
        assert_eq!(found, content(&made));
        for line in [
            format!("version {}", CONVERSATION.version()),
            "ok".to_owned(),
        ] {
            assert!(found.contains(&line), "{line}");
        }
    }
}
