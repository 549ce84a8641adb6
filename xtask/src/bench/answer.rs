//! Answers of the model in a measured run, as bytes of an HTTP response: here of the Messages API, in `openai.rs` of the
//! other protocols.
//!
//! All bytes are prepared before the first is sent, one HTTP chunk per event like real servers, so that the server takes
//! almost no time while the agent reads.

use std::fmt::{Display, Write};
use std::time::Duration;

use serde_json::{Value, json};

/// Input tokens that an answer reports.
const USUAL_INPUT: u64 = 100;
/// Input tokens past 80 % of a window of a million tokens.
const CROWDED_INPUT: u64 = 850_000;

/// One HTTP response of the model.
#[derive(Clone)]
pub struct Answer {
    /// Delay before the first byte.
    pub delay: Duration,
    pub bytes: Vec<u8>,
    /// Time over which the bytes are spread; zero sends them at once.
    pub time: Duration,
}

impl Answer {
    /// Sets the delay before the first byte.
    pub fn after(self, delay: Duration) -> Self {
        Self { delay, ..self }
    }

    /// Sets the time over which the bytes are spread.
    pub fn within(self, time: Duration) -> Self {
        Self { time, ..self }
    }
}

/// Answer with one text delta, which ends the run.
pub fn says(text: &str) -> Answer {
    says_in_pieces(text, 1)
}

/// Answer of `count` deltas with the same text.
pub fn says_in_pieces(piece: &str, count: usize) -> Answer {
    says_pieces(&vec![piece; count])
}

/// Answer with one delta for each text.
pub fn says_pieces(pieces: &[impl AsRef<str>]) -> Answer {
    let delta = |piece: &_| json!({"type": "text_delta", "text": AsRef::<str>::as_ref(piece)});
    let block = Block {
        start: json!({"type": "text", "text": ""}),
        deltas: pieces.iter().map(delta).collect(),
    };
    response(&[block], "end_turn", USUAL_INPUT)
}

/// Answer that calls the tool `bash` with each command. `turn` makes the ids unique within a session.
pub fn runs<'a>(turn: usize, commands: impl IntoIterator<Item = &'a str>) -> Answer {
    response(&calls(turn, commands), "tool_use", USUAL_INPUT)
}

/// Answer of a text and a call of the tool `bash`.
pub fn says_and_runs(turn: usize, text: &str, command: &str) -> Answer {
    let words = Block {
        start: json!({"type": "text", "text": ""}),
        deltas: vec![json!({"type": "text_delta", "text": text})],
    };
    let blocks: Vec<_> = { std::iter::once(words) }
        .chain(calls(turn, [command]))
        .collect();
    response(&blocks, "tool_use", USUAL_INPUT)
}

/// Answer that calls the tool `bash`, that reports [`CROWDED_INPUT`] tokens.
pub fn runs_in_crowded_window(turn: usize, command: &str) -> Answer {
    response(&calls(turn, [command]), "tool_use", CROWDED_INPUT)
}

/// Answer that calls a tool.
pub fn uses(turn: usize, tool: &str, input: &Value) -> Answer {
    response(&[call(turn, 0, tool, input)], "tool_use", USUAL_INPUT)
}

fn calls<'a>(turn: usize, commands: impl IntoIterator<Item = &'a str>) -> Vec<Block> {
    let commands = commands.into_iter().enumerate();
    let call = |(index, command)| call(turn, index, "bash", &json!({"command": command}));
    commands.map(call).collect()
}

fn call(turn: usize, index: usize, tool: &str, input: &Value) -> Block {
    let id = format!("toolu_{turn}_{index}");
    Block {
        start: json!({"type": "tool_use", "id": id, "name": tool, "input": {}}),
        deltas: vec![json!({"type": "input_json_delta", "partial_json": input.to_string()})],
    }
}

struct Block {
    start: Value,
    deltas: Vec<Value>,
}

fn response(blocks: &[Block], stop_reason: &str, input_tokens: u64) -> Answer {
    let mut stream = Stream::new();
    let usage = json!({"input_tokens": input_tokens, "output_tokens": 1});
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

/// Server-sent events, each one chunk of a response.
pub struct Stream(String);

impl Stream {
    pub fn new() -> Self {
        // Without an id, nothing is held.
        let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nrequest-id: req_1\r\n\
                    transfer-encoding: chunked\r\n\r\n";
        Self(head.to_owned())
    }

    /// Appends an event named after its type.
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
