//! Several processes use one session: one writes, others read and queue messages.

use std::collections::HashSet;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};
use std::time::Duration;
use std::{env, fs, thread};

use ah_conversation::{
    ContentBlock, MailKind, Mailbox as _, Origin, Record, Role, SharedState as _, Store,
};
use ah_store::{Holder, OpenError, Paths, Queue, SessionStore, Tree};

use crate::fixture::{Speaker, World, append, open_and_load, open_quietly};

#[tokio::test]
async fn only_one_process_opens_a_session_and_others_learn_its_pid() {
    let world = World::new();
    let paths = world.fresh();
    let session = open_quietly(&paths).await;
    append(&session, &Speaker::default().prompt("go")).await;
    let busy = SessionStore::open(&paths).unwrap_err();
    let own = Some(std::process::id());
    assert!(matches!(busy, OpenError::Busy(Holder { pid }) if pid == own));
    assert!(matches!(
        world.sessions().remove(&paths),
        Err(OpenError::Busy(_))
    ));
    // Reading is always possible.
    assert_eq!(Tree::open(&paths).unwrap().heads().unwrap().len(), 1);
    drop(session);
    open_quietly(&paths).await;
}

/// A session at rest is anybody's. Whoever takes it back learns whether it was changed, and writes behind that.
#[tokio::test]
async fn a_session_at_rest_is_handed_over_and_taken_back() {
    let world = World::new();
    let paths = world.fresh();
    let mut speaker = Speaker::default();
    let first = open_quietly(&paths).await;
    append(&first, &speaker.prompt("one")).await;
    assert!(!first.wake().await.unwrap(), "it was not at rest");
    first.rest().await;
    assert!(!first.wake().await.unwrap(), "nobody has used it");

    first.rest().await;
    let second = open_quietly(&paths).await;
    append(&second, &speaker.prompt("two")).await;
    let refused = first.wake().await.unwrap_err();
    assert!(
        refused.reason.contains("open in another process"),
        "{refused}"
    );
    let late = vec![Record::Message(Speaker::default().prompt("lost"))];
    assert!(first.append(late).await.is_err(), "it belongs to the other");

    second.rest().await;
    assert!(first.wake().await.unwrap());
    assert_eq!(first.load().await.unwrap().messages().len(), 2);
    append(&first, &speaker.prompt("three")).await;
    first.rest().await;
    assert!(second.wake().await.unwrap());
    assert_eq!(second.load().await.unwrap().messages().len(), 3);
    second.rest().await;
    world.sessions().remove(&paths).unwrap();
    assert!(first.wake().await.is_err(), "it is gone");
}

/// Not a test by itself: holds a session open until the test below kills it.
#[test]
fn holder() {
    if let Some(database) = env::var_os("AH_TEST_HOLD") {
        let session = SessionStore::open(&Paths::of(database)).unwrap();
        println!("held");
        thread::park();
        drop(session);
    }
}

#[tokio::test]
async fn a_session_is_released_when_its_holder_is_killed() {
    let world = World::new();
    let paths = world.fresh();
    drop(open_quietly(&paths).await);
    let mut holder = Command::new(env::current_exe().unwrap())
        .args(["sharing::holder", "--exact", "--nocapture"])
        .env("AH_TEST_HOLD", paths.database())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut output = std::io::BufReader::new(holder.stdout.take().unwrap());
    let mut line = String::new();
    while !line.contains("held") {
        line.clear();
        assert_ne!(
            std::io::BufRead::read_line(&mut output, &mut line).unwrap(),
            0
        );
    }
    let busy = SessionStore::open(&paths).unwrap_err();
    assert!(matches!(busy, OpenError::Busy(Holder { pid }) if pid == Some(holder.id())));
    holder.kill().unwrap();
    holder.wait().unwrap();
    let session = open_quietly(&paths).await;
    assert_eq!(session.predecessor(), Some(holder.id()));
    drop(session);
    assert_eq!(open_quietly(&paths).await.predecessor(), None);
}

