//! Recovery of sessions with damaged files.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ah_conversation::{Mailbox as _, Message, Origin, Record, Store};
use ah_store::{Notice, OpenError, Paths, Queue, SessionStore, Tree};
use rusqlite::Connection;

use crate::fixture::{
    PAGE, Speaker, World, append, bytes, finished, open_and_load, open_quietly, result,
};

/// Number of times that each kind of damage is done, each time at another place.
const TIMES: u64 = 100;

/// Creates a session of 160 messages on a hundred pages.
async fn conversation(paths: &Paths) -> Vec<Arc<Message>> {
    let session = open_quietly(paths).await;
    session.set_name("talk".to_owned()).await.unwrap();
    let mut speaker = Speaker::default();
    let mut records = Vec::new();
    let mut messages = Vec::new();
    for turn in 0..40 {
        let asking = [
            speaker.prompt(&format!("prompt {turn}: {}", "words ".repeat(30))),
            speaker.calls(&[&format!("call_{turn}")]),
        ];
        let seen = result(&format!("call_{turn}"), &"output ".repeat(40));
        let output = bytes("output ".repeat(40));
        let results = speaker.results(vec![seen.clone()]);
        let answer = speaker.answer(&format!("answer {turn}"));
        records.push(finished(&asking[1], seen, output));
        messages.extend(asking);
        messages.extend([results, answer]);
    }
    let said = messages.iter().cloned().map(Record::Message);
    session.append(said.collect()).await.unwrap();
    session.append(records).await.unwrap();
    messages
}

/// Pseudorandom numbers that are the same in each run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }
}

/// Damages copies of an intact session, and checks for each that it opens, that its notices are true, that it can be
/// continued, and that the damaged file is kept if something was lost. Returns the number of messages recovered each
/// time.
async fn survives(damage: impl Fn(&Path, &mut Numbers)) -> Vec<usize> {
    let world = World::new();
    let intact = world.fresh();
    let messages = conversation(&intact).await;
    let mut numbers = Numbers(1);
    let mut saved = Vec::new();
    for time in 0..TIMES {
        let folder = world.root().join(time.to_string());
        fs::create_dir(&folder).unwrap();
        let paths = Paths::of(folder.join("damaged.db"));
        fs::copy(intact.database(), paths.database()).unwrap();
        damage(paths.database(), &mut numbers);
        let found = fs::read(paths.database()).unwrap();

        let session = SessionStore::open(&paths).unwrap();
        let loaded = session.load().await.unwrap().messages().to_vec();
        let notices = session.take_notices().await;
        let mut speaker = match loaded.last() {
            Some(last) => Speaker::after(last),
            None => Speaker::default(),
        };
        append(&session, &speaker.prompt("on we go")).await;
        let notices = [notices, session.take_notices().await].concat();
        drop(session);

        for notice in &notices {
            if let Notice::Salvaged { kept, .. } = notice {
                assert_eq!(fs::read(kept).unwrap(), found);
                assert!(notice.to_string().contains("kept as"));
            }
        }
        let tree = Tree::open(&paths).unwrap();
        let heads = tree.heads().unwrap();
        assert!(!heads.is_empty());
        if notices.is_empty() {
            // Undetected damage may have changed a value, but no message may be lost.
            assert_eq!(heads.len(), messages.len() + 1, "lost without a notice");
        } else {
            assert_eq!(tree.integrity_errors().unwrap(), Vec::<String>::new());
        }
        saved.push(heads.len() - 1);
    }
    saved
}

/// Checks that at least `percent` of the 160 messages were recovered in the median case.
fn check_saved(mut saved: Vec<usize>, percent: usize) {
    saved.sort_unstable();
    let median = saved[saved.len() / 2];
    assert!(median * 100 >= 160 * percent, "{saved:?}");
}

fn open_file(path: &Path) -> (fs::File, u64) {
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .open(path)
        .unwrap();
    let length = file.metadata().unwrap().len();
    (file, length)
}

#[tokio::test]
async fn a_truncated_database_is_recovered() {
    let saved = survives(|path, numbers| {
        let (file, length) = open_file(path);
        // The first quarter is the same in every database of this size.
        let beginning = length / 4;
        file.set_len(beginning + numbers.below(length - beginning))
            .unwrap();
    })
    .await;
    check_saved(saved, 40);
}

