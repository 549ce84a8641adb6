//! The messages from the root to the current leaf, and the model's view of them.
//!
//! Together with the journal of the open tool calls this is the whole state of a run: nothing else records its
//! progress.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use crate::permission::canonical_tool;
use crate::{
    ContentBlock, Cost, Limits, Message, MessageId, ModelUsage, Origin, Prefix, Role, ToolResult,
    ToolUse, ToolUseId, Usage, estimate_message,
};

/// The messages from the root to the current leaf. The store may omit the content of messages before the view (see
/// [`Transcript::view`]); their usage and stop reasons still count.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Transcript {
    messages: Vec<Arc<Message>>,
    calls: HashMap<ToolUseId, CallState>,
    index: TranscriptIndex,
    /// Index of the message with the last success of each tool.
    successes: HashMap<String, usize>,
    /// Indices of the updates.
    updates: Vec<usize>,
    /// Beginning of the branch's requests, and the index of the message since which it is sent.
    prefix: Option<(usize, Arc<Prefix>)>,
}

/// Positions and sums derived from the messages, so that decisions need not scan them all.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct TranscriptIndex {
    /// Index of the current run's prompt.
    run: usize,
    /// Index of the last summary.
    summary: Option<usize>,
    /// Index of the last answer after the summary.
    answer: Option<usize>,
    /// Index of the last of those answers with reported usage.
    reported: Option<usize>,
    /// Number of answers in the run.
    turns: usize,
    /// Tokens of the run.
    spent: Usage,
    /// Cost of the run.
    cost: Cost,
}

/// Progress of a tool call of the last answer.
#[derive(Debug, Clone, PartialEq)]
pub enum CallState {
    /// The call was started.
    Started {
        /// Whether it might have changed something.
        mutating: bool,
        /// Id of the subagent that it started, if its conversation was stored.
        agent_id: Option<String>,
    },
    /// The call has ended.
    Finished(ToolResult),
}

impl Transcript {
    /// Creates a transcript of `messages`, root first, and the journal's `calls`.
    pub fn new(messages: Vec<Arc<Message>>, calls: HashMap<ToolUseId, CallState>) -> Self {
        let mut transcript = Self {
            calls,
            ..Self::default()
        };
        for message in messages {
            transcript.add(message);
        }
        transcript
    }

    /// Sets the beginning of the branch's requests; `since` is the last message of the first of them.
    #[must_use]
    pub fn with_prefix(mut self, since: &MessageId, prefix: Arc<Prefix>) -> Self {
        let at = self
            .messages
            .iter()
            .position(|message| message.id == *since);
        self.prefix = at.map(|at| (at, prefix));
        self
    }

    /// Sets the beginning of all requests from now on.
    pub fn begin(&mut self, prefix: Arc<Prefix>) {
        self.prefix = Some((self.messages.len().saturating_sub(1), prefix));
    }

    /// Returns the beginning of the branch's requests, unless none was made yet or a summary has been stored since.
    pub fn prefix(&self) -> Option<&Arc<Prefix>> {
        let (at, prefix) = self.prefix.as_ref()?;
        (self.index.summary <= Some(*at)).then_some(prefix)
    }

    /// Returns the index of the message since which the beginning is sent; 0 if none was sent yet.
    pub fn prefix_start(&self) -> usize {
        self.prefix.as_ref().map_or(0, |(at, _)| *at)
    }

    /// Returns the updates that the model was told since the beginning of its requests, oldest first.
    pub fn updates(&self) -> impl Iterator<Item = &crate::Update> + Clone {
        let start = self.prefix_start();
        let since = self.updates.iter().filter(move |at| **at >= start);
        since.filter_map(|at| match &self.messages[*at].origin {
            Origin::Update(update) => Some(&**update),
            _ => None,
        })
    }

    /// Returns all messages, root first.
    pub fn messages(&self) -> &[Arc<Message>] {
        &self.messages
    }

    /// Returns the current leaf.
    pub fn last(&self) -> Option<&Arc<Message>> {
        self.messages.last()
    }

