//! The protocols of OpenAI over the loopback server: refused requests, one error per line, and its responses.

use ah_provider::script::failure::Failure;
use ah_testkit::script::{Turn, fails, says, thinks, uses};
use ah_testkit::server::{Server, chat, responses};
use serde_json::{Value, json};

use crate::server::body_at;

const CHAT: &str = "/v1/chat/completions";
const RESPONSES: &str = "/v1/responses";

/// Returns a valid request of chat completions with these messages.
fn chat_body(messages: &Value) -> Value {
    json!({
        "model": "gpt",
        "stream": true,
        "stream_options": {"include_usage": true},
        "tools": [{"type": "function", "function": {"name": "bash", "parameters": {"type": "object"}}}],
        "messages": messages,
    })
}

/// Returns a valid request of the Responses API with this input.
fn responses_body(input: &Value) -> Value {
    json!({
        "model": "gpt",
        "stream": true,
        "store": false,
        "tools": [{"type": "function", "name": "bash", "parameters": {"type": "object"}}],
        "input": input,
    })
}

fn user(content: impl Into<Value>) -> Value {
    json!({"role": "user", "content": content.into()})
}

fn assistant(content: impl Into<Value>) -> Value {
    json!({"role": "assistant", "content": content.into()})
}

fn calls(ids: &[&str]) -> Value {
    let call =
        |id| json!({"id": id, "type": "function", "function": {"name": "bash", "arguments": "{}"}});
    json!({"role": "assistant", "content": null, "tool_calls": ids.iter().map(call).collect::<Vec<_>>()})
}

fn tool(id: &str) -> Value {
    json!({"role": "tool", "tool_call_id": id, "content": "done"})
}

fn call(id: &str) -> Value {
    json!({"type": "function_call", "call_id": id, "name": "bash", "arguments": "{}"})
}

fn output(id: &str) -> Value {
    json!({"type": "function_call_output", "call_id": id, "output": "done"})
}

fn reasoning(seal: impl Into<Value>) -> Value {
    json!({"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": seal.into()})
}

#[track_caller]
fn refused(checked: &Result<(), String>, expected: &str) {
    let fault = checked.as_ref().expect_err(expected);
    assert!(fault.contains(expected), "{fault}\nnot: {expected}");
}

