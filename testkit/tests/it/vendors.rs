//! What each vendor refuses beyond the rules of its API, a request per rule.

mod refused;

use std::collections::{BTreeMap, BTreeSet};

use ah_testkit::script::{Turn, says, thinks, uses};
use ah_testkit::server::Server;
use ah_testkit::server::given::Given;
use ah_testkit::server::protocol::Protocol::{self, Chat, Interactions, Messages, Responses};
use ah_testkit::server::vendor::{ALL, Asked, Rule, Vendor};
use serde_json::{Value, json};

use self::refused::refused;
use crate::server::body_at;

/// A picture of a pixel.
const PIXEL: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
/// Its beginning alone.
const DOT: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAAB";
/// The beginning of one of 9,000 by 1 pixels.
const WIDE: &str = "iVBORw0KGgoAAAANSUhEUgAAIygAAAAB";
/// The beginning of one of 2,001 by 1 pixels.
const BROAD: &str = "iVBORw0KGgoAAAANSUhEUgAAB9EAAAAB";

/// Returns a request that no vendor of `api` refuses, for `model`.
fn body(api: Protocol, model: &str) -> Value {
    let schema = json!({"type": "object", "properties": {"path": {"type": "string"}}});
    match api {
        Messages => json!({
            "model": model, "anthropic_version": "vertex-2023-10-16", "max_tokens": 2_000, "stream": true,
            "tools": [{"name": "read", "input_schema": schema}],
            "messages": [{"role": "user", "content": "hello"}],
        }),
        Chat => json!({
            "model": model, "stream": true,
            "tools": [{"type": "function", "function": {"name": "read", "parameters": schema}}],
            "messages": [{"role": "user", "content": "hello"}],
        }),
        Responses => json!({
            "model": model, "stream": true, "store": false,
            "tools": [{"type": "function", "name": "read", "parameters": schema}],
            "input": [{"role": "user", "content": "hello"}],
        }),
        Interactions => json!({
            "model": model, "stream": true, "store": false,
            "tools": [{"type": "function", "name": "read", "parameters": schema}],
            "input": [{"type": "user_input", "content": [{"type": "text", "text": "hello"}]}],
        }),
    }
}

/// Messages of chat completions that wait for the model after a call, with `more` fields of the answer and of the call.
fn called(more: &Value, of_call: &Value) -> Value {
    let mut call = json!({
        "id": "abcdefgh1", "type": "function", "function": {"name": "read", "arguments": "{}"},
    });
    merge(&mut call, of_call);
    let mut answer = json!({"role": "assistant", "content": null, "tool_calls": [call]});
    merge(&mut answer, more);
    json!([
        {"role": "user", "content": "hello"},
        answer,
        {"role": "tool", "tool_call_id": "abcdefgh1", "content": "so"},
    ])
}

fn merge(value: &mut Value, more: &Value) {
    for (field, more) in more.as_object().into_iter().flatten() {
        value[field] = more.clone();
    }
}

fn picture(media_type: &str, data: &str) -> Value {
    let source = json!({"type": "base64", "media_type": media_type, "data": data});
    json!({"type": "image", "source": source})
}

fn pictures(data: &str, count: usize) -> Value {
    let pictures = vec![picture("image/png", data); count];
    json!({"messages": [{"role": "user", "content": pictures}]})
}

fn asked<'a>(
    headers: &'a BTreeMap<String, String>,
    body: &'a Value,
    given: &'a Given,
) -> Asked<'a> {
    Asked {
        headers,
        body,
        given,
    }
}

fn vendor(name: &str) -> &'static Vendor {
    Vendor::named(name).expect(name)
}

/// Returns the number of `rule` among those of its vendor.
fn number(rules: &'static [Rule], rule: &'static Rule) -> usize {
    let number = rules.iter().position(|other| std::ptr::eq(other, rule));
    number.expect("a rule of the vendor")
}