    /// Appends a stored message.
    pub fn push(&mut self, message: Arc<Message>) {
        if message.tool_results().next().is_some() {
            self.calls.clear();
        }
        if message.is_summary() {
            let former = self.view_start();
            self.add(message);
            self.drop_outputs(former..self.view_start());
        } else {
            self.add(message);
        }
    }

    /// Drops the outputs of messages that have left the view. The store has them, and in a long run they would fill the
    /// memory. Errors stay: what a run failed at is part of its outcome.
    fn drop_outputs(&mut self, left: Range<usize>) {
        for message in self.messages.get_mut(left).unwrap_or_default() {
            if !message.is_results() {
                continue;
            }
            for block in &mut Arc::make_mut(message).content {
                if let ContentBlock::ToolResult(result) = block
                    && !result.is_error
                {
                    result.content = Vec::new();
                }
            }
        }
    }

    fn add(&mut self, message: Arc<Message>) {
        let at = self.messages.len();
        self.index.note(at, &message);
        if let Origin::Update(_) = message.origin {
            self.updates.push(at);
        }
        let successes = message.tool_results().filter(|result| !result.is_error);
        let names = successes.map(|result| (canonical_tool(&result.tool_name), at));
        self.successes.extend(names);
        self.messages.push(message);
    }

    /// Records that a call is about to run.
    pub fn start_call(&mut self, id: ToolUseId, mutating: bool) {
        let agent_id = None;
        self.calls
            .insert(id, CallState::Started { mutating, agent_id });
    }

    /// Records that a call has ended.
    pub fn finish_call(&mut self, result: ToolResult) {
        self.calls
            .insert(result.tool_use_id.clone(), CallState::Finished(result));
    }

    /// Returns the state of the call `id` of the last answer; `None` if it has not started.
    pub fn call(&self, id: &ToolUseId) -> Option<&CallState> {
        self.calls.get(id)
    }

    /// Returns the tool calls of the last message, if it is an answer: those whose results message is missing.
    pub fn open_calls(&self) -> Vec<&ToolUse> {
        match self.last() {
            Some(message) if message.role == Role::Assistant => message.tool_uses().collect(),
            _ => Vec::new(),
        }
    }

    /// Returns the messages of the current run, starting with its prompt.
    pub fn run(&self) -> &[Arc<Message>] {
        self.messages.get(self.index.run..).unwrap_or_default()
    }

    /// Returns the number of answers in the current run, interrupted ones included.
    pub fn turns(&self) -> usize {
        self.index.turns
    }

    /// Returns the tokens of the current run, including its summaries and model calls by tools.
    pub fn spent(&self) -> Usage {
        self.index.spent
    }

    /// Returns the cost of the current run, including its summaries and model calls by tools, each at the price of
    /// the model used.
    pub fn cost(&self) -> Cost {
        self.index.cost
    }

    /// Returns the index of the last summary.
    pub fn summary(&self) -> Option<usize> {
        self.index.summary
    }

    /// Returns the messages that the model sees: the last summary with the tail that it keeps and everything after
    /// it, or all messages.
    pub fn view(&self) -> Vec<Arc<Message>> {
        let Some(at) = self.index.summary else {
            return self.messages.clone();
        };
        let summary = &self.messages[at];
        let kept = self.view_start();
        let mut view = Vec::with_capacity(self.messages.len() - kept);
        view.push(summary.clone());
        view.extend(
            self.messages[kept..at]
                .iter()
                .filter(|message| !message.is_summary())
                .cloned(),
        );
        view.extend_from_slice(&self.messages[at + 1..]);
        view
    }

    /// Returns the last successful result of the tool `name` that the model still sees.
    pub fn last_success(&self, name: &str) -> Option<&ToolResult> {
        let name = canonical_tool(name);
        let at = *self.successes.get(&name)?;
        let results = self.messages[at].tool_results();
        let of_tool =
            |result: &&ToolResult| !result.is_error && canonical_tool(&result.tool_name) == name;
        (at >= self.view_start()).then(|| results.filter(of_tool).last())?
    }

