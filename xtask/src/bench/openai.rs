//! Long answers in the two protocols of OpenAI, with the same events as their servers send.

use serde_json::{Value, json};

use super::answer::{Answer, Stream};

/// Answer of chat completions: `count` chunks with the same text, then the usage and the end of the stream.
pub fn chat(piece: &str, count: usize) -> Answer {
    let mut stream = Stream::new();
    let chunk = |delta: Value, reason: Value| {
        json!({
            "id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "bench",
            "choices": [{"index": 0, "delta": delta, "finish_reason": reason}], "usage": null,
        })
    };
    stream.tell_unnamed(chunk(
        json!({"role": "assistant", "content": ""}),
        Value::Null,
    ));
    let delta = chunk(json!({"content": piece}), Value::Null);
    for _ in 0..count {
        stream.tell_unnamed(&delta);
    }
    stream.tell_unnamed(chunk(json!({}), json!("stop")));
    stream.tell_unnamed(json!({
        "id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "bench", "choices": [],
        "usage": {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110},
    }));
    stream.tell_unnamed("[DONE]");
    stream.end()
}

/// Answer of the Responses API, which repeats the whole text three times at its end.
pub fn responses(piece: &str, count: usize) -> Answer {
    let mut stream = Stream::new();
    let response = |status: &str, output: Value, usage: Value| {
        json!({
            "id": "resp_1", "object": "response", "created_at": 1, "model": "bench", "status": status,
            "output": output, "usage": usage,
        })
    };
    let part = |text: &str| json!({"type": "output_text", "text": text, "annotations": []});
    let item = |status: &str, content: Value| json!({"id": "msg_1", "type": "message", "role": "assistant", "status": status, "content": content});
    let place = json!({"item_id": "msg_1", "output_index": 0, "content_index": 0});
    let mut number = 0;
    let mut tell = |kind: &str, rest: Value| {
        let mut event = json!({"type": kind, "sequence_number": number});
        number += 1;
        for fields in [rest, place.clone()] {
            if let (Value::Object(event), Value::Object(fields)) = (&mut event, fields) {
                event.extend(fields);
            }
        }
        stream.tell(&event);
    };

    let begun = response("in_progress", json!([]), Value::Null);
    tell("response.created", json!({"response": begun}));
    let empty = item("in_progress", json!([]));
    tell("response.output_item.added", json!({"item": empty}));
    tell("response.content_part.added", json!({"part": part("")}));
    for _ in 0..count {
        tell("response.output_text.delta", json!({"delta": piece}));
    }
    let text = piece.repeat(count);
    tell("response.output_text.done", json!({"text": text}));
    tell("response.content_part.done", json!({"part": part(&text)}));
    let whole = item("completed", json!([part(&text)]));
    tell("response.output_item.done", json!({"item": whole}));
    let usage = json!({"input_tokens": 100, "output_tokens": 10, "total_tokens": 110});
    let ended = response("completed", json!([whole]), usage);
    tell("response.completed", json!({"response": ended}));
    stream.end()
}
