//! Files that somebody else has made: opening them does nothing but read them.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use ah_conversation::{Record, Store as _};
use ah_store::{Paths, Queue, SessionStore, Tree};

use crate::fixture::{PAGE, Speaker, World, open_quietly};

/// Whoever follows parents comes to an end, and numbers add up.
#[tokio::test]
async fn a_message_is_below_none_of_its_own() {
    for (change, roots) in [
        ("UPDATE messages SET seq = seq", 1),
        ("UPDATE messages SET parent_id = id", 4),
        (
            "UPDATE messages SET parent_id = (SELECT id FROM messages WHERE seq = 3) WHERE seq = 0",
            1,
        ),
        ("UPDATE messages SET seq = 7", 4),
        (
            "UPDATE messages SET input_tokens = 9223372036854775807, cache_creation_1h_input_tokens = 9223372036854775807,
             cache_read_input_tokens = 9223372036854775807, output_tokens = 9223372036854775807",
            1,
        ),
    ] {
        let world = World::new();
        let paths = world.fresh();
        let session = open_quietly(&paths).await;
        let mut speaker = Speaker::default();
        for _ in 0..2 {
            let said = [speaker.prompt("p"), speaker.answer("a")];
            let said = said.map(Record::Message);
            session.append(said.into()).await.unwrap();
        }
        drop(session);
        let connection = rusqlite::Connection::open(paths.database()).unwrap();
        connection.execute_batch(change).unwrap();
        drop(connection);
        let tree = Tree::open(&paths).unwrap();
        let heads = tree.heads().unwrap();
        let parent = |id| {
            let mut named = heads.iter().filter(|head| head.message.id == id);
            named.next().and_then(|head| head.message.parent.clone())
        };
        let is_root = |head: &&ah_conversation::Head| head.message.parent.is_none();
        assert_eq!(heads.iter().filter(is_root).count(), roots, "{change}");
        for head in &heads {
            let way = std::iter::successors(Some(head.message.id.clone()), |id| parent(id.clone()));
            assert!(way.take(9).count() <= 4, "{change}");
        }
        tree.leaves().unwrap();
        let sum = heads.iter().filter_map(|head| head.message.response.as_ref());
        let sum: u64 = sum.map(|response| response.usage.total()).sum();
        assert!(sum < 1 << 50, "{change}");
        let listed = world.sessions().list().unwrap();
        assert_eq!(listed.len(), 1);
        assert_eq!(listed[0].problem, None, "{change}");
        assert!(listed[0].tokens < 1 << 50, "{change}");
    }
}

/// A block with the largest number leaves none for those behind it.
#[tokio::test]
async fn what_leaves_no_room_for_more_blocks_is_said() {
    let world = World::new();
    let paths = world.fresh();
    let session = open_quietly(&paths).await;
    let mut speaker = Speaker::default();
    let said = speaker.prompt("p");
    session.append(vec![Record::Message(said)]).await.unwrap();
    drop(session);
    let connection = rusqlite::Connection::open(paths.database()).unwrap();
    let change = "UPDATE content_blocks SET id = 9223372036854775807;
                  UPDATE messages SET first_block = 9223372036854775807, last_block = 9223372036854775807";
    connection.execute_batch(change).unwrap();
    drop(connection);
    let session = open_quietly(&paths).await;
    assert_eq!(session.load().await.unwrap().messages().len(), 1);
    let more = Record::Message(speaker.answer("a"));
    let error = session.append(vec![more]).await.unwrap_err().to_string();
    assert!(
        error.contains("has the number 9223372036854775807"),
        "{error}"
    );
}

