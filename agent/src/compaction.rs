//! Compaction: replaces older messages by a summary. The history stays unchanged; the summary is a further message at
//! which the model's view begins.

pub(crate) mod discarded;

use std::fmt::Write;
use std::sync::Arc;

use ah_conversation::{
    Clock, ContentBlock, Limits, Message, MessageId, Origin, Request, Role, Transcript,
    estimate_message, shortened,
};

use crate::request::prompt;

/// What a summary has to hold.
const INSTRUCTIONS: &str = include_str!("compaction.md");
/// What precedes the instructions if they are appended to the conversation.
const APPENDED: &str = "[COMPACTION] This conversation is getting too long. Stop here and summarise what is above, so that you can \
    continue from your summary without those messages.";
/// What precedes the instructions in the system prompt of a request with the conversation as text.
const FLATTENED: &str = "You summarise a conversation between a user and an agent that works with tools, so that the agent can continue from \
    your summary without those messages.";
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
/// Lengths in bytes to which the texts of a tail are shortened if it does not fit, tried in this order.
const SHORTER: [usize; 7] = [16_000, 8_000, 4_000, 2_000, 1_000, 500, 250];
/// Maximum length in bytes of each text in a summary request that has the conversation as text, and the shortest one that is
/// tried if it does not fit.
const SHOWN: usize = 2_000;
const LEAST_SHOWN: usize = 125;
/// Maximum length of a summary, in tokens, and with the thinking before it. In a small window it is less.
const MAX_SUMMARY: u64 = 4_096;
const MAX_THOUGHT: u64 = 16_384;
/// Tokens of the window that the instructions for a summary need, at least and at most.
const MIN_INSTRUCTIONS: u64 = 400;
const MAX_INSTRUCTIONS: u64 = 1_000;

/// Division of the view into the messages to summarise and the tail to keep.
#[derive(Debug)]
pub(crate) struct Split {
    older: Vec<Arc<Message>>,
    /// Estimated tokens of a request with these messages.
    pub(crate) older_tokens: u64,
    /// First message of the tail; `None` without a tail.
    pub(crate) kept_from: Option<MessageId>,
    /// Length to which the texts of the tail are shortened; `None` if it fits.
    pub(crate) shortened_to: Option<usize>,
}

/// Divides the view so that the tail takes 40 % of the window, at most 80,000 tokens, and in a small window less; `None` if
/// there is nothing to leave out. A tail whose newest messages alone take more is shortened.
pub(crate) fn split(transcript: &Transcript, limits: &Limits) -> Option<Split> {
    let view = transcript.view();
    let estimated = sum(&view) + transcript.prefix_tokens();
    let counted = transcript.context_tokens().max(1);
    // Estimates are scaled by the usage that the model reported for the whole view.
    let beginning = scaled(transcript.prefix_tokens(), counted, estimated.max(1));
    let tail = scaled(tail_tokens(limits, beginning), estimated, counted);
    let kept_from = transcript
        .tail_within(tail)
        .or_else(|| transcript.tail_within(0))?;
    let older: Vec<_> = view
        .into_iter()
        .take_while(|message| message.id != kept_from)
        .collect();
    let asked = transcript.prefix_tokens() + sum(&older);
    Some(Split {
        older,
        older_tokens: scaled(asked, counted, estimated.max(1)),
        shortened_to: shortening(transcript.tail_from(&kept_from), tail),
        kept_from: Some(kept_from),
    })
}

/// Returns the tokens of a tail behind a summary, where the system prompt and the tools take `beginning`. It leaves a third
/// of what there is until the next summary.
fn tail_tokens(limits: &Limits, beginning: u64) -> u64 {
    let window = limits.used_window();
    let crowded = window * Limits::CROWDED / 100;
    let room = crowded.saturating_sub(limits.reserve() + beginning + summary_tokens(window));
    let usual = window.min(TAIL_WINDOW) * TAIL / 100;
    usual.min(room * 2 / 3).max(window / 16)
}

/// Returns the origin of a summary like the last message, but with a tail that takes at most half as much: the server
/// refuses the conversation as it is. `None` if the last message is no summary, or its tail cannot be shortened further.
pub(crate) fn shorter_tail(transcript: &Transcript) -> Option<Origin> {
    let Origin::Summary {
        kept_from: Some(first),
        shortened_to,
    } = &transcript.last()?.origin
    else {
        return None;
    };
    let now = taken(transcript.tail_from(first), *shortened_to);
    let newest = transcript.tail_within(0);
    let kept = [Some(first), newest.as_ref()].into_iter().flatten();
    let mut smaller = kept.flat_map(|first| SHORTER.map(|limit| (first, limit)));
    smaller
        .find(|(first, limit)| taken(transcript.tail_from(first), Some(*limit)) <= now / 2)
        .map(|(first, limit)| Origin::Summary {
            kept_from: Some(first.clone()),
            shortened_to: Some(limit),
        })
}

/// Returns the length to which the texts of `tail` have to be shortened so that it fits into `tokens`, or the shortest if
/// none is enough; `None` if it fits, or nothing can be shortened.
fn shortening(tail: &[Arc<Message>], tokens: u64) -> Option<usize> {
    let whole = taken(tail, None);
    if whole <= tokens {
        return None;
    }
    let fits = |limit: &usize| taken(tail, Some(*limit)) <= tokens;
    let least = SHORTER[SHORTER.len() - 1];
    let limit = SHORTER.into_iter().find(fits).unwrap_or(least);
    (taken(tail, Some(limit)) < whole).then_some(limit)
}

/// Estimates the tokens of a tail whose texts are shortened, without earlier summaries.
fn taken(tail: &[Arc<Message>], limit: Option<usize>) -> u64 {
    let said = tail.iter().filter(|message| !message.is_summary());
    said.map(|message| match limit {
        Some(limit) => estimate_message(&message.shortened(limit)),
        None => estimate_message(message),
    })
    .sum()
}