/// Nothing of the conversation is left, but the session can be continued.
#[tokio::test]
async fn a_database_truncated_to_its_header_is_replaced() {
    survives(|path, numbers| {
        let (file, length) = open_file(path);
        file.set_len(numbers.below(length / 4)).unwrap();
    })
    .await;
}

#[tokio::test]
async fn a_database_with_a_flipped_bit_is_recovered() {
    let saved = survives(|path, numbers| {
        let (file, length) = open_file(path);
        let at = numbers.below(length);
        let mut byte = [0];
        file.read_exact_at(&mut byte, at).unwrap();
        byte[0] ^= 1 << numbers.below(8);
        file.write_all_at(&byte, at).unwrap();
    })
    .await;
    check_saved(saved, 100);
}

#[tokio::test]
async fn a_database_with_a_zeroed_range_is_recovered() {
    let saved = survives(|path, numbers| {
        let (file, length) = open_file(path);
        let at = numbers.below(length);
        let zeroes = vec![0; usize::try_from(numbers.below(3 * 4096).min(length - at)).unwrap()];
        file.write_all_at(&zeroes, at).unwrap();
    })
    .await;
    check_saved(saved, 80);
}

#[tokio::test]
async fn a_database_without_its_first_page_is_recovered() {
    let without = |bytes: usize| {
        survives(move |path, _| open_file(path).0.write_all_at(&vec![0; bytes], 0).unwrap())
    };
    check_saved(without(PAGE).await, 100);
    // What a disk loses at once has the oldest rows, too.
    check_saved(without(4096).await, 80);
}

#[tokio::test]
async fn the_rows_behind_a_removed_branch_are_recovered() {
    let saved = survives(|path, _| {
        let session = Connection::open(path).unwrap();
        let gap = "UPDATE messages SET rowid = rowid + 1000000 WHERE rowid > 20;
                   UPDATE content_blocks SET id = id + 1000000 WHERE id > 20;";
        session.execute_batch(gap).unwrap();
        session.close().unwrap();
        open_file(path).0.write_all_at(&[0; PAGE], 0).unwrap();
    })
    .await;
    check_saved(saved, 100);
}

#[tokio::test]
async fn a_log_of_random_bytes_is_ignored() {
    let saved = survives(|path, numbers| {
        let junk: Vec<_> = (0..8000).map(|_| numbers.below(256) as u8).collect();
        fs::write(log_of(path), junk).unwrap();
        fs::write(path.with_extension("found"), "").unwrap();
    })
    .await;
    check_saved(saved, 100);
}

fn log_of(path: &Path) -> PathBuf {
    PathBuf::from(format!("{}-wal", path.display()))
}

#[tokio::test]
async fn an_unreadable_log_is_kept() {
    let world = World::new();
    let paths = world.fresh();
    let messages = conversation(&paths).await;
    fs::write(log_of(paths.database()), "junk".repeat(2000)).unwrap();
    let (loaded, notices) = open_and_load(&paths).await;
    assert_eq!(loaded.len(), messages.len());
    let [Notice::LogLost { kept }] = &notices[..] else {
        panic!("{notices:?}");
    };
    assert_eq!(fs::read_to_string(kept).unwrap(), "junk".repeat(2000));
}

#[tokio::test]
async fn damage_found_during_a_run_does_not_end_it() {
    let world = World::new();
    let paths = world.fresh();
    let messages = conversation(&paths).await;
    let session = open_quietly(&paths).await;
    // Pages that opening has not read.
    let (file, length) = open_file(paths.database());
    let pages = length / PAGE as u64;
    for page in (pages * 2 / 3)..(pages - 8) {
        file.write_all_at(&[0x5a; PAGE], page * PAGE as u64)
            .unwrap();
    }
    let loaded = session.load().await.unwrap().messages().to_vec();
    let notices = session.take_notices().await;
    assert!(matches!(notices[0], Notice::Salvaged { messages, .. } if messages > 0));
    assert!(!loaded.is_empty() && loaded.len() <= messages.len());
    append(
        &session,
        &Speaker::after(loaded.last().unwrap()).prompt("on we go"),
    )
    .await;
    let name = session.read(|tree| tree.name()).await.unwrap();
    assert_eq!(name.as_deref(), Some("talk"));
}