#[test]
fn each_rule_of_a_vendor_refuses_a_request() {
    let (headers, given) = (BTreeMap::new(), Given::default());
    let mut broken = BTreeSet::new();
    for (names, api, model, more, expected) in refused() {
        let mut body = body(api, model);
        merge(&mut body, &more);
        for name in names {
            let vendor = vendor(name);
            let refusal = vendor.refusal(api, &asked(&headers, &body, &given));
            let (rule, refusal) = refusal.unwrap_or_else(|| panic!("{name} takes {more}"));
            let message = &refusal.message;
            assert!(
                message.contains(expected),
                "{name}: {message}\nnot: {expected}"
            );
            broken.insert((vendor.name, number(vendor.refuses, rule)));
        }
    }
    let body = body(Messages, "claude-opus-5");
    for (name, beta) in [
        ("bedrock", "inline-tools-2026-09-15"),
        ("vertex", "fast-mode-2026-02-01"),
    ] {
        let headers = BTreeMap::from([("anthropic-beta".to_owned(), beta.to_owned())]);
        let vendor = vendor(name);
        let refusal = vendor.refusal(Messages, &asked(&headers, &body, &given));
        let (rule, refusal) = refusal.expect("it does not know the beta");
        assert_eq!(refusal.message, "invalid beta flag");
        broken.insert((vendor.name, number(vendor.refuses, rule)));
    }

    let all = ALL
        .iter()
        .flat_map(|vendor| (0..vendor.refuses.len()).map(|number| (vendor.name, number)));
    assert_eq!(
        all.collect::<BTreeSet<_>>(),
        broken,
        "rules, and those that were broken here"
    );
}

#[test]
fn what_breaks_no_rule_is_accepted_by_every_vendor() {
    let (headers, given) = (BTreeMap::new(), Given::default());
    for (vendor, api) in ALL
        .iter()
        .flat_map(|it| it.apis.iter().map(move |api| (it, *api)))
    {
        for model in [
            "gpt-4o",
            "claude-opus-5",
            "gemini-3.8-flash",
            "kimi-k3",
            "grok-4.6",
        ] {
            let body = body(api, model);
            let refusal = vendor.refusal(api, &asked(&headers, &body, &given));
            assert!(refusal.is_none(), "{}: {refusal:?}", vendor.name);
        }
    }
}

#[test]
fn each_rule_has_a_source_and_a_day() {
    for vendor in ALL {
        for rule in vendor.refuses.iter().chain(vendor.loses) {
            let is_named = ["https://", "npm ", "PyPI "]
                .iter()
                .any(|it| rule.source.starts_with(it));
            assert!(is_named, "{}: {}", vendor.name, rule.source);
            let parts: Vec<_> = rule.day.split('-').map(str::len).collect();
            assert_eq!(parts, [4, 2, 2], "{}: {}", vendor.name, rule.day);
        }
    }
    let names: BTreeSet<_> = ALL.iter().map(|vendor| vendor.name).collect();
    assert_eq!(names.len(), ALL.len());
}

/// Path at which a vendor is asked for `api`.
fn path(api: Protocol) -> &'static str {
    match api {
        Messages => "/v1/messages",
        Chat => "/v1beta/openai/chat/completions",
        Responses => "/openai/v1/responses",
        Interactions => "/v1beta/interactions",
    }
}

