//! File states are restored unchanged, and each content is stored once.

use std::path::PathBuf;
use std::sync::Arc;

use ah_conversation::{
    FileCause, FileChange, FileState, MessageId, Record, SharedState as _, Store, Time,
};
use ah_store::SessionStore;

use crate::fixture::World;

fn change(cause: FileCause, before: &[(&str, FileState<Arc<[u8]>>)]) -> Record {
    Record::Files(FileChange {
        cause,
        at: Time(5),
        before: before
            .iter()
            .map(|(path, state)| (PathBuf::from(path), state.clone()))
            .collect(),
        unseen: Vec::new(),
    })
}

#[tokio::test]
async fn the_first_state_in_a_run_counts_and_each_rewind_is_its_own_step() {
    let world = World::new();
    let paths = world.fresh();
    let file = |text: &str| FileState::File {
        content: text.as_bytes().into(),
        mode: 0o755,
    };
    let run = || FileCause::Run(MessageId::from("m1"));
    let rewind = || FileCause::Rewind(1);
    {
        let session = SessionStore::open(&paths).unwrap();
        for record in [
            change(
                run(),
                &[
                    ("/a", file("one")),
                    ("/b", FileState::Absent { folders: 2 }),
                ],
            ),
            change(run(), &[("/a", file("two")), ("/c", file("one"))]),
            change(rewind(), &[("/a", file("three"))]),
            change(rewind(), &[("/a", FileState::Unkept)]),
            change(run(), &[("/a", file("four"))]),
        ] {
            session.append(vec![record]).await.unwrap();
        }
    }
    let session = SessionStore::open(&paths).unwrap();
    let steps = session.file_steps().await.unwrap();
    let mut lines = Vec::new();
    for step in &steps {
        let mut words = vec![format!("{} {:?}:", step.number, step.cause)];
        for (path, state) in &step.before {
            let state = match state {
                FileState::File { content, mode } => {
                    let content = session.file_content(content).await.unwrap().unwrap();
                    format!("{} {mode:o}", String::from_utf8(content).unwrap())
                }
                other => format!("{other:?}"),
            };
            words.push(format!("{} = {state};", path.display()));
        }
        lines.push(words.join(" "));
    }
    insta::assert_snapshot!(lines.join("\n"), @r#"
    1 Run(m1): /a = one 755; /b = Absent { folders: 2 }; /c = one 755;
    2 Rewind(1): /a = three 755;
    3 Rewind(1): /a = Unkept;
    4 Run(m1): /a = four 755;
    "#);
    assert_eq!(session.file_content("nothing").await.unwrap(), None);
    drop(session);
    let connection = rusqlite::Connection::open(paths.database()).unwrap();
    let count: i64 = connection
        .query_row("SELECT count(content) FROM file_states", [], |row| {
            row.get(0)
        })
        .unwrap();
    assert_eq!(count, 3, "four files, two of one content");
}
