//! Requests that the loopback server refuses, one error per line.

use ah_testkit::server::messages::binding::Binding;
use ah_testkit::server::messages::history::check;
use serde_json::{Value, json};

/// Returns a valid body with these messages.
fn body(messages: &Value) -> Value {
    json!({
        "model": "claude",
        "max_tokens": 2_000,
        "stream": true,
        "tools": [{"name": "bash", "input_schema": {"type": "object"}}],
        "messages": messages,
    })
}

fn user(content: impl Into<Value>) -> Value {
    json!({"role": "user", "content": content.into()})
}

fn assistant(content: impl Into<Value>) -> Value {
    json!({"role": "assistant", "content": content.into()})
}

fn text(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

fn call(id: &str) -> Value {
    json!({"type": "tool_use", "id": id, "name": "bash", "input": {}})
}

fn result(id: &str) -> Value {
    json!({"type": "tool_result", "tool_use_id": id, "content": "done"})
}

fn refused(body: &Value, expected: &str) {
    let fault = check(body).expect_err(&body.to_string());
    assert!(fault.contains(expected), "{fault}\nnot: {expected}\n{body}");
}

#[test]
fn valid_histories_are_accepted() {
    for messages in [
        json!([user("hello")]),
        json!([
            user("a"),
            user("b"),
            assistant("c"),
            assistant([text("d")]),
            user("e")
        ]),
        json!([
            user("a"),
            assistant([text("b"), call("t1")]),
            user([result("t1"), text("and")])
        ]),
        json!([
            user("a"),
            assistant([call("t1"), call("t2")]),
            user([result("t2")]),
            user([result("t1")]),
            user("go on")
        ]),
        json!([user("a"), assistant("prefill")]),
        json!([user("a"), assistant("")]),
        json!([
            user("a"),
            assistant([
                json!({"type": "thinking", "thinking": "", "signature": "s"}),
                text("b")
            ]),
            user("c")
        ]),
        json!([
            user("a"),
            assistant([json!({"type": "server_tool_use", "id": "x", "new": 1})]),
            user("c")
        ]),
        json!([user([
            json!({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA=="}})
        ])]),
        json!([
            user("a"),
            assistant([call("t1")]),
            user([
                json!({"type": "tool_result", "tool_use_id": "t1", "content": [text("\n")], "new_field": 1})
            ])
        ]),
    ] {
        assert_eq!(check(&body(&messages)), Ok(()), "{messages}");
    }
}

#[test]
fn invalid_histories_are_refused() {
    let thinking =
        |signature: Value| json!({"type": "thinking", "thinking": "hm", "signature": signature});
    for (messages, expected) in [
        (json!([]), "at least one message is required"),
        (json!("hello"), "messages: Input should be a valid list"),
        (
            json!([assistant("a")]),
            "first message must use the \"user\" role",
        ),
        (
            json!([{"role": "system", "content": "a"}]),
            "Unexpected role \"system\"",
        ),
        (json!([{"content": "a"}]), "messages.0.role: Field required"),
        (
            json!([{"role": "user"}]),
            "messages.0.content: Field required",
        ),
        (
            json!([user("")]),
            "messages.0: all messages must have non-empty content",
        ),
        (
            json!([user(json!([]))]),
            "messages.0: all messages must have non-empty content",
        ),
        (
            json!([user("a"), assistant(json!([])), user("b")]),
            "messages.1: all messages must have non-empty content",
        ),
        (
            json!([user([text("")])]),
            "text content blocks must be non-empty",
        ),
        (json!([user(" \n")]), "must contain non-whitespace text"),
        (
            json!([user("a"), assistant([text(" ")]), user("b")]),
            "must contain non-whitespace text",
        ),
        (
            json!([user("a"), assistant("b ")]),
            "final assistant content cannot end with trailing whitespace",
        ),
        (
            json!([user([json!({"text": "a"})])]),
            "messages.0.content.0.type: Field required",
        ),
        (json!([user([json!({"type": "new"})])]), "Input tag 'new'"),
        (
            json!([user("a"), assistant([call("t1")])]),
            "`tool_use` ids were found without `tool_result` blocks immediately after: t1.",
        ),
        (
            json!([user("a"), assistant([call("t1")]), user("b")]),
            "messages.1: `tool_use` ids were found without",
        ),
        (
            json!([
                user("a"),
                assistant([call("t1"), call("t2")]),
                user([result("t1")])
            ]),
            "immediately after: t2.",
        ),
        (
            json!([
                user("a"),
                assistant([call("t1")]),
                user([text("b"), result("t1")])
            ]),
            "immediately after: t1.",
        ),
        (
            json!([
                user("a"),
                assistant([call("t1")]),
                user("b"),
                user([result("t1")])
            ]),
            "immediately after: t1.",
        ),
        (
            json!([user([result("t1")])]),
            "messages.0.content.0: unexpected `tool_use_id` found in `tool_result` blocks: t1.",
        ),
        (
            json!([
                user("a"),
                assistant([call("t1")]),
                user([result("t1")]),
                assistant("b"),
                user([result("t1")])
            ]),
            "messages.4.content.0: unexpected",
        ),
        (
            json!([
                user("a"),
                assistant([call("t1")]),
                user([result("t1"), result("t1")])
            ]),
            "must have a single result",
        ),
        (
            json!([
                user("a"),
                assistant([call("t1"), call("t1")]),
                user([result("t1")])
            ]),
            "messages.1.content.1: `tool_use` ids must be unique",
        ),
        (
            json!([user("a"), assistant([call("t 1")]), user([result("t 1")])]),
            "tool_use.id: String should match pattern",
        ),
        (
            json!([
                user("a"),
                assistant([json!({"type": "tool_use", "id": "t", "name": "a b", "input": {}})])
            ]),
            "tool_use.name: String should match pattern",
        ),
        (
            json!([
                user("a"),
                assistant([json!({"type": "tool_use", "id": "t", "name": "a", "input": "{"})])
            ]),
            "tool_use.input: Input should be a valid dictionary",
        ),
        (
            json!([user([call("t1")])]),
            "`tool_use` blocks can only be in `assistant` messages",
        ),
        (
            json!([user("a"), assistant([result("t1")])]),
            "`tool_result` blocks can only be in `user` messages",
        ),
        (
            json!([
                user("a"),
                assistant([json!({"type": "thinking", "thinking": "hm"})]),
                user("b")
            ]),
            "thinking.signature: Field required",
        ),
        (
            json!([user("a"), assistant([thinking("".into())]), user("b")]),
            "Invalid `signature` in `thinking` block",
        ),
        (
            json!([user("a"), assistant([thinking(Value::Null)]), user("b")]),
            "thinking.signature: Field required",
        ),
        (
            json!([user([
                json!({"type": "image", "source": {"type": "base64", "media_type": "image/bmp", "data": "AA=="}})
            ])]),
            "media_type: Input should be",
        ),
        (
            json!([
                user("a"),
                assistant([call("t1")]),
                user([json!({"type": "tool_result", "tool_use_id": "t1", "content": [text("")]})])
            ]),
            "text content blocks must be non-empty",
        ),
    ] {
        refused(&body(&messages), expected);
    }
}

#[test]
fn invalid_settings_are_refused() {
    let with = |field: &str, value: Value| {
        let mut body = body(&json!([user("hello")]));
        body[field] = value;
        body
    };
    let marked = json!({"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}});
    for (field, value, expected) in [
        ("max_tokens", Value::Null, "max_tokens: Field required"),
        (
            "max_tokens",
            json!(0),
            "max_tokens: Input should be greater than or equal to 1",
        ),
        ("model", Value::Null, "model: Field required"),
        ("messages", Value::Null, "messages: Field required"),
        (
            "system",
            json!([text("")]),
            "system: text content blocks must be non-empty",
        ),
        ("system", json!(5), "system: Input should be"),
        (
            "tools",
            json!([{"name": "a b"}]),
            "tools.0.custom.name: String should match pattern",
        ),
        (
            "tools",
            json!([{"name": "a"}]),
            "tools.0.custom.input_schema: Field required",
        ),
        (
            "tools",
            json!([{"name": "a", "input_schema": {"type": "array"}}]),
            "input_schema.type: Input should be 'object'",
        ),
        (
            "tools",
            json!([{"name": "a", "input_schema": {"type": "object"}}, {"name": "a", "input_schema": {"type": "object"}}]),
            "Tool names must be unique",
        ),
        (
            "thinking",
            json!({"type": "enabled"}),
            "budget_tokens: Field required",
        ),
        (
            "thinking",
            json!({"type": "enabled", "budget_tokens": 100}),
            "greater than or equal to 1024",
        ),
        (
            "thinking",
            json!({"type": "enabled", "budget_tokens": 2_000}),
            "`max_tokens` must be greater",
        ),
        (
            "system",
            json!([marked, marked, marked, marked, marked]),
            "A maximum of 4 blocks with cache_control may be provided. Found 5.",
        ),
    ] {
        refused(&with(field, value), expected);
    }
    refused(&json!([]), "Input should be a valid dictionary");

    let mut warm = with(
        "thinking",
        json!({"type": "enabled", "budget_tokens": 1_024}),
    );
    assert_eq!(check(&warm), Ok(()));
    warm["temperature"] = json!(0.5);
    refused(&warm, "`temperature` may only be set to 1");

    let waiting = json!([user("a"), assistant([call("t1")]), user([result("t1")])]);
    let mut thoughtless = body(&waiting);
    thoughtless["thinking"] = json!({"type": "enabled", "budget_tokens": 1_024});
    refused(
        &thoughtless,
        "Expected `thinking` or `redacted_thinking`, but found `tool_use`",
    );
    thoughtless
        .as_object_mut()
        .expect("an object")
        .remove("thinking");
    thoughtless
        .as_object_mut()
        .expect("an object")
        .remove("tools");
    refused(&thoughtless, "must define tools");
}

/// Returns a body with `change` for a model that binds its thinking, whose answer was signed for the unchanged body.
fn bound(change: impl FnOnce(&mut Value)) -> Value {
    let first = body(&json!([user("a")]));
    let asked = |mut body: Value| {
        body["model"] = "claude-opus-5-5".into();
        body
    };
    let signature = Binding::of(&asked(first))
        .expect("the model binds its thinking")
        .sign();
    let thought = json!({"type": "thinking", "thinking": "", "signature": signature});
    let mut later = asked(body(&json!([
        user("a"),
        assistant([thought, text("b")]),
        user("c")
    ])));
    change(&mut later);
    later
}

#[test]
fn thinking_is_bound_to_what_stands_before_it() {
    for change in [
        (|_: &mut Value| {}) as fn(&mut Value),
        |body| body["messages"][2]["content"] = "something else".into(),
        |body| body["max_tokens"] = 7.into(),
        |body| body["tools"][0]["cache_control"] = json!({"type": "ephemeral"}),
        |body| body["messages"][0]["content"] = json!([text("a")]),
        |body| {
            // A model that does not bind its thinking takes everything.
            body["model"] = "claude-opus-4-6".into();
            body["system"] = "new".into();
        },
        |body| {
            // Thinking that is left out at the beginning is missed by nobody.
            body["messages"][1]["content"]
                .as_array_mut()
                .unwrap()
                .remove(0);
            body["system"] = "new".into();
        },
    ] {
        assert_eq!(check(&bound(change)), Ok(()));
    }
    for change in [
        (|body: &mut Value| body["system"] = "new".into()) as fn(&mut Value),
        |body| body["tools"][0]["description"] = "new".into(),
        |body| body["messages"][0]["content"] = "A".into(),
        |body| body["messages"][0]["content"] = json!([text("a"), text("more")]),
    ] {
        refused(&bound(change), "bound to a different conversation");
    }
}

#[test]
fn system_messages_stand_between_a_user_and_an_answer() {
    let system = || json!({"role": "system", "content": "Now plan."});
    let of = |model: &str, messages: Value| {
        let mut body = body(&messages);
        body["model"] = model.into();
        body
    };
    let good = json!([user("a"), system(), assistant("b"), user("c"), system()]);
    assert_eq!(check(&of("claude-opus-5", good.clone())), Ok(()));
    refused(&of("claude-opus-4-6", good), "Unexpected role \"system\"");
    for messages in [
        json!([system(), user("a")]),
        json!([user("a"), assistant("b"), system()]),
        json!([user("a"), system(), user("b")]),
    ] {
        refused(
            &of("claude-opus-5", messages),
            "must follow a `user` message",
        );
    }
}
