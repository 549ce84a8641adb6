//! Compaction: replaces older messages by a summary. The history stays unchanged; the summary is a further message at
//! which the model's view begins.

use std::fmt::Write;
use std::sync::Arc;

use ah_conversation::{
    Clock, ContentBlock, Message, MessageId, Origin, Request, Role, Transcript, estimate_message,
};

/// What a summary has to hold.
const INSTRUCTIONS: &str = include_str!("compaction.md");
/// What precedes the instructions if they are appended to the conversation.
const APPENDED: &str = "[COMPACTION] This conversation becomes too long. Stop the work here and summarise what stands above, so that you can \
    go on from your summary without the messages it stands for.";
/// What precedes the instructions in the system prompt of a request with the conversation as text.
const FLATTENED: &str = "You summarise a conversation between a user and an agent that works with tools, so that the agent can go on from \
    your summary without the messages it stands for.";
/// Marks summaries, for the model and for readers of the database.
pub(crate) const MARKER: &str = "[COMPACTION SUMMARY]";
/// Text of the summary message if no summary could be made.
pub(crate) const WITHOUT_SUMMARY: &str =
    "Earlier messages were left out to make room; a summary of them could not be made.";
/// Part of the window kept for the newest messages, in percent.
const TAIL: u64 = 40;
/// Largest window in tokens of which that part is taken: what is kept is written into the prompt cache again, and of a
/// window of a million tokens it would be most of what a session costs.
const TAIL_WINDOW: u64 = 200_000;
/// Maximum length of each text in the summary request, in characters: half from its beginning, half from its end.
const SHOWN: usize = 2_000;
/// Maximum length of a summary, in tokens, and with the thinking before it.
const MAX_SUMMARY: u64 = 4_096;
const MAX_THOUGHT: u64 = 16_384;

/// Division of the view into the messages to summarise and the tail to keep.
#[derive(Debug)]
pub(crate) struct Split {
    older: Vec<Arc<Message>>,
    /// First message of the tail; `None` without a tail.
    pub(crate) kept_from: Option<MessageId>,
}

/// Divides the view so that the tail takes 40 % of the window, at most 80,000 tokens; `None` if there is nothing to leave
/// out.
pub(crate) fn split(transcript: &Transcript, context_window: u64) -> Option<Split> {
    let view = transcript.view();
    let estimated: u64 = view.iter().map(|message| estimate_message(message)).sum();
    // The estimate of the tail is scaled by the usage that the model reported for the whole view.
    let tail = context_window.min(TAIL_WINDOW) * TAIL / 100;
    let scaled =
        u128::from(tail) * u128::from(estimated) / u128::from(transcript.context_tokens().max(1));
    let tail = u64::try_from(scaled).unwrap_or(u64::MAX);
    let kept_from = transcript
        .tail_within(tail)
        .or_else(|| transcript.tail_within(0))?;
    let older = view
        .into_iter()
        .take_while(|message| message.id != kept_from)
        .collect();
    Some(Split {
        older,
        kept_from: Some(kept_from),
    })
}

/// Takes the whole view, for a summary requested by the user; `None` if there is nothing new since the last summary.
pub(crate) fn whole(transcript: &Transcript) -> Option<Split> {
    let has_more = transcript.last().is_some_and(|last| !last.is_summary());
    has_more.then(|| Split {
        older: transcript.view(),
        kept_from: None,
    })
}

impl Split {
    /// Tokens of the window that the request for a summary and its answer need at most, besides the conversation.
    pub(crate) const ROOM: u64 = MAX_THOUGHT + 1_000;

    /// Returns the messages to summarise.
    pub(crate) fn older(&self) -> &[Arc<Message>] {
        &self.older
    }

    /// Returns `request` with the instructions appended: it begins like the requests before, so that it reads their
    /// cache. Nothing else of it changes, which would also cost the cache.
    pub(crate) fn appended(
        mut request: Request,
        clock: &dyn Clock,
        wanted: Option<&str>,
    ) -> Request {
        let mut text = format!("{APPENDED}\n\n{}", INSTRUCTIONS.trim_end());
        if let Some(wanted) = wanted {
            let _ = write!(text, "\n\nWhat the summary is to heed: {wanted}");
        }
        let last = request.messages.last();
        let message = Message {
            parent: last.map(|last| last.id.clone()),
            seq: last.map_or(0, |last| last.seq + 1),
            ..prompt(clock, text)
        };
        Arc::make_mut(&mut request.messages).push(Arc::new(message));
        request.max_output = request.max_output.clamp(MAX_SUMMARY, MAX_THOUGHT);
        request
    }

    /// Returns a request with the older messages as plain text in one user message, for a model that has not read them
    /// before. It has no tools, and servers reject a history with tool calls if no tools are given.
    pub(crate) fn flattened(&self, clock: &dyn Clock, wanted: Option<&str>) -> Request {
        let mut text = String::from("The conversation so far:\n");
        for message in &self.older {
            write_message(&mut text, message);
        }
        if let Some(wanted) = wanted {
            let _ = writeln!(text, "\nWhat the summary is to heed: {wanted}");
        }
        text.push_str("\nWrite the summary now.");
        let message = prompt(clock, text);
        Request {
            system: Arc::new([format!("{FLATTENED}\n\n{INSTRUCTIONS}")]),
            messages: Arc::new(vec![Arc::new(message)]),
            max_output: MAX_SUMMARY,
            ..Request::default()
        }
    }
}

fn prompt(clock: &dyn Clock, text: String) -> Message {
    Message {
        id: clock.message_id(),
        parent: None,
        seq: 0,
        role: Role::User,
        origin: Origin::Prompt,
        created_at: clock.now(),
        content: vec![ContentBlock::Text { text }],
        response: None,
    }
}

fn write_message(out: &mut String, message: &Message) {
    let speaker = match message.role {
        Role::User => "User",
        Role::Assistant => "Assistant",
    };
    for block in &message.content {
        let line = match block {
            ContentBlock::Text { text } => format!("{speaker}: {}", shortened(text)),
            ContentBlock::ToolUse(call) => format!(
                "Tool call {}: {}",
                call.name,
                shortened(&call.input.to_value().to_string())
            ),
            ContentBlock::ToolResult(result) => {
                let outcome = if result.is_error {
                    "failed"
                } else {
                    "answered"
                };
                format!(
                    "Tool {} {outcome}: {}",
                    result.tool_name,
                    shortened(&result.text())
                )
            }
            ContentBlock::Image(_) => format!("{speaker}: (an image)"),
            ContentBlock::Thinking { .. } | ContentBlock::RedactedThinking { .. } => continue,
            ContentBlock::Other { raw } => format!("{speaker}: {}", shortened(&raw.to_string())),
        };
        let _ = writeln!(out, "\n{line}");
    }
}

fn shortened(text: &str) -> String {
    let count = text.chars().count();
    if count <= SHOWN {
        return text.to_owned();
    }
    let head: String = text.chars().take(SHOWN / 2).collect();
    let tail: String = text.chars().skip(count - SHOWN / 2).collect();
    format!("{head} […] {tail}")
}
