//! Requests of the Messages API, as bytes.

use std::sync::Arc;

use ah_conversation::{
    ContentBlock, Image, Input, Message, MessageId, Model, Origin, Request, Response, ResultBlock,
    Role, Sampling, StopReason, Thinking, Time, ToolResult, ToolSpec, ToolUse, Truncation, Usage,
};
use ah_provider::abilities::{Abilities, ThinkingForm};
use ah_provider::anthropic::Encoder;
use ah_provider::openai::Quirks;
use ah_provider::presets::Preset;
use ah_provider::request_encoder::RequestEncoder;
use bytes::Bytes;
use proptest::prelude::*;
use serde_json::{Value, json};

/// Returns the quirks in the row of this server.
pub(crate) fn quirks_of(name: &str) -> Quirks {
    Preset::named(name).expect("a row").quirks.clone()
}

fn encoder(form: ThinkingForm) -> Encoder {
    let model = Model {
        provider: "anthropic".to_owned(),
        name: "claude-x".to_owned(),
        context_window: 200_000,
        max_output: 16_384,
        price: None,
        long_price: None,
    };
    let abilities = Abilities {
        max_output: Some(64_000),
        thinking: form,
        ..Abilities::default()
    };
    Encoder::new(model, abilities)
}

pub(crate) fn message(role: Role, model: Option<&str>, content: Vec<ContentBlock>) -> Arc<Message> {
    Arc::new(Message {
        id: MessageId::from("1"),
        parent: None,
        seq: 0,
        role,
        origin: Origin::Prompt,
        created_at: Time(0),
        content,
        response: model.map(|model| Response {
            stop_reason: StopReason::EndTurn,
            usage: Usage::default(),
            cost: None,
            model: model.to_owned(),
            provider: "anthropic".to_owned(),
            latency_ms: 0,
            request_id: None,
            opaque: None,
        }),
    })
}

pub(crate) fn user(text: &str) -> Arc<Message> {
    message(Role::User, None, vec![ContentBlock::text(text)])
}

pub(crate) fn model(text: &str) -> Arc<Message> {
    message(
        Role::Assistant,
        Some("claude-x"),
        vec![ContentBlock::text(text)],
    )
}

pub(crate) fn request(messages: Vec<Arc<Message>>) -> Request {
    Request {
        messages: Arc::new(messages),
        max_output: 1_000,
        ..Request::default()
    }
}

fn body(encoder: &mut Encoder, request: &Request) -> String {
    String::from_utf8(encoder.encode(request).concat()).expect("UTF-8")
}

pub(crate) fn messages(messages: Vec<Arc<Message>>) -> Value {
    let body = body(&mut encoder(ThinkingForm::Budget), &request(messages));
    let mut body: Value = serde_json::from_str(&body).expect("JSON");
    body["messages"].take()
}

pub(crate) fn tool(name: &str) -> ToolSpec {
    ToolSpec {
        name: name.to_owned(),
        description: format!("Does {name}."),
        input_schema: Arc::new(json!({"type": "object"})),
        guidance: None,
        truncation: Truncation::DEFAULT,
        key: None,
    }
}

pub(crate) fn call(id: &str, input: Input) -> ContentBlock {
    ContentBlock::ToolUse(ToolUse {
        id: id.into(),
        name: "bash".to_owned(),
        input,
    })
}

pub(crate) fn result(id: &str, content: Vec<ResultBlock>, is_error: bool) -> ContentBlock {
    ContentBlock::ToolResult(ToolResult {
        tool_use_id: id.into(),
        tool_name: "bash".to_owned(),
        content,
        is_error,
        duration_ms: 1,
        details: None,
        lines: None,
    })
}

pub(crate) fn image() -> Image {
    Image {
        media_type: "image/png".to_owned(),
        data: "iVBO".to_owned(),
    }
}

pub(crate) fn thinking(signature: Option<&str>) -> ContentBlock {
    ContentBlock::Thinking {
        thinking: "Hm.".to_owned(),
        signature: signature.map(str::to_owned),
    }
}

