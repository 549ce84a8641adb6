//! The sessions of a folder: listing, finding, copying and removing.

use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ah_conversation::{Event, EventKind, Record, SessionId, Store, Time};
use ah_ids::uuid_of;
use ah_store::{Paths, Queue, SessionStore};

use crate::fixture::{PAGE, Speaker, World, append, bytes, finished, open_quietly, result};

/// Creates a session with the prompt `text`.
async fn session(world: &World, text: &str, name: Option<&str>) -> Paths {
    let paths = world.fresh();
    let session = open_quietly(&paths).await;
    if let Some(name) = name {
        session.set_name(name.to_owned()).await.unwrap();
    }
    append(&session, &Speaker::default().prompt(text)).await;
    paths
}

fn id(paths: &Paths) -> SessionId {
    paths.id().unwrap()
}

#[tokio::test]
async fn sessions_are_listed_newest_first() {
    let world = World::new();
    assert_eq!(world.sessions().list().unwrap(), []);
    assert_eq!(world.sessions().newest().unwrap(), None);
    let first = session(&world, "fix\nthe bug", Some("bugs")).await;
    let second = session(&world, "write the docs", None).await;
    fs::write(world.folder().join("notes.db"), "not a session").unwrap();
    let heads = world.sessions().list().unwrap();
    let ids: Vec<_> = heads.iter().map(|head| head.id.clone()).collect();
    assert_eq!(ids, [id(&second), id(&first)]);
    let bugs = &heads[1];
    assert_eq!(bugs.name.as_deref(), Some("bugs"));
    assert_eq!(
        (bugs.messages, bugs.first_text.as_str()),
        (1, "fix\nthe bug")
    );
    assert_eq!(bugs.last_written, Time(1_700_000_000_123));
    assert!(bugs.created_at > Time(1_700_000_000_000));
    assert_eq!(world.sessions().newest().unwrap(), Some(second));
}

#[tokio::test]
async fn a_new_session_is_the_newest_even_if_the_clock_was_ahead_before() {
    let world = World::new();
    let ahead = world.folder().join("7ZZZZZZZZY7ZZZZZZZZZZZZZZZ.db");
    drop(open_quietly(&Paths::of(ahead)).await);
    let fresh = session(&world, "go", None).await;
    assert_eq!(world.sessions().newest().unwrap(), Some(fresh));
}

#[tokio::test]
async fn after_the_clock_was_ahead_sessions_are_dated_by_the_real_one() {
    let world = World::new();
    let before = session(&world, "before", None).await;
    // 400 days, roughly: the id's first characters are the time.
    let mut ahead = id(&before).to_string();
    ahead.replace_range(1..2, "9");
    let ahead = Paths::of(world.folder().join(format!("{ahead}.db")));
    let held = open_quietly(&ahead).await;
    let mut late = (*Speaker::default().prompt("ahead")).clone();
    late.created_at = Time(late.created_at.0 + 40_000_000_000_000);
    append(&held, &late.into()).await;
    drop(held);
    let after = session(&world, "after", None).await;
    let copy = world.sessions().copy(&before).unwrap();
    let heads = world.sessions().list().unwrap();
    let ids: Vec<_> = heads.iter().map(|head| head.id.clone()).collect();
    assert_eq!(ids, [&copy, &after, &ahead, &before].map(id));
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap()
        .as_millis();
    let now = i64::try_from(now).unwrap();
    for head in &heads {
        assert!(head.created_at.0 <= now && now - head.created_at.0 < 600_000);
        assert!(head.last_written.0 <= now, "{head:?}");
    }
    assert!(heads.is_sorted_by_key(|head| std::cmp::Reverse(head.created_at)));
}

#[tokio::test]
async fn a_session_says_where_it_was_used_last() {
    let world = World::new();
    let paths = session(&world, "go", None).await;
    let head = || world.sessions().list().unwrap().remove(0);
    assert_eq!((head().folder, head().branch), (None, None));
    for (folder, branch) in [("/a", Some("main")), ("/b", None)] {
        let held = open_quietly(&paths).await;
        held.note_place(folder.as_ref(), branch);
        append(&held, &Speaker::default().prompt("more")).await;
        drop(held);
        assert_eq!(head().folder.as_deref(), Some(folder.as_ref()));
        assert_eq!(head().branch.as_deref(), branch);
    }
}