#[tokio::test]
async fn a_damaged_queue_still_delivers_its_readable_messages() {
    let world = World::new();
    let paths = world.fresh();
    let queue = Queue::open(&paths).unwrap();
    for number in 0..200 {
        let text = format!("{number} {}", "words ".repeat(20));
        queue.send(ah_conversation::MailKind::Steer, &text).unwrap();
    }
    drop(queue);
    let (file, _) = open_file(&paths.queue());
    file.write_all_at(&[0; 4096], 0).unwrap();
    let session = open_quietly(&paths).await;
    let mail = session
        .mail(ah_conversation::MailKind::Steer)
        .await
        .unwrap();
    assert_eq!(mail.len(), 200);
    let notices = session.take_notices().await;
    let [
        Notice::QueueSalvaged {
            kept,
            messages: 200,
        },
    ] = &notices[..]
    else {
        panic!("{notices:?}");
    };
    assert!(kept.exists());
    Queue::open(&paths)
        .unwrap()
        .send(ah_conversation::MailKind::Steer, "one more")
        .unwrap();
}

#[tokio::test]
async fn opening_a_damaged_queue_returns_a_notice() {
    let world = World::new();
    let paths = world.fresh();
    fs::create_dir_all(world.folder()).unwrap();
    fs::write(paths.queue(), "no database at all, but long enough").unwrap();
    let queue = Queue::open(&paths).unwrap();
    let Some(Notice::QueueSalvaged { kept, messages: 0 }) = queue.notice() else {
        panic!("{:?}", queue.notice());
    };
    assert!(fs::read_to_string(kept).unwrap().starts_with("no database"));
    queue.send(ah_conversation::MailKind::Steer, "hm").unwrap();
    assert_eq!(Queue::open(&paths).unwrap().notice(), None);
}

#[tokio::test]
async fn a_database_of_a_newer_version_is_left_unchanged() {
    let world = World::new();
    let paths = world.fresh();
    conversation(&paths).await;
    rusqlite::Connection::open(paths.database())
        .unwrap()
        .pragma_update(None, "user_version", 99)
        .unwrap();
    let found = fs::read(paths.database()).unwrap();
    let OpenError::Store(error) = SessionStore::open(&paths).unwrap_err() else {
        panic!("it is not busy");
    };
    insta::assert_snapshot!(error.reason, @"it was written by a newer version of ah (schema 99; this version supports up to 11)");
    insta::assert_snapshot!(error.hint.unwrap(), @"use the newer `ah`, or start a new session");
    assert!(Tree::open(&paths).is_err());
    assert_eq!(fs::read(paths.database()).unwrap(), found);
    let listed = world.sessions().list().unwrap();
    assert!(listed[0].problem.is_some());
}

/// What later versions have changed, each with the version before it.
const BACK: [(i64, &str); 7] = [
    (
        10,
        "ALTER TABLE messages DROP COLUMN first_block; ALTER TABLE messages DROP COLUMN last_block;
         CREATE INDEX content_blocks_message ON content_blocks (message_id);",
    ),
    (8, "DROP TABLE file_seals;"),
    (7, "ALTER TABLE messages DROP COLUMN opaque;"),
    (6, "ALTER TABLE messages DROP COLUMN origin;"),
    (
        4,
        "ALTER TABLE messages DROP COLUMN request_id; DROP TABLE file_notes; DROP INDEX file_states_path;
         DROP INDEX file_states_hash;",
    ),
    (2, "DROP TABLE file_states; DROP TABLE file_steps; DROP TABLE prefixes;"),
    (1, "ALTER TABLE messages DROP COLUMN cost;"),
];

/// Makes the conversation one of this version.
fn age(paths: &Paths, version: i64) {
    let connection = rusqlite::Connection::open(paths.database()).unwrap();
    for (_, changes) in BACK.iter().filter(|(before, _)| *before >= version) {
        connection.execute_batch(changes).unwrap();
    }
    connection
        .pragma_update(None, "user_version", version)
        .unwrap();
}