fn sum(messages: &[Arc<Message>]) -> u64 {
    messages
        .iter()
        .map(|message| estimate_message(message))
        .sum()
}

fn scaled(tokens: u64, by: u64, of: u64) -> u64 {
    let scaled = u128::from(tokens) * u128::from(by) / u128::from(of);
    u64::try_from(scaled).unwrap_or(u64::MAX)
}

/// Returns the most tokens of a summary.
fn summary_tokens(window: u64) -> u64 {
    MAX_SUMMARY.min(window / 8)
}

/// Returns the most tokens of a summary with the thinking before it.
fn thought_tokens(window: u64) -> u64 {
    MAX_THOUGHT.min(window / 4)
}

/// Takes the whole view, for a summary requested by the user; `None` if there is nothing new since the last summary.
pub(crate) fn whole(transcript: &Transcript) -> Option<Split> {
    let has_more = transcript.last().is_some_and(|last| !last.is_summary());
    has_more.then(|| Split {
        older: transcript.view(),
        older_tokens: transcript.context_tokens(),
        kept_from: None,
        shortened_to: None,
    })
}

impl Split {
    /// Returns the tokens of a window that a conversation may take which is followed by the request for a summary.
    pub(crate) fn room(window: u64) -> u64 {
        let instructions = (window / 8).clamp(MIN_INSTRUCTIONS, MAX_INSTRUCTIONS);
        window.saturating_sub(thought_tokens(window) + instructions)
    }

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
        window: u64,
    ) -> Request {
        let mut text = format!("{APPENDED}\n\n{}", INSTRUCTIONS.trim_end());
        text.extend(length(window));
        if let Some(wanted) = wanted {
            let _ = write!(text, "\n\nInstructions for the summary: {wanted}");
        }
        let content = vec![ContentBlock::Text { text }];
        let message = prompt(clock, request.messages.last(), content);
        Arc::make_mut(&mut request.messages).push(Arc::new(message));
        let (least, most) = (summary_tokens(window), thought_tokens(window));
        request.max_output = request.max_output.clamp(least, most);
        request
    }

    /// Returns a request with the older messages as plain text in one user message, for a model that has not read them
    /// before. It has no tools, and servers reject a history with tool calls if no tools are given. `window` is that of the
    /// model: what does not fit is shortened, and then left out from the beginning on.
    pub(crate) fn flattened(
        &self,
        clock: &dyn Clock,
        wanted: Option<&str>,
        window: u64,
    ) -> Request {
        let mut text = String::from("The conversation so far:\n");
        // A token has fewer bytes than usual in some languages.
        let most = usize::try_from(Self::room(window) * 2).unwrap_or(usize::MAX);
        text.push_str(&written(&self.older, most));
        if let Some(wanted) = wanted {
            let _ = writeln!(text, "\nInstructions for the summary: {wanted}");
        }
        text.push_str("\nWrite the summary now.");
        let message = prompt(clock, None, vec![ContentBlock::Text { text }]);
        let mut system = format!("{FLATTENED}\n\n{INSTRUCTIONS}");
        system.extend(length(window));
        Request {
            system: Arc::new([system]),
            messages: Arc::new(vec![Arc::new(message)]),
            max_output: summary_tokens(window),
            ..Request::default()
        }
    }
}

/// Returns the demand for a short summary, if the window is small.
fn length(window: u64) -> Option<String> {
    let most = summary_tokens(window);
    // A word has more than one token.
    (most < MAX_SUMMARY).then(|| format!("\n\nThere is little room: at most {} words.", most / 2))
}

/// Returns the text of a summary, shortened to what it may take of the window.
pub(crate) fn short_summary(text: &str, window: u64) -> String {
    let bytes = summary_tokens(window).saturating_mul(4);
    let limit = usize::try_from(bytes).unwrap_or(usize::MAX);
    match summary_tokens(window) {
        MAX_SUMMARY => text.to_owned(),
        _ => shortened(text, limit).into_owned(),
    }
}

/// Returns messages as text of at most `most` bytes.
fn written(messages: &[Arc<Message>], most: usize) -> String {
    let written = |shown: usize| -> Vec<String> {
        let texts = messages.iter().map(|message| {
            let mut text = String::new();
            write_message(&mut text, message, shown);
            text
        });
        texts.collect()
    };
    let length = |texts: &[String]| texts.iter().map(String::len).sum::<usize>();
    let mut shown = SHOWN;
    let mut texts = written(shown);
    while length(&texts) > most && shown > LEAST_SHOWN {
        shown /= 2;
        texts = written(shown);
    }
    // The first may be a summary of what was before.
    while length(&texts) > most && texts.len() > 2 {
        texts.remove(1);
    }
    texts.concat()
}

fn write_message(out: &mut String, message: &Message, shown: usize) {
    let speaker = match message.role {
        Role::User => "User",
        Role::Assistant => "Assistant",
    };
    for block in &message.content {
        let line = match block {
            ContentBlock::Text { text } => format!("{speaker}: {}", shortened(text, shown)),
            ContentBlock::ToolUse(call) => format!(
                "Tool call {}: {}",
                call.name,
                shortened(&call.input.to_value().to_string(), shown)
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
                    shortened(&result.text(), shown)
                )
            }
            ContentBlock::Image(_) => format!("{speaker}: (an image)"),
            ContentBlock::Thinking { .. } | ContentBlock::RedactedThinking { .. } => continue,
            ContentBlock::Other { raw } => {
                format!("{speaker}: {}", shortened(&raw.to_string(), shown))
            }
        };
        let _ = writeln!(out, "\n{line}");
    }
}
