//! The messages from the root to the current leaf, and the model's view of them.
//!
//! Together with the journal of the open tool calls this is the whole state of a run: nothing else records its
//! progress.

use std::collections::HashMap;
use std::sync::Arc;

use crate::permission::canonical_tool;
use crate::{
    ContentBlock, Cost, Limits, Message, MessageId, ModelUsage, Origin, Prefix, Role, Spent,
    ToolResult, ToolUse, ToolUseId, Usage, estimate_message, estimate_prefix,
};

/// Number of answers that [`Transcript::forget`] leaves: more than any decision about a run looks back.
const REMEMBERED: usize = 8;
/// Tokens below which nothing is gained by a summary of an exchange.
const FEW_WORDS: u64 = 1_000;

/// The messages from the root to the current leaf. The store may omit the content of messages before the view (see
/// [`Transcript::view`]), and a long run forgets them ([`Transcript::forget`]); their usage still counts.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Transcript {
    /// The messages that are held: all, or the newest behind a few older ones.
    messages: Vec<Arc<Message>>,
    /// Number of messages that are not held any more. The index of a newer one is its position less this.
    forgotten: usize,
    calls: HashMap<ToolUseId, CallState>,
    index: TranscriptIndex,
    /// Position of the message with the last success of each tool.
    successes: HashMap<String, usize>,
    /// The updates, with their positions.
    updates: Vec<(usize, Arc<Message>)>,
    /// Beginning of the branch's requests, and the position of the message since which it is sent.
    prefix: Option<(usize, Arc<Prefix>)>,
    /// Estimated tokens of the beginning.
    prefix_tokens: u64,
    /// Usage per model of all answers and summaries.
    models: Vec<ModelUsage>,
    /// The current run in numbers.
    totals: RunTotals,
}

/// Positions in the branch, 0 for its root, so that decisions need not scan all messages.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct TranscriptIndex {
    /// The current run's prompt.
    run: usize,
    /// The last summary.
    summary: Option<usize>,
    /// The last answer after the summary.
    answer: Option<usize>,
    /// The last of those answers with reported usage.
    reported: Option<usize>,
    /// Estimated tokens of the messages in the view that follow it; of all of them if there is none.
    unreported: u64,
}

/// A run in numbers, so far.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RunTotals {
    /// Number of answers, interrupted ones included.
    pub turns: usize,
    /// Tokens of its answers and summaries.
    pub usage: Usage,
    /// Cost including model calls by tools, each at the price of the model used, as far as prices are known.
    pub cost: Cost,
    /// Usage per model, including model calls by tools.
    pub models: Vec<ModelUsage>,
    /// Time spent waiting for answers and summaries, in milliseconds.
    pub api_ms: u64,
}

/// Progress of a tool call of the last answer.
#[derive(Debug, Clone, PartialEq)]
pub enum CallState {
    /// The call was started.
    Started {
        /// Whether it might have changed something, and so must not begin again: [`Access::may_begin_again`](crate::Access::may_begin_again).
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
        if let Some(at) = at {
            self.prefix_tokens = estimate_prefix(&prefix);
            self.prefix = Some((at + self.forgotten, prefix));
        }
        self
    }

    /// Sets the beginning of all requests from now on.
    pub fn begin(&mut self, prefix: Arc<Prefix>) {
        self.prefix_tokens = estimate_prefix(&prefix);
        self.prefix = Some((self.count().saturating_sub(1), prefix));
    }

    /// Returns the beginning of the branch's requests, unless none was made yet or a summary has been stored since.
    pub fn prefix(&self) -> Option<&Arc<Prefix>> {
        let (at, prefix) = self.prefix.as_ref()?;
        (self.index.summary <= Some(*at)).then_some(prefix)
    }

    /// Returns the estimated tokens of the beginning of the branch's requests, or of the one before the last summary.
    pub fn prefix_tokens(&self) -> u64 {
        self.prefix_tokens
    }

    /// Returns the position of the message since which the beginning is sent; 0 if none was sent yet.
    pub fn prefix_start(&self) -> usize {
        self.prefix.as_ref().map_or(0, |(at, _)| *at)
    }

    /// Returns the sequence number of that message, or of one before it.
    pub fn prefix_seq(&self) -> u32 {
        let since = self.held(self.prefix_start());
        since.map_or(0, |since| since.seq)
    }

