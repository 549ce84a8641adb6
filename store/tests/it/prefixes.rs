//! The beginning of a branch's requests: stored with the message since which it is sent, found on every branch through it.

use std::sync::Arc;

use ah_conversation::{Known, Message, Prefix, Record, Store};
use ah_store::{Paths, SessionStore};

use crate::fixture::{Speaker, World, append, open_quietly};

fn prefix(text: &str) -> Arc<Prefix> {
    Arc::new(Prefix {
        system: Arc::new([text.to_owned()]),
        facts: vec![Known {
            name: "AGENTS.md".to_owned(),
            value: "1-2".to_owned(),
        }],
        ..Prefix::default()
    })
}

/// Returns the system prompt of the branch that ends with `message`, in a new process.
async fn found(paths: &Paths, message: &Arc<Message>) -> Option<String> {
    let session = open_quietly(paths).await;
    session.checkout(message.id.clone()).await.unwrap();
    let transcript = session.load().await.unwrap();
    transcript.prefix().map(|prefix| prefix.system[0].clone())
}

async fn begin(session: &SessionStore, message: &Arc<Message>, text: &str) {
    let record = Record::Prefix(message.id.clone(), prefix(text));
    session.append(vec![record]).await.unwrap();
}

#[tokio::test]
async fn each_branch_finds_the_newest_beginning_on_its_way() {
    let world = World::new();
    let paths = world.fresh();
    let session = open_quietly(&paths).await;
    let mut speaker = Speaker::default();
    let root = speaker.prompt("root");
    let (one, two, three) = (
        speaker.answer("1"),
        speaker.prompt("2"),
        speaker.answer("3"),
    );
    let fork = Speaker::after(&one).prompt("fork");
    let other = Speaker::default().prompt("another root");
    for message in [&root, &one, &two, &three, &fork, &other] {
        append(&session, message).await;
    }
    begin(&session, &root, "first").await;
    begin(&session, &two, "second").await;
    // What is stored later for an earlier message does not hold behind a later one.
    begin(&session, &root, "first").await;
    drop(session);
    for (message, expected) in [
        (&root, Some("first")),
        (&one, Some("first")),
        (&fork, Some("first")),
        (&two, Some("second")),
        (&three, Some("second")),
        (&other, None),
    ] {
        assert_eq!(found(&paths, message).await.as_deref(), expected);
    }
    let connection = rusqlite::Connection::open(paths.database()).unwrap();
    let contents: i64 = connection
        .query_row("SELECT count(content) FROM prefixes", [], |row| row.get(0))
        .unwrap();
    assert_eq!(contents, 2, "each content is stored once");
}

#[tokio::test]
async fn behind_a_deleted_message_no_beginning_holds() {
    let world = World::new();
    let paths = world.fresh();
    let session = open_quietly(&paths).await;
    let mut speaker = Speaker::default();
    let root = speaker.prompt("root");
    let (one, two, three) = (
        speaker.answer("1"),
        speaker.prompt("2"),
        speaker.answer("3"),
    );
    for message in [&root, &one, &two, &three] {
        append(&session, message).await;
    }
    begin(&session, &root, "first").await;
    session.delete(one.id.clone()).await.unwrap();
    drop(session);
    assert_eq!(found(&paths, &three).await, None);
    assert_eq!(found(&paths, &root).await.as_deref(), Some("first"));
    let session = open_quietly(&paths).await;
    begin(&session, &three, "second").await;
    drop(session);
    assert_eq!(found(&paths, &three).await.as_deref(), Some("second"));
}
