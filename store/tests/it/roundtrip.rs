//! Appended records are loaded unchanged.

use std::sync::Arc;

use ah_conversation::{
    CallState, Content, ContentBlock, Cost, Image, Input, Message, MessageId, Opaque, Origin,
    Record, Response, ResultBlock, Role, StopReason, Store, Time, ToolResult, ToolUse, ToolUseId,
    Usage,
};
use ah_store::SessionStore;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use serde_json::{Map, Value, json};
use tokio::runtime::Builder;

use crate::fixture::{Speaker, World, append, finished};

fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        any::<String>(),
        Just("a\0b".to_owned()),
        Just(r"\ud800".to_owned()),
        Just(r#"{"__image__":true,"content":[]}"#.to_owned()),
        Just("[]".to_owned()),
    ]
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        text().prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Value::from),
            vec((key(), inner), 0..4).prop_map(|pairs| Map::from_iter(pairs).into()),
        ]
    })
}

/// Names that a tool may use, including those that the store uses.
fn key() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("spool".to_owned()),
        Just("origin".to_owned()),
        Just("kept_from".to_owned()),
        Just("blocks".to_owned()),
        Just("details".to_owned()),
        text(),
    ]
}

fn image() -> impl Strategy<Value = Image> {
    (text(), text()).prop_map(|(media_type, data)| Image { media_type, data })
}

fn result_block() -> impl Strategy<Value = ResultBlock> {
    prop_oneof![
        text().prop_map(|text| ResultBlock::Text { text }),
        image().prop_map(ResultBlock::Image),
    ]
}

fn tool_result() -> impl Strategy<Value = ToolResult> {
    (
        (text(), text(), vec(result_block(), 0..3)),
        (any::<bool>(), any::<u32>(), option::of(any_json())),
    )
        .prop_map(
            |((id, tool_name, content), (is_error, duration_ms, details))| ToolResult {
                tool_use_id: ToolUseId::from(id),
                tool_name,
                content,
                is_error,
                duration_ms: duration_ms.into(),
                details: details.map(Into::into),
                lines: None,
            },
        )
}

fn block() -> impl Strategy<Value = ContentBlock> {
    prop_oneof![
        text().prop_map(|text| ContentBlock::Text { text }),
        (text(), option::of(text())).prop_map(|(thinking, signature)| ContentBlock::Thinking {
            thinking,
            signature
        }),
        text().prop_map(|data| ContentBlock::RedactedThinking { data }),
        image().prop_map(ContentBlock::Image),
        (text(), text(), any_json()).prop_map(|(id, name, input)| ContentBlock::ToolUse(ToolUse {
            id: ToolUseId::from(id),
            name,
            input: Input::from(input),
        })),
        tool_result().prop_map(ContentBlock::ToolResult),
        any_json().prop_map(|raw| ContentBlock::Other { raw }),
    ]
}

fn origin() -> impl Strategy<Value = Origin> {
    prop_oneof![
        Just(Origin::Prompt),
        Just(Origin::Results),
        Just(Origin::Steering),
        Just(Origin::FollowUp),
        Just(Origin::Nudge),
        Just(Origin::Continuation),
        Just(Origin::Reminder),
        option::of(text()).prop_map(|id| Origin::Summary {
            kept_from: id.map(MessageId::from),
            shortened_to: Some(300),
        }),
    ]
}

/// What a server gave for itself: texts, trees, and the mark for what is said elsewhere.
fn opaque(number: u32) -> Opaque {
    let fields = |value: Value| value.as_object().cloned().unwrap();
    Opaque {
        message: fields(
            json!({"reasoning": null, "sealed": [{"n": number, "t": "\u{2028}\u{0}"}]}),
        ),
        blocks: vec![(3, fields(json!({"b": {"a": number}, "a": "s"})))],
    }
}

fn response() -> impl Strategy<Value = Response> {
    (
        (text(), text(), text(), any::<u32>()),
        any::<[u32; 5]>(),
        option::of(0..i64::MAX),
    )
        .prop_map(|((stop, model, provider, latency_ms), tokens, cost)| {
            let [input, output, written, read, written_1h] = tokens.map(u64::from);
            Response {
                stop_reason: StopReason::from(stop),
                usage: Usage {
                    input_tokens: input,
                    output_tokens: output,
                    cache_creation_input_tokens: written,
                    cache_read_input_tokens: read,
                    cache_creation_1h_input_tokens: written_1h,
                    web_search_requests: 0,
                },
                cost: cost.map(|cost| Cost(u128::try_from(cost).unwrap())),
                model,
                provider,
                latency_ms: latency_ms.into(),
                request_id: (latency_ms % 2 == 0).then(|| format!("req_{latency_ms}")),
                opaque: (latency_ms % 3 == 0).then(|| Box::new(opaque(latency_ms))),
            }
        })
}