    /// Returns the updates that the model was told since the beginning of its requests, oldest first.
    pub fn updates(&self) -> impl Iterator<Item = &crate::Update> + Clone {
        let start = self.prefix_start();
        let since = self.updates.iter().filter(move |(at, _)| *at >= start);
        since.filter_map(|(_, message)| match &message.origin {
            Origin::Update(update) => Some(&**update),
            _ => None,
        })
    }

    /// Returns the messages, root first, less those that were forgotten.
    pub fn messages(&self) -> &[Arc<Message>] {
        &self.messages
    }

    /// Returns the number of messages, those that were forgotten included.
    pub fn count(&self) -> usize {
        self.forgotten + self.messages.len()
    }

    /// Returns the messages from a position on, which must not be forgotten.
    pub fn since(&self, position: usize) -> &[Arc<Message>] {
        let at = position.saturating_sub(self.forgotten);
        self.messages.get(at..).unwrap_or_default()
    }

    fn held(&self, position: usize) -> Option<&Arc<Message>> {
        self.messages.get(position.checked_sub(self.forgotten)?)
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
        self.add(message);
    }

    /// Forgets the messages that have left the view, but for the last answers and what came after them, the prompt of the
    /// current run, and those of the run that `is_kept` names. The store has them all, and in a long run they would fill
    /// the memory.
    pub fn forget(&mut self, is_kept: impl Fn(&Message) -> bool) {
        let mut answers = { self.messages.iter().enumerate().rev() }
            .filter(|(_, message)| message.role == Role::Assistant);
        let Some((remembered, _)) = answers.nth(REMEMBERED - 1) else {
            return;
        };
        let left = remembered.min(self.view_start() - self.forgotten);
        let of_run = self.index.run.saturating_sub(self.forgotten);
        let former = self.messages.drain(..left).skip(of_run).enumerate();
        let kept = former.filter(|(at, message)| *at == 0 || is_kept(message));
        let kept: Vec<_> = kept.map(|(_, message)| message).collect();
        self.forgotten += left - kept.len();
        self.messages.splice(..0, kept);

        let since = self.prefix_start();
        self.updates.retain(|(at, _)| *at >= since);
        let start = self.view_start();
        self.successes.retain(|_, at| *at >= start);
    }