#[test]
fn a_server_has_the_paths_and_the_errors_of_its_vendor() {
    for (name, api, expected) in [
        ("mistral", Responses, "not_found_error"),
        (
            "gemini",
            Chat,
            r#"[{"error":{"code":400,"message":"Invalid JSON"#,
        ),
        ("xai", Chat, r#""error":"Model grok-4 does not support"#),
        ("cerebras", Chat, r#"{"object":"error","message":"stop2"#),
        (
            "openai",
            Responses,
            r#"{"error":{"message":"Unknown parameter: 'stop2'"#,
        ),
    ] {
        let server = Server::new([says("Never.")]).of(vendor(name));
        let mut body = body(api, "grok-4");
        merge(
            &mut body,
            &json!({"stop2": 1, "reasoning": {"effort": "low"}, "reasoning_effort": "low"}),
        );
        let told = body_at(&server, path(api), &body);
        assert!(told.contains(expected), "{name}: {told}\nnot: {expected}");
        assert_eq!(server.refusals().len(), 1);
    }
}

fn looks() -> Turn {
    Turn {
        thinking: Some("Hm.".into()),
        ..uses("read", json!({}))
    }
}

#[test]
fn an_answer_has_what_its_vendor_wants_back() {
    for (name, model, expected) in [
        (
            "gemini",
            "gemini-3.8-flash",
            r#""extra_content":{"google":{"thought_signature":"sig."#,
        ),
        (
            "openrouter",
            "google/gemini-4-argon",
            r#""type":"reasoning.encrypted","data":"sig."#,
        ),
        (
            "openrouter",
            "x/y",
            r#""reasoning_details":[{"type":"reasoning.text","text":"Hm.""#,
        ),
        (
            "deepseek",
            "deepseek-v4-pro",
            r#""reasoning_content":"Hm.""#,
        ),
        ("groq", "openai/gpt-oss-120b", r#""reasoning":"Hm.""#),
        (
            "mistral",
            "magistral-medium",
            r#"{"type":"thinking","thinking":[{"type":"text","text":"Hm."}]}"#,
        ),
    ] {
        let server = Server::new([looks()]).of(vendor(name));
        let told = body_at(&server, path(Chat), &body(Chat, model));
        assert!(told.contains(expected), "{name}: {told}\nnot: {expected}");
    }
    let server = Server::new([looks()]).of(vendor("mistral"));
    let told = body_at(&server, path(Chat), &body(Chat, "mistral-large-4"));
    let (_, rest) = told.split_once(r#"{"index":0,"id":""#).expect("a call");
    let (id, _) = rest.split_once('"').expect("an id");
    assert_eq!(id.len(), 9, "{id}");
}

/// A second request to GPT-6.2 after an answer with reasoning, changed by `change`.
fn second(server: &Server, change: impl FnOnce(&mut Value)) {
    let mut body = body(Responses, "gpt-6.2-sol");
    body["include"] = json!(["reasoning.encrypted_content"]);
    let told = body_at(server, path(Responses), &body);
    let last = told
        .trim_end()
        .lines()
        .last()
        .and_then(|line| line.strip_prefix("data: "));
    let last: Value = serde_json::from_str(last.expect("an event")).expect("JSON");
    let output = last["response"]["output"]
        .as_array()
        .expect("a list")
        .clone();
    let input = body["input"].as_array_mut().expect("a list");
    input.extend(output.into_iter().map(|mut item| {
        if let Some(fields) = item.as_object_mut() {
            fields.shift_remove("status");
        }
        item
    }));
    input.push(json!({"role": "user", "content": "and?"}));
    change(&mut body);
    body_at(server, path(Responses), &body);
}

#[test]
fn what_a_vendor_takes_with_a_loss_is_counted() {
    let lost = |change: fn(&mut Value)| {
        let server = Server::new([thinks("Hm.", "Well."), says("Done.")]).of(vendor("openai"));
        second(&server, change);
        assert_eq!(server.refusals(), Vec::<String>::new());
        server.losses().join("\n")
    };
    for (change, expected) in [
        ((|_| {}) as fn(&mut Value), ""),
        (|body| body["input"][3]["content"] = "else".into(), ""),
        (
            |body| body["input"][0]["content"] = "Hello".into(),
            "prefix_mismatch",
        ),
        (
            |body| body["tools"][0]["description"] = "new".into(),
            "prefix_mismatch",
        ),
        (
            |body| body["input"][2]["phase"] = Value::Null,
            "an answer of the phase `final_answer` came back as null",
        ),
        (
            |body| body["instructions"] = "Be brief.".into(),
            "paid for anew",
        ),
    ] {
        let lost = lost(change);
        assert!(
            lost.contains(expected) && lost.is_empty() == expected.is_empty(),
            "{lost}\nnot: {expected}"
        );
    }

    let server = Server::new([looks(), says("Done.")]).of(vendor("minimax"));
    let told = body_at(&server, path(Chat), &body(Chat, "MiniMax-M3"));
    let (_, rest) = told.split_once(r#"{"index":0,"id":""#).expect("a call");
    let (id, _) = rest.split_once('"').expect("an id");
    let mut later = body(Chat, "MiniMax-M3");
    later["messages"] = called(&json!({}), &json!({"id": id}));
    later["messages"][2]["tool_call_id"] = id.into();
    body_at(&server, path(Chat), &later);
    assert_eq!(
        server.losses(),
        ["an answer with calls lacks its `reasoning_details`"]
    );

    let headers = BTreeMap::from([(
        "anthropic-beta".to_owned(),
        "a, prompt-caching-2024-07-31".to_owned(),
    )]);
    let body = body(Messages, "claude-opus-5");
    let losses = vendor("anthropic").losses(Messages, &asked(&headers, &body, &Given::default()));
    assert_eq!(
        losses,
        ["the beta header `prompt-caching-2024-07-31` is deprecated"]
    );
}
