//! What came with a session and is not as this program makes it: symbolic links in the place of its files, and rows that name
//! files elsewhere.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, symlink};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use ah_conversation::Store as _;
use ah_store::{Paths, Queue, SessionStore};
use rusqlite::Connection;

use crate::fixture::{World, open_quietly};
use crate::sessions::spool;

/// Files of the user that nothing of a session may touch, and their contents.
const VICTIMS: [(&str, &str); 3] = [
    ("home/keys", "precious"),
    ("home/docs/thesis", "precious"),
    ("home/docs/big", "precious"),
];

/// Creates a session with an output in a file, beside the files of a user.
async fn laid() -> (World, Paths) {
    let world = World::new();
    let paths = world.fresh();
    spool(&open_quietly(&paths).await).await;
    for (name, content) in VICTIMS {
        let path = world.root().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
    (world, paths)
}

/// Says which files of the user are not as they were, or have a further name now.
fn harmed(root: &Path) -> Vec<&'static str> {
    let is_harmed = |(name, content): &(&str, &str)| {
        let path = root.join(name);
        let names = fs::metadata(&path).map(|found| found.nlink());
        fs::read_to_string(path).ok().as_deref() != Some(*content) || names.ok() != Some(1)
    };
    let harmed = VICTIMS.iter().filter(|victim| is_harmed(victim));
    let others = fs::read_dir(root.join("home/docs")).unwrap().count();
    assert_eq!(others, 2, "nothing comes to the user's files");
    harmed.map(|(name, _)| *name).collect()
}

/// Does to a session whatever can be done. What fails, fails.
async fn use_all(world: &World, paths: &Paths) {
    let sessions = world.sessions();
    let _ = sessions.list();
    let _ = sessions.shrink_undo(0);
    let _ = sessions.collect(None);
    if let Ok(copy) = sessions.copy(paths) {
        let copied = copy.outputs().join("thesis");
        assert!(!copied.exists(), "what a link leads to is of no session");
    }
    let other = SessionStore::open(&world.fresh()).unwrap();
    let _ = other.become_copy_of(paths).await;
    drop(other);
    if let Ok(session) = SessionStore::open(paths) {
        let _ = session.keep("note", "x".to_owned(), b"layer".into()).await;
        let _ = session.output(&"big".into(), 1, 1).await;
        while let Ok(Some(last)) = session.read(|tree| tree.current()).await {
            if session.delete(last).await.is_err() {
                break;
            }
        }
    }
    let _ = sessions.collect(None);
    let _ = sessions.remove(paths);
}

#[tokio::test]
async fn links_in_the_place_of_a_sessions_files_lead_nowhere() {
    for (name, target) in [
        (".lock", "home/keys"),
        (".lock", "home/new"),
        (".out", "home/docs"),
        (".out", "home/new"),
        (".queue.db", "home/keys"),
        (".queue.db", "home/new"),
        (".queue.db-wal", "home/new"),
        (".db-wal", "home/keys"),
        (".db-wal", "home/new"),
        (".db-shm", "home/new"),
        (".db-journal", "home/new"),
        (".db.new", "home/keys"),
        (".db.saved", "home/keys"),
        (".db.salvage", "home/keys"),
    ] {
        let (world, paths) = laid().await;
        let stem = paths.database().with_extension("");
        let link = PathBuf::from(format!("{}{name}", stem.display()));
        let _ = fs::remove_dir_all(&link).or_else(|_| fs::remove_file(&link));
        symlink(world.root().join(target), &link).unwrap();
        use_all(&world, &paths).await;
        assert_eq!(harmed(world.root()), Vec::<&str>::new(), "{name} {target}");
        assert!(!world.root().join("home/new").exists(), "{name} {target}");
    }
}

/// A damaged file is kept under a name with the time, which whoever has sent the session may foresee.
#[tokio::test]
async fn links_in_the_place_of_what_is_kept_of_a_damaged_session_lead_nowhere() {
    for is_of_queue in [false, true] {
        let (world, paths) = laid().await;
        drop(Queue::open(&paths).unwrap());
        let damaged = match is_of_queue {
            true => paths.queue(),
            false => paths.database().to_owned(),
        };
        let begun = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        for second in 0..300 {
            for ending in ["", "-wal", "-log"] {
                let second = begun.as_secs() + second;
                let link = format!("{}.corrupt-{second}{ending}", damaged.display());
                symlink(world.root().join("home/new"), link).unwrap();
            }
        }
        fs::write(&damaged, "ssh-ed25519 AAAA".repeat(200)).unwrap();
        fs::write(format!("{}-wal", damaged.display()), [7; 100]).unwrap();
        let session = SessionStore::open(&paths).unwrap();
        session.load().await.unwrap();
        let _ = Queue::open(&paths);
        assert!(!session.take_notices().await.is_empty() || is_of_queue);
        drop(session);
        assert!(!world.root().join("home/new").exists(), "{is_of_queue}");
        assert_eq!(harmed(world.root()), Vec::<&str>::new());
    }
}

#[tokio::test]
async fn links_among_the_outputs_lead_nowhere() {
    for name in ["big", "layer-x", "kept-1-2-3.000000004-5", "nobody's"] {
        let (world, paths) = laid().await;
        let link = paths.outputs().join(name);
        let _ = fs::remove_file(&link);
        symlink(world.root().join("home/docs/thesis"), &link).unwrap();
        let copy = world.sessions().copy(&paths).unwrap();
        assert!(!copy.outputs().join(name).exists(), "{name}");
        use_all(&world, &paths).await;
        assert_eq!(harmed(world.root()), Vec::<&str>::new(), "{name}");
    }
}

/// The file that a row names, as its writer wishes.
#[tokio::test]
async fn a_row_names_no_file_elsewhere() {
    for name in [
        "../../home/keys",
        "../../home/docs/big",
        "/home/keys",
        "..",
        "",
        "x/../../../home/keys",
    ] {
        let (world, paths) = laid().await;
        // An absolute one is the user's own file.
        let name = match name.starts_with('/') {
            true => format!("{}{name}", world.root().display()),
            false => name.to_owned(),
        };
        let connection = Connection::open(paths.database()).unwrap();
        for table in ["content_blocks", "tool_calls"] {
            let sql = format!(
                "UPDATE {table} SET details = json_set(details, '$.spool.file', ?) WHERE details LIKE '%spool%'"
            );
            connection.execute(&sql, [&name]).unwrap();
        }
        drop(connection);
        use_all(&world, &paths).await;
        assert_eq!(harmed(world.root()), Vec::<&str>::new(), "{name}");
    }
}