/// A message without its position in the conversation.
fn message() -> impl Strategy<Value = Message> {
    let user = (vec(block(), 1..4), origin()).prop_map(|(content, origin)| (content, origin, None));
    let model = (vec(block(), 0..4), response())
        .prop_map(|(content, response)| (content, Origin::Model, Some(response)));
    (prop_oneof![user, model], -1_000_000_i64..4_000_000_000_000).prop_map(
        |((content, origin, response), at)| Message {
            id: MessageId::from(""),
            parent: None,
            seq: 0,
            role: match response {
                Some(_) => Role::Assistant,
                None => Role::User,
            },
            origin,
            created_at: Time(at),
            content,
            response,
        },
    )
}

/// Sets id, parent and depth of each message, so that each follows the one before.
fn chain(messages: Vec<Message>) -> Vec<Message> {
    let mut chain: Vec<Message> = Vec::new();
    for (seq, message) in (0..).zip(messages) {
        chain.push(Message {
            id: MessageId::from(format!("m{seq}")),
            parent: chain.last().map(|parent| parent.id.clone()),
            seq,
            ..message
        });
    }
    chain
}

fn whole_output() -> impl Strategy<Value = Content> {
    prop_oneof![
        vec(any::<u8>(), 0..40).prop_map(Content::Bytes),
        text().prop_map(|text| Content::Bytes(text.into_bytes())),
        vec(result_block(), 0..3).prop_map(Content::Blocks),
    ]
}

fn in_memory<F: Future>(check: impl FnOnce(SessionStore) -> F) -> F::Output {
    let world = World::new();
    let session = SessionStore::in_memory(world.root()).unwrap();
    Builder::new_current_thread()
        .build()
        .unwrap()
        .block_on(check(session))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn messages_are_loaded_unchanged(messages in vec(message(), 1..6).prop_map(chain)) {
        let back = in_memory(async |session| {
            for message in &messages {
                append(&session, &Arc::new(message.clone())).await;
            }
            let leaf = messages[messages.len() - 1].id.clone();
            session.read(move |tree| tree.branch(&leaf)).await.unwrap()
        });
        prop_assert_eq!(back, messages);
    }

    #[test]
    fn results_are_loaded_unchanged_from_the_journal(
        mut result in tool_result(),
        output in whole_output(),
        is_whole in any::<bool>(),
        is_one_batch in any::<bool>(),
    ) {
        // Output that was not truncated: the model saw all of it.
        match &output {
            Content::Bytes(bytes) if is_whole => {
                let text = String::from_utf8_lossy(bytes).into_owned();
                result.content = vec![ResultBlock::Text { text }];
            }
            Content::Blocks(blocks) if is_whole => result.content = blocks.clone(),
            _ => {}
        }
        in_memory(async |session| {
            let mut speaker = Speaker::default();
            append(&session, &speaker.prompt("go")).await;
            let asking = speaker.calls(&[result.tool_use_id.as_str()]);
            append(&session, &asking).await;
            let results = speaker.results(vec![result.clone()]);
            let finish = finished(&asking, result.clone(), output.clone());
            let answer = Record::Message(results.clone());
            if is_one_batch {
                session.append(vec![finish, answer]).await.unwrap();
            } else {
                session.append(vec![finish]).await.unwrap();
                let transcript = session.load().await.unwrap();
                let expected = CallState::Finished(result.clone());
                assert_eq!(transcript.call(&result.tool_use_id), Some(&expected));
                session.append(vec![answer]).await.unwrap();
            }
            let transcript = session.load().await.unwrap();
            assert_eq!(transcript.last(), Some(&results));
            if let Content::Bytes(bytes) = &output {
                let call = result.tool_use_id.clone();
                let copy = session.read(move |tree| {
                    let mut copy = Vec::new();
                    tree.copy_output(&call, &mut copy)?;
                    Ok(copy)
                });
                assert_eq!(&copy.await.unwrap(), bytes);
            }
        });
    }
}

#[tokio::test]
async fn floating_point_numbers_are_stored_exactly() {
    let world = World::new();
    let session = SessionStore::in_memory(world.root()).unwrap();
    let mut speaker = Speaker::default();
    let raw = serde_json::json!({ "type": "new", "number": 0.1_f64 + 0.2, "small": 5e-324 });
    let message = speaker.says(
        Role::User,
        Origin::Prompt,
        vec![ContentBlock::Other { raw }],
    );
    append(&session, &message).await;
    let transcript = session.load().await.unwrap();
    assert_eq!(transcript.last(), Some(&message));
}
