//! What a server gives with an answer goes back to it as it was, in whatever way it came, and to no other server.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use ah_conversation::{
    BlockStart, ContentBlock, Delta, Fields, Message, Opaque, Role, StreamEvent, ToolUse,
};
use ah_provider::anthropic;
use ah_provider::openai::{self, Quirks, ReturnedReasoning};
use ah_provider::responses;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::openai_requests::sent_messages;
use crate::requests::{message, messages as blocks_sent, request, user};
use crate::responses::items_sent;

/// Puts the events of an answer together to the message of `model`.
fn answered(model: &str, events: VecDeque<StreamEvent>) -> Arc<Message> {
    let mut content = Vec::<ContentBlock>::new();
    let mut arguments = BTreeMap::<usize, String>::new();
    let mut opaque = Opaque::default();
    for event in events {
        match event {
            StreamEvent::BlockStarted { block, .. } => content.push(match block {
                BlockStart::Text(text) => ContentBlock::Text { text },
                BlockStart::Thinking(thinking) => ContentBlock::Thinking {
                    thinking,
                    signature: None,
                },
                BlockStart::RedactedThinking(data) => ContentBlock::RedactedThinking { data },
                BlockStart::ToolUse { id, name, input } => ContentBlock::ToolUse(ToolUse {
                    id,
                    name,
                    input: input.into(),
                }),
                BlockStart::Other(raw) => ContentBlock::Other { raw },
            }),
            StreamEvent::Delta { index, delta } => match (&mut content[index], delta) {
                (ContentBlock::Text { text }, Delta::Text(more)) => text.push_str(&more),
                (ContentBlock::Thinking { thinking, .. }, Delta::Thinking(more)) => {
                    thinking.push_str(&more);
                }
                (ContentBlock::Thinking { signature, .. }, Delta::Signature(more)) => {
                    signature.get_or_insert_default().push_str(&more);
                }
                (ContentBlock::ToolUse(call), Delta::InputJson(more)) => {
                    let whole = arguments.entry(index).or_default();
                    whole.push_str(&more);
                    if let Ok(input) = serde_json::from_str::<Value>(whole) {
                        call.input = input.into();
                    }
                }
                other => panic!("{other:?}"),
            },
            StreamEvent::Opaque {
                index: None,
                fields,
            } => opaque.message = fields,
            StreamEvent::Opaque {
                index: Some(index),
                fields,
            } => opaque.blocks.push((index, fields)),
            _ => {}
        }
    }
    let mut message = Message::clone(&message(Role::Assistant, Some(model), content));
    let response = message.response.as_mut().expect("an answer");
    response.opaque = Some(Box::new(opaque));
    Arc::new(message)
}

/// The answer of `model` in these pieces, or in one if it is not streamed.
fn chat(model: &str, pieces: &[Value], is_streamed: bool) -> Arc<Message> {
    let body = if is_streamed {
        let chunks = pieces.iter().map(|delta| {
            let chunk = json!({"id": "answer-1", "choices": [{"index": 0, "delta": delta}]});
            format!("data: {chunk}\n\n")
        });
        chunks.collect::<String>() + "data: [DONE]\n\n"
    } else {
        assert_eq!(pieces.len(), 1);
        json!({"id": "answer-1", "choices": [{"message": pieces[0], "finish_reason": "stop"}]})
            .to_string()
    };
    let mut decoder = openai::Decoder::default();
    let mut events = VecDeque::new();
    decoder
        .feed(body.as_bytes(), &mut events)
        .expect("an answer");
    decoder.finish(&mut events).expect("a whole answer");
    answered(model, events)
}

/// The answer as it is sent with the next request.
fn sent(quirks: Quirks, answer: &Arc<Message>) -> Value {
    let mut messages = sent_messages(quirks, &request(vec![user("Go on."), answer.clone()]));
    messages[1].take()
}

fn call(id: &str, index: usize, more: Value) -> Value {
    let call = json!({"index": index, "id": id, "function": {"name": "Bash", "arguments": "{}"}});
    with(call, more)
}

fn with(value: Value, more: Value) -> Value {
    let (Value::Object(mut fields), Value::Object(more)) = (value, more) else {
        panic!("two objects");
    };
    fields.extend(more);
    fields.into()
}

fn sent_call(id: &str, more: Value) -> Value {
    let function = json!({"name": "Bash", "arguments": "{}"});
    with(
        json!({"type": "function", "id": id, "function": function}),
        more,
    )
}

