//! What a run relies on when a session is opened again, by another process or on another machine.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::Arc;

use ah_conversation::{
    Branch, CallState, Content, FileCause, FileChange, FileState, FilesLeft, MailKind,
    Mailbox as _, Prefix, Record, SharedState as _, Spool, Store, Time, ToolUseId,
};
use ah_store::SessionStore;

use crate::fixture::{Speaker, append, bytes, finished, result, started};

/// Where a session is kept.
pub trait Place {
    /// Opens it.
    async fn open(&self) -> SessionStore;

    /// Takes the session away from whoever has it open.
    async fn replace_writer(&self);
}

/// Makes all checks, each at a place of its own.
pub async fn check<P: Place>(place: impl AsyncFn() -> P) {
    all_that_was_acknowledged_is_there(&place().await).await;
    mail_outlives_its_reader(&place().await).await;
    a_replaced_writer_writes_nothing(&place().await).await;
    an_interrupted_call_is_known_as_started(&place().await).await;
}

/// Returns all that can be read of a session, as text.
pub async fn portrait(session: &SessionStore) -> String {
    let mut text = session
        .read(|tree| {
            let mut text = String::new();
            for head in tree.heads()? {
                let _ = writeln!(text, "{:?} {:?}", head.agent_id, head.message);
            }
            let current = tree.current()?;
            let branch = current.map(|leaf| tree.branch(&leaf)).transpose()?;
            for message in branch.unwrap_or_default() {
                let _ = writeln!(text, "now {message:?}");
                for result in message.tool_results() {
                    let mut whole = Vec::new();
                    tree.copy_output(&result.tool_use_id, &mut whole)?;
                    let _ = writeln!(text, "output {} {whole:?}", result.tool_use_id);
                }
            }
            let _ = writeln!(text, "{:?}", tree.events()?);
            Ok(text)
        })
        .await
        .unwrap();
    let transcript = session.load().await.unwrap();
    for message in transcript.messages() {
        let _ = writeln!(text, "loaded {message:?}");
        for call in message.tool_uses() {
            let _ = writeln!(text, "{} {:?}", call.id, transcript.call(&call.id));
        }
    }
    let _ = writeln!(text, "{:?}", transcript.prefix());
    for step in session.file_steps().await.unwrap() {
        let _ = writeln!(text, "{step:?}");
        for state in step.before.values() {
            if let FileState::File { content, .. } = state {
                let content = session.file_content(content).await.unwrap();
                let _ = writeln!(text, "{content:?}");
            }
        }
    }
    let _ = writeln!(text, "{}", session.uuid());
    text
}

async fn all_that_was_acknowledged_is_there(place: &impl Place) {
    let scratch = tempfile::tempdir().unwrap();
    let first = Arc::new(place.open().await);
    let mut speaker = Speaker::default();
    let prompt = speaker.prompt("go \u{0}\u{1b}[31m");
    append(&*first, &prompt).await;
    first.set_name("here".to_owned()).await.unwrap();
    let uuid = "0e2f7b4a-0000-4000-8000-000000000001";
    first.set_uuid(uuid.to_owned()).await.unwrap();
    let prefix = Prefix {
        system: vec!["be brief".to_owned()].into(),
        ..Prefix::default()
    };
    let asking = speaker.calls(&["text", "raw", "big", "file"]);
    let spooled = scratch.path().join("spooled");
    std::fs::write(&spooled, b"head\ntail\n").unwrap();
    let content = |text: &str| FileState::File {
        content: text.as_bytes().into(),
        mode: 0o644,
    };
    let files = FileChange {
        cause: FileCause::Run(prompt.id.clone()),
        at: Time(5),
        before: vec![
            (PathBuf::from("/a"), content("old")),
            (PathBuf::from("/long"), content(&"x".repeat(100_000))),
            (PathBuf::from("/none"), FileState::Absent { folders: 1 }),
        ],
        unseen: vec!["make".to_owned()],
    };
    let left = FilesLeft {
        paths: Some(vec![PathBuf::from("/a")]),
        until: Time(9),
    };
    let beginning = Record::Prefix(prompt.id.clone(), Arc::new(prefix));
    let answer = Record::Message(asking.clone());
    first.append(vec![beginning, answer]).await.unwrap();
    let calls = ["text", "raw", "big", "file"].map(|id| started(&asking, id, "command"));
    first.append(calls.to_vec()).await.unwrap();
    let spool = Spool {
        path: spooled,
        len: 1010,
        lines: 2,
        left_out: 1000,
        sha256: "of the file".to_owned(),
        head: b"head\n".to_vec(),
        tail: b"tail\n".to_vec(),
    };
    let outputs = [
        ("text", bytes("short\u{0}")),
        ("raw", bytes([0xff, 0, 0xfe])),
        ("big", bytes(vec![b'y'; 300_000])),
        ("file", Content::Spool(spool)),
    ];
    let results: Vec<_> = outputs.iter().map(|(id, _)| result(id, "seen")).collect();
    for ((_, output), result) in outputs.into_iter().zip(&results) {
        let finish = finished(&asking, result.clone(), output);
        first.append(vec![finish]).await.unwrap();
    }
    let changed = vec![Record::Files(files), Record::FilesLeft(left)];
    first.append(changed).await.unwrap();
    let answered = speaker.results(results);
    append(&*first, &answered).await;
    let below = first.clone().branch(Branch {
        agent_id: "helper".to_owned(),
        spawned_by: ToolUseId::from("text"),
    });
    append(&*below, &Speaker::default().prompt("help")).await;
    let note = |said: &str| vec![Record::Note("shared".to_owned(), said.to_owned())];
    first.append(note("one")).await.unwrap();
    below.append(note("two")).await.unwrap();
    append(&*first, &speaker.answer("done")).await;
    first.checkout(answered.id.clone()).await.unwrap();
    let expected = portrait(&first).await;
    drop(below);
    drop(first);

    let second = place.open().await;
    assert_eq!(portrait(&second).await, expected);
    assert_eq!(second.note("shared").await.unwrap().as_deref(), Some("two"));
    assert_eq!(second.note("missing").await.unwrap(), None);
    assert_eq!(second.uuid(), uuid);
    let name = second.read(|tree| tree.name()).await.unwrap();
    assert_eq!(name.as_deref(), Some("here"));
    // Whoever goes on appends to the same conversation.
    append(&second, &Speaker::after(&answered).answer("more")).await;
    let expected = portrait(&second).await;
    drop(second);
    assert_eq!(portrait(&place.open().await).await, expected);
}