#[tokio::test]
async fn queued_messages_reach_an_open_session_in_the_order_of_sending() {
    let world = World::new();
    let paths = world.fresh();
    let session = open_quietly(&paths).await;
    assert_eq!(session.mail(MailKind::Steer).await.unwrap(), []);
    assert!(
        !paths.queue().exists(),
        "a session without queued messages has no queue"
    );

    let (first, second) = (Queue::open(&paths).unwrap(), Queue::open(&paths).unwrap());
    let mut sent = Vec::new();
    for round in 0..50 {
        let queue = if round % 2 == 0 { &first } else { &second };
        sent.push(queue.send(MailKind::Steer, &round.to_string()).unwrap());
        if round == 20 {
            assert_eq!(session.mail(MailKind::Steer).await.unwrap().len(), 21);
        }
    }
    let mail = session.mail(MailKind::Steer).await.unwrap();
    let ids: Vec<_> = mail.iter().map(|mail| mail.id.clone()).collect();
    assert_eq!(ids, sent);
    assert_eq!(mail[49].content, "49");
}

#[tokio::test]
async fn a_sender_sees_what_waits_and_takes_it_back_until_it_was_read() {
    let world = World::new();
    let paths = world.fresh();
    let session = open_quietly(&paths).await;
    let queue = Queue::open(&paths).unwrap();
    let [first, second] = ["first", "second"].map(|it| queue.send(MailKind::Steer, it).unwrap());
    queue.send(MailKind::FollowUp, "later").unwrap();
    let waiting = || {
        let waiting = queue.waiting(MailKind::Steer).unwrap();
        waiting.into_iter().map(|mail| mail.id).collect::<Vec<_>>()
    };
    assert_eq!(waiting(), [first.clone(), second.clone()]);
    assert!(queue.withdraw(&first).unwrap());
    assert!(!queue.withdraw(&first).unwrap());
    assert_eq!(waiting(), std::slice::from_ref(&second));
    let mail = session.mail(MailKind::Steer).await.unwrap();
    let ids: Vec<_> = mail.into_iter().map(|mail| mail.id).collect();
    assert_eq!(ids, [second]);
}

#[tokio::test]
async fn a_queued_message_wakes_who_waits_for_mail() {
    // Far longer than a test may take.
    const LONG: Duration = Duration::from_secs(3600);
    let world = World::new();
    let paths = world.fresh();
    let session = open_quietly(&paths).await;
    // What came before nobody is told of, so it is time to look.
    session.wait_for_mail(LONG).await;
    for expected in [1, 2] {
        let queue = Queue::open(&paths).unwrap();
        let send = thread::spawn(move || queue.send(MailKind::Steer, "x").unwrap());
        while session.mail(MailKind::Steer).await.unwrap().len() < expected {
            session.wait_for_mail(LONG).await;
        }
        send.join().unwrap();
    }
}

#[tokio::test]
async fn messages_can_be_queued_for_a_closed_session() {
    let world = World::new();
    let paths = world.fresh();
    drop(open_quietly(&paths).await);
    Queue::open(&paths)
        .unwrap()
        .send(MailKind::FollowUp, "later")
        .unwrap();
    let session = open_quietly(&paths).await;
    let mail = session.mail(MailKind::FollowUp).await.unwrap();
    assert_eq!(mail[0].content, "later");
    assert_eq!(session.mail(MailKind::Steer).await.unwrap(), []);
}

#[tokio::test]
async fn many_senders_can_create_the_queue_at_once() {
    let world = World::new();
    let paths = world.fresh();
    let session = open_quietly(&paths).await;
    let senders: Vec<_> = (0..8)
        .map(|_| {
            let paths = paths.clone();
            thread::spawn(move || {
                let queue = Queue::open(&paths).unwrap();
                let send = |number: i32| queue.send(MailKind::Steer, &number.to_string());
                (0..5)
                    .map(|number| send(number).unwrap())
                    .collect::<Vec<_>>()
            })
        })
        .collect();
    let sent: HashSet<_> = senders
        .into_iter()
        .flat_map(|sender| sender.join().unwrap())
        .collect();
    assert_eq!(sent.len(), 40);
    let mail = session.mail(MailKind::Steer).await.unwrap();
    let read: HashSet<_> = mail.into_iter().map(|mail| mail.id).collect();
    assert_eq!(read, sent);
}

