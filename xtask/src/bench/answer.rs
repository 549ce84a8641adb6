//! What the model says in a measured run, as the bytes of an HTTP response: here by the Messages API, in `openai.rs` by
//! the others.
//!
//! The bytes are whole before the first of them is sent, one HTTP chunk per event as the real servers send them, so that
//! the server costs next to nothing while the agent reads.

use std::fmt::{Display, Write};
use std::time::Duration;

use serde_json::{Value, json};

/// One response of the model.
#[derive(Clone)]
pub struct Answer {
    /// How long the model takes to think of it.
    pub delay: Duration,
    pub bytes: Vec<u8>,
    /// How long it takes the model to say it.
    pub time: Duration,
}

impl Answer {
    /// The same, after a while.
    pub fn after(self, delay: Duration) -> Self {
        Self { delay, ..self }
    }

    /// The same, said in so much time.
    pub fn within(self, time: Duration) -> Self {
        Self { time, ..self }
    }
}

/// A short answer that ends the run.
pub fn says(text: &str) -> Answer {
    says_in_pieces(text, 1)
}

/// An answer of so many deltas, each of them this text.
pub fn says_in_pieces(piece: &str, count: usize) -> Answer {
    says_pieces(&vec![piece; count])
}

/// An answer of these deltas.
pub fn says_pieces(pieces: &[impl AsRef<str>]) -> Answer {
    let delta = |piece: &_| json!({"type": "text_delta", "text": AsRef::<str>::as_ref(piece)});
    let block = Block {
        start: json!({"type": "text", "text": ""}),
        deltas: pieces.iter().map(delta).collect(),
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
    let mut stream = Stream::new();
    let usage = json!({"input_tokens": 100, "output_tokens": 1});
    let message = json!({
        "id": "msg_1", "type": "message", "role": "assistant", "model": "bench", "content": [],
        "stop_reason": null, "stop_sequence": null, "usage": usage,
    });
    stream.tell(&json!({"type": "message_start", "message": message}));
    for (index, block) in blocks.iter().enumerate() {
        stream.tell(
            &json!({"type": "content_block_start", "index": index, "content_block": block.start}),
        );
        for delta in &block.deltas {
            stream.tell(&json!({"type": "content_block_delta", "index": index, "delta": delta}));
        }
        stream.tell(&json!({"type": "content_block_stop", "index": index}));
    }
    let delta = json!({"stop_reason": stop_reason, "stop_sequence": null});
    let usage = json!({"output_tokens": 10});
    stream.tell(&json!({"type": "message_delta", "delta": delta, "usage": usage}));
    stream.tell(&json!({"type": "message_stop"}));
    stream.end()
}

/// Server-sent events, each of them one chunk of a response.
pub struct Stream(String);

impl Stream {
    pub fn new() -> Self {
        let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
        Self(head.to_owned())
    }

    /// Appends an event that goes by the name of its type.
    pub fn tell(&mut self, event: &Value) {
        let name = event["type"].as_str().unwrap_or_default();
        self.push(&format!("event: {name}\ndata: {event}\n\n"));
    }

    /// Appends an event without a name.
    pub fn tell_unnamed(&mut self, data: impl Display) {
        self.push(&format!("data: {data}\n\n"));
    }

    pub fn end(mut self) -> Answer {
        self.0 += "0\r\n\r\n";
        Answer {
            delay: Duration::ZERO,
            bytes: self.0.into_bytes(),
            time: Duration::ZERO,
        }
    }

    fn push(&mut self, text: &str) {
        write!(self.0, "{:x}\r\n{text}\r\n", text.len()).expect("a string takes everything");
    }
}
