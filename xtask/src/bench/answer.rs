//! What the model says in a measured run, as the bytes of an HTTP response.
//!
//! The bytes are made before they are asked for, one HTTP chunk per event as the real API sends them, so that the
//! server costs next to nothing while the clock runs.

use std::fmt::Write;
use std::time::Duration;

use serde_json::{Value, json};

/// One response of the model.
pub struct Answer {
    /// How long the model takes to think of it.
    pub delay: Duration,
    pub bytes: Vec<u8>,
}

impl Answer {
    /// The same, after a while.
    pub fn after(self, delay: Duration) -> Self {
        Self { delay, ..self }
    }
}

/// A short answer that ends the run.
pub fn says(text: &str) -> Answer {
    says_in_pieces(text, 1)
}

/// An answer of so many deltas, each of them this text.
pub fn says_in_pieces(piece: &str, count: usize) -> Answer {
    let delta = json!({"type": "text_delta", "text": piece});
    let block = Block {
        start: json!({"type": "text", "text": ""}),
        deltas: vec![delta; count],
    };
    response(&[block], "end_turn")
}

/// An answer that runs these commands with the tool `bash`. `turn` keeps the ids of a session apart.
pub fn runs<'a>(turn: usize, commands: impl IntoIterator<Item = &'a str>) -> Answer {
    let blocks: Vec<Block> = commands
        .into_iter()
        .enumerate()
        .map(|(index, command)| {
            let id = format!("toolu_{turn}_{index}");
            let input = json!({"command": command}).to_string();
            Block {
                start: json!({"type": "tool_use", "id": id, "name": "bash", "input": {}}),
                deltas: vec![json!({"type": "input_json_delta", "partial_json": input})],
            }
        })
        .collect();
    response(&blocks, "tool_use")
}

struct Block {
    start: Value,
    deltas: Vec<Value>,
}

fn response(blocks: &[Block], stop_reason: &str) -> Answer {
    let mut body = String::from(
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n",
    );
    let usage = json!({"input_tokens": 100, "output_tokens": 1});
    let message = json!({
        "id": "msg_1", "type": "message", "role": "assistant", "model": "bench", "content": [],
        "stop_reason": null, "stop_sequence": null, "usage": usage,
    });
    push(
        &mut body,
        &json!({"type": "message_start", "message": message}),
    );
    for (index, block) in blocks.iter().enumerate() {
        push(
            &mut body,
            &json!({"type": "content_block_start", "index": index, "content_block": block.start}),
        );
        for delta in &block.deltas {
            push(
                &mut body,
                &json!({"type": "content_block_delta", "index": index, "delta": delta}),
            );
        }
        push(
            &mut body,
            &json!({"type": "content_block_stop", "index": index}),
        );
    }
    let delta = json!({"stop_reason": stop_reason, "stop_sequence": null});
    push(
        &mut body,
        &json!({"type": "message_delta", "delta": delta, "usage": {"output_tokens": 10}}),
    );
    push(&mut body, &json!({"type": "message_stop"}));
    body.push_str("0\r\n\r\n");
    Answer {
        delay: Duration::ZERO,
        bytes: body.into_bytes(),
    }
}

/// Appends one server-sent event as one chunk.
fn push(body: &mut String, event: &Value) {
    let name = event["type"].as_str().unwrap_or_default();
    let text = format!("event: {name}\ndata: {event}\n\n");
    write!(body, "{:x}\r\n{text}\r\n", text.len()).expect("a string takes everything");
}