#[tokio::test]
async fn the_last_written_session_may_be_older_than_the_newest() {
    let world = World::new();
    let first = session(&world, "one", None).await;
    let second = session(&world, "two", None).await;
    assert_eq!(world.sessions().last_written().unwrap(), Some(second));
    let held = open_quietly(&first).await;
    let mut later = (*Speaker::default().prompt("three")).clone();
    later.created_at = Time(1_800_000_000_000);
    append(&held, &later.into()).await;
    assert_eq!(world.sessions().last_written().unwrap(), Some(first));
}

#[tokio::test]
async fn the_last_written_session_is_found_whatever_became_of_the_times_of_files() {
    const MINUTE: i64 = 60_000;
    let world = World::new();
    let now = SystemTime::now();
    let seconds = now.duration_since(UNIX_EPOCH).unwrap().as_secs();
    let now_ms = i64::try_from(seconds).unwrap() * 1000;
    let mut held = Vec::new();
    for minutes in [30, 10, 20] {
        let paths = world.fresh();
        let session = open_quietly(&paths).await;
        let mut prompt = (*Speaker::default().prompt("go")).clone();
        prompt.created_at = Time(now_ms - minutes * MINUTE);
        append(&session, &prompt.into()).await;
        held.push((paths, session));
    }
    let last = || world.sessions().last_written().unwrap();
    let newest = held[1].0.clone();
    let date = |path: &Path, minutes: u64| {
        let file = File::options().append(true).open(path).unwrap();
        let time = now - Duration::from_secs(60 * minutes);
        file.set_modified(time).unwrap();
    };
    assert_eq!(last(), Some(newest.clone()));
    // What is newest is still in the journal.
    let journal = newest.database().with_extension("db-wal");
    held.iter()
        .for_each(|(paths, _)| date(paths.database(), 29));
    date(&journal, 10);
    assert_eq!(last(), Some(newest.clone()));
    let paths: Vec<_> = held.into_iter().map(|(paths, _)| paths).collect();
    for minutes in [[30, 10, 20], [0, 0, 0], [0, 10, 1], [29, 9, 0], [5, 10, 15]] {
        for (paths, minutes) in paths.iter().zip(minutes) {
            date(paths.database(), minutes);
        }
        assert_eq!(last(), Some(newest.clone()), "{minutes:?}");
    }
}

#[tokio::test]
async fn of_many_sessions_whose_files_tell_nothing_the_last_written_one_is_found() {
    let world = World::new();
    let first = session(&world, "one", None).await;
    let held = open_quietly(&first).await;
    let mut later = (*Speaker::default().prompt("two")).clone();
    later.created_at = Time(later.created_at.0 + 1);
    append(&held, &later.into()).await;
    drop(held);
    for _ in 0..40 {
        session(&world, "other", None).await;
    }
    let file = File::options().append(true).open(first.database()).unwrap();
    file.set_modified(SystemTime::now() - Duration::from_secs(60))
        .unwrap();
    assert_eq!(world.sessions().last_written().unwrap(), Some(first));
}

#[tokio::test]
async fn a_damaged_session_is_found_by_what_can_be_read_of_it() {
    let world = World::new();
    let paths = session(&world, "go", Some("alpha")).await;
    let given = "0b5c2f9e-1234-4abc-9def-0123456789ab";
    let held = open_quietly(&paths).await;
    held.set_uuid(given.to_owned()).await.unwrap();
    drop(held);
    let connection = rusqlite::Connection::open(paths.database()).unwrap();
    let root = "SELECT rootpage FROM sqlite_schema WHERE name = 'messages'";
    let root: u32 = connection.query_row(root, [], |row| row.get(0)).unwrap();
    drop(connection);
    let file = File::options().write(true).open(paths.database()).unwrap();
    file.write_all_at(&[0xff; PAGE], u64::from(root - 1) * PAGE as u64)
        .unwrap();
    file.set_modified(SystemTime::now() - Duration::from_secs(60))
        .unwrap();
    let head = world.sessions().list().unwrap().remove(0);
    assert!(head.problem.is_some());
    assert_eq!(head.name.as_deref(), Some("alpha"));
    for wanted in ["alpha", given] {
        assert_eq!(world.sessions().find(wanted).unwrap(), paths, "{wanted}");
    }
}