#[tokio::test]
async fn a_database_of_an_older_version_is_read_without_changes_and_migrated_for_writing() {
    for version in [1, 4, 10] {
        let world = World::new();
        let paths = world.fresh();
        let messages = conversation(&paths).await;
        age(&paths, version);
        let costs = |messages: &[Arc<Message>]| {
            let answers = messages
                .iter()
                .filter_map(|message| message.response.as_ref());
            answers.filter_map(|answer| answer.cost).count()
        };
        let found = fs::read(paths.database()).unwrap();
        let tree = Tree::open(&paths).unwrap();
        assert_eq!(tree.heads().unwrap().len(), messages.len());
        for message in &messages {
            let read = tree.message(&message.id).unwrap().unwrap();
            assert_eq!(read.content, message.content, "version {version}");
        }
        assert!(tree.api_calls().unwrap().is_empty());
        assert_eq!(fs::read(paths.database()).unwrap(), found);
        let session = open_quietly(&paths).await;
        let loaded = session.load().await.unwrap();
        assert_eq!(loaded.messages().len(), messages.len());
        let before = costs(loaded.messages());
        assert_eq!(before == 0, version == 1);
        let answer = Speaker::after(&messages[messages.len() - 1]).answer("at a price");
        append(&session, &answer).await;
        let now = session.load().await.unwrap();
        assert_eq!(costs(now.messages()), before + 1);
        for (message, read) in messages.iter().zip(now.messages()) {
            assert_eq!(read.content, message.content, "version {version}");
        }
    }
}

/// The last version in which the origin of a message stood in the details of its first block.
#[tokio::test]
async fn origins_of_an_older_version_are_kept() {
    let world = World::new();
    let paths = world.fresh();
    let messages = conversation(&paths).await;
    let origins = |messages: &[Arc<Message>]| -> Vec<Origin> {
        messages.iter().map(|it| it.origin.clone()).collect()
    };
    let mut expected = origins(&messages);
    let (last, kept) = (messages.len() - 1, messages[1].id.clone());
    age(&paths, 6);
    rusqlite::Connection::open(paths.database())
        .unwrap()
        .execute_batch(&format!(
            r#"UPDATE content_blocks SET details = '{{"origin":"summary","kept_from":"{kept}"}}' WHERE message_id = '{}';"#,
            messages[last].id
        ))
        .unwrap();
    expected[last] = Origin::summary(Some(kept));
    let heads = Tree::open(&paths).unwrap().heads().unwrap();
    let read: Vec<_> = heads.into_iter().map(|it| it.message.origin).collect();
    assert_eq!(read, expected);
    let session = open_quietly(&paths).await;
    assert_eq!(origins(session.load().await.unwrap().messages()), expected);
}

#[tokio::test]
async fn a_database_of_another_program_is_left_unchanged() {
    let world = World::new();
    let path = world.root().join("other.db");
    rusqlite::Connection::open(&path)
        .unwrap()
        .execute_batch("CREATE TABLE messages (id, text)")
        .unwrap();
    let found = fs::read(&path).unwrap();
    let error = SessionStore::open(&Paths::of(&path)).unwrap_err();
    assert!(
        error
            .to_string()
            .ends_with("it is the database of another program")
    );
    assert_eq!(fs::read(&path).unwrap(), found);
}

#[tokio::test]
async fn errors_of_the_file_system_name_the_path() {
    let world = World::new();
    let file = world.root().join("file");
    fs::write(&file, "").unwrap();
    let error = SessionStore::open(&Paths::of(file.join("talk.db"))).unwrap_err();
    let text = error
        .to_string()
        .replace(&world.root().display().to_string(), "");
    insta::assert_snapshot!(text, @"cannot create `/file`: File exists (os error 17)");

    let missing = Paths::of(world.root().join("missing.db"));
    let error = Tree::open(&missing).unwrap_err();
    let text = error
        .to_string()
        .replace(&world.root().display().to_string(), "");
    insta::assert_snapshot!(text, @"cannot open `/missing.db`: No such file or directory (os error 2)");
}

#[tokio::test]
async fn a_session_in_a_read_only_folder_can_be_read() {
    let world = World::new();
    let paths = world.fresh();
    let messages = conversation(&paths).await;
    let locked = |mode| fs::set_permissions(world.folder(), fs::Permissions::from_mode(mode));
    locked(0o500).unwrap();
    let read = Tree::open(&paths).and_then(|tree| tree.heads());
    let listed = world.sessions().list();
    locked(0o700).unwrap();
    assert_eq!(read.unwrap().len(), messages.len());
    assert_eq!(listed.unwrap()[0].problem, None);
}