    /// Returns the index of the oldest message in the view, apart from the summary at its beginning.
    fn view_start(&self) -> usize {
        let Some(at) = self.index.summary else {
            return 0;
        };
        match &self.messages[at].origin {
            Origin::Summary {
                kept_from: Some(first),
            } => self.position_before(at, first).unwrap_or(at),
            _ => at,
        }
    }

    fn position_before(&self, end: usize, id: &MessageId) -> Option<usize> {
        self.messages[..end]
            .iter()
            .rposition(|message| message.id == *id)
    }

    /// Estimates the tokens of the next request, without the answer: the usage reported by the last call, plus an
    /// estimate of the messages since.
    pub fn context_tokens(&self) -> u64 {
        let estimate = |messages: &[Arc<Message>]| -> u64 {
            messages
                .iter()
                .map(|message| estimate_message(message))
                .sum()
        };
        match self.index.reported {
            Some(at) => self.messages[at].usage().total() + estimate(&self.messages[at + 1..]),
            None => estimate(&self.view()),
        }
    }

    /// Returns the fullness of the window including the next request and its answer, in percent, rounded up.
    pub fn fullness(&self, limits: &Limits) -> u64 {
        let needed = self.context_tokens() + limits.reserved_output;
        (needed * 100).div_ceil(limits.context_window.max(1))
    }

    /// Whether the model has answered since the last summary, so that another summary would add something.
    pub fn has_answer_since_summary(&self) -> bool {
        self.index.answer.is_some()
    }

    /// Returns the first message of a tail of the view that fits into `tokens`: never a results message, whose calls
    /// would be missing, and at least the newest message. `None` if nothing would be left out.
    pub fn tail_within(&self, tokens: u64) -> Option<MessageId> {
        let view = self.view();
        let mut used = 0;
        let mut first = None;
        for message in view.iter().rev() {
            used += estimate_message(message);
            if used > tokens && first.is_some() {
                break;
            }
            if !message.is_results() && !message.is_summary() {
                first = Some(message);
            }
        }
        let first = first?;
        (view.first().is_some_and(|oldest| oldest.id != first.id)).then(|| first.id.clone())
    }
}

impl TranscriptIndex {
    /// Updates the index with the message at position `at`.
    fn note(&mut self, at: usize, message: &Message) {
        if message.origin == Origin::Prompt {
            (self.run, self.turns, self.spent) = (at, 0, Usage::default());
            self.cost = Cost::default();
        }
        if message.is_summary() {
            (self.summary, self.answer, self.reported) = (Some(at), None, None);
        }
        let own = message.usage();
        self.spent += own;
        for usage in message.tool_results().flat_map(ModelUsage::recorded_in) {
            self.spent += usage.usage;
            self.cost = self.cost + usage.cost.unwrap_or_default();
        }
        let response = message.response.as_ref();
        self.cost = self.cost
            + response
                .and_then(|response| response.cost)
                .unwrap_or_default();
        if message.role == Role::Assistant {
            self.turns += 1;
            self.answer = Some(at);
            if own.total() > 0 {
                self.reported = Some(at);
            }
        }
    }
}

impl Message {
    /// Whether it is a summary of all earlier messages.
    pub fn is_summary(&self) -> bool {
        matches!(self.origin, Origin::Summary { .. })
    }

    /// Whether it carries tool results.
    pub fn is_results(&self) -> bool {
        self.content
            .iter()
            .any(|block| matches!(block, ContentBlock::ToolResult(_)))
    }
}

