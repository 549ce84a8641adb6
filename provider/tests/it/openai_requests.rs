//! Requests of chat completions, as bytes.

use std::sync::Arc;

use ah_conversation::{
    Audio, ContentBlock, Input, Model, Request, ResultBlock, Role, Sampling, Thinking,
};
use ah_provider::abilities::Abilities;
use ah_provider::openai::{
    Additions, Encoder, OutputLimit, Quirks, ReturnedReasoning, ThinkingField, ToolCallIds,
};
use ah_provider::request_encoder::RequestEncoder;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::requests::{
    call, image, message, model, quirks_of, request, result, thinking, tool, user,
};

fn encoder(additions: Additions, quirks: Quirks) -> Encoder {
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
        ..Abilities::default()
    };
    Encoder::new(model, abilities, additions, quirks)
}

fn body(encoder: &mut Encoder, request: &Request) -> String {
    String::from_utf8(encoder.encode(request).concat()).expect("UTF-8")
}

fn json_body(quirks: Quirks, request: &Request) -> Value {
    let body = body(&mut encoder(Additions::default(), quirks), request);
    serde_json::from_str(&body).expect("JSON")
}

/// The messages as they are sent.
pub(crate) fn sent_messages(quirks: Quirks, request: &Request) -> Value {
    json_body(quirks, request)["messages"].take()
}

/// The messages, one per line.
fn lines(quirks: Quirks, request: &Request) -> String {
    let body = json_body(quirks, request);
    let messages = body["messages"].as_array().expect("an array").iter();
    let lines: Vec<_> = messages.map(ToString::to_string).collect();
    lines.join("\n")
}

/// A conversation with every kind of content.
fn conversation() -> Request {
    let answer = vec![
        thinking(Some("sig")),
        ContentBlock::RedactedThinking {
            data: "xyz".to_owned(),
        },
        ContentBlock::text("Let me "),
        ContentBlock::text("see."),
        ContentBlock::Other {
            raw: json!({"type": "oracle"}),
        },
        call("t1", Input::from(json!({"command": "ls \"é🦀\"", "n": 1}))),
        call("t2", Input::Malformed(json!("{\"comm"))),
    ];
    let words = |text: &str| ResultBlock::Text {
        text: text.to_owned(),
    };
    let results = vec![
        result(
            "t1",
            vec![words("a\nb"), ResultBlock::Image(image())],
            false,
        ),
        result("t2", vec![words("not JSON")], true),
        ContentBlock::text("[STEERING] Hurry."),
    ];
    let question = vec![
        ContentBlock::text("What is this?"),
        ContentBlock::Image(image()),
    ];
    Request {
        system: Arc::from(["You are a test.", " ", "Be brief."].map(str::to_owned)),
        tools: Arc::from([tool("read"), tool("bash")]),
        added: Arc::default(),
        ..request(vec![
            user("Go \"on\"."),
            user(" "),
            message(Role::Assistant, Some("claude-x"), answer),
            message(Role::User, None, results),
            user("And then?"),
            message(Role::Assistant, Some("claude-x"), vec![thinking(None)]),
            user("Well?"),
            model("Done."),
            message(Role::User, None, question),
        ])
    }
}

