//! The one decision of a run: what to do next. It is computed from what has been said and from nothing else, so a
//! run that was killed, forked or handed to another machine goes on by the same rule as one that never stopped.

use std::sync::Arc;

use crate::{
    Cost, ExitReason, Limits, Message, Origin, Repetition, Role, StopReason, Time, ToolUse,
    Transcript, Usage, repetition,
};

/// Turns with the very same calls before the model is told, and before the run ends.
const WARN_AT: usize = 3;
const BREAK_AT: usize = 5;
/// How full the window may get, in percent, before a summary is made, and at most.
const CROWDED: u64 = 80;
const FULL: u64 = 95;
/// How often in a row an answer cut by the output limit is continued.
const CONTINUATIONS: usize = 3;

/// The one thing the driver does before it asks again.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// Ask the model.
    CallModel,
    /// Run these calls, in this order, and store their results.
    RunTools(Vec<ToolUse>),
    /// Answer these calls with an error instead of running them.
    SkipTools(Vec<ToolUse>, Skip),
    /// Tell the model that it repeats itself.
    Nudge(Repetition),
    /// Ask the model to go on where the output limit cut it.
    Continue,
    /// Put a summary in the place of the older messages.
    Compact,
    /// The conversation does not fit, and a summary would not help: so many tokens of so many.
    Overflow {
        /// Tokens that the next request and its answer need.
        needed: u64,
        /// Tokens that the model can hold.
        window: u64,
    },
    /// The run is over.
    Finish(ExitReason),
}

/// Why calls are not run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Skip {
    /// The token budget is used up.
    Tokens,
    /// The money is used up.
    Money,
    /// The time is used up.
    Time,
}

impl Skip {
    /// What the model is told in the place of a result.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Tokens => "Not run: the token budget of this run is used up.",
            Self::Money => "Not run: the USD budget of this run is used up.",
            Self::Time => "Not run: the time of this run is used up.",
        }
    }

    fn exit_reason(self) -> ExitReason {
        match self {
            Self::Tokens => ExitReason::BudgetExceeded,
            Self::Money => ExitReason::MaxBudget,
            Self::Time => ExitReason::Timeout,
        }
    }
}

/// Decides the next step of a run at the time `now`.
pub fn next(transcript: &Transcript, limits: &Limits, now: Time) -> Step {
    let Some(last) = transcript.last() else {
        return Step::Finish(ExitReason::EndTurn);
    };
    let used_up = used_up(transcript.run(), limits, now);
    match last.role {
        Role::User => before_call(transcript, last, limits, used_up),
        Role::Assistant => {
            let calls: Vec<_> = last.tool_uses().cloned().collect();
            match used_up {
                Some(skip) if !calls.is_empty() => Step::SkipTools(calls, skip),
                None if !calls.is_empty() => Step::RunTools(calls),
                _ => after_answer(transcript, last, limits, used_up),
            }
        }
    }
}

fn before_call(
    transcript: &Transcript,
    last: &Message,
    limits: &Limits,
    used_up: Option<Skip>,
) -> Step {
    let run = transcript.run();
    if let Some(skip) = used_up {
        return Step::Finish(skip.exit_reason());
    }
    if last.origin == Origin::Results
        && let Some(repetition) = repetition(run).filter(|repetition| repetition.count >= WARN_AT)
    {
        let is_hopeless = repetition.count >= BREAK_AT;
        return if is_hopeless {
            Step::Finish(ExitReason::LoopDetected)
        } else {
            Step::Nudge(repetition)
        };
    }
    if limits
        .max_turns
        .is_some_and(|max| turns(run) >= max as usize)
    {
        return Step::Finish(ExitReason::MaxTurns);
    }
    if last.is_summary() && is_cut(before_summaries(run)) {
        return Step::Continue;
    }
    let fullness = transcript.fullness(limits);
    if fullness > CROWDED && transcript.has_answer_since_summary() {
        return Step::Compact;
    }
    if fullness > FULL {
        let needed = transcript.context_tokens() + limits.reserved_output;
        return Step::Overflow {
            needed,
            window: limits.context_window,
        };
    }
    Step::CallModel
}

