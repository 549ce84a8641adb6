//! Tests of reading the conversation tree.

use std::sync::Arc;

use ah_conversation::{Head, Message};
use ah_store::{Diff, Paths, SessionStore, Tree};

use crate::fixture::{Speaker, World, append, open_quietly, result};

/// root ─ a1 ─ a2 ─ a3
///     └─ b1 ─ b2           (`b2` is the current message)
async fn forked(paths: &Paths) -> SessionStore {
    let session = open_quietly(paths).await;
    let mut speaker = Speaker::default();
    let root = speaker.prompt("root");
    let mut other = Speaker::after(&root);
    let messages: [Arc<Message>; 6] = [
        root,
        speaker.calls(&["a1"]),
        speaker.results(vec![result("a1", "a2")]),
        speaker.answer("a3"),
        other.answer("b1"),
        other.prompt("b2"),
    ];
    for message in &messages {
        append(&session, message).await;
    }
    session
}

fn show(head: &Head) -> String {
    let calls: Vec<_> = head
        .tool_uses
        .iter()
        .map(|call| format!("{}({})", call.name, call.input.text("command").unwrap()))
        .collect();
    let said = match head.preview.as_str() {
        "" => calls.join(" "),
        text => text.to_owned(),
    };
    format!("@{} {:?} {said}", head.message.seq, head.message.origin)
}

fn lines<'a>(heads: impl IntoIterator<Item = &'a Head>) -> String {
    let lines: Vec<_> = heads.into_iter().map(show).collect();
    lines.join("\n")
}

#[tokio::test]
async fn heads_are_listed_in_the_order_of_storing() {
    let world = World::new();
    let paths = world.fresh();
    let _held = forked(&paths).await;
    let tree = Tree::open(&paths).unwrap();
    insta::assert_snapshot!(lines(&tree.heads().unwrap()), @"
    @0 Prompt root
    @1 Model bash(ls)
    @2 Results 
    @3 Model a3
    @1 Model b1
    @2 Prompt b2
    ");
    let current = tree.current().unwrap().unwrap();
    insta::assert_snapshot!(lines(&tree.ancestry(&current).unwrap()), @"
    @0 Prompt root
    @1 Model b1
    @2 Prompt b2
    ");
    let leaves = tree.leaves().unwrap();
    let depths: Vec<_> = leaves.iter().map(|(_, depth)| *depth).collect();
    assert_eq!(depths, [3, 4]);
    insta::assert_snapshot!(lines(leaves.iter().map(|(leaf, _)| leaf)), @"
    @2 Prompt b2
    @3 Model a3
    ");
}

#[tokio::test]
async fn a_number_stands_for_the_message_on_the_current_branch_or_else_the_oldest() {
    let world = World::new();
    let paths = world.fresh();
    let _held = forked(&paths).await;
    let tree = Tree::open(&paths).unwrap();
    for (number, expected) in [
        (0, Some("root")),
        (1, Some("b1")),
        (2, Some("b2")),
        (3, Some("a3")),
        (4, None),
    ] {
        let found = tree.numbered(number).unwrap();
        let text = found.map(|id| tree.message(&id).unwrap().unwrap().text());
        assert_eq!(text.as_deref(), expected, "@{number}");
    }
}

#[tokio::test]
async fn a_diff_shows_the_fork_and_the_rest_of_both_branches() {
    let world = World::new();
    let paths = world.fresh();
    let _held = forked(&paths).await;
    let tree = Tree::open(&paths).unwrap();
    let show_diff = |left, right| match tree.diff(left, right).unwrap() {
        None => "no such message".to_owned(),
        Some(Diff { fork, left, right }) => format!(
            "fork: {}\nleft: {}\nright: {}",
            lines(&fork),
            lines(&left),
            lines(&right)
        ),
    };
    insta::assert_snapshot!(show_diff(3, 2), @"
    fork: @0 Prompt root
    left: @1 Model bash(ls)
    @2 Results 
    @3 Model a3
    right: @1 Model b1
    @2 Prompt b2
    ");
    insta::assert_snapshot!(show_diff(2, 2), @"
    fork: @0 Prompt root
    left: @1 Model b1
    @2 Prompt b2
    right: @1 Model bash(ls)
    @2 Results
    ");
    insta::assert_snapshot!(show_diff(0, 2), @"
    fork: @0 Prompt root
    left: 
    right: @1 Model b1
    @2 Prompt b2
    ");
    assert_eq!(show_diff(0, 9), "no such message");
}

#[tokio::test]
async fn queries_written_for_the_original_program_still_work() {
    let world = World::new();
    let paths = world.fresh();
    let held = forked(&paths).await;
    held.set_name("talk".to_owned()).await.unwrap();
    drop(held);
    let database = rusqlite::Connection::open(paths.database()).unwrap();
    let rows = |sql: &str| {
        let mut statement = database.prepare(sql).unwrap();
        let columns = statement.column_count();
        let rows = statement.query_map([], |row| {
            let values = (0..columns).map(|column| {
                Ok(match row.get_ref(column)? {
                    rusqlite::types::ValueRef::Null => "-".to_owned(),
                    rusqlite::types::ValueRef::Integer(number) => number.to_string(),
                    other => other.as_str()?.to_owned(),
                })
            });
            values.collect::<rusqlite::Result<Vec<_>>>()
        });
        let rows: Vec<_> = rows.unwrap().map(|row| row.unwrap().join("|")).collect();
        rows.join("\n")
    };
    insta::assert_snapshot!(
        rows("SELECT role, seq, created_at, input_tokens, output_tokens, stop_reason, model, api_latency_ms
              FROM messages ORDER BY rowid"),
        @"
    user|0|1700000000|-|-|-|-|-
    assistant|1|1700000000|80|20|end_turn|model-1|1234
    user|2|1700000000|-|-|-|-|-
    assistant|3|1700000000|80|20|end_turn|model-1|1234
    assistant|1|1700000000|80|20|end_turn|model-1|1234
    user|2|1700000000|-|-|-|-|-
    "
    );
    insta::assert_snapshot!(
        rows("SELECT block_type, seq, content, tool_id, tool_name, tool_input, tool_output, is_error, duration_ms, details
              FROM content_blocks ORDER BY id"),
        @r#"
    text|0|root|-|-|-|-|0|-|-
    tool_use|0|-|a1|bash|{"command":"ls"}|-|0|-|-
    tool_result|0|-|a1|bash|-|a2|0|7|{"exit_code":0}
    text|0|a3|-|-|-|-|0|-|-
    text|0|b1|-|-|-|-|0|-|-
    text|0|b2|-|-|-|-|0|-|-
    "#
    );
    insta::assert_snapshot!(
        rows("SELECT key, CASE key WHEN 'current_message' THEN length(value) ELSE value END FROM context"),
        @"
    current_message|26
    session_name|talk
    session_state|closed
    "
    );
    insta::assert_snapshot!(
        rows("SELECT epoch, owner IS NULL FROM lease"),
        @"1|1"
    );
}