/// The template of Llama 3 raises for an answer with two calls, so that a session of another model could not go on.
#[test]
fn several_calls_are_sent_one_by_one_where_only_one_is_taken() {
    let words = |text: &str| vec![ResultBlock::Text { text: text.into() }];
    let mut request = request(vec![
        user("Go."),
        message(
            Role::Assistant,
            Some("claude-x"),
            vec![
                ContentBlock::text("Both."),
                call("t1", Input::from(json!({"n": 1}))),
                call("t2", Input::from(json!({"n": 2}))),
                call("t3", Input::from(json!({"n": 3}))),
            ],
        ),
        message(
            Role::User,
            None,
            vec![
                result("t1", words("a"), false),
                result("t2", words("b"), false),
                result("t3", words("c"), false),
                ContentBlock::text("[STEERING] Hurry."),
            ],
        ),
    ]);
    let one_call = Quirks {
        one_call: true,
        ..Quirks::default()
    };
    let shape = |messages: &Value| {
        let messages = messages.as_array().expect("a list").iter();
        let shapes = messages.map(|message| {
            let calls = message["tool_calls"].as_array().into_iter().flatten();
            let ids = calls.map(|call| call["id"].as_str().expect("an id"));
            let answers = message["tool_call_id"].as_str();
            let ids: Vec<_> = ids.chain(answers).collect();
            format!(
                "{} {}",
                message["role"].as_str().expect("a role"),
                ids.join("+")
            )
        });
        shapes.collect::<Vec<_>>().join(", ")
    };
    let expected =
        "user , assistant t1, tool t1, assistant t2, tool t2, assistant t3, tool t3, user ";
    assert_eq!(shape(&sent_messages(one_call, &request)), expected);
    assert_eq!(
        shape(&sent_messages(Quirks::default(), &request)),
        "user , assistant t1+t2+t3, tool t1, tool t2, tool t3, user "
    );
    // By what the server says of its template, and with a cache of what was encoded before.
    let mut encoder = encoder(Additions::default(), Quirks::default());
    encoder.abilities().template.parallel_calls = Some(false);
    let all = request.messages.clone();
    for count in 1..=all.len() {
        request.messages = Arc::new(all[..count].to_vec());
        let body: Value = serde_json::from_str(&body(&mut encoder, &request)).expect("JSON");
        if count == all.len() {
            assert_eq!(shape(&body["messages"]), expected);
        }
    }
}

#[test]
fn thinking_is_limited_as_llama_cpp_takes_it() {
    let quirks = Quirks {
        thinking: ThinkingField::ReasoningBudget,
        ..Quirks::default()
    };
    for (budget, expected) in [
        (None, json!([null, null])),
        (Some(2_048), json!([2_048, null])),
        (Some(0), json!([null, {"enable_thinking": false}])),
    ] {
        let request = Request {
            thinking: Thinking {
                budget,
                effort: None,
            },
            ..request(vec![user("Go.")])
        };
        let body = json_body(quirks.clone(), &request);
        let fields = json!([
            body["reasoning_budget_tokens"],
            body["chat_template_kwargs"]
        ]);
        assert_eq!(fields, expected, "{budget:?}");
    }
}