#[test]
fn a_whole_request() {
    let question = vec![
        ContentBlock::text("What is this?"),
        ContentBlock::Image(image()),
    ];
    let input = Input::from(json!({"command": "ls", "a": "\u{0}é🦀"}));
    let raw = json!({"type": "oracle", "x": {"y": null}});
    let answer = vec![
        thinking(Some("sig")),
        ContentBlock::RedactedThinking {
            data: "xyz".to_owned(),
        },
        ContentBlock::text("Let me see."),
        ContentBlock::Other { raw },
        call("t1", input),
        call("t2", Input::Malformed(json!("{\"comm"))),
    ];
    let text = ResultBlock::Text {
        text: "a.png".to_owned(),
    };
    let results = vec![
        result("t1", vec![text, ResultBlock::Image(image())], false),
        result("t2", vec![], true),
    ];
    let request = Request {
        system: Arc::from(["You help.".to_owned(), "Today.".to_owned()]),
        tools: Arc::from([tool("read"), tool("bash")]),
        added: Arc::default(),
        sampling: Sampling {
            temperature: Some(0.5),
            ..Sampling::default()
        },
        ..request(vec![
            message(Role::User, None, question),
            message(Role::Assistant, Some("claude-x"), answer),
            message(Role::User, None, results),
            user("[STEERING] Hurry."),
            model("A picture."),
            user("Thanks."),
        ])
    };
    let body = body(&mut encoder(ThinkingForm::Budget), &request);
    insta::assert_snapshot!(outline(&body), @r#"
    model "claude-x"
    max_tokens 1000
    stream true
    temperature 0.5
    tools {"name":"read","description":"Does read.","input_schema":{"type":"object"}}
    tools {"name":"bash","description":"Does bash.","input_schema":{"type":"object"},"cache_control":{"type":"ephemeral"}}
    system {"type":"text","text":"You help."}
    system {"type":"text","text":"Today.","cache_control":{"type":"ephemeral"}}
    messages user {"type":"text","text":"What is this?"}
    messages user {"type":"image","source":{"type":"base64","media_type":"image/png","data":"iVBO"}}
    messages assistant {"type":"thinking","thinking":"Hm.","signature":"sig"}
    messages assistant {"type":"redacted_thinking","data":"xyz"}
    messages assistant {"type":"text","text":"Let me see."}
    messages assistant {"type":"oracle","x":{"y":null}}
    messages assistant {"type":"tool_use","id":"t1","name":"bash","input":{"command":"ls","a":"\u0000é🦀"}}
    messages assistant {"type":"tool_use","id":"t2","name":"bash","input":{}}
    messages user {"type":"tool_result","tool_use_id":"t1","content":[{"type":"text","text":"a.png"},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"iVBO"}}]}
    messages user {"type":"tool_result","tool_use_id":"t2","is_error":true}
    messages user {"type":"text","text":"[STEERING] Hurry.","cache_control":{"type":"ephemeral"}}
    messages assistant {"type":"text","text":"A picture."}
    messages user {"type":"text","text":"Thanks.","cache_control":{"type":"ephemeral"}}
    "#);
}

/// A body with one line per part, and the roles of messages before their blocks.
fn outline(body: &str) -> String {
    let body: Value = serde_json::from_str(body).expect("JSON");
    let mut lines = Vec::new();
    for (key, value) in body.as_object().expect("an object") {
        let parts = match (key.as_str(), value) {
            ("messages", Value::Array(messages)) => messages.iter().flat_map(blocks).collect(),
            (_, Value::Array(parts)) => parts.iter().map(Value::to_string).collect(),
            _ => vec![value.to_string()],
        };
        lines.extend(parts.iter().map(|part| format!("{key} {part}")));
    }
    lines.join("\n")
}

fn blocks(message: &Value) -> Vec<String> {
    let blocks = message["content"].as_array().expect("a list").iter();
    let role = message["role"].as_str().expect("text");
    blocks.map(|block| format!("{role} {block}")).collect()
}

