//! Thinking bound to what stands before it, as the newest models check it: a signature holds a digest of the request that
//! was answered and the id of the thinking before, so a later request shows by itself whether its beginning changed.
//!
//! The vendor drops the thought instead of refusing it if the request asks for that. Here it is always refused: a client
//! that keeps its requests append-only never meets either.

use std::hash::{DefaultHasher, Hash, Hasher};

use serde_json::{Value, json};

use super::super::json::list;

/// Beginnings of the names of models that check what stands before their thinking.
const BINDING: [&str; 7] = [
    "claude-fable-5-1",
    "claude-fable-5-2",
    "claude-haiku-5-5",
    "claude-mythos-5-1",
    "claude-mythos-5-2",
    "claude-opus-5-5",
    "claude-sonnet-5-5",
];
/// Mark of the signatures made here.
const MARK: &str = "bound";

/// What the thinking in an answer is bound to.
#[derive(Debug)]
pub struct Binding {
    prefix: u64,
    /// Id of the last thinking before.
    last: String,
    /// Number of signatures so far.
    count: usize,
}

impl Binding {
    /// Returns what the thinking in the answer to `body` is bound to; `None` for a model that does not bind it.
    pub fn of(body: &Value) -> Option<Self> {
        let model = body["model"].as_str()?;
        if !BINDING.iter().any(|start| model.starts_with(start)) {
            return None;
        }
        let mut prefix = beginning(body);
        let mut last = String::new();
        for (role, block) in blocks(body) {
            match Signature::of(&block) {
                Some(signature) => last = signature.id,
                None => add(&mut prefix, role, &block),
            }
        }
        Some(Self {
            prefix: prefix.finish(),
            last,
            count: 0,
        })
    }

    /// Returns the signature of the next thinking.
    pub fn sign(&mut self) -> String {
        let id = format!("{:x}x{}", self.prefix, self.count);
        self.count += 1;
        let before = std::mem::replace(&mut self.last, id.clone());
        format!("{MARK}.{:x}.{id}.{before}", self.prefix)
    }
}

/// A signature made by [`Binding::sign`].
struct Signature {
    prefix: String,
    id: String,
    before: String,
}

impl Signature {
    fn of(block: &Value) -> Option<Self> {
        if block["type"] != "thinking" {
            return None;
        }
        let signature = block["signature"].as_str()?.strip_prefix(MARK)?;
        let mut parts = signature.split('.').skip(1).map(str::to_owned);
        Some(Self {
            prefix: parts.next()?,
            id: parts.next()?,
            before: parts.next()?,
        })
    }
}

/// Returns an error if what stands before a thinking block has changed, or another one was left out between two.
pub fn check(body: &Value) -> Result<(), String> {
    if Binding::of(body).is_none() {
        return Ok(());
    }
    let mut prefix = beginning(body);
    // An answer in parts is bound to the beginning of one of them.
    let mut begins = Vec::new();
    let mut last: Option<String> = None;
    for (role, block) in blocks(body) {
        if role != "assistant" {
            begins.clear();
        } else if begins.last() != Some(&prefix.finish()) {
            begins.push(prefix.finish());
        }
        let Some(signature) = Signature::of(&block) else {
            add(&mut prefix, role, &block);
            continue;
        };
        let is_same = begins
            .iter()
            .any(|begin| format!("{begin:x}") == signature.prefix);
        let follows = last.as_ref().is_none_or(|last| *last == signature.before);
        if !is_same || !follows {
            return Err(
                "Invalid `signature` in `thinking` block. The block is bound to a different conversation. Remove the block, or set `thinking.block_binding.prefix_mismatch_behavior` to \"drop_block\"."
                    .to_owned(),
            );
        }
        last = Some(signature.id);
    }
    Ok(())
}

/// Whether the request `later` begins with everything that `earlier` says, breakpoints aside. Consecutive messages of one
/// role count as one.
pub fn continues(later: &Value, earlier: &Value) -> bool {
    let beginning = |body: &Value| {
        let tools: Vec<_> = list(body, "tools").iter().map(unmarked).collect();
        (as_blocks(&body["system"]), tools)
    };
    let mut said = blocks(later);
    beginning(later) == beginning(earlier)
        && blocks(earlier).all(|block| said.next() == Some(block))
}

/// Returns the texts of the messages of `later` beyond the number of blocks in `earlier`, a line each, with their roles.
pub fn stretch(later: &Value, earlier: &Value) -> String {
    let new = blocks(later).skip(blocks(earlier).count());
    let lines = new.map(|(role, block)| {
        let text = block["text"].as_str().map(str::to_owned);
        format!("{role}: {}\n", text.unwrap_or_else(|| block.to_string()))
    });
    lines.collect()
}

/// Returns the digest of system prompt and tools.
fn beginning(body: &Value) -> DefaultHasher {
    let mut prefix = DefaultHasher::new();
    for block in as_blocks(&body["system"]) {
        add(&mut prefix, "", &block);
    }
    for tool in list(body, "tools") {
        add(&mut prefix, "tool", &unmarked(tool));
    }
    prefix
}

/// Returns the blocks of all messages with their roles, without breakpoints.
fn blocks(body: &Value) -> impl Iterator<Item = (&str, Value)> {
    list(body, "messages").iter().flat_map(|message| {
        let role = message["role"].as_str().unwrap_or_default();
        as_blocks(&message["content"])
            .into_iter()
            .map(move |block| (role, block))
    })
}

fn as_blocks(content: &Value) -> Vec<Value> {
    match content {
        Value::String(text) => vec![json!({"type": "text", "text": text})],
        Value::Array(blocks) => blocks.iter().map(unmarked).collect(),
        _ => Vec::new(),
    }
}

fn unmarked(block: &Value) -> Value {
    let mut block = block.clone();
    if let Some(fields) = block.as_object_mut() {
        fields.shift_remove("cache_control");
    }
    block
}

fn add(prefix: &mut DefaultHasher, role: &str, block: &Value) {
    role.hash(prefix);
    block.to_string().hash(prefix);
}