    fn add(&mut self, message: Arc<Message>) {
        let at = self.count();
        self.index.note(at, &message);
        if message.origin == Origin::Prompt {
            self.totals = RunTotals::default();
        }
        self.totals.note(&message);
        if let Some(response) = &message.response {
            ModelUsage::count(&mut self.models, response);
        }
        if let Origin::Update(_) = message.origin {
            self.updates.push((at, message.clone()));
        }
        let successes = message.tool_results().filter(|result| !result.is_error);
        let names = successes.map(|result| (canonical_tool(&result.tool_name), at));
        self.successes.extend(names);
        self.messages.push(message);
        let message = &self.messages[at - self.forgotten];
        self.index.unreported = match self.index.reported {
            Some(reported) if reported == at => 0,
            _ if message.is_summary() => self.view().iter().map(|it| estimate_message(it)).sum(),
            _ => self.index.unreported + estimate_message(message),
        };
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

    /// Returns the messages of the current run, beginning with its prompt, less those that were forgotten.
    pub fn run(&self) -> &[Arc<Message>] {
        self.since(self.index.run)
    }

    /// Returns the current run in numbers, forgotten messages included.
    pub fn totals(&self) -> &RunTotals {
        &self.totals
    }

    /// Returns the usage per model of all answers and summaries of the branch.
    pub fn models(&self) -> &[ModelUsage] {
        &self.models
    }

    /// Returns the position of the last summary.
    pub fn summary(&self) -> Option<usize> {
        self.index.summary
    }

    /// Returns the messages that the model sees: the last summary with the tail that it keeps and everything after
    /// it, or all messages.
    pub fn view(&self) -> Vec<Arc<Message>> {
        let Some(at) = self.index.summary else {
            return self.messages.clone();
        };
        let [kept, after] = [self.view_start(), at + 1].map(|position| self.since(position));
        let [tail @ .., summary] = &kept[..kept.len() - after.len()] else {
            return after.to_vec();
        };
        let mut view = Vec::with_capacity(kept.len());
        view.push(summary.clone());
        let tail = tail.iter().filter(|message| !message.is_summary());
        view.extend(tail.map(|message| match summary.origin {
            Origin::Summary {
                shortened_to: Some(limit),
                ..
            } => message.shortened(limit),
            _ => message.clone(),
        }));
        view.extend_from_slice(after);
        view
    }

    /// Returns the last successful result of the tool `name` that the model still sees.
    pub fn last_success(&self, name: &str) -> Option<&ToolResult> {
        let name = canonical_tool(name);
        let at = *self.successes.get(&name)?;
        let of_tool =
            |result: &&ToolResult| !result.is_error && canonical_tool(&result.tool_name) == name;
        let is_seen = at >= self.view_start();
        let message = self.held(at).filter(|_| is_seen)?;
        message.tool_results().filter(of_tool).last()
    }

    /// Returns the position of the oldest message in the view, apart from the summary at its beginning.
    fn view_start(&self) -> usize {
        let Some(at) = self.index.summary else {
            return 0;
        };
        let end = at - self.forgotten;
        match &self.messages[end].origin {
            Origin::Summary {
                kept_from: Some(first),
                ..
            } => {
                let is_first = |message: &Arc<Message>| message.id == *first;
                let kept = self.messages[..end].iter().rposition(is_first);
                kept.map_or(at, |kept| kept + self.forgotten)
            }
            _ => at,
        }
    }

    /// Estimates the tokens of the next request, without the answer: the usage reported by the last call, or else an estimate
    /// of the beginning, plus one of the messages since.
    pub fn context_tokens(&self) -> u64 {
        let reported = self.index.reported.and_then(|at| self.held(at));
        let reported = reported.map_or(self.prefix_tokens, |message| message.usage().total());
        reported + self.index.unreported
    }

    /// Whether an answer in the view says what the request took.
    pub fn is_counted(&self) -> bool {
        self.index.reported.is_some()
    }

    /// Returns the fullness of the window including the next request and its answer, in percent, rounded up.
    pub fn fullness(&self, limits: &Limits) -> u64 {
        let needed = self.context_tokens() + limits.reserve();
        (needed * 100).div_ceil(limits.context_window.max(1))
    }

    /// Whether another summary would add something: the model has answered since the last one, or its answer was refused and
    /// more was said. What a first prompt takes is only an estimate.
    pub fn has_more_to_summarise(&self) -> bool {
        let is_summary = self.last().is_some_and(|last| last.is_summary());
        let has_more = self.index.answer.is_some() || self.index.summary.is_some();
        !is_summary && has_more && !self.is_single_exchange()
    }

    /// Whether the view is one exchange of few words, of which a summary would be longer. What the server counts may be
    /// more: it is what precedes the conversation.
    fn is_single_exchange(&self) -> bool {
        let view = self.view();
        let said = view.iter().skip(1).filter(|message| !message.is_results());
        let tokens: u64 = view.iter().map(|message| estimate_message(message)).sum();
        self.summary().is_none() && said.count() < 2 && tokens < FEW_WORDS
    }

    /// Returns the messages of the view from `first` on as they were said, not shortened.
    pub fn tail_from(&self, first: &MessageId) -> &[Arc<Message>] {
        let at = self
            .messages
            .iter()
            .rposition(|message| message.id == *first);
        at.map_or(&[], |at| &self.messages[at..])
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
            self.run = at;
        }
        if message.is_summary() {
            (self.summary, self.answer, self.reported) = (Some(at), None, None);
        }
        if message.role == Role::Assistant {
            self.answer = Some(at);
            if message.usage().total() > 0 {
                self.reported = Some(at);
            }
        }
    }
}

impl From<&RunTotals> for Spent {
    fn from(totals: &RunTotals) -> Self {
        Self {
            tokens: totals.spent().total(),
            cost: totals.cost,
        }
    }
}