#[tokio::test]
async fn ten_thousand_queued_messages_are_delivered_once() {
    let world = World::new();
    let paths = world.fresh();
    let session = open_quietly(&paths).await;
    let mut speaker = Speaker::default();
    append(&session, &speaker.prompt("go")).await;
    Queue::open(&paths).unwrap();
    let queue = rusqlite::Connection::open(paths.queue()).unwrap();
    queue
        .execute_batch(
            "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 10000)
             INSERT INTO queue_messages (id, message_type, content, created_at)
             SELECT printf('%026d', i), 'steer', 'message ' || i, 1 FROM n",
        )
        .unwrap();
    let mail = session.mail(MailKind::Steer).await.unwrap();
    assert_eq!(mail.len(), 10_000);
    assert!(mail.is_sorted_by_key(|mail| mail.id.clone()));
    let records = mail.into_iter().map(|mail| {
        let content = vec![ContentBlock::text(mail.content)];
        Record::Message(speaker.says_as(mail.id, Role::User, Origin::Steering, content))
    });
    session.append(records.collect()).await.unwrap();
    assert_eq!(session.mail(MailKind::Steer).await.unwrap(), []);
    let waiting: i64 = queue
        .query_row(
            "SELECT count(*) FROM queue_messages WHERE consumed_at IS NULL",
            [],
            |row| row.get(0),
        )
        .unwrap();
    assert_eq!(waiting, 0);
    assert_eq!(session.load().await.unwrap().messages().len(), 10_001);
}

#[tokio::test]
async fn the_holder_is_shown_in_the_queue_as_by_the_original_program() {
    let world = World::new();
    let paths = world.fresh();
    let session = open_quietly(&paths).await;
    Queue::open(&paths).unwrap();
    session.mail(MailKind::Steer).await.unwrap();
    let queue = rusqlite::Connection::open(paths.queue()).unwrap();
    let holder = || {
        queue.query_row(
            "SELECT owner_pid, heartbeat_at >= started_at FROM session_lock WHERE key = 'lock'",
            [],
            |row| Ok((row.get::<_, u32>(0)?, row.get::<_, bool>(1)?)),
        )
    };
    assert_eq!(holder().unwrap(), (std::process::id(), true));
    drop(session);
    assert!(holder().is_err());
}

#[tokio::test]
async fn a_replaced_writer_cannot_write() {
    let world = World::new();
    let paths = world.fresh();
    let session = open_quietly(&paths).await;
    let mut speaker = Speaker::default();
    append(&session, &speaker.prompt("go")).await;
    // As from another machine, where the file lock has no effect.
    let other = rusqlite::Connection::open(paths.database()).unwrap();
    other
        .execute("UPDATE lease SET epoch = epoch + 1", [])
        .unwrap();
    let late = Record::Message(speaker.answer("late"));
    let error = session.append(vec![late]).await.unwrap_err();
    assert_eq!(error.reason, "another process has taken over the session");
    assert_eq!(session.load().await.unwrap().messages().len(), 1);
}

#[tokio::test]
async fn the_files_of_a_session_are_accessible_to_their_owner_only() {
    let world = World::new();
    let paths = world.fresh();
    let session = open_quietly(&paths).await;
    append(&session, &Speaker::default().prompt("go")).await;
    Queue::open(&paths)
        .unwrap()
        .send(MailKind::Steer, "x")
        .unwrap();
    let mode = |path: &std::path::Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&world.folder()), 0o700);
    for entry in fs::read_dir(world.folder()).unwrap() {
        let path = entry.unwrap().path();
        assert_eq!(mode(&path), 0o600, "{}", path.display());
    }
    let ignored = fs::read_to_string(world.folder().join(".gitignore")).unwrap();
    insta::assert_snapshot!(ignored, @r"
    /.gitignore
    /*.db
    /*.db-*
    /*.db.*
    /*.lock
    /*.out/
    /*.queue*
    /leaving/
    /coming/
    ");
}

#[tokio::test]
async fn a_closed_session_consists_of_database_and_lock_only() {
    let world = World::new();
    let paths = world.fresh();
    let session = open_quietly(&paths).await;
    append(&session, &Speaker::default().prompt("go")).await;
    drop(session);
    assert_eq!(open_and_load(&paths).await.0.len(), 1);
    Tree::open(&paths).unwrap().heads().unwrap();
    world.sessions().list().unwrap();
    let mut names: Vec<_> = fs::read_dir(world.folder())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    let id = paths.id().unwrap();
    assert_eq!(
        names,
        [
            ".gitignore".to_owned(),
            format!("{id}.db"),
            format!("{id}.lock")
        ]
    );
}