/// Failed tool results start with `Error: `, since chat completions have no field for it.
#[test]
fn a_whole_request() {
    let quirks = Quirks::default();
    let body = json_body(quirks.clone(), &conversation());
    let keys: Vec<_> = body.as_object().expect("an object").keys().collect();
    assert_eq!(
        keys,
        [
            "model",
            "stream",
            "stream_options",
            "max_tokens",
            "tools",
            "messages"
        ]
    );
    insta::assert_snapshot!(body["tools"], @r#"[{"type":"function","function":{"name":"read","description":"Does read.","parameters":{"type":"object"}}},{"type":"function","function":{"name":"bash","description":"Does bash.","parameters":{"type":"object"}}}]"#);
    insta::assert_snapshot!(lines(quirks, &conversation()), @r#"
    {"role":"system","content":"You are a test.\n\nBe brief."}
    {"role":"user","content":"Go \"on\".\n\n(empty message)"}
    {"role":"assistant","content":"Let me see.","tool_calls":[{"type":"function","id":"t1","function":{"name":"bash","arguments":"{\"command\":\"ls \\\"é🦀\\\"\",\"n\":1}"}},{"type":"function","id":"t2","function":{"name":"bash","arguments":"{}"}}],"thinking_blocks":[{"type":"thinking","thinking":"Hm.","signature":"sig"},{"type":"redacted_thinking","data":"xyz"}]}
    {"role":"tool","tool_call_id":"t1","content":"a\nb"}
    {"role":"tool","tool_call_id":"t2","content":"Error: not JSON"}
    {"role":"user","content":[{"type":"text","text":"What `bash` shows:"},{"type":"image_url","image_url":{"url":"data:image/png;base64,iVBO"}},{"type":"text","text":"[STEERING] Hurry."}]}
    {"role":"user","content":"And then?\n\nWell?"}
    {"role":"assistant","content":"Done."}
    {"role":"user","content":[{"type":"text","text":"What is this?"},{"type":"image_url","image_url":{"url":"data:image/png;base64,iVBO"}}]}
    "#);
}

#[test]
fn a_whole_request_to_litellm() {
    insta::assert_snapshot!(lines(quirks_of("litellm"), &conversation()), @r#"
    {"role":"system","content":[{"type":"text","text":"You are a test."},{"type":"text","text":"Be brief.","cache_control":{"type":"ephemeral"}}]}
    {"role":"user","content":"Go \"on\"."}
    {"role":"user","content":"(empty message)"}
    {"role":"assistant","content":"Let me see.","tool_calls":[{"type":"function","id":"t1","function":{"name":"bash","arguments":"{\"command\":\"ls \\\"é🦀\\\"\",\"n\":1}"}},{"type":"function","id":"t2","function":{"name":"bash","arguments":"{}"}}],"thinking_blocks":[{"type":"thinking","thinking":"Hm.","signature":"sig"},{"type":"redacted_thinking","data":"xyz"}]}
    {"role":"tool","tool_call_id":"t1","content":[{"type":"text","text":"a\nb"},{"type":"image_url","image_url":{"url":"data:image/png;base64,iVBO"}}]}
    {"role":"tool","tool_call_id":"t2","content":"Error: not JSON"}
    {"role":"user","content":"[STEERING] Hurry.\n\nAnd then?\n\nWell?","cache_control":{"type":"ephemeral"}}
    {"role":"assistant","content":"Done."}
    {"role":"user","content":[{"type":"text","text":"What is this?"},{"type":"image_url","image_url":{"url":"data:image/png;base64,iVBO"},"cache_control":{"type":"ephemeral"}}]}
    "#);
}

#[test]
fn settings_of_a_request() {
    let head = |thinking, quirks: Quirks| {
        let mut request = Request {
            thinking,
            sampling: Sampling {
                temperature: Some(0.5),
                top_p: Some(0.9),
                stop: vec!["END".to_owned()],
            },
            ..request(vec![user("Go on.")])
        };
        request.max_output = 3_000;
        let mut body = json_body(quirks, &request);
        let fields = body.as_object_mut().expect("an object");
        for field in ["stream", "messages"] {
            fields
                .shift_remove(field)
                .expect("a field of every request");
        }
        body.to_string()
    };
    let asked = |field| Quirks {
        thinking: field,
        no_usage: true,
        ..Quirks::default()
    };
    let some = Thinking::at_most(5_000);
    let none = Thinking::at_most(0);
    for (thinking, quirks, expected) in [
        (
            some,
            Quirks::default(),
            r#"{"model":"claude-x","stream_options":{"include_usage":true},"max_tokens":3000,"temperature":0.5,"top_p":0.9,"stop":["END"]}"#,
        ),
        (
            Thinking::default(),
            quirks_of("openai"),
            r#"{"model":"claude-x","stream_options":{"include_usage":true},"max_completion_tokens":3000,"temperature":0.5,"top_p":0.9,"stop":["END"]}"#,
        ),
        (
            Thinking::default(),
            Quirks {
                model_prefix: "anthropic/".to_owned(),
                output_limit: OutputLimit::None,
                no_usage: true,
                ..Quirks::default()
            },
            r#"{"model":"anthropic/claude-x","temperature":0.5,"top_p":0.9,"stop":["END"]}"#,
        ),
        (
            some,
            asked(ThinkingField::Thinking),
            r#"{"model":"claude-x","max_tokens":8000,"thinking":{"type":"enabled","budget_tokens":5000},"stop":["END"]}"#,
        ),
        (
            none,
            asked(ThinkingField::Thinking),
            r#"{"model":"claude-x","max_tokens":3000,"thinking":{"type":"disabled"},"temperature":0.5,"top_p":0.9,"stop":["END"]}"#,
        ),
        (
            some,
            asked(ThinkingField::ReasoningEffort),
            r#"{"model":"claude-x","max_tokens":8000,"reasoning_effort":"medium","stop":["END"]}"#,
        ),
        (
            none,
            asked(ThinkingField::ReasoningEffort),
            r#"{"model":"claude-x","max_tokens":3000,"reasoning_effort":"low","temperature":0.5,"top_p":0.9,"stop":["END"]}"#,
        ),
        (
            some,
            asked(ThinkingField::Reasoning),
            r#"{"model":"claude-x","max_tokens":8000,"reasoning":{"max_tokens":5000},"stop":["END"]}"#,
        ),
        (
            none,
            asked(ThinkingField::Reasoning),
            r#"{"model":"claude-x","max_tokens":3000,"reasoning":{"enabled":false},"temperature":0.5,"top_p":0.9,"stop":["END"]}"#,
        ),
        (
            some,
            asked(ThinkingField::EnableThinking),
            r#"{"model":"claude-x","max_tokens":8000,"thinking_budget":5000,"enable_thinking":true,"stop":["END"]}"#,
        ),
        (
            none,
            asked(ThinkingField::EnableThinking),
            r#"{"model":"claude-x","max_tokens":3000,"enable_thinking":false,"temperature":0.5,"top_p":0.9,"stop":["END"]}"#,
        ),
    ] {
        assert_eq!(head(thinking, quirks), expected);
    }
}

/// Additional fields are in the body, once each.
#[test]
fn additional_fields_are_sent_once() {
    let additions = Additions {
        body: json!({"metadata": {"user_id": "s"}, "max_tokens": 7, "messages": []})
            .as_object()
            .expect("an object")
            .clone(),
        headers: [("x-team".to_owned(), "a".to_owned())].into(),
        betas: vec!["b1".to_owned(), "b2".to_owned()],
    };
    for (quirks, expected) in [
        (
            quirks_of("litellm"),
            r#"{"model":"claude-x","stream":true,"stream_options":{"include_usage":true},"max_tokens":7,"extra_headers":{"x-team":"a","anthropic-beta":"b1,b2"},"metadata":{"user_id":"s"},"messages":[{"role":"user","content":"Hi","cache_control":{"type":"ephemeral"}}]}"#,
        ),
        (
            Quirks::default(),
            r#"{"model":"claude-x","stream":true,"stream_options":{"include_usage":true},"max_tokens":7,"metadata":{"user_id":"s"},"messages":[{"role":"user","content":"Hi"}]}"#,
        ),
    ] {
        let body = body(
            &mut encoder(additions.clone(), quirks),
            &request(vec![user("Hi")]),
        );
        assert_eq!(body, expected);
    }
}

#[test]
fn ids_are_made_valid_and_match_calls_with_results() {
    let long = "call_".repeat(20);
    for (ids, id, expected) in [
        (ToolCallIds::Any, long.as_str(), long.as_str()),
        (ToolCallIds::Short, "toolu_1", "toolu_1"),
        (ToolCallIds::Short, &long, "call_997700f5477cf029"),
        (ToolCallIds::Nine, "abcDEF123", "abcDEF123"),
        (ToolCallIds::Nine, "abcDEF12_", "f5ae92800"),
        (ToolCallIds::Nine, "toolu_1", "6f45b4bf4"),
    ] {
        let quirks = Quirks {
            tool_call_ids: ids,
            ..Quirks::default()
        };
        let body = json_body(
            quirks,
            &request(vec![
                user("Go on."),
                message(
                    Role::Assistant,
                    Some("claude-x"),
                    vec![call(id, Input::default())],
                ),
                message(Role::User, None, vec![result(id, Vec::new(), false)]),
            ]),
        );
        assert_eq!(body["messages"][1]["tool_calls"][0]["id"], expected);
        assert_eq!(body["messages"][2]["tool_call_id"], expected);
    }
}

/// A gateway passes the thinking budget on to a model that rejects results of calls made without thinking.
#[test]
fn results_of_calls_that_were_made_without_a_thought_are_not_thought_about() {
    for (what, content, thinks) in [
        (
            "a thought",
            vec![thinking(Some("s")), call("t1", Input::default())],
            true,
        ),
        (
            "one that is not sealed",
            vec![thinking(None), call("t1", Input::default())],
            false,
        ),
        ("none", vec![call("t1", Input::default())], false),
    ] {
        let messages = vec![
            user("Go on."),
            message(Role::Assistant, Some("claude-x"), content),
            message(Role::User, None, vec![result("t1", Vec::new(), false)]),
        ];
        let request = Request {
            thinking: Thinking::at_most(5_000),
            ..request(messages)
        };
        let body = json_body(quirks_of("litellm"), &request);
        assert_eq!(body.get("thinking").is_some(), thinks, "{what}");
    }
}

#[test]
fn reasoning_is_returned_only_to_its_model() {
    let details = r#"[{"type":"reasoning.encrypted","data":"x"}]"#;
    let content = vec![
        thinking(None),
        thinking(Some("sig")),
        ContentBlock::text("So."),
        ContentBlock::RedactedThinking {
            data: details.to_owned(),
        },
    ];
    for (model, returned, expected) in [
        (
            "claude-x",
            ReturnedReasoning::Sealed,
            r#"{"role":"assistant","content":"So.","thinking_blocks":[{"type":"thinking","thinking":"Hm.","signature":"sig"}],"reasoning_details":[{"type":"reasoning.encrypted","data":"x"}]}"#,
        ),
        (
            "claude-x",
            ReturnedReasoning::Words,
            r#"{"role":"assistant","content":"So.","reasoning_content":"Hm.Hm."}"#,
        ),
        (
            "claude-x",
            ReturnedReasoning::None,
            r#"{"role":"assistant","content":"So."}"#,
        ),
        (
            "another",
            ReturnedReasoning::Sealed,
            r#"{"role":"assistant","content":"So."}"#,
        ),
        (
            "another",
            ReturnedReasoning::Words,
            r#"{"role":"assistant","content":"So."}"#,
        ),
    ] {
        let quirks = Quirks {
            returned_reasoning: returned,
            ..Quirks::default()
        };
        let answer = message(Role::Assistant, Some(model), content.clone());
        let lines = lines(quirks, &request(vec![user("Go on."), answer]));
        assert_eq!(lines.lines().nth(1), Some(expected));
    }
}

#[test]
fn breakpoints_stand_behind_the_first_text_and_then_in_the_last_two_turns_of_the_user() {
    let call = message(
        Role::Assistant,
        Some("claude-x"),
        vec![call("t", Input::default())],
    );
    let results = message(Role::User, None, vec![result("t", Vec::new(), false)]);
    let mut conversation = Vec::new();
    let mut encoder = encoder(Additions::default(), quirks_of("litellm"));
    for (message, expected) in [
        (user("a"), "user!"),
        (user("b"), "user! user!"),
        (call.clone(), "user! user! assistant"),
        (results.clone(), "user user! assistant tool!"),
        (user("c"), "user user! assistant tool user!"),
        (call, "user user! assistant tool user! assistant"),
        (results, "user user assistant tool user! assistant tool!"),
    ] {
        conversation.push(message);
        let body = body(&mut encoder, &request(conversation.clone()));
        let body: Value = serde_json::from_str(&body).expect("JSON");
        let messages = body["messages"].as_array().expect("an array").iter();
        let marks = messages.map(|message| {
            let role = message["role"].as_str().expect("text");
            let mark = message.get("cache_control").map_or("", |_| "!");
            format!("{role}{mark}")
        });
        assert_eq!(marks.collect::<Vec<_>>().join(" "), expected);
    }
}

proptest! {
    #[test]
    fn what_is_kept_changes_no_byte(
        changes in proptest::collection::vec((0usize..8, 0usize..6, any::<bool>()), 1..12),
        with_breakpoints: bool,
    ) {
        let quirks = Quirks { cache_control: with_breakpoints, ..Quirks::default() };
        let pictures = vec![ContentBlock::text("See:"), ContentBlock::Image(image())];
        let kinds = [
            user("é\n\"quoted\""),
            model("Yes."),
            message(Role::Assistant, Some("claude-x"), vec![call("t", Input::default())]),
            message(Role::User, None, vec![result("t", vec![ResultBlock::Image(image())], true)]),
            message(Role::User, None, pictures),
            message(Role::Assistant, Some("claude-x"), vec![thinking(None)]),
        ];
        let mut kept = encoder(Additions::default(), quirks.clone());
        let mut messages = vec![user("Begin.")];
        for (dropped, kind, has_system) in changes {
            messages.truncate(messages.len().saturating_sub(dropped / 3).max(1));
            messages.push(Arc::new((*kinds[kind]).clone()));
            let request = Request {
                system: if has_system { Arc::from(["S".to_owned()]) } else { Arc::from([]) },
                ..request(messages.clone())
            };
            let fresh = body(&mut encoder(Additions::default(), quirks.clone()), &request);
            prop_assert_eq!(body(&mut kept, &request), fresh.clone());
            prop_assert!(serde_json::from_str::<Value>(&fresh).is_ok());
        }
    }
}

/// Sound is sent beside the result, to models that hear; others read what it is.
#[test]
fn sound_is_for_models_that_hear() {
    let audio = |media_type: &str| Audio {
        media_type: media_type.to_owned(),
        data: "UklG".to_owned(),
    };
    let blocks = [audio("audio/wav").shown(3), audio("audio/mpeg").shown(3)].concat();
    let request = request(vec![
        user("listen"),
        message(Role::Assistant, None, vec![call("t", Input::default())]),
        message(Role::User, None, vec![result("t", blocks, false)]),
    ]);
    let sent = |hears: bool, quirks: Quirks| {
        let mut encoder = encoder(Additions::default(), quirks);
        encoder.abilities().hears = hears;
        let body: Value = serde_json::from_str(&body(&mut encoder, &request)).expect("JSON");
        let messages = body["messages"].as_array().expect("an array")[2..].iter();
        messages
            .map(ToString::to_string)
            .collect::<Vec<_>>()
            .join("\n")
    };
    insta::assert_snapshot!(sent(false, Quirks::default()), @r#"{"role":"tool","tool_call_id":"t","content":"[audio/wav, 3 bytes]\n[audio/mpeg, 3 bytes]"}"#);
    let quirks = Quirks {
        images_in_results: true,
        ..Quirks::default()
    };
    let heard = sent(true, Quirks::default());
    assert_eq!(sent(true, quirks), heard);
    insta::assert_snapshot!(heard, @r#"
    {"role":"tool","tool_call_id":"t","content":"[audio/wav, 3 bytes]\n[audio/mpeg, 3 bytes]"}
    {"role":"user","content":[{"type":"text","text":"What `bash` shows:"},{"type":"input_audio","input_audio":{"data":"UklG","format":"wav"}},{"type":"input_audio","input_audio":{"data":"UklG","format":"mp3"}}]}
    "#);
}

#[test]
fn a_call_of_another_model_is_marked_for_a_server_that_wants_signatures() {
    let answer = ["t1", "t2"].map(|id| call(id, Input::from(json!({}))));
    let answer = message(Role::Assistant, Some("claude-x"), answer.to_vec());
    let request = request(vec![user("Go."), answer]);
    let quirks: Quirks = serde_json::from_str(r#"{"signedCalls": true}"#).unwrap();
    for (name, marks) in [
        ("gemini-3.8-flash", 1),
        ("google/gemini-3.8-flash", 1),
        ("gemma-4", 0),
    ] {
        let model = Model::new("gemini", name, 200_000, 16_384);
        let (abilities, additions) = (Abilities::default(), Additions::default());
        let mut encoder = Encoder::new(model, abilities, additions, quirks.clone());
        let sent = body(&mut encoder, &request);
        let marked = r#""id":"t1","function":{"name":"bash","arguments":"{}"},"extra_content":{"google":{"thought_signature":"skip"#;
        assert_eq!(sent.matches(marked).count(), marks, "{sent}");
        assert_eq!(sent.matches("extra_content").count(), marks, "{sent}");
    }
}
