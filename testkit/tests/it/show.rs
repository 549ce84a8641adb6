//! A conversation stored in the test world, formatted for snapshots.

use std::sync::Arc;

use ah_conversation::{
    Clock, ContentBlock, EventKind, ExitReason, Image, Input, Message, Origin, Record, Response,
    Role, StopReason, Store, ToolResult, ToolUse, Usage,
};
use ah_testkit::show;
use ah_testkit::world::World;
use serde_json::json;

#[tokio::test]
async fn a_stored_conversation_is_formatted_in_lines() {
    let world = World::with_files(&[("notes/a.txt", "hello")]);
    assert_eq!(
        std::fs::read_to_string(world.folder().join("notes/a.txt")).expect("written"),
        "hello"
    );
    let call = ToolUse {
        id: "toolu_1".into(),
        name: "read".to_owned(),
        input: Input::from(json!({"path": "notes/a.txt"})),
    };
    let image = Image {
        media_type: "image/png".to_owned(),
        data: "AA==".to_owned(),
    };
    let thinking = ContentBlock::Thinking {
        thinking: "Hm.".to_owned(),
        signature: Some("s".to_owned()),
    };
    let mut parent: Option<Message> = None;
    for (role, origin, content) in [
        (
            Role::User,
            Origin::Prompt,
            vec![ContentBlock::text("what is"), ContentBlock::Image(image)],
        ),
        (
            Role::Assistant,
            Origin::Model,
            vec![thinking, ContentBlock::ToolUse(call.clone())],
        ),
        (
            Role::User,
            Origin::Results,
            vec![ContentBlock::ToolResult(ToolResult::error(
                &call,
                "no such file",
            ))],
        ),
    ] {
        let message = Message {
            id: world.clock.message_id(),
            parent: parent.as_ref().map(|message| message.id.clone()),
            seq: parent.as_ref().map_or(0, |message| message.seq + 1),
            role,
            origin,
            created_at: world.clock.now(),
            content,
            response: (role == Role::Assistant).then(|| Response {
                stop_reason: StopReason::ToolUse,
                usage: Usage::default(),
                cost: None,
                model: "test".to_owned(),
                provider: "script".to_owned(),
                latency_ms: 1,
                request_id: None,
                opaque: None,
            }),
        };
        parent = Some(message.clone());
        world
            .store
            .append(vec![Record::Message(Arc::new(message))])
            .await
            .expect("stored");
    }
    let transcript = world.store.load().await.expect("stored");
    insta::assert_snapshot!(show::messages(transcript.messages()), @r#"
    user: what is [image image/png]
    assistant: [thinking Hm.] [tool_use read {"path":"notes/a.txt"}] (tool_use)
    user: [tool_result read error: no such file]
    "#);
}

#[test]
fn events_are_formatted_in_lines() {
    let end = EventKind::ToolCallEnd {
        tool_name: "bash".to_owned(),
        tool_output: String::new(),
        is_error: true,
        duration_ms: 17,
        tool_key: "ls".to_owned(),
        tool_index: 1,
        tool_count: 1,
        tool_lines: None,
    };
    let kinds = [
        EventKind::ApiCallStart { payload_bytes: 5 },
        EventKind::TextDelta {
            text: "Look.".to_owned(),
        },
        end,
        EventKind::Retry {
            attempt: 0,
            delay_ms: 812,
            status: 529,
            error: "Overloaded".to_owned(),
        },
        EventKind::AgentEnd {
            stop_reason: ExitReason::EndTurn,
            total_input_tokens: 1,
            total_output_tokens: 2,
            total_cache_read_tokens: 0,
            error: None,
            error_class: None,
        },
    ];
    insta::assert_snapshot!(show::events(&kinds), @"
    api_call_start
    text_delta Look.
    tool_call_end bash error
    retry 0 529 Overloaded
    agent_end end_turn
    ");
}