#[test]
fn valid_requests_of_chat_completions_are_accepted() {
    let picture = json!({"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}});
    let words = json!({"type": "text", "text": "look"});
    for messages in [
        json!([user("hello")]),
        json!([{"role": "system", "content": [words]}, user(json!([words, picture]))]),
        json!([user("a"), assistant("b"), user("c"), user("d")]),
        json!([
            user("a"),
            calls(&["c1", "c2"]),
            tool("c2"),
            tool("c1"),
            user("b")
        ]),
        json!([
            user("a"),
            calls(&["c1"]),
            tool("c1"),
            calls(&["c1"]),
            tool("c1")
        ]),
    ] {
        assert_eq!(chat::history::check(&chat_body(&messages)), Ok(()));
    }
}

#[test]
fn invalid_requests_of_chat_completions_are_refused() {
    let with = |call: Value| json!([user("a"), {"role": "assistant", "tool_calls": [call]}]);
    let function = |name: &str, arguments: &str| json!({"name": name, "arguments": arguments});
    let typed =
        |id: &str, function: Value| json!({"id": id, "type": "function", "function": function});
    for (messages, expected) in [
        (json!([]), "empty array"),
        (json!("hello"), "empty array"),
        (
            json!([{"role": "model", "content": "a"}]),
            "Invalid value: 'model'",
        ),
        (json!([user(Value::Null)]), "'messages[0].content'"),
        (json!([user(json!([]))]), "'messages[0].content'"),
        (
            json!([user(json!([{"type": "input_text", "text": "a"}]))]),
            "of type 'input_text'",
        ),
        (
            json!([user(
                json!([{"type": "image_url", "image_url": {"url": "a.png"}}])
            )]),
            "of type 'image_url'",
        ),
        (
            json!([user("a"), assistant(Value::Null)]),
            "'messages[1].content'",
        ),
        (
            json!([user("a"), calls(&[])]),
            "'messages[1].tool_calls': empty array",
        ),
        (
            json!([user("a"), calls(&["c1"])]),
            "did not have response messages: c1",
        ),
        (
            json!([user("a"), calls(&["c1", "c2"]), tool("c1"), user("b")]),
            "did not have response messages: c2",
        ),
        (
            json!([user("a"), calls(&["c1"]), user("b"), tool("c1")]),
            "did not have response messages: c1",
        ),
        (
            json!([user("a"), tool("c1")]),
            "must be a response to a preceding message",
        ),
        (
            json!([user("a"), calls(&["c1"]), tool("c1"), tool("c1")]),
            "must be a response to a preceding message",
        ),
        (json!([user("a"), calls(&["c1", "c1"])]), "Duplicate value"),
        (with(typed("", function("bash", "{}"))), "tool_calls[0].id'"),
        (
            with(typed(&"c".repeat(41), function("bash", "{}"))),
            "tool_calls[0].id'",
        ),
        (
            with(json!({"id": "c1", "function": function("bash", "{}")})),
            "tool_calls[0].type'",
        ),
        (with(typed("c1", function("a b", "{}"))), "function.name'"),
        (
            with(typed("c1", function("bash", ""))),
            "function.arguments'",
        ),
        (
            with(typed("c1", function("bash", "[]"))),
            "function.arguments'",
        ),
        (
            with(typed("c1", json!({"name": "bash", "arguments": {}}))),
            "function.arguments'",
        ),
    ] {
        refused(&chat::history::check(&chat_body(&messages)), expected);
    }
    let tool = |function: Value| json!([{"type": "function", "function": function}]);
    for (field, value, expected) in [
        ("model", Value::Null, "model parameter"),
        (
            "tools",
            json!([{"name": "bash", "input_schema": {}}]),
            "'tools[0].type'",
        ),
        (
            "tools",
            tool(json!({"name": "a.b"})),
            "'tools[0].function.name'",
        ),
        (
            "tools",
            tool(json!({"name": "a", "parameters": {}})),
            "Invalid schema for function 'a'",
        ),
    ] {
        let mut body = chat_body(&json!([user("hello")]));
        body[field] = value;
        refused(&chat::history::check(&body), expected);
    }
}

#[test]
fn valid_requests_of_the_responses_api_are_accepted() {
    let picture = json!({"type": "input_image", "image_url": "data:image/png;base64,AA=="});
    for input in [
        json!([user("hello")]),
        json!([user(
            json!([{"type": "input_text", "text": "look"}, picture])
        )]),
        json!([user("a"), reasoning("seal"), assistant("b"), user("c")]),
        json!([
            user("a"),
            reasoning("seal"),
            call("c1"),
            call("c2"),
            output("c2"),
            output("c1"),
            user("b")
        ]),
    ] {
        assert_eq!(responses::history::check(&responses_body(&input)), Ok(()));
    }
}

#[test]
fn invalid_requests_of_the_responses_api_are_refused() {
    for (input, expected) in [
        (json!([]), "'input'"),
        (json!([{"type": "new"}]), "Invalid value: 'new'"),
        (
            json!([user("a"), call("c1")]),
            "No tool output found for function call c1.",
        ),
        (
            json!([user("a"), call("c1"), user("b"), output("c1")]),
            "No tool output found for function call c1.",
        ),
        (
            json!([user("a"), output("c1")]),
            "No tool call found for function call output with call_id c1.",
        ),
        (
            json!([user("a"), call("c1"), output("c1"), output("c1")]),
            "No tool call found",
        ),
        (
            json!([user("a"), call("c1"), output("c1"), call("c1")]),
            "Duplicate function call",
        ),
        (
            json!([user("a"), reasoning(Value::Null), call("c1"), output("c1")]),
            "'rs_1' not found",
        ),
        (
            json!([user("a"), reasoning("seal")]),
            "without its required following item",
        ),
        (
            json!([user("a"), reasoning("seal"), user("b")]),
            "without its required following item",
        ),
        (
            json!([user(json!([{"type": "text", "text": "a"}]))]),
            "of type 'text'",
        ),
        (
            json!([user("a"), {"type": "function_call", "call_id": "c1", "name": "bash", "arguments": {}}]),
            "arguments'",
        ),
    ] {
        refused(
            &responses::history::check(&responses_body(&input)),
            expected,
        );
    }
    for (field, value, expected) in [
        ("model", Value::Null, "'model'"),
        ("store", json!(true), "store: false"),
        ("previous_response_id", json!("resp_1"), "store: false"),
        (
            "tools",
            json!([{"type": "function", "function": {"name": "a"}}]),
            "'tools[0].name'",
        ),
        (
            "tools",
            json!([{"type": "function", "name": "a"}]),
            "Invalid schema for function 'a'",
        ),
    ] {
        let mut body = responses_body(&json!([user("hello")]));
        body[field] = value;
        refused(&responses::history::check(&body), expected);
    }
}

/// Returns the server's response to `body` at `path` with `turn`.
fn answer(path: &str, body: &Value, turn: Turn) -> String {
    let server = Server::new([turn]);
    let id = format!("{}x0", server.url().rsplit(':').next().expect("a port"));
    body_at(&server, path, body).replace(&id, "N")
}

fn whole() -> Turn {
    Turn {
        tool: Some(uses("bash", json!({"command": "ls"})).tools.remove(0)),
        ..thinks("Hm.", "Look.")
    }
}

#[test]
fn an_answer_of_chat_completions_has_its_shape() {
    insta::assert_snapshot!(answer(CHAT, &chat_body(&json!([user("hello")])), whole()), @r#"
        data: {"id":"chatcmpl-msg_N","object":"chat.completion.chunk","created":1767225600,"model":"gpt","choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}

        data: {"id":"chatcmpl-msg_N","object":"chat.completion.chunk","created":1767225600,"model":"gpt","choices":[{"index":0,"delta":{"reasoning_content":"Hm."},"finish_reason":null}]}

        data: {"id":"chatcmpl-msg_N","object":"chat.completion.chunk","created":1767225600,"model":"gpt","choices":[{"index":0,"delta":{"content":"Look."},"finish_reason":null}]}

        data: {"id":"chatcmpl-msg_N","object":"chat.completion.chunk","created":1767225600,"model":"gpt","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"toolu_N_2","type":"function","function":{"name":"bash","arguments":""}}]},"finish_reason":null}]}

        data: {"id":"chatcmpl-msg_N","object":"chat.completion.chunk","created":1767225600,"model":"gpt","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\"command\":\"ls\"}"}}]},"finish_reason":null}]}

        data: {"id":"chatcmpl-msg_N","object":"chat.completion.chunk","created":1767225600,"model":"gpt","choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}

        data: {"id":"chatcmpl-msg_N","object":"chat.completion.chunk","created":1767225600,"model":"gpt","choices":[],"usage":{"prompt_tokens":0,"completion_tokens":0,"total_tokens":0,"prompt_tokens_details":{"cached_tokens":0}}}

        data: [DONE]
        "#);
}