fn after_answer(
    transcript: &Transcript,
    last: &Message,
    limits: &Limits,
    used_up: Option<Skip>,
) -> Step {
    let Some(stop_reason) = last.stop_reason() else {
        return Step::Finish(ExitReason::EndTurn);
    };
    match stop_reason {
        // No blocks and yet `tool_use`: an answer all the same.
        StopReason::EndTurn | StopReason::ToolUse => Step::Finish(ExitReason::EndTurn),
        StopReason::StopSequence => Step::Finish(ExitReason::StopSequence),
        StopReason::Refusal => Step::Finish(ExitReason::Refusal),
        StopReason::Interrupted => Step::Finish(ExitReason::Interrupted),
        StopReason::Other(word) => Step::Finish(ExitReason::Other(word.clone())),
        StopReason::PauseTurn => before_call(transcript, last, limits, used_up),
        StopReason::MaxTokens | StopReason::ContextWindowExceeded => {
            after_cut(transcript, last, limits, used_up)
        }
    }
}

/// After an answer that was cut: summarise first where room is short or nothing of the answer is left, then ask to
/// go on, a few times.
fn after_cut(
    transcript: &Transcript,
    last: &Message,
    limits: &Limits,
    used_up: Option<Skip>,
) -> Step {
    let run = transcript.run();
    if let Some(skip) = used_up {
        return Step::Finish(skip.exit_reason());
    }
    if limits
        .max_turns
        .is_some_and(|max| turns(run) >= max as usize)
    {
        return Step::Finish(ExitReason::MaxTurns);
    }
    if continuations(run) >= CONTINUATIONS {
        return Step::Finish(ExitReason::MaxTokens);
    }
    let was_compacted = run.iter().any(|message| message.is_summary());
    let is_short_of_room = last.stop_reason() == Some(&StopReason::ContextWindowExceeded)
        || last.content.is_empty()
        || transcript.fullness(limits) > CROWDED;
    match (is_short_of_room, was_compacted) {
        (true, false) if transcript.messages().len() > 2 => Step::Compact,
        _ => Step::Continue,
    }
}

/// What of the budgets is used up, if any.
fn used_up(run: &[Arc<Message>], limits: &Limits, now: Time) -> Option<Skip> {
    let spent = || {
        run.iter()
            .map(|message| message.usage())
            .fold(Usage::default(), |sum, usage| sum + usage)
    };
    let last_call = || {
        run.iter()
            .rev()
            .find(|message| message.response.is_some())
            .map_or(0, |last| last.usage().total())
    };
    if limits
        .max_budget
        .is_some_and(|(budget, price)| price.of(&spent()) >= budget && budget >= Cost::default())
    {
        return Some(Skip::Money);
    }
    if limits.max_tokens.is_some_and(|max| spent().total() > max)
        || limits
            .max_context_tokens
            .is_some_and(|max| last_call() > max)
    {
        return Some(Skip::Tokens);
    }
    limits
        .deadline
        .is_some_and(|deadline| now >= deadline)
        .then_some(Skip::Time)
}

/// Model calls of the run; an answer that an interrupt cut counts too.
fn turns(run: &[Arc<Message>]) -> usize {
    run.iter()
        .filter(|message| message.role == Role::Assistant)
        .count()
}

fn before_summaries(run: &[Arc<Message>]) -> Option<&Message> {
    run.iter()
        .rev()
        .find(|message| !message.is_summary())
        .map(|message| &**message)
}

fn is_cut(message: Option<&Message>) -> bool {
    let reason = message.and_then(Message::stop_reason);
    matches!(
        reason,
        Some(StopReason::MaxTokens | StopReason::ContextWindowExceeded)
    )
}

/// How many continuations stand at the end of the run with nothing but cut answers between them.
fn continuations(run: &[Arc<Message>]) -> usize {
    run.iter()
        .rev()
        .take_while(|message| {
            is_cut(Some(message)) || message.is_summary() || message.origin == Origin::Continuation
        })
        .filter(|message| message.origin == Origin::Continuation)
        .count()
}