/// A database that came from somebody else is not queried if its schema does something by itself.
#[test]
fn a_database_with_views_or_triggers_is_refused_by_all_who_open_it() {
    let endless = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT x FROM n";
    for (kind, made) in [
        (None, "CREATE TABLE more (x)".to_owned()),
        (None, "CREATE INDEX more ON messages (model)".to_owned()),
        (Some("view"), format!("CREATE VIEW more AS {endless}")),
        (
            Some("view"),
            format!("ALTER TABLE messages RENAME TO real; CREATE VIEW messages AS {endless}"),
        ),
        (
            Some("trigger"),
            "CREATE TRIGGER more AFTER INSERT ON messages BEGIN DELETE FROM messages; END"
                .to_owned(),
        ),
        (
            Some("table with a computed column"),
            "ALTER TABLE messages ADD COLUMN more AS (hex(zeroblob(400000000)))".to_owned(),
        ),
        (
            Some("table with a computed column"),
            "CREATE TABLE more (x, y GENERATED ALWAYS AS (hex(zeroblob(9))) STORED)".to_owned(),
        ),
        (
            Some("table with a computed default"),
            "CREATE TABLE more (x DEFAULT (hex(zeroblob(400000000))))".to_owned(),
        ),
        (
            Some("table with a check"),
            "CREATE TABLE more (x, Check(length(hex(zeroblob(400000000))) > x))".to_owned(),
        ),
        (
            Some("table with a check"),
            "PRAGMA writable_schema = ON; UPDATE sqlite_schema SET sql = replace(sql, 'NOT NULL,', 'NOT NULL CHECK (1),')
             WHERE name = 'messages'"
                .to_owned(),
        ),
        (
            Some("index on an expression"),
            "CREATE INDEX more ON messages (hex(model))".to_owned(),
        ),
        (
            Some("index on an expression"),
            "CREATE INDEX more ON messages (model || role, id)".to_owned(),
        ),
        (
            Some("index with a condition"),
            "CREATE INDEX more ON messages (model) WHERE length(hex(model)) > 3".to_owned(),
        ),
        (
            None,
            "CREATE TABLE more (x DEFAULT 'it''s', y DEFAULT -1.5e3, z DEFAULT CURRENT_TIME, UNIQUE (x, y))"
                .to_owned(),
        ),
        (
            Some("virtual table"),
            "CREATE VIRTUAL TABLE more USING fts5(x)".to_owned(),
        ),
        (
            Some("virtual table"),
            forged("table", "more", "CREATE VIRTUAL TABLE more USING rtree(a, b, c)"),
        ),
        (
            Some("virtual table"),
            forged("table", "more", "CREATE/**/VIRTUAL TABLE more USING rtree(a, b, c)"),
        ),
        (
            Some("unknown kind of entry"),
            forged("index", "more", "CREATE/**/INDEX more ON messages (model)"),
        ),
    ] {
        let world = World::new();
        let paths = world.fresh();
        drop(SessionStore::open(&paths).unwrap());
        rusqlite::Connection::open(paths.database())
            .and_then(|database| database.execute_batch(&made))
            .unwrap();
        let opened = SessionStore::open(&paths)
            .map(drop)
            .map_err(|error| error.to_string());
        let read = Tree::open(&paths).and_then(|tree| tree.heads().map(drop));
        let problem = world.sessions().list().unwrap().pop().unwrap().problem;
        let Some(kind) = kind else {
            assert!(
                opened.is_ok() && read.is_ok() && problem.is_none(),
                "{made}"
            );
            continue;
        };
        let told = format!("it has the {kind} ");
        let name = paths.database().file_name().unwrap().to_str().unwrap();
        for error in [opened.unwrap_err(), read.unwrap_err().to_string()] {
            assert!(
                error.contains(&told) && error.contains(name),
                "{made}: {error}"
            );
        }
        assert!(problem.is_some(), "{made}");
    }
}

/// Returns statements that write an entry of the schema which SQLite would not have written so, with the page of a table.
fn forged(kind: &str, name: &str, sql: &str) -> String {
    let around = if kind == "index" { "messages" } else { name };
    format!(
        "CREATE TABLE spare (x); PRAGMA writable_schema = ON; \
         UPDATE sqlite_schema SET type = '{kind}', name = '{name}', tbl_name = '{around}', sql = '{sql}' WHERE name = 'spare'; \
         PRAGMA writable_schema = RESET;"
    )
}

/// Puts a rollback journal beside a database that names `other` as the journal of several databases.
fn put_journal(database: &Path, other: &Path) {
    let magic = [0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7];
    let name = other.as_os_str().as_encoded_bytes();
    let page = u32::try_from(PAGE).unwrap();
    let pages = u32::try_from(fs::metadata(database).unwrap().len()).unwrap() / page;
    let sum: u32 = name.iter().map(|byte| u32::from(*byte)).sum();
    let mut journal = magic.to_vec();
    for number in [0, 1, pages, 512, page] {
        journal.extend(number.to_be_bytes());
    }
    journal.resize(512, 0);
    journal.extend((0x4000_0000_u32 / page + 1).to_be_bytes());
    journal.extend(name);
    journal.extend(u32::try_from(name.len()).unwrap().to_be_bytes());
    journal.extend(sum.to_be_bytes());
    journal.extend(magic);
    let mut path = database.as_os_str().to_owned();
    path.push("-journal");
    fs::write(path, journal).unwrap();
}

