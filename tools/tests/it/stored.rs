//! Paging of stored outputs.

use std::sync::Arc;

use ah_conversation::{
    CallFinish, Content, ContentBlock, Context, Message, Origin, Record, ResultBlock, Role, Store,
    Tool, ToolResult, ToolUse,
};
use ah_testkit::world::SessionStore;
use ah_tools::Stored;
use serde_json::{Value, json};

use crate::folder::{Folder, text};

/// Returns a store with 5,000 numbered lines as the output of `call`.
async fn store(folder: &Folder) -> Arc<dyn Store> {
    let store = SessionStore::in_memory(&folder.path("")).unwrap();
    let call = ToolUse {
        id: "call".into(),
        name: "tool".into(),
        input: json!({}).into(),
    };
    let message = |id: &str, parent: Option<&str>, role, origin, block| Message {
        id: id.into(),
        parent: parent.map(Into::into),
        seq: u32::from(parent.is_some()),
        role,
        origin,
        created_at: Default::default(),
        content: vec![block],
        response: None,
    };
    let words = ContentBlock::Text { text: "go".into() };
    let prompt = message("a", None, Role::User, Origin::Prompt, words);
    let answer = ContentBlock::ToolUse(call.clone());
    let answer = message("b", Some("a"), Role::Assistant, Origin::Model, answer);
    let all: String = (1..=5_000).map(|line| format!("line {line}\n")).collect();
    let finish = CallFinish {
        message_id: "b".into(),
        result: ToolResult {
            tool_use_id: call.id,
            tool_name: call.name,
            duration_ms: 0,
            content: vec![ResultBlock::Text {
                text: "line 1 …".into(),
            }],
            is_error: false,
            details: None,
            lines: None,
        },
        output: Content::Bytes(all.into_bytes()),
        at: Default::default(),
    };
    store
        .append(vec![
            Record::Message(Arc::new(prompt)),
            Record::Message(Arc::new(answer)),
            Record::CallFinished(finish),
        ])
        .await
        .unwrap();
    Arc::new(store)
}

#[tokio::test]
async fn a_stored_output_is_paged() {
    let folder = Folder::new();
    let tool = Stored::new(store(&folder).await);
    for (input, expected) in [
        (
            json!({ "offset": 2, "limit": 2 }),
            "line 2\nline 3\n[lines 2 to 3 of 5000]",
        ),
        (
            json!({ "offset": "4999" }),
            "line 4999\nline 5000\n[lines 4999 to 5000 of 5000]",
        ),
        (
            json!({ "offset": 0, "limit": 1 }),
            "line 1\n[lines 1 to 1 of 5000]",
        ),
        (
            json!({ "offset": 5001 }),
            "error: the output of call has 5000 lines; there is no line 5001",
        ),
        (
            json!({ "tool_use_id": "other" }),
            "error: there is no stored output of a call other",
        ),
    ] {
        assert_eq!(run(&tool, input).await, expected);
    }
    let page = run(&tool, json!({})).await;
    assert!(
        page.ends_with("\nline 2000\n[lines 1 to 2000 of 5000]"),
        "{page}"
    );
    let all = run(&tool, json!({ "limit": 5_000 })).await;
    assert!(all.ends_with("\nline 5000"));
}

async fn run(tool: &Stored, mut input: Value) -> String {
    let arguments = input.as_object_mut().unwrap();
    arguments.entry("tool_use_id").or_insert("call".into());
    let call = ToolUse {
        id: "page".into(),
        name: tool.spec().name.clone(),
        input: input.into(),
    };
    let context = Context::new("/nonexistent/spool".into());
    text(&tool.run(&call, &context).await)
}