impl RunTotals {
    /// Returns the totals of these messages.
    pub fn of<'a>(messages: impl IntoIterator<Item = &'a Arc<Message>>) -> Self {
        let mut totals = Self::default();
        for message in messages {
            totals.note(message);
        }
        totals
    }

    /// Returns the tokens, including model calls by tools.
    pub fn spent(&self) -> Usage {
        ModelUsage::total(&self.models)
    }

    fn note(&mut self, message: &Message) {
        self.turns += usize::from(message.role == Role::Assistant);
        if let Some(response) = &message.response {
            self.usage += response.usage;
            self.cost = self.cost + response.cost.unwrap_or_default();
            self.api_ms += response.latency_ms;
            ModelUsage::count(&mut self.models, response);
        }
        for usage in message.tool_results().flat_map(ModelUsage::recorded_in) {
            self.cost = self.cost + usage.cost.unwrap_or_default();
            ModelUsage::add(&mut self.models, usage);
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

    /// A run with so many turns, of which the last stays in view behind a summary.
    fn summarised(turns: usize) -> Transcript {
        let turns = "assistant:tool_use(a)@10% results ".repeat(turns);
        let last = turns.matches(' ').count() - 1;
        transcript(&format!("user {turns} summary({last})"))
    }

    #[test]
    fn what_left_the_view_is_forgotten_and_counts() {
        let mut transcript = summarised(20);
        let (whole, count) = (transcript.clone(), transcript.count());
        transcript.forget(|_| false);
        // The prompt stays, the last answers with their results, and the summary.
        assert_eq!(transcript.messages().len(), 2 * REMEMBERED + 2);
        assert_eq!(transcript.run()[0].id, whole.run()[0].id);
        assert_eq!(transcript.count(), count);
        assert_eq!(transcript.view(), whole.view());
        assert_eq!(transcript.totals(), whole.totals());
        assert_eq!(transcript.models(), whole.models());
        assert_eq!(transcript.context_tokens(), whole.context_tokens());
        assert_eq!(transcript.last_success("tool"), whole.last_success("tool"));
        assert_eq!(transcript.summary(), whole.summary());
        assert_eq!(transcript.run(), transcript.messages());
        let summary = transcript.since(count - 1);
        assert_eq!(ids(summary), whole.last().unwrap().id.as_str());
    }

    #[test]
    fn a_transcript_that_forgets_grows_like_one_that_does_not() {
        let [mut whole, mut forgetful] = [(); 2].map(|()| summarised(20));
        let mut more = messages(&format!(
            "user {}",
            "assistant:end_turn@20% user ".repeat(40)
        ));
        for (at, message) in more.iter_mut().enumerate() {
            let message = Arc::make_mut(message);
            message.id = MessageId::from(format!("n{at}"));
            // In the middle comes a summary with a tail, and another run.
            if at == 40 {
                message.origin = Origin::summary(Some(MessageId::from("n38".to_owned())));
            }
        }
        for message in more {
            let is_summary = message.is_summary();
            whole.push(message.clone());
            forgetful.push(message);
            if is_summary {
                forgetful.forget(|_| false);
            }
            assert_eq!(forgetful.view(), whole.view());
            assert_eq!(forgetful.context_tokens(), whole.context_tokens());
            assert_eq!(forgetful.totals(), whole.totals());
            assert_eq!(forgetful.count(), whole.count());
            assert_eq!(forgetful.last(), whole.last());
        }
        assert!(forgetful.messages().len() < whole.messages().len() - 40);
    }

    /// Estimates likewise, by looking at all messages.
    fn counted(transcript: &Transcript) -> u64 {
        let estimate = |messages: &[Arc<Message>]| -> u64 {
            messages
                .iter()
                .map(|message| estimate_message(message))
                .sum()
        };
        let from = transcript.summary().unwrap_or_default();
        let reports =
            |message: &Arc<Message>| message.role == Role::Assistant && message.usage().total() > 0;
        match transcript.since(from).iter().rposition(reports) {
            Some(at) => {
                let since = &transcript.since(from)[at..];
                since[0].usage().total() + estimate(&since[1..])
            }
            None => estimate(&transcript.view()),
        }
    }

    #[test]
    fn tokens_are_counted_as_messages_come() {
        let mut transcript = Transcript::default();
        let line = "user assistant:tool_use(a) results assistant:end_turn user summary(3) user \
            assistant:tool_use(b)@20% results user assistant:end_turn@40% user summary(8) user assistant:end_turn";
        for message in messages(line) {
            transcript.push(message);
            assert_eq!(transcript.context_tokens(), counted(&transcript));
            transcript.forget(|_| false);
            assert_eq!(transcript.context_tokens(), counted(&transcript));
        }
    }

    #[test]
    fn messages_of_the_run_are_kept_if_they_are_needed() {
        let results = |message: &Message| message.is_results();
        let mut transcript = summarised(20);
        transcript.forget(results);
        let kept = 20 - REMEMBERED;
        assert_eq!(transcript.messages().len(), kept + 2 * REMEMBERED + 2);
        assert_eq!(transcript.run().len(), transcript.messages().len());
        let former = transcript.clone();
        transcript.forget(results);
        assert_eq!(transcript, former, "forgetting twice changes nothing");

        let mut next = messages("user");
        Arc::make_mut(&mut next[0]).id = MessageId::from("next".to_owned());
        transcript.push(next.remove(0));
        assert_eq!(ids(transcript.run()), "next");
        transcript.forget(results);
        assert_eq!(ids(transcript.run()), "next");
        assert_eq!(transcript.messages().len(), 2 * REMEMBERED + 2);
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