#[test]
fn what_comes_with_an_answer_of_chat_goes_back_in_every_form() {
    let seal = || json!({"extra_content": {"google": {"thought_signature": "c2ln"}}});
    let (a, b) = ("call_aaaaaaaa", "call_bbbbbbbb");
    let text = |more: Value| with(json!({"role": "assistant", "content": "So."}), more);
    let calls = |calls: Value| json!({"role": "assistant", "content": null, "tool_calls": calls});
    let table: [(&str, Vec<Value>, Value); 15] = [
        (
            "with the call",
            vec![json!({"tool_calls": [call(a, 0, seal())]})],
            calls(json!([sent_call(a, seal())])),
        ),
        (
            "on a later piece of the call",
            vec![
                json!({"tool_calls": [call(a, 0, json!({}))]}),
                json!({"tool_calls": [with(seal(), json!({"index": 0}))]}),
            ],
            calls(json!([sent_call(a, seal())])),
        ),
        (
            "on a later piece without an index",
            vec![
                json!({"tool_calls": [call(a, 0, json!({}))]}),
                json!({"tool_calls": [seal()]}),
            ],
            calls(json!([sent_call(a, seal())])),
        ),
        (
            "in two pieces, and repeated",
            vec![
                json!({"tool_calls": [call(a, 0, json!({"extra_content": {"google": {"thought_signature": "c2"}}}))]}),
                json!({"tool_calls": [{"index": 0, "extra_content": {"google": {"thought_signature": "ln"}}}]}),
                json!({"tool_calls": [with(seal(), json!({"index": 0}))]}),
            ],
            calls(json!([sent_call(a, seal())])),
        ),
        (
            "with the second of two calls, in parts",
            vec![
                json!({"tool_calls": [call(a, 0, json!({})), call(b, 1, json!({"x": {"a": 1}}))]}),
                json!({"tool_calls": [{"index": 1, "x": {"b": [true]}, "n": 5}]}),
            ],
            calls(json!([
                sent_call(a, json!({})),
                sent_call(b, json!({"x": {"a": 1, "b": [true]}, "n": 5}))
            ])),
        ),
        (
            "within the function of a call",
            vec![json!({"tool_calls": [
                {"index": 0, "id": a, "type": "function", "function":
                    {"name": "Bash", "arguments": "{}", "seal": "s", "none": ""}}
            ]})],
            calls(json!([
                {"type": "function", "id": a, "function": {"name": "Bash", "arguments": "{}", "seal": "s"}}
            ])),
        ),
        (
            "with a text",
            vec![with(json!({"content": "So."}), seal())],
            text(seal()),
        ),
        (
            "with the end of a text, and a mark with each piece",
            vec![
                json!({"content": "S", "phase": "final"}),
                json!({"content": "o.", "phase": "final"}),
                with(json!({"content": ""}), seal()),
            ],
            text(with(json!({"phase": "final"}), seal())),
        ),
        (
            "reasoning in its own field",
            vec![
                json!({"reasoning": "ha"}),
                json!({"reasoning": "ha"}),
                json!({"content": "So."}),
            ],
            text(json!({"reasoning": "haha"})),
        ),
        (
            "reasoning in two fields",
            vec![json!({"content": "So.", "reasoning": "Hm.", "reasoning_content": "Hm."})],
            text(json!({"reasoning": "Hm.", "reasoning_content": "Hm."})),
        ),
        (
            "reasoning in a list",
            vec![
                json!({"reasoning": "Hm", "reasoning_details": [{"type": "reasoning.text", "index": 0, "text": "Hm"}]}),
                json!({"reasoning": ".", "reasoning_details": [{"type": "reasoning.text", "index": 0, "text": "."}]}),
                json!({"reasoning_details": [{"type": "reasoning.text", "index": 0, "signature": "s"}]}),
                json!({"content": "So.", "reasoning_details": [{"type": "reasoning.encrypted", "index": 1, "data": "x"}]}),
            ],
            text(json!({"reasoning": "Hm.", "reasoning_details": [
                {"type": "reasoning.text", "index": 0, "text": "Hm.", "signature": "s"},
                {"type": "reasoning.encrypted", "index": 1, "data": "x"},
            ]})),
        ),
        (
            "thinking among the parts of the content",
            vec![
                json!({"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "H"}]}]}),
                json!({"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "m."}]}]}),
                json!({"content": "S"}),
                json!({"content": [{"type": "text", "text": "o."}]}),
            ],
            json!({"role": "assistant", "content": [
                {"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]},
                {"type": "text", "text": "So."},
            ]}),
        ),
        (
            "items of one piece, which are different ones",
            vec![json!({"content": "So.", "reasoning_details": [{"text": "a"}, {"text": "b"}]})],
            text(json!({"reasoning_details": [{"text": "a"}, {"text": "b"}]})),
        ),
        (
            "a list that is sent again and again",
            vec![
                json!({"content": "So.", "own": {"results": [{"id": 1}]}}),
                json!({"own": {"results": [{"id": 1}, {"id": 2}]}}),
            ],
            text(json!({"own": {"results": [{"id": 1}, {"id": 2}]}})),
        ),
        (
            "what says nothing, or something to the client only",
            vec![json!({
                "role": "assistant", "content": "So.", "refusal": null, "annotations": [{"type": "url_citation"}],
                "audio": {"data": ""}, "function_call": {"name": "", "arguments": ""}, "index": 0, "a": "", "b": [],
                "c": {"d": [null, {}]}, "reasoning_content": "", "reasoning_details": [],
            })],
            text(json!({})),
        ),
    ];
    for (what, pieces, expected) in table {
        for is_streamed in [true, false] {
            if is_streamed || pieces.len() == 1 {
                let answer = chat("claude-x", &pieces, is_streamed);
                assert_eq!(sent(Quirks::default(), &answer), expected, "{what}");
            }
        }
        let bare = ["role", "content", "tool_calls"];
        let other = sent(Quirks::default(), &chat("another", &pieces, true));
        for name in other.as_object().expect("an object").keys() {
            assert!(bare.contains(&&**name), "{what}: {name}");
        }
        let calls = other["tool_calls"].as_array().into_iter().flatten();
        for call in calls {
            let call = call.as_object().expect("an object");
            assert_eq!(call.len(), 3, "{what}: {call:?}");
            assert_eq!(call["function"].as_object().map(Fields::len), Some(2));
        }
    }
}

/// A server that refuses some of what it has sent is named by a quirk.
#[test]
fn quirks_limit_what_goes_back() {
    let piece = json!({
        "content": "So.", "reasoning": "Hm.", "reasoning_details": [{"text": "Hm."}], "channel": "final",
        "tool_calls": [call("call_aaaaaaaa", 0, json!({"x": 1}))],
    });
    let answer = chat("claude-x", &[piece], true);
    let names = |quirks| {
        let sent = sent(quirks, &answer);
        let names = sent.as_object().expect("an object").keys().skip(3);
        let of_call = sent["tool_calls"][0].as_object().expect("an object");
        let of_call = of_call.keys().skip(3).cloned();
        names.cloned().chain(of_call).collect::<Vec<_>>().join(" ")
    };
    let reasoning = |returned_reasoning| Quirks {
        returned_reasoning,
        ..Quirks::default()
    };
    let only = |fields: &[&str]| Quirks {
        returned_fields: Some(fields.iter().map(|&name| name.to_owned()).collect()),
        ..Quirks::default()
    };
    for (quirks, expected) in [
        (Quirks::default(), "reasoning reasoning_details channel x"),
        (
            reasoning(ReturnedReasoning::Words),
            "reasoning reasoning_details channel x",
        ),
        (reasoning(ReturnedReasoning::None), "channel x"),
        (only(&["reasoning"]), "reasoning"),
        (only(&[]), ""),
    ] {
        assert_eq!(names(quirks), expected);
    }
}

#[test]
fn what_comes_with_a_block_of_the_messages_api_goes_back() {
    let blocks = json!([
        {"type": "thinking", "thinking": "Hm.", "signature": "s", "bound": {"to": 1}},
        {"type": "text", "text": "So.", "citations": null, "phase": "commentary"},
        {"type": "tool_use", "id": "t", "name": "bash", "input": {}, "caller": {"type": "direct"}},
    ]);
    let body = json!({"id": "m", "type": "message", "role": "assistant", "content": blocks, "stop_reason": "tool_use"});
    let starts = blocks.as_array().expect("an array").iter().enumerate();
    let streamed = starts.map(|(index, block)| {
        let start = json!({"type": "content_block_start", "index": index, "content_block": block});
        let stop = json!({"type": "content_block_stop", "index": index});
        format!("data: {start}\n\ndata: {stop}\n\n")
    });
    let streamed = format!(
        "data: {}\n\n{}data: {}\n\ndata: {}\n\n",
        json!({"type": "message_start", "message": {"id": 7, "usage": {"input_tokens": "3", "iterations": null}}}),
        streamed.collect::<String>(),
        json!({"type": "message_delta", "index": "?", "delta": {"stop_reason": "tool_use"}, "usage": 4}),
        json!({"type": "message_stop"}),
    );
    for body in [body.to_string(), streamed] {
        let mut decoder = anthropic::Decoder::default();
        let mut events = VecDeque::new();
        decoder
            .feed(body.as_bytes(), &mut events)
            .expect("an answer");
        decoder.finish(&mut events).expect("a whole answer");
        let own = blocks_sent(vec![user("Go on."), answered("claude-x", events.clone())]);
        let mut expected = blocks.clone();
        expected[1]
            .as_object_mut()
            .expect("an object")
            .remove("citations");
        assert_eq!(own[1]["content"], expected);
        let other = blocks_sent(vec![user("Go on."), answered("another", events)]);
        let bare = json!([
            {"type": "text", "text": "So."},
            {"type": "tool_use", "id": "t", "name": "bash", "input": {}},
        ]);
        assert_eq!(other[1]["content"], bare);
    }
}

#[test]
fn what_comes_with_an_item_of_a_response_goes_back() {
    let items = json!([
        {"type": "message", "id": "m1", "role": "assistant", "status": "completed", "phase": "commentary",
            "content": [{"type": "output_text", "text": "Let me see.", "annotations": []}]},
        {"type": "message", "id": "m2", "role": "assistant", "phase": "final_answer",
            "content": [{"type": "output_text", "text": "So."}]},
        {"type": "function_call", "id": "f", "call_id": "call_aaaaaaaa", "name": "Bash", "arguments": "{}",
            "status": "completed", "namespace": "shell", "caller": null},
        {"type": "compaction", "id": "c", "encrypted_content": "sealed", "created_by": null},
    ]);
    let response = json!({"id": 5, "status": "completed", "output": items, "error": {}});
    let done = items.as_array().expect("an array").iter().enumerate();
    let done = done.map(|(index, item)| {
        let kind = "response.output_item.done";
        json!({"type": kind, "output_index": index, "summary_index": null, "item": item})
    });
    let completed = json!({"type": "response.completed", "response": response});
    let events = done.chain([completed]);
    let streamed: String = events.map(|event| format!("data: {event}\n\n")).collect();
    for body in [response.to_string(), streamed] {
        let mut decoder = responses::Decoder::default();
        let mut events = VecDeque::new();
        decoder
            .feed(body.as_bytes(), &mut events)
            .expect("an answer");
        decoder.finish(&mut events).expect("a whole answer");
        let sent = |model| {
            let answer = answered(model, events.clone());
            items_sent(&request(vec![user("Go on."), answer]))[1..].to_vec()
        };
        let call = json!({"type": "function_call", "call_id": "call_aaaaaaaa", "name": "Bash", "arguments": "{}"});
        let said = |text: &str| json!({"type": "message", "role": "assistant", "content": text});
        let bare = [said("Let me see."), said("So."), call.clone()];
        assert_eq!(sent("another"), bare);
        let own = [
            with(said("Let me see."), json!({"phase": "commentary"})),
            with(said("So."), json!({"phase": "final_answer"})),
            with(call, json!({"namespace": "shell"})),
            items[3].clone(),
        ];
        assert_eq!(sent("claude-x"), own);
    }
}

/// A block of a server's own, and a text with its marks, are nothing for another server.
#[test]
fn blocks_of_one_server_stay_with_it() {
    let content = vec![
        ContentBlock::Other {
            raw: json!({"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}),
        },
        ContentBlock::Other {
            raw: json!({"type": "text", "text": "So.", "citations": [{"url": "u"}]}),
        },
    ];
    let answer = message(Role::Assistant, Some("claude-x"), content);
    let mut of_other = Message::clone(&answer);
    of_other.response.as_mut().expect("an answer").provider = "other".to_owned();
    for (answer, expected) in [
        (
            answer,
            json!([
                {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}},
                {"type": "text", "text": "So.", "citations": [{"url": "u"}]},
            ]),
        ),
        (Arc::new(of_other), json!([{"type": "text", "text": "So."}])),
    ] {
        assert_eq!(
            blocks_sent(vec![user("Go on."), answer])[1]["content"],
            expected
        );
    }
}

fn anything() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        ".{1,6}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 1..3).prop_map(Value::from),
            proptest::collection::vec(("[a-z]{1,5}", inner), 1..3)
                .prop_map(|fields| Fields::from_iter(fields).into()),
        ]
    })
}

proptest! {
    #[test]
    fn fields_of_any_name_and_form_go_back_equal(
        of_message in proptest::collection::btree_map("x_[a-z]{0,4}", anything(), 0..4),
        of_call in proptest::collection::btree_map("x_[a-z]{0,4}", anything(), 0..4),
        is_streamed: bool,
    ) {
        let (of_message, of_call) = (json!(of_message), json!(of_call));
        let piece = with(
            json!({"content": "So.", "tool_calls": [call("call_aaaaaaaa", 0, of_call.clone())]}),
            of_message.clone(),
        );
        let answer = chat("claude-x", &[piece], is_streamed);
        let calls = json!([sent_call("call_aaaaaaaa", of_call)]);
        let expected = with(json!({"role": "assistant", "content": "So.", "tool_calls": calls}), of_message);
        prop_assert_eq!(sent(Quirks::default(), &answer), expected);
    }
}
