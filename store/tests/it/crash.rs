//! Sessions whose process died at any moment.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use ah_conversation::{Event, EventKind, Message, Record, Store};
use ah_store::{Notice, Paths, Tree};

use crate::fixture::{
    PAGE, Speaker, World, append, bytes, finished, open_and_load, open_quietly, result, started,
};

/// Copies the current files of a session to `folder`, as a crash at this moment would leave them.
fn copy_files(paths: &Paths, folder: &Path) -> Paths {
    let name = paths.database().file_name().unwrap();
    let copy = folder.join(name);
    fs::create_dir_all(folder).unwrap();
    for ending in ["", "-wal"] {
        let with_ending = |path: &Path| format!("{}{ending}", path.display());
        fs::copy(with_ending(paths.database()), with_ending(&copy)).unwrap();
    }
    Paths::of(copy)
}

/// Returns a conversation with every kind of record, in the batches in which a run stores it, each with all messages
/// so far.
fn batches() -> Vec<(Vec<Record>, Vec<Arc<Message>>)> {
    let mut speaker = Speaker::default();
    let mut batches = Vec::new();
    let mut said = Vec::new();
    for turn in 0..3 {
        let prompt = speaker.prompt(&format!("prompt {turn}"));
        let asking = speaker.calls(&["a", "b"]);
        let results = speaker.results(vec![result("a", "x"), result("b", "y")]);
        let big = "0123456789".repeat(1000);
        let steps: [(Vec<Record>, Option<&Arc<Message>>); 5] = [
            (vec![Record::Message(prompt.clone())], Some(&prompt)),
            (vec![Record::Message(asking.clone())], Some(&asking)),
            (
                vec![
                    started(&asking, "a", "command"),
                    started(&asking, "b", "command"),
                ],
                None,
            ),
            (
                vec![finished(&asking, result("a", "x"), bytes(big.clone()))],
                None,
            ),
            (
                vec![
                    finished(&asking, result("b", "y"), bytes(big)),
                    Record::Message(results.clone()),
                ],
                Some(&results),
            ),
        ];
        for (records, message) in steps {
            said.extend(message.cloned());
            batches.push((records, said.clone()));
        }
    }
    batches
}

#[tokio::test]
async fn nothing_acknowledged_is_lost_in_a_crash_between_any_two_commits() {
    let world = World::new();
    let paths = world.fresh();
    let session = open_quietly(&paths).await;
    for (number, (records, said)) in batches().into_iter().enumerate() {
        session.append(records).await.unwrap();
        let copy = copy_files(&paths, &world.root().join(number.to_string()));
        let (messages, notices) = open_and_load(&copy).await;
        assert_eq!(messages, said);
        assert_eq!(notices, []);
        assert_eq!(
            Tree::open(&copy).unwrap().integrity_errors().unwrap(),
            Vec::<String>::new()
        );
    }
}

#[tokio::test]
async fn a_truncated_log_leaves_an_intact_start_of_the_conversation() {
    let world = World::new();
    let paths = world.fresh();
    let session = open_quietly(&paths).await;
    let batches = batches();
    let everything = &batches[batches.len() - 1].1;
    for (records, _) in &batches {
        session.append(records.clone()).await.unwrap();
    }
    let copy = copy_files(&paths, &world.root().join("whole"));
    let log_of = |paths: &Paths| format!("{}-wal", paths.database().display());
    let log = fs::read(log_of(&copy)).unwrap();
    // Cuts around each boundary of two frames, and within each frame.
    let frames = (0..log.len()).step_by(PAGE + 24);
    let cuts = frames.flat_map(|at| [at, at + 31, at + 32, at + PAGE / 2]);
    let mut longest = 0;
    for cut in cuts.filter(|cut| *cut <= log.len()) {
        let torn = copy_files(&copy, &world.root().join("torn"));
        fs::write(log_of(&torn), &log[..cut]).unwrap();
        let (messages, notices) = open_and_load(&torn).await;
        assert!(everything.starts_with(&messages), "cut at {cut}");
        assert!(
            messages.len() >= longest,
            "a longer log has fewer messages: cut at {cut}"
        );
        assert_eq!(notices, [], "cut at {cut}");
        longest = messages.len();
    }
    assert_eq!(longest, everything.len());
}

#[tokio::test]
async fn an_unfinished_draft_of_a_session_is_replaced() {
    let world = World::new();
    let paths = world.fresh();
    fs::create_dir_all(world.folder()).unwrap();
    fs::write(format!("{}.new", paths.database().display()), "half").unwrap();
    let session = open_quietly(&paths).await;
    append(&session, &Speaker::default().prompt("go")).await;
}

#[tokio::test]
async fn an_interrupted_run_is_reported_once() {
    let world = World::new();
    let paths = world.fresh();
    let session = open_quietly(&paths).await;
    let processing = Event {
        kind: EventKind::StateChange {
            from_state: "idle".to_owned(),
            to_state: "processing".to_owned(),
        },
        timestamp: 1,
    };
    session
        .append(vec![Record::Event(processing)])
        .await
        .unwrap();
    let copy = copy_files(&paths, &world.root().join("dead"));
    let (_, notices) = open_and_load(&copy).await;
    assert_eq!(notices, [Notice::Interrupted]);
    let (_, notices) = open_and_load(&copy).await;
    assert_eq!(notices, []);
    drop(session);
    let tree = Tree::open(&paths).unwrap();
    assert_eq!(tree.state().unwrap(), "closed");
}

#[tokio::test]
async fn messages_without_content_are_removed_except_for_responses() {
    let world = World::new();
    let paths = world.fresh();
    let session = open_quietly(&paths).await;
    let mut speaker = Speaker::default();
    let prompt = speaker.prompt("go");
    let silent = speaker.says(
        ah_conversation::Role::Assistant,
        ah_conversation::Origin::Model,
        Vec::new(),
    );
    let empty = speaker.says(
        ah_conversation::Role::User,
        ah_conversation::Origin::Prompt,
        Vec::new(),
    );
    for message in [&prompt, &silent, &empty] {
        append(&session, message).await;
    }
    drop(session);
    let (messages, notices) = open_and_load(&paths).await;
    assert_eq!(messages, [prompt, silent]);
    assert_eq!(notices, [Notice::EmptyMessages(1)]);
}