/// Returns at most `count` of the newest messages of `view`, starting with a user message without tool results: the
/// setting `maxConversationMessages`. If there is none among them, starts at the next older one.
pub fn trimmed(view: Vec<Arc<Message>>, count: usize) -> Vec<Arc<Message>> {
    if count == 0 || view.len() <= count {
        return view;
    }
    let earliest = view.len() - count;
    let is_said = |message: &Message| !matches!(message.origin, Origin::Update(_));
    let is_safe = |at: &usize| {
        let message = &view[*at];
        message.role == Role::User && !message.is_results() && is_said(message)
    };
    let start = (earliest..view.len())
        .find(is_safe)
        .or_else(|| (0..earliest).rev().find(is_safe))
        .unwrap_or(0);
    view[start..].to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{limits, messages, transcript};

    fn ids(messages: &[Arc<Message>]) -> String {
        messages
            .iter()
            .map(|message| message.id.as_str())
            .collect::<Vec<_>>()
            .join(" ")
    }

    #[test]
    fn the_view_starts_at_the_last_summary_with_its_tail() {
        for (line, view) in [
            ("user assistant:end_turn user", "m0 m1 m2"),
            (
                "user assistant:end_turn user summary(2) assistant:end_turn",
                "m3 m2 m4",
            ),
            ("user assistant:end_turn user summary", "m3"),
            (
                "user assistant:end_turn user summary(1) assistant:end_turn user summary(2) user",
                "m6 m2 m4 m5 m7",
            ),
        ] {
            assert_eq!(ids(&transcript(line).view()), view, "{line}");
        }
    }

    #[test]
    fn the_last_success_of_a_tool_is_in_view() {
        for (line, expected) in [
            ("user assistant:tool_use(a)", None),
            ("user assistant:tool_use(a) results", Some("m2")),
            (
                "user assistant:tool_use(a) results assistant:tool_use(b) results",
                Some("m4"),
            ),
            ("user assistant:tool_use(a) results summary", None),
            (
                "user assistant:tool_use(a) results summary(1) user",
                Some("m2"),
            ),
            (
                "user assistant:tool_use(a) results user summary(3) user",
                None,
            ),
        ] {
            let transcript = transcript(line);
            let found = transcript.last_success("tool");
            let messages = transcript.messages().iter();
            let of = |result: &ToolResult| {
                let mut messages = messages.clone();
                let holds = |message: &&Arc<Message>| {
                    message
                        .tool_results()
                        .any(|other| std::ptr::eq(other, result))
                };
                messages
                    .find(holds)
                    .map(|message| message.id.as_str().to_owned())
            };
            assert_eq!(found.and_then(of).as_deref(), expected, "{line}");
        }
    }

    #[test]
    fn outputs_that_leave_the_view_are_dropped() {
        let line = "user assistant:tool_use(a) results assistant:tool_use(b) results summary(3)";
        let mut said = messages(line);
        let summary = said.pop().unwrap();
        let mut transcript = Transcript::new(said.clone(), HashMap::new());
        transcript.push(summary);
        let kept = |at: usize| {
            let mut results = transcript.messages()[at].tool_results();
            !results.next().unwrap().content.is_empty()
        };
        assert!(!kept(2));
        assert!(kept(4));
        // Whoever has the message still has all of it.
        assert!(!said[2].tool_results().next().unwrap().content.is_empty());
    }

    #[test]
    fn a_tail_never_begins_with_results() {
        let line = "user assistant:tool_use(a) results assistant:tool_use(b) results";
        for (tokens, kept) in [(0, Some("m3")), (15, Some("m3")), (1_000, None)] {
            let first = transcript(line).tail_within(tokens);
            assert_eq!(first.as_ref().map(MessageId::as_str), kept, "{tokens}");
        }
    }

    #[test]
    fn trimming_starts_at_a_safe_message() {
        let line = "user assistant:tool_use(a) results assistant:end_turn user assistant:end_turn";
        for (count, kept) in [
            (6, "m0 m1 m2 m3 m4 m5"),
            (5, "m4 m5"),
            (2, "m4 m5"),
            (1, "m4 m5"),
            (0, "m0 m1 m2 m3 m4 m5"),
        ] {
            assert_eq!(ids(&trimmed(messages(line), count)), kept, "{count}");
        }
    }

    #[test]
    fn tokens_are_the_reported_ones_plus_an_estimate_of_the_rest() {
        let reported = transcript("user assistant:end_turn@50%").context_tokens();
        assert_eq!(reported, 500);
        let with_prompt = transcript("user assistant:end_turn@50% user").context_tokens();
        assert_eq!(with_prompt, 505);
        assert_eq!(
            transcript("user assistant:end_turn@50% user").fullness(&limits()),
            51
        );
        let after_summary =
            transcript("user assistant:end_turn@90% user summary(2)").context_tokens();
        assert!(after_summary < 20, "{after_summary}");
    }
}
