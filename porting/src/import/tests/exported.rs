//! A session that is exported as a transcript and read again is the same.

use std::path::Path;

use ah_conversation::{
    Clock as _, ContentBlock, Image, Message, Origin, Response, ResultBlock, Role, StopReason,
    Time, ToolResult, ToolUse, ToolUseId, Usage,
};
use ah_ids::SystemClock;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{claude, read_as};
use crate::import::session::Program;

/// One turn: what was asked, said before the calls, and the results of the calls.
type Turn = (String, Option<String>, Vec<(String, bool)>, String);

fn text() -> impl Strategy<Value = String> {
    "[a-zé\u{2028}\u{1b}\"\\\\ \n{}<>]{1,12}"
}

fn turns() -> impl Strategy<Value = Vec<Turn>> {
    let calls = proptest::collection::vec((text(), any::<bool>()), 0..4);
    let turn = (text(), proptest::option::of(text()), calls, text());
    proptest::collection::vec(turn, 1..4)
}

fn conversation(turns: &[Turn]) -> Vec<Message> {
    let clock = SystemClock::default();
    let mut messages: Vec<Message> = Vec::new();
    let mut push = |role, origin, content: Vec<ContentBlock>, response| {
        let stamp = (clock.message_id(), Time(1_770_000_000_000));
        let behind = Message::behind(messages.last(), stamp, role, origin, content);
        messages.push(Message { response, ..behind });
    };
    let response = |stop_reason| Response {
        stop_reason,
        usage: Usage {
            input_tokens: 3,
            output_tokens: 5,
            ..Usage::default()
        },
        cost: None,
        model: "claude-opus-5-5".to_owned(),
        provider: "anthropic".to_owned(),
        latency_ms: 0,
        request_id: None,
        opaque: None,
    };
    for (number, (asked, before, calls, said)) in turns.iter().enumerate() {
        push(
            Role::User,
            Origin::Prompt,
            vec![ContentBlock::text(asked)],
            None,
        );
        let id = |at: usize| ToolUseId::from(format!("toolu_{number}_{at}"));
        if !calls.is_empty() {
            let uses = calls.iter().enumerate().map(|(at, (word, _))| {
                ContentBlock::ToolUse(ToolUse {
                    id: id(at),
                    name: "bash".to_owned(),
                    input: json!({"command": word}).into(),
                })
            });
            let content = before.iter().map(ContentBlock::text).chain(uses).collect();
            push(
                Role::Assistant,
                Origin::Model,
                content,
                Some(response(StopReason::ToolUse)),
            );
            let results = calls.iter().enumerate().map(|(at, (word, is_error))| {
                let picture = ResultBlock::Image(Image {
                    media_type: "image/png".to_owned(),
                    data: "AAAA".to_owned(),
                });
                let words = ResultBlock::Text { text: word.clone() };
                ContentBlock::ToolResult(ToolResult {
                    tool_use_id: id(at),
                    tool_name: "bash".to_owned(),
                    content: if *is_error {
                        vec![words]
                    } else {
                        vec![words, picture]
                    },
                    is_error: *is_error,
                    lines: None,
                    duration_ms: 0,
                    details: None,
                })
            });
            push(Role::User, Origin::Results, results.collect(), None);
        }
        let content = vec![ContentBlock::text(said)];
        push(
            Role::Assistant,
            Origin::Model,
            content,
            Some(response(StopReason::EndTurn)),
        );
    }
    messages
}

/// What a message says, and what a reader of usage counts.
fn essence(messages: &[Message]) -> Vec<Value> {
    let of = |message: &Message| {
        let response = message.response.as_ref();
        let told = response.map(|it| (it.model.clone(), it.usage, it.stop_reason.clone()));
        json!({
            // Each result has a name of its own in the original's format, and the message has none.
            "id": Some(&message.id).filter(|_| message.origin != Origin::Results),
            "role": message.role,
            "content": message.content,
            "told": format!("{told:?}"),
        })
    };
    messages.iter().map(of).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn a_session_survives_its_export(turns in turns()) {
        let messages = conversation(&turns);
        let uuid = "9b0f0a52-0000-4000-8000-000000000000";
        let text = crate::export::claude(&messages, uuid, Path::new("/w")).unwrap();
        prop_assert_eq!(text.lines().count(), text.split('\n').count() - 1);
        let imported = read_as(Program::Claude, &text);
        prop_assert_eq!(&imported.left, &[""; 0]);
        prop_assert_eq!(essence(&imported.messages), essence(&messages));
        // Windows writes it otherwise.
        let marked = format!("\u{feff}{}", text.replace('\n', "\r\n"));
        let again = claude::read(&marked, uuid);
        prop_assert_eq!(essence(&again.messages), essence(&messages));
        // The rows of one answer name one request, by which readers of usage count it once.
        let rows: Vec<Value> = text.lines().map(|row| serde_json::from_str(row).unwrap()).collect();
        let mut requests: Vec<_> = rows.iter().filter_map(|row| row["requestId"].as_str()).collect();
        requests.dedup();
        let answers = messages.iter().filter(|it| it.role == Role::Assistant).count();
        prop_assert_eq!(requests.len(), answers);
    }
}