#[test]
fn an_answer_of_the_responses_api_has_its_shape() {
    insta::assert_snapshot!(answer(RESPONSES, &responses_body(&json!([user("hello")])), whole()), @r#"
        event: response.created
        data: {"response":{"id":"resp_N","object":"response","created_at":1767225600,"status":"in_progress","model":"gpt","output":[]},"type":"response.created","sequence_number":0}

        event: response.output_item.added
        data: {"output_index":0,"item":{"type":"reasoning","id":"rs_resp_N_0","summary":[]},"type":"response.output_item.added","sequence_number":1}

        : ping

        event: response.reasoning_summary_text.delta
        data: {"item_id":"rs_resp_N_0","output_index":0,"delta":"Hm.","summary_index":0,"type":"response.reasoning_summary_text.delta","sequence_number":2}

        event: response.output_item.done
        data: {"output_index":0,"item":{"type":"reasoning","id":"rs_resp_N_0","summary":[{"type":"summary_text","text":"Hm."}],"encrypted_content":"c2NyaXB0ZWQ="},"type":"response.output_item.done","sequence_number":3}

        event: response.output_item.added
        data: {"output_index":1,"item":{"type":"message","id":"msg_resp_N_1","status":"in_progress","role":"assistant","content":[]},"type":"response.output_item.added","sequence_number":4}

        event: response.output_text.delta
        data: {"item_id":"msg_resp_N_1","output_index":1,"delta":"Look.","content_index":0,"type":"response.output_text.delta","sequence_number":5}

        event: response.output_item.done
        data: {"output_index":1,"item":{"type":"message","id":"msg_resp_N_1","status":"completed","role":"assistant","content":[{"type":"output_text","text":"Look.","annotations":[]}]},"type":"response.output_item.done","sequence_number":6}

        event: response.output_item.added
        data: {"output_index":2,"item":{"type":"function_call","id":"fc_resp_N_2","status":"in_progress","call_id":"toolu_N_2","name":"bash","arguments":""},"type":"response.output_item.added","sequence_number":7}

        event: response.function_call_arguments.delta
        data: {"item_id":"fc_resp_N_2","output_index":2,"delta":"{\"command\":\"ls\"}","type":"response.function_call_arguments.delta","sequence_number":8}

        event: response.output_item.done
        data: {"output_index":2,"item":{"type":"function_call","id":"fc_resp_N_2","status":"completed","call_id":"toolu_N_2","name":"bash","arguments":"{\"command\":\"ls\"}"},"type":"response.output_item.done","sequence_number":9}

        event: response.completed
        data: {"response":{"id":"resp_N","object":"response","created_at":1767225600,"status":"completed","model":"gpt","output":[{"type":"reasoning","id":"rs_resp_N_0","summary":[{"type":"summary_text","text":"Hm."}],"encrypted_content":"c2NyaXB0ZWQ="},{"type":"message","id":"msg_resp_N_1","status":"completed","role":"assistant","content":[{"type":"output_text","text":"Look.","annotations":[]}]},{"type":"function_call","id":"fc_resp_N_2","status":"completed","call_id":"toolu_N_2","name":"bash","arguments":"{\"command\":\"ls\"}"}],"incomplete_details":null,"usage":{"input_tokens":0,"input_tokens_details":{"cached_tokens":0,"cache_write_tokens":0},"output_tokens":0,"total_tokens":0}},"type":"response.completed","sequence_number":10}
        "#);
}

#[test]
fn failures_have_the_shape_of_their_protocol() {
    let late = Turn {
        stream_error: Some(Failure {
            kind: Some("overloaded_error".to_owned()),
            message: Some("Overloaded".to_owned()),
            ..Failure::default()
        }),
        ..says("Well")
    };
    let chat = chat_body(&json!([user("hello")]));
    let responses = responses_body(&json!([user("hello")]));
    let last = |answer: String| answer.trim_end().rsplit("\n\n").next().map(str::to_owned);
    let told = [
        last(answer(CHAT, &chat, late.clone())),
        last(answer(RESPONSES, &responses, late)),
        last(answer(CHAT, &chat, fails(429, "rate_limit_error"))),
        last(answer(RESPONSES, &json!({}), says("Never."))),
    ];
    insta::assert_snapshot!(told.map(Option::unwrap_or_default).join("\n"), @r#"
        data: {"error":{"message":"Overloaded","type":"server_error","param":null,"code":"server_error"}}
        event: response.failed
        data: {"response":{"id":"resp_N","object":"response","created_at":1767225600,"status":"failed","model":"gpt","output":[{"type":"message","id":"msg_resp_N_0","status":"in_progress","role":"assistant","content":[{"type":"output_text","text":"Well","annotations":[]}]}],"error":{"code":"server_error","message":"Overloaded"}},"type":"response.failed","sequence_number":3}
        {"error":{"message":"scripted failure","type":"requests","param":null,"code":"rate_limit_exceeded"}}
        {"error":{"message":"this server only answers with `stream: true`","type":"invalid_request_error","param":null,"code":null}}
        "#);
}

#[test]
fn clients_of_every_protocol_run_through_one_scenario() {
    let server = Server::by_history([
        says("one"),
        uses("bash", json!({})),
        says("{{user}}{{result}}"),
    ]);
    let chat = |messages: Value| body_at(&server, CHAT, &chat_body(&messages));
    let responses = |input: Value| body_at(&server, RESPONSES, &responses_body(&input));
    let begun = [user("a"), assistant("one"), user("b")];
    assert!(chat(json!(begun[..1])).contains("\"one\""));
    assert!(responses(json!(begun[..1])).contains("\"one\""));
    assert!(chat(json!(begun)).contains("\"tool_calls\""));
    assert!(responses(json!(begun)).contains("function_call"));
    let told = |more: [Value; 2]| json!([&begun[..], &more[..]].concat());
    assert!(chat(told([calls(&["c1"]), tool("c1")])).contains("\"done\""));
    assert!(responses(told([call("c1"), output("c1")])).contains("\"done\""));
    assert_eq!(server.refusals(), Vec::<String>::new());
}
