//! What SQLite does with journals that others have put beside a database.

use std::fs;
use std::path::Path;
use std::sync::Barrier;
use std::thread;

use rusqlite::{Connection, OpenFlags};

/// The end of a journal that names a super-journal.
const MAGIC: [u8; 8] = [0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7];

fn database(path: &Path) -> Connection {
    let connection = Connection::open(path).unwrap();
    let tables = "CREATE TABLE t (x); INSERT INTO t VALUES (1);";
    connection.execute_batch(tables).unwrap();
    connection
}

/// Puts a journal beside a database which says that it belongs to a transaction of several, led by the file `named`.
fn forge(database: &Path, named: &Path) {
    let name = named.to_str().unwrap().as_bytes();
    let length = u32::try_from(name.len()).unwrap();
    let sum: u32 = name.iter().map(|byte| u32::from(*byte)).sum();
    let mut journal = vec![0; 512];
    journal[..8].copy_from_slice(&MAGIC);
    // The page number that no page has, as SQLite writes it before the name.
    journal.extend_from_slice(&((0x4000_0000_u32 / 4096) + 1).to_be_bytes());
    journal.extend_from_slice(name);
    journal.extend_from_slice(&length.to_be_bytes());
    journal.extend_from_slice(&sum.to_be_bytes());
    journal.extend_from_slice(&MAGIC);
    let mut path = database.as_os_str().to_owned();
    path.push("-journal");
    fs::write(path, journal).unwrap();
}

fn read(path: &Path) -> rusqlite::Result<i64> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.query_row("SELECT x FROM t", [], |row| row.get(0))
}

/// In one test, since the guard is for the whole process; no other one here uses SQLite.
#[test]
fn no_journal_has_another_file_deleted() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    for name in ["a.db", "b.db", "c.db"] {
        drop(database(&at(name)));
    }
    let victims = [
        "key",
        "other.db-journal",
        "other.db-wal",
        "x-mj12345679",
        "x-mj123456899",
    ];
    for name in victims {
        fs::write(at(name), "of the user").unwrap();
    }
    // The control: without the guard it is deleted.
    forge(&at("a.db"), &at("key"));
    let _ = read(&at("a.db"));
    assert!(!at("key").exists());
    fs::write(at("key"), "of the user").unwrap();

    // Whoever guards meanwhile, a database that is opened then is opened.
    let start = Barrier::new(8);
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                start.wait();
                ah_sandbox::sqlite::guard();
                assert_eq!(read(&at("c.db")), Ok(1));
            });
        }
    });
    for name in victims {
        forge(&at("b.db"), &at(name));
        assert!(read(&at("b.db")).is_err(), "{name}");
        assert_eq!(
            fs::read_to_string(at(name)).unwrap(),
            "of the user",
            "{name}"
        );
    }
    // What SQLite makes itself is as before: a transaction in two databases, and the end of one that was cut off.
    let both = database(&at("d.db"));
    let attach = format!("ATTACH '{}' AS c", at("c.db").display());
    both.execute_batch(&attach).unwrap();
    let change = "BEGIN; UPDATE main.t SET x = 2; UPDATE c.t SET x = 3; COMMIT;";
    both.execute_batch(change).unwrap();
    assert_eq!([read(&at("d.db")), read(&at("c.db"))], [Ok(2), Ok(3)]);
    let own = at("b.db-mjABCDEF912");
    fs::write(&own, format!("{}\0", at("other.db-journal").display())).unwrap();
    forge(&at("b.db"), &own);
    assert_eq!(read(&at("b.db")), Ok(1));
    assert!(!own.exists());
    assert!(at("other.db-journal").exists());
}
