//! What each vendor refuses beyond the rules of its API, a request per rule.

use std::collections::{BTreeMap, BTreeSet};

use ah_testkit::script::{Turn, says, thinks, uses};
use ah_testkit::server::Server;
use ah_testkit::server::given::Given;
use ah_testkit::server::protocol::Protocol::{self, Chat, Messages, Responses};
use ah_testkit::server::vendor::{ALL, Asked, Rule, Vendor};
use serde_json::{Value, json};

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
            "model": model, "max_tokens": 2_000, "stream": true,
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

/// Who refuses what: vendors, API, model, fields that break a rule, and words of the refusal.
fn refused() -> Vec<(
    &'static [&'static str],
    Protocol,
    &'static str,
    Value,
    &'static str,
)> {
    let none = json!({});
    let gpt: &[_] = &["openai", "azure"];
    let claude: &[_] = &["anthropic", "bedrock"];
    let odd = |name: &str| json!({"tools": [{"type": "function", "function": {"name": name, "parameters": {"type": "object"}}}]});
    vec![
        (
            &["openai", "azure", "vllm"],
            Chat,
            "gpt-4o",
            json!({"tools": []}),
            "empty array",
        ),
        (gpt, Chat, "gpt-5.6-sol", none.clone(), "use /v1/responses"),
        (
            gpt,
            Chat,
            "gpt-5.4",
            json!({"reasoning_effort": "low"}),
            "use /v1/responses",
        ),
        (
            gpt,
            Chat,
            "gpt-6.2-sol",
            json!({"reasoning_effort": "none"}),
            "does not support 'none'",
        ),
        (
            gpt,
            Chat,
            "gpt-6-sol",
            json!({"reasoning_effort": "minimal", "tools": null}),
            "does not support 'minimal'",
        ),
        (
            gpt,
            Chat,
            "gpt-6-sol",
            json!({"temperature": 0.2, "tools": null}),
            "'temperature' does not support 0.2",
        ),
        (
            gpt,
            Chat,
            "o3",
            json!({"max_tokens": 7}),
            "Use 'max_completion_tokens'",
        ),
        (
            gpt,
            Responses,
            "gpt-6-sol",
            json!({"stop": ["a"]}),
            "Unknown parameter: 'stop'",
        ),
        (
            gpt,
            Responses,
            "gpt-6.2-sol",
            json!({"reasoning": {"effort": "none"}}),
            "'reasoning.effort' does not support 'none'",
        ),
        (
            gpt,
            Responses,
            "gpt-6-sol",
            json!({"top_p": 0.5}),
            "'top_p' does not support 0.5",
        ),
        (
            gpt,
            Responses,
            "gpt-6-sol",
            json!({"input": [{"role": "assistant", "id": "call_1", "content": "a"}]}),
            "begins with 'msg'",
        ),
        (
            gpt,
            Responses,
            "gpt-6-sol",
            json!({"input": [{"role": "user", "id": "x".repeat(65), "content": "a"}]}),
            "maximum length 64",
        ),
        (
            gpt,
            Responses,
            "gpt-6-sol",
            json!({"input": [{"type": "additional_tools", "role": "developer", "tools": []}]}),
            "'input[0].tools'",
        ),
        (
            gpt,
            Responses,
            "gpt-6-sol",
            json!({"input": [{"type": "configuration_update"}]}),
            "'input[0].reasoning'",
        ),
        (
            gpt,
            Responses,
            "gpt-5.5",
            json!({"input": [{"type": "additional_tools", "role": "developer", "tools": [{"type": "function", "name": "a", "parameters": {"type": "object"}}]}]}),
            "Invalid value: 'additional_tools'",
        ),
        (
            gpt,
            Responses,
            "gpt-6-sol",
            json!({
                "tools": [{"type": "function", "name": "a", "parameters": {"type": "object"}}],
                "input": [{"type": "additional_tools", "role": "developer", "tools": [{"type": "function", "name": "a", "parameters": {"type": "object"}}]}],
            }),
            "unique",
        ),
        (
            gpt,
            Responses,
            "gpt-5.6-sol",
            json!({"input": [{"type": "configuration_update", "reasoning": {"effort": "low"}}]}),
            "not supported",
        ),
        (
            gpt,
            Responses,
            "gpt-6-astra",
            json!({"input": [
                {"type": "configuration_update", "reasoning": {"effort": "low"}},
                {"type": "configuration_update", "reasoning": {"effort": "high"}},
            ]}),
            "consecutive",
        ),
        (
            gpt,
            Responses,
            "gpt-5.5",
            json!({"prompt_cache_options": {"ttl": "30m"}}),
            "'prompt_cache_options'",
        ),
        (
            gpt,
            Responses,
            "gpt-6.2-sol",
            json!({"prompt_cache_options": {"ttl": "1h"}}),
            "'1h'",
        ),
        (
            &["gemini"],
            Chat,
            "gemini-3.8-flash",
            json!({"messages": called(&none, &none)}),
            "missing a thought_signature",
        ),
        (
            &["gemini"],
            Chat,
            "gemini-3.8-flash",
            json!({"messages": called(&none, &json!({"extra_content": {"google": {"thought_signature": "x"}}}))}),
            "Corrupted",
        ),
        (
            &["gemini"],
            Chat,
            "gemini-3.8-flash",
            json!({"reasoning": {}}),
            "Unknown name \"reasoning\"",
        ),
        (
            &["gemini"],
            Chat,
            "gemini-3.8-flash",
            odd("1st"),
            "Must start with a letter or an underscore",
        ),
        (
            &["openrouter"],
            Chat,
            "google/gemini-3.8-flash",
            json!({"messages": called(&none, &none)}),
            "reasoning details to be preserved",
        ),
        (
            &["deepseek"],
            Chat,
            "deepseek-v4-pro",
            json!({"messages": called(&none, &none)}),
            "must be passed back",
        ),
        (
            &["moonshot"],
            Chat,
            "kimi-k3",
            json!({"messages": called(&json!({"reasoning_content": ""}), &none)}),
            "missing in assistant tool call message at index 1",
        ),
        (
            &["moonshot"],
            Chat,
            "kimi-k3",
            odd("_x"),
            "must start with a letter",
        ),
        (
            &["moonshot"],
            Chat,
            "kimi-k3",
            json!({"temperature": 0.5}),
            "only 1 is allowed",
        ),
        (
            &["mistral"],
            Chat,
            "mistral-large-4",
            json!({"messages": called(&none, &json!({"id": "call_1"}))}),
            "Tool call id was call_1",
        ),
        (
            &["mistral"],
            Chat,
            "mistral-large-4",
            json!({"messages": [{"role": "tool", "tool_call_id": "abcdefgh1", "content": "a"}, {"role": "system", "content": "b"}]}),
            "Unexpected role 'system' after role 'tool'",
        ),
        (
            &["mistral"],
            Chat,
            "mistral-large-4",
            json!({"messages": [{"role": "assistant", "content": "a"}]}),
            "Expected last role User or Tool",
        ),
        (
            &["mistral"],
            Chat,
            "mistral-large-4",
            json!({"stream_options": {}}),
            r#""loc":["body","stream_options"]"#,
        ),
        (
            &["mistral"],
            Chat,
            "mistral-large-4",
            json!({"messages": called(&json!({"reasoning_content": "a"}), &none)}),
            r#""loc":["body","messages",1,"assistant","reasoning_content"]"#,
        ),
        (
            &["groq"],
            Chat,
            "openai/gpt-oss-120b",
            json!({"messages": called(&json!({"reasoning_content": "a"}), &none)}),
            "property 'reasoning_content' is unsupported",
        ),
        (
            &["groq"],
            Chat,
            "openai/gpt-oss-120b",
            json!({"thinking": {}}),
            "property 'thinking' is unsupported",
        ),
        (
            &["cerebras"],
            Chat,
            "gpt-oss-120b",
            json!({"messages": called(&json!({"reasoning_content": "a"}), &none)}),
            "messages.1.assistant.reasoning_content",
        ),
        (
            &["fireworks"],
            Chat,
            "accounts/fireworks/models/glm-5",
            json!({"enable_thinking": true}),
            "field: 'enable_thinking', value: true",
        ),
        (
            &["xai"],
            Chat,
            "grok-4.6",
            json!({"stop": ["a"]}),
            "does not support parameter stop",
        ),
        (
            &["xai"],
            Chat,
            "grok-4",
            json!({"reasoning_effort": "low"}),
            "does not support parameter reasoningEffort",
        ),
        (
            &["xai"],
            Responses,
            "grok-4",
            json!({"reasoning": {"effort": "low"}}),
            "does not support parameter reasoningEffort",
        ),
        (
            &["zai"],
            Chat,
            "glm-5",
            json!({"messages": [{"role": "developer", "content": "a"}]}),
            "Incorrect role information",
        ),
        (
            &["minimax"],
            Chat,
            "MiniMax-M3",
            json!({"tools": [{"type": "function", "function": {"name": "a"}}]}),
            "function parameters is empty",
        ),
        (
            &["qwen"],
            Chat,
            "qwen3.8-max",
            json!({"messages": [{"role": "assistant", "content": "a", "tool_calls": []}]}),
            "Empty tool_calls",
        ),
        (
            &["litellm"],
            Chat,
            "claude-opus-5",
            json!({"thinking": {"type": "enabled"}, "messages": called(&none, &none)}),
            "Expected `thinking`",
        ),
        (
            claude,
            Messages,
            "claude-opus-5",
            json!({"tools": [{"name": "a", "input_schema": {"type": "object", "properties": {"a[b]": {}}}}]}),
            "Property keys should match pattern",
        ),
        (
            claude,
            Messages,
            "claude-opus-5",
            json!({"messages": [{"role": "user", "content": [picture("image/jpeg", PIXEL)]}]}),
            "appears to be a image/png",
        ),
        (
            claude,
            Messages,
            "claude-opus-5",
            pictures("bm8gcGljdHVyZQ==", 1),
            "Could not process image",
        ),
        (
            claude,
            Messages,
            "claude-opus-5",
            pictures(WIDE, 1),
            "max allowed size: 8000 pixels",
        ),
        (
            claude,
            Messages,
            "claude-opus-5",
            pictures(BROAD, 21),
            "many-image requests: 2000 pixels",
        ),
        (
            claude,
            Messages,
            "claude-opus-5",
            pictures(&format!("{DOT}{}", "A".repeat(10 << 20)), 1),
            "exceeds 10 MB",
        ),
        (
            claude,
            Messages,
            "claude-haiku-4-5",
            json!({"max_tokens": 64_001}),
            "64001 > 64000",
        ),
        (
            claude,
            Messages,
            "claude-opus-5",
            json!({"extra_headers": {}}),
            "extra_headers: Extra inputs are not permitted",
        ),
        (
            &["bedrock"],
            Messages,
            "anthropic.claude-opus-5",
            json!({"messages": [{"role": "user", "content": [{"type": "image", "source": {"type": "url", "url": "https://a"}}]}]}),
            "expected tags: 'base64'",
        ),
    ]
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
    let betas = [(
        "anthropic-beta".to_owned(),
        "inline-tools-2026-09-15".to_owned(),
    )];
    let headers = BTreeMap::from(betas);
    let body = body(Messages, "claude-opus-5");
    let bedrock = vendor("bedrock");
    let refusal = bedrock.refusal(Messages, &asked(&headers, &body, &given));
    let (rule, refusal) = refusal.expect("it does not know the beta");
    assert_eq!(refusal.message, "invalid beta flag");
    broken.insert((bedrock.name, number(bedrock.refuses, rule)));

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