#[tokio::test]
async fn a_session_is_found_by_name_uuid_and_prefix_of_its_id() {
    let world = World::new();
    let first = session(&world, "one", Some("docs")).await;
    let second = session(&world, "two", None).await;
    let given = "0b5c2f9e-1234-4abc-9def-0123456789ab";
    {
        let held = open_quietly(&second).await;
        assert_eq!(held.uuid(), uuid_of(&id(&second)));
        held.set_uuid(given.to_owned()).await.unwrap();
    }
    assert_eq!(open_quietly(&second).await.uuid(), given);
    let whole = id(&second).to_string();
    for (wanted, expected) in [
        ("docs", &first),
        (uuid_of(&id(&first)).as_str(), &first),
        (uuid_of(&id(&second)).as_str(), &second),
        (given, &second),
        (given.to_uppercase().as_str(), &second),
        (whole.as_str(), &second),
        (whole.to_lowercase().as_str(), &second),
    ] {
        assert_eq!(
            &world.sessions().find(wanted).unwrap(),
            expected,
            "{wanted}"
        );
    }
}

#[tokio::test]
async fn an_ambiguous_name_is_an_error_that_lists_the_candidates() {
    let world = World::new();
    let first = session(&world, "one", Some("twin")).await;
    let second = session(&world, "two", Some("twin")).await;
    let found = |wanted: &str| {
        let error = world.sessions().find(wanted).unwrap_err();
        format!("{}; {}", error.reason, error.hint.unwrap_or_default())
            .replace(id(&first).as_str(), "FIRST")
            .replace(id(&second).as_str(), "SECOND")
    };
    insta::assert_snapshot!(found("twin"), @"`twin` matches 2 sessions: SECOND [twin], FIRST [twin]; give more characters of the id");
    insta::assert_snapshot!(found("01"), @"`01` matches 2 sessions: SECOND [twin], FIRST [twin]; give more characters of the id");
    insta::assert_snapshot!(found("nobody"), @"no session is named `nobody`; `ah sessions` lists them");
    insta::assert_snapshot!(found(""), @"no session is named ``; `ah sessions` lists them");
    assert!(world.sessions().named("twin").is_err());
    assert_eq!(world.sessions().named("nobody").unwrap(), None);
}

#[tokio::test]
async fn a_session_in_another_folder_has_a_stable_id() {
    let world = World::new();
    let paths = Paths::of(world.root().join("deep/er/talk.db"));
    let (id, uuid) = {
        let session = open_quietly(&paths).await;
        (session.id().clone(), session.uuid().to_owned())
    };
    let again = open_quietly(&paths).await;
    assert_eq!((again.id(), again.uuid()), (&id, uuid.as_str()));
    assert_eq!(uuid_of(&id), uuid);
    assert!(!world.root().join("deep/er/.gitignore").exists());
}

#[tokio::test]
async fn removing_a_session_removes_all_its_files() {
    let world = World::new();
    let stays = session(&world, "one", None).await;
    let goes = session(&world, "two", None).await;
    {
        let held = open_quietly(&goes).await;
        spool(&held).await;
    }
    Queue::open(&goes).unwrap();
    assert!(goes.outputs().join("big").exists());
    world.sessions().remove(&goes).unwrap();
    let left: Vec<_> = fs::read_dir(world.folder())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.starts_with(id(&goes).as_str()))
        .collect();
    assert_eq!(left, Vec::<String>::new());
    assert_eq!(world.sessions().newest().unwrap(), Some(stays));
}

