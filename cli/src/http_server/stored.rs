//! A session of the store as clients see it: no secret of the environment, and no more of an output than they can use.

use std::io;
use std::sync::Arc;

use ah_conversation::{
    Cost, Head, Message, MessageId, Origin, Role, StoreError, ToolUseId, json, neutralise,
};
use ah_mcp_server::ClientRuns;
use ah_serve::{Entry, Node, Nodes, Transcript, Used};
use ah_store::Tree;

/// Most of an output that a client gets, in bytes.
const OUTPUT: usize = 4 * 1024 * 1024;
/// Bytes behind that place which are looked at for secrets.
const LONGEST_SECRET: usize = 64 * 1024;
/// What a node of the tree shows of a message: characters, and calls.
const NODE_TEXT: usize = 120;
const NODE_TOOLS: usize = 16;

/// A session in the store.
pub(super) struct Stored {
    pub tree: Tree,
    pub runs: Arc<ClientRuns>,
}

impl Transcript for Stored {
    fn current(&mut self) -> Result<Option<String>, String> {
        let current = self.tree.current();
        let current = current.map_err(|error| error.to_string())?;
        Ok(current.map(|id| id.to_string()))
    }

    fn message(&mut self, id: &str) -> Result<Option<Entry>, String> {
        let message = self.tree.message(&MessageId::from(id.to_owned()));
        let message = message.map_err(|error| error.to_string())?;
        Ok(message.map(|message| self.entry(&message)))
    }

    fn tree(&mut self, from: usize, most: usize) -> Result<Nodes, String> {
        let failed = |error: StoreError| error.to_string();
        let name = self.tree.name().map_err(failed)?;
        let current = self.tree.current().map_err(failed)?;
        let heads = self.tree.heads().map_err(failed)?;
        let nodes = heads.iter().skip(from).take(most);
        Ok(Nodes {
            name: name.map(|name| self.shown(&name)),
            current: current.map(|id| id.to_string()),
            nodes: nodes.map(|head| self.node(head)).collect(),
        })
    }

    fn output(&mut self, call: &str) -> Result<Option<String>, String> {
        let mut start = Start::default();
        let call = ToolUseId::from(call.to_owned());
        let copied = self.tree.copy_output(&call, &mut start);
        let copied = copied.map_err(|error| error.to_string())?;
        let environment = &self.runs.config().environment;
        Ok(copied.map(|_| start.text(|text| environment.redact(text).into_owned())))
    }
}

impl Stored {
    fn entry(&self, message: &Message) -> Entry {
        let json = json::line(message);
        let environment = &self.runs.config().environment;
        Entry {
            id: message.id.to_string(),
            parent: message.parent.as_ref().map(ToString::to_string),
            seq: message.seq,
            is_answer: message.role == Role::Assistant,
            json: environment.redact(&json).into_owned(),
        }
    }

    fn shown(&self, text: &str) -> String {
        let text = self.runs.config().environment.redact(text);
        neutralise(&text).into_owned()
    }

    fn node(&self, head: &Head) -> Node {
        let message = &head.message;
        let start = self.shown(head.preview.trim());
        let start: String = start.chars().take(NODE_TEXT).collect();
        let tools = head.tool_uses.iter().take(NODE_TOOLS);
        Node {
            id: message.id.to_string(),
            parent: message.parent.as_ref().map(ToString::to_string),
            seq: message.seq,
            role: match message.role {
                Role::User => "user",
                Role::Assistant => "assistant",
            },
            origin: origin(&message.origin),
            text: start,
            tools: tools.map(|call| self.shown(&call.name)).collect(),
            agent: head.agent_id.clone(),
            at_ms: message.created_at.0,
            used: message.response.as_ref().map(|response| Used {
                model: response.model.clone(),
                input_tokens: response.usage.effective_input(),
                cached_tokens: response.usage.cache_read_input_tokens,
                output_tokens: response.usage.output_tokens,
                cost_usd: response.cost.map(Cost::usd),
                latency_ms: response.latency_ms,
            }),
        }
    }
}

fn origin(origin: &Origin) -> &'static str {
    match origin {
        Origin::Prompt => "prompt",
        Origin::Model => "model",
        Origin::Results => "results",
        Origin::Steering => "steering",
        Origin::FollowUp => "follow_up",
        Origin::Nudge => "nudge",
        Origin::Continuation => "continuation",
        Origin::Reminder => "reminder",
        Origin::Task => "task",
        Origin::Update(_) => "update",
        Origin::Summary { .. } => "summary",
    }
}

/// The start of an output that may be long.
#[derive(Default)]
struct Start {
    bytes: Vec<u8>,
    left_out: u64,
}

impl Start {
    /// Returns it as text, as `redact` makes it, with a note if something was left out.
    fn text(self, redact: impl Fn(&str) -> String) -> String {
        let mut text = redact(&String::from_utf8_lossy(&self.bytes));
        if self.left_out > 0 {
            // A secret that was cut in two is not known any more: it would be behind this place.
            text.truncate(text.floor_char_boundary(OUTPUT));
            text.push_str("\n[the rest is left out]\n");
        }
        text
    }
}

impl io::Write for Start {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let room = (OUTPUT + LONGEST_SECRET).saturating_sub(self.bytes.len());
        let kept = bytes.len().min(room);
        self.bytes.extend_from_slice(&bytes[..kept]);
        self.left_out += (bytes.len() - kept) as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