#[test]
fn blocks_that_the_api_rejects_are_left_out() {
    let text = |text: &str| json!({"type": "text", "text": text});
    let own = |content| message(Role::Assistant, Some("claude-x"), content);
    let other = |content| message(Role::Assistant, Some("claude-y"), content);
    let hello = || ContentBlock::text("Hello.");
    let redacted = || ContentBlock::RedactedThinking {
        data: "xyz".to_owned(),
    };
    let signed = json!({"type": "thinking", "thinking": "Hm.", "signature": "s"});
    for (name, answer, expected) in [
        (
            "empty text",
            own(vec![ContentBlock::text(""), hello()]),
            json!([text("Hello.")]),
        ),
        (
            "white space",
            own(vec![ContentBlock::text(" \n"), hello()]),
            json!([text("Hello.")]),
        ),
        (
            "signed",
            own(vec![thinking(Some("s")), hello()]),
            json!([signed, text("Hello.")]),
        ),
        (
            "not signed",
            own(vec![thinking(None), hello()]),
            json!([text("Hello.")]),
        ),
        (
            "cut",
            own(vec![thinking(Some("")), hello()]),
            json!([text("Hello.")]),
        ),
        (
            "foreign",
            other(vec![thinking(Some("s")), redacted(), hello()]),
            json!([text("Hello.")]),
        ),
        (
            "at the end",
            own(vec![hello(), thinking(Some("s")), redacted()]),
            json!([text("Hello.")]),
        ),
        ("only thinking", own(vec![thinking(Some("s"))]), json!(null)),
        ("nothing", own(vec![]), json!(null)),
    ] {
        let sent = messages(vec![user("Hi."), answer, user("And?")]);
        assert_eq!(
            sent[1]["role"] == "assistant",
            !expected.is_null(),
            "{name}"
        );
        if !expected.is_null() {
            assert_eq!(sent[1]["content"], expected, "{name}");
        }
    }
}

#[test]
fn an_empty_user_message_is_replaced() {
    let sent = messages(vec![user(" \n")]);
    assert_eq!(sent[0]["content"][0]["text"], "(empty message)");
    assert_eq!(messages(vec![]), json!([]));
}

#[test]
fn ids_of_other_vendors_are_made_valid() {
    let sent = messages(vec![
        user("Go."),
        message(
            Role::Assistant,
            Some("kimi"),
            vec![call("functions.bash:0", Input::default())],
        ),
        message(
            Role::User,
            None,
            vec![result("functions.bash:0", vec![], false)],
        ),
    ]);
    assert_eq!(sent[1]["content"][0]["id"], "functions_bash_0");
    assert_eq!(sent[2]["content"][0]["tool_use_id"], "functions_bash_0");
}

#[test]
fn breakpoints_stand_in_the_last_two_user_messages() {
    let conversation = ["u", "a", "u", "u", "a", "u"]
        .map(|role| if role == "u" { user(role) } else { model(role) });
    for (count, expected) in [
        (1, vec![(0, 0)]),
        (2, vec![(0, 0)]),
        (3, vec![(0, 0), (2, 0)]),
        (4, vec![(0, 0), (2, 1)]), // The third and fourth are one message.
        (6, vec![(2, 1), (4, 0)]),
    ] {
        let sent = messages(conversation[..count].to_vec());
        let mut found = Vec::new();
        for (index, message) in sent.as_array().expect("a list").iter().enumerate() {
            let blocks = message["content"]
                .as_array()
                .expect("a list")
                .iter()
                .enumerate();
            let marked = blocks.filter(|(_, block)| block.get("cache_control").is_some());
            found.extend(marked.map(|(block, _)| (index, block)));
        }
        assert_eq!(found, expected, "{count} messages");
    }
}

#[test]
fn the_thinking_budget_is_added_to_the_output_limit() {
    let enabled = |budget: u64| json!({"type": "enabled", "budget_tokens": budget});
    let adaptive = json!({"type": "adaptive"});
    for (form, thinking, max_output, expected_thinking, expected_max) in [
        (
            ThinkingForm::Budget,
            Thinking::default(),
            1_000,
            json!(null),
            1_000,
        ),
        (
            ThinkingForm::Budget,
            Thinking::at_most(0),
            1_000,
            json!({"type": "disabled"}),
            1_000,
        ),
        (
            ThinkingForm::Budget,
            Thinking::at_most(5_000),
            1_000,
            enabled(5_000),
            6_000,
        ),
        (
            ThinkingForm::Budget,
            Thinking::at_most(1),
            1_000,
            enabled(1_024),
            2_024,
        ),
        (
            ThinkingForm::Budget,
            Thinking::at_most(63_500),
            1_000,
            enabled(63_000),
            64_000,
        ),
        (
            ThinkingForm::Budget,
            Thinking::at_most(5_000),
            64_000,
            enabled(5_000),
            64_000,
        ),
        (
            ThinkingForm::Adaptive,
            Thinking::at_most(5_000),
            1_000,
            adaptive,
            6_000,
        ),
    ] {
        let request = Request {
            thinking,
            max_output,
            sampling: Sampling {
                temperature: Some(0.3),
                ..Sampling::default()
            },
            ..request(vec![user("Hi.")])
        };
        let body = body(&mut encoder(form), &request);
        let body: Value = serde_json::from_str(&body).expect("JSON");
        assert_eq!(
            body["thinking"], expected_thinking,
            "{thinking:?} of {max_output}"
        );
        assert_eq!(
            body["max_tokens"], expected_max,
            "{thinking:?} of {max_output}"
        );
        let thinks =
            body["thinking"]["type"] == "enabled" || body["thinking"]["type"] == "adaptive";
        assert_eq!(body.get("temperature").is_none(), thinks);
    }
}