/// SQLite takes a journal for the last transaction of several databases, and deletes the file that it names.
#[test]
fn a_journal_beside_a_database_deletes_no_other_file() {
    let world = World::new();
    let paths = world.fresh();
    drop(SessionStore::open(&paths).unwrap());
    drop(Queue::open(&paths).unwrap());
    let victim = world.root().canonicalize().unwrap().join("victim");
    let lay = |database: &Path| {
        fs::write(&victim, "the user's").unwrap();
        put_journal(database, &victim);
    };
    lay(paths.database());
    let elsewhere = Paths::of(world.root().join("linked.db"));
    symlink(paths.database(), elsewhere.database()).unwrap();
    for paths in [&paths, &elsewhere] {
        let opened = SessionStore::open(paths).map(drop);
        let told = opened.unwrap_err().to_string();
        assert!(told.contains("names another file"), "{told}");
        assert!(Tree::open(paths).is_err());
        assert!(world.sessions().copy(paths).is_err());
    }
    for session in world.sessions().list().unwrap() {
        assert!(session.problem.is_some());
    }
    world.sessions().shrink_undo(0).unwrap();
    assert!(victim.exists());
    lay(&paths.queue());
    assert!(Queue::open(&paths).is_err());
    assert!(victim.exists());
    // A journal that is put there after the look says nothing either: SQLite knows no such file.
    lay(paths.database());
    let plain = rusqlite::Connection::open(paths.database()).unwrap();
    let count = |plain: &rusqlite::Connection| {
        plain.query_row("SELECT count(*) FROM messages", [], |row| {
            row.get::<_, i64>(0)
        })
    };
    assert!(count(&plain).is_err());
    assert!(victim.exists());
    drop(plain);
    // What else a journal says is done.
    let mut journal = paths.database().as_os_str().to_owned();
    journal.push("-journal");
    lay(paths.database());
    let text = fs::read(&journal).unwrap();
    fs::write(&journal, &text[..512]).unwrap();
    assert!(SessionStore::open(&paths).is_ok());
    assert!(!Path::new(&journal).exists());
}

/// A link that came with a project makes no other database a session: it is neither read nor written, nor does a file come beside it.
#[test]
fn a_database_behind_a_link_in_a_project_is_left_alone() {
    let world = World::new();
    let real = Paths::of(world.root().join("elsewhere/own.db"));
    fs::create_dir(world.root().join("elsewhere")).unwrap();
    drop(SessionStore::open(&real).unwrap());
    let names = || {
        let entries = fs::read_dir(world.root().join("elsewhere")).unwrap();
        let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    };
    let (before, content) = (names(), fs::read(real.database()).unwrap());
    fs::write(world.root().join("elsewhere/text"), "of the user").unwrap();
    let before = [before, vec!["text".into()]].concat();
    for target in ["own.db", "text", "missing"] {
        let paths = world.fresh();
        drop(SessionStore::open(&paths).unwrap());
        fs::remove_file(paths.database()).unwrap();
        symlink(
            world.root().join("elsewhere").join(target),
            paths.database(),
        )
        .unwrap();
        let opened = SessionStore::open(&paths).map(drop);
        let told = opened.unwrap_err().to_string();
        assert!(told.contains("is a symbolic link"), "{target}: {told}");
        assert!(Tree::open(&paths).is_err(), "{target}");
        assert!(world.sessions().copy(&paths).is_err(), "{target}");
        let listed = world.sessions().list().unwrap();
        assert!(listed.iter().all(|head| head.problem.is_some()), "{target}");
        world.sessions().shrink_undo(0).unwrap();
        world.sessions().last_written().unwrap();
        assert_eq!(names(), before, "{target}");
        fs::remove_file(paths.database()).unwrap();
    }
    assert_eq!(fs::read(real.database()).unwrap(), content);
    // One that the user has named is followed.
    let named = Paths::of(world.root().join("named.db"));
    symlink(real.database(), named.database()).unwrap();
    drop(SessionStore::open(&named).unwrap());
}