async fn mail_outlives_its_reader(place: &impl Place) {
    let first = place.open().await;
    let mut speaker = Speaker::default();
    append(&first, &speaker.prompt("go")).await;
    for text in ["one", "two", "three"] {
        let text = text.to_owned();
        first.send(MailKind::FollowUp, text).await.unwrap();
    }
    let mail = first.mail(MailKind::FollowUp).await.unwrap();
    let block = vec![ah_conversation::ContentBlock::text("one")];
    let (role, origin) = (
        ah_conversation::Role::User,
        ah_conversation::Origin::FollowUp,
    );
    append(
        &first,
        &speaker.says_as(mail[0].id.clone(), role, origin, block),
    )
    .await;
    assert!(first.withdraw(mail[1].id.clone()).await.unwrap());
    assert!(!first.withdraw(mail[0].id.clone()).await.unwrap());
    drop(first);
    let left = place.open().await.mail(MailKind::FollowUp).await.unwrap();
    assert_eq!(left, [mail[2].clone()]);
}

async fn a_replaced_writer_writes_nothing(place: &impl Place) {
    let late = place.open().await;
    let mut speaker = Speaker::default();
    let prompt = speaker.prompt("go");
    append(&late, &prompt).await;
    place.replace_writer().await;
    let answer = Record::Message(speaker.answer("too late"));
    let error = late.append(vec![answer.clone()]).await.unwrap_err();
    assert_eq!(error.reason, "another process has taken over the session");
    // However often it tries.
    assert!(late.append(vec![answer]).await.is_err());
    assert!(late.set_name("late".to_owned()).await.is_err());
    drop(late);
    let next = place.open().await;
    assert_eq!(next.load().await.unwrap().messages(), [prompt]);
    assert_eq!(next.read(|tree| tree.name()).await.unwrap(), None);
}

async fn an_interrupted_call_is_known_as_started(place: &impl Place) {
    let first = place.open().await;
    let mut speaker = Speaker::default();
    append(&first, &speaker.prompt("go")).await;
    let asking = speaker.calls(&["done", "cut"]);
    append(&first, &asking).await;
    let calls = ["done", "cut"].map(|id| started(&asking, id, "command"));
    first.append(calls.to_vec()).await.unwrap();
    let kept = result("done", "seen");
    let finish = finished(&asking, kept.clone(), bytes("whole"));
    first.append(vec![finish]).await.unwrap();
    drop(first);
    let transcript = place.open().await.load().await.unwrap();
    let done = transcript.call(&"done".into());
    assert_eq!(done, Some(&CallState::Finished(kept)));
    let cut = transcript.call(&"cut".into());
    assert!(matches!(
        cut,
        Some(CallState::Started { mutating: true, .. })
    ));
}