/// With a thinking budget, the API requires thinking before the calls that the results answer.
#[test]
fn thinking_is_left_out_after_calls_made_without_thinking() {
    let asking = |author, content| {
        let answer = message(Role::Assistant, Some(author), content);
        let results = message(Role::User, None, vec![result("t1", Vec::new(), false)]);
        vec![user("Hi."), answer, results]
    };
    let call = || call("t1", Input::default());
    let own = encoder(ThinkingForm::Budget).model().name.clone();
    let mut steered = asking(&own, vec![call()]);
    steered.push(user("Faster!"));
    let mut over = asking(&own, vec![call()]);
    over.extend([model("Done."), user("And now?")]);
    for (what, form, messages, thinks) in [
        (
            "its own thought",
            ThinkingForm::Budget,
            asking(&own, vec![thinking(Some("s")), call()]),
            true,
        ),
        (
            "none",
            ThinkingForm::Budget,
            asking(&own, vec![call()]),
            false,
        ),
        (
            "words first",
            ThinkingForm::Budget,
            asking(&own, vec![ContentBlock::text("Well."), call()]),
            false,
        ),
        (
            "another model's",
            ThinkingForm::Budget,
            asking("other", vec![thinking(Some("s")), call()]),
            false,
        ),
        ("none, and steering", ThinkingForm::Budget, steered, false),
        ("none, but that is over", ThinkingForm::Budget, over, true),
        (
            "none, to a model that decides by itself",
            ThinkingForm::Adaptive,
            asking(&own, vec![call()]),
            true,
        ),
    ] {
        let request = Request {
            thinking: Thinking::at_most(5_000),
            ..request(messages)
        };
        let body: Value = serde_json::from_str(&body(&mut encoder(form), &request)).expect("JSON");
        assert_eq!(body.get("thinking").is_some(), thinks, "{what}");
    }
}

#[test]
fn a_growing_conversation_is_not_encoded_again() {
    let mut encoder = encoder(ThinkingForm::Budget);
    let mut conversation = Vec::new();
    let mut encode = |conversation: &Vec<_>| encoder.encode(&request(conversation.clone()));
    for turn in 0..100 {
        conversation.push(user(&"x".repeat(1_000)));
        conversation.push(model(&format!("{turn}")));
    }
    let before = encode(&conversation);
    conversation.push(user("More."));
    let after = encode(&conversation);
    let shared = |piece: &&Bytes| after.iter().any(|other| other.as_ptr() == piece.as_ptr());
    let shared: usize = before.iter().filter(shared).map(Bytes::len).sum();
    assert!(shared > 65_000, "{shared} bytes are shared");
}

#[derive(Debug, Clone)]
enum Change {
    Say(bool, String),
    Forget(prop::sample::Index),
    Summarize,
}

proptest! {
    #[test]
    fn cached_messages_change_no_byte(changes in proptest::collection::vec(
        prop_oneof![
            4 => (any::<bool>(), "[a-z \"é]{0,8}").prop_map(|(is_user, text)| Change::Say(is_user, text)),
            1 => any::<prop::sample::Index>().prop_map(Change::Forget),
            1 => Just(Change::Summarize),
        ],
        1..30,
    )) {
        let mut kept = encoder(ThinkingForm::Budget);
        let mut conversation = vec![user("Start.")];
        for change in changes {
            match change {
                Change::Say(true, text) => conversation.push(user(&text)),
                Change::Say(false, text) => conversation.push(model(&text)),
                Change::Forget(index) => conversation.truncate(index.index(conversation.len()) + 1),
                Change::Summarize => conversation[0] = user("Summary."),
            }
            let request = request(conversation.clone());
            let fresh = body(&mut encoder(ThinkingForm::Budget), &request);
            prop_assert_eq!(body(&mut kept, &request), fresh.clone());
            prop_assert!(serde_json::from_str::<Value>(&fresh).is_ok());
        }
    }
}