/// Stores an output that is too large for the database, of a call with the id `big`.
pub async fn spool(session: &SessionStore) {
    let mut speaker = Speaker::default();
    append(session, &speaker.prompt("go")).await;
    let asking = speaker.calls(&["big"]);
    append(session, &asking).await;
    let seen = result("big", "cut");
    let finish = finished(&asking, seen.clone(), bytes(vec![b'x'; 300_000]));
    session.append(vec![finish]).await.unwrap();
    append(session, &speaker.results(vec![seen])).await;
}

#[tokio::test]
async fn deleting_a_message_removes_its_output_files() {
    let world = World::new();
    let paths = world.fresh();
    let held = open_quietly(&paths).await;
    spool(&held).await;
    assert!(paths.outputs().join("big").exists());
    let last = held.read(|tree| tree.current()).await.unwrap().unwrap();
    held.delete(last).await.unwrap();
    assert!(!paths.outputs().join("big").exists());
}

#[tokio::test]
async fn a_copy_has_all_messages_and_is_independent() {
    let world = World::new();
    let paths = world.fresh();
    let held = open_quietly(&paths).await;
    held.set_name("talk".to_owned()).await.unwrap();
    let processing = Event {
        kind: EventKind::StateChange {
            from_state: "idle".to_owned(),
            to_state: "processing".to_owned(),
        },
        timestamp: 1,
    };
    held.append(vec![Record::Event(processing)]).await.unwrap();
    spool(&held).await;
    let copy = world.sessions().copy(&paths).unwrap();
    let forked = open_quietly(&copy).await;
    let said = held.load().await.unwrap();
    assert_eq!(forked.load().await.unwrap(), said);
    assert_eq!(forked.read(|tree| tree.name()).await.unwrap(), None);
    assert_eq!(forked.uuid(), uuid_of(&id(&copy)));

    append(&forked, &Speaker::after(said.last().unwrap()).prompt("on")).await;
    world.sessions().find("talk").unwrap();
    drop(held);
    world.sessions().remove(&paths).unwrap();
    let page = forked.output(&"big".into(), 1, 1).await.unwrap();
    assert_eq!(page.unwrap().text.len(), 300_000);
}

#[tokio::test]
async fn a_collection_removes_empty_and_old_sessions_and_unused_files() {
    let world = World::new();
    let kept = session(&world, "kept", None).await;
    let held = session(&world, "held", None).await;
    let empty = world.fresh();
    drop(open_quietly(&empty).await);
    let lost = world.fresh();
    fs::write(lost.queue(), "").unwrap();
    fs::create_dir(lost.outputs()).unwrap();
    fs::write(lost.outputs().join("x"), "output").unwrap();
    fs::write(format!("{}.new", kept.database().display()), "draft").unwrap();
    {
        let session = open_quietly(&kept).await;
        spool(&session).await;
    }
    fs::write(kept.outputs().join("nobody's"), "output").unwrap();

    let collected = world.sessions().collect(None).unwrap();
    assert_eq!(collected.sessions, [id(&empty)]);
    assert_eq!(collected.files, 4);
    assert!(kept.outputs().join("big").exists());
    assert!(!lost.lock().exists());
    assert_eq!(world.sessions().collect(None).unwrap().files, 0);

    let _session = open_quietly(&held).await;
    let collected = world
        .sessions()
        .collect(Some(Time(1_700_000_001_000)))
        .unwrap();
    assert_eq!(collected.sessions, [id(&kept)]);
    assert_eq!(world.sessions().newest().unwrap(), Some(held));
}

#[tokio::test]
async fn a_collection_leaves_what_is_queued() {
    let world = World::new();
    let (queued, empty) = (world.fresh(), world.fresh());
    for paths in [&queued, &empty] {
        drop(SessionStore::open(paths).unwrap());
    }
    let queue = Queue::open(&queued).unwrap();
    // Nothing is no message.
    queue
        .send(ah_conversation::MailKind::FollowUp, " \n")
        .unwrap_err();
    queue
        .send(ah_conversation::MailKind::FollowUp, "go")
        .unwrap();
    let collected = world.sessions().collect(None).unwrap();
    assert_eq!(collected.sessions, [id(&empty)]);
    assert!(queued.database().exists());
}
