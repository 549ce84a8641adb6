//! The one decision of a run: the next step. It depends only on the transcript, the limits and the time, so a run that was
//! killed, forked or moved to another machine goes on by the same rule as one that never stopped.

use std::sync::Arc;

use crate::{
    ExitReason, Limits, Message, Origin, Repetition, Role, Spent, StopReason, Time, ToolUse,
    Transcript, repetition,
};

/// Number of identical turns after which the model is warned, and after which the run ends.
const WARN_AT: usize = 3;
const BREAK_AT: usize = 5;
/// Maximum fullness of the context window in percent.
const FULL: u64 = 95;
/// Number of consecutive continuations of an answer cut by the output limit.
const CONTINUATIONS: usize = 3;

/// The next step of the driver.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// Call the model.
    CallModel,
    /// Run these calls, in this order, and store their results.
    RunTools(Vec<ToolUse>),
    /// Answer these calls with an error instead of running them.
    SkipTools(Vec<ToolUse>, Skip),
    /// Warn the model that it repeats itself.
    Nudge(Repetition),
    /// Ask the model to continue an answer cut by the output limit.
    Continue,
    /// Replace the older messages with a summary.
    Compact,
    /// The conversation does not fit, and a summary would not help.
    Overflow {
        /// Tokens needed by the next request and its answer.
        needed: u64,
        /// Context window of the model, in tokens.
        window: u64,
    },
    /// End the run.
    Finish(ExitReason),
}

/// Reason why calls are skipped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Skip {
    /// The token budget is used up.
    Tokens,
    /// The cost budget is used up.
    Money,
    /// The time is used up.
    Time,
}

impl Skip {
    /// Returns the error text that the model sees as the result.
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

/// Returns the next step of a run at the time `now`.
pub fn next(transcript: &Transcript, limits: &Limits, now: Time) -> Step {
    let Some(last) = transcript.last() else {
        return Step::Finish(ExitReason::EndTurn);
    };
    let used_up = used_up(transcript, limits, now);
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
    if let Some(limit) = limit_reached(transcript, limits, used_up) {
        return Step::Finish(limit);
    }
    if last.origin == Origin::Results
        && !limits.allows_repetition
        && let Some(repetition) = repetition(run).filter(|repetition| repetition.count >= WARN_AT)
    {
        let is_hopeless = repetition.count >= BREAK_AT;
        return if is_hopeless {
            Step::Finish(ExitReason::LoopDetected)
        } else {
            Step::Nudge(repetition)
        };
    }
    if last.is_summary() && is_cut(before_summaries(run)) {
        return Step::Continue;
    }
    let fullness = transcript.fullness(limits);
    if is_crowded(transcript, limits) && transcript.has_more_to_summarise() {
        return Step::Compact;
    }
    // What no answer has counted is only an estimate, so the server decides there.
    if fullness > FULL && transcript.summary().is_some() && transcript.is_counted() {
        let needed = transcript.context_tokens() + limits.reserve();
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
        // `tool_use` without blocks: a normal answer.
        StopReason::EndTurn | StopReason::ToolUse => Step::Finish(ExitReason::EndTurn),
        StopReason::StopSequence => Step::Finish(ExitReason::StopSequence),
        StopReason::Refusal => Step::Finish(ExitReason::Refusal),
        StopReason::Repetition => Step::Finish(ExitReason::LoopDetected),
        StopReason::Interrupted => Step::Finish(ExitReason::Interrupted),
        StopReason::Other(word) => Step::Finish(ExitReason::Other(word.clone())),
        StopReason::PauseTurn => before_call(transcript, last, limits, used_up),
        StopReason::MaxTokens | StopReason::ContextWindowExceeded => {
            after_cut(transcript, last, limits, used_up)
        }
    }
}

fn is_crowded(transcript: &Transcript, limits: &Limits) -> bool {
    let is_asked = |at: u64| transcript.context_tokens() >= at;
    transcript.fullness(limits) > Limits::CROWDED || limits.compact_tokens().is_some_and(is_asked)
}

/// Returns the step after a cut answer: summarise first if space is short or nothing of the answer is left, otherwise
/// ask the model to continue, a limited number of times.
fn after_cut(
    transcript: &Transcript,
    last: &Message,
    limits: &Limits,
    used_up: Option<Skip>,
) -> Step {
    let run = transcript.run();
    if let Some(limit) = limit_reached(transcript, limits, used_up) {
        return Step::Finish(limit);
    }
    if continuations(run) >= CONTINUATIONS {
        return Step::Finish(ExitReason::MaxTokens);
    }
    let was_compacted = run.iter().any(|message| message.is_summary());
    let is_short_of_room = last.stop_reason() == Some(&StopReason::ContextWindowExceeded)
        || last.content.is_empty()
        || is_crowded(transcript, limits);
    match (is_short_of_room, was_compacted) {
        (true, false) if transcript.count() > 2 => Step::Compact,
        _ => Step::Continue,
    }
}

/// Returns the reached limit that forbids another model call, if any.
fn limit_reached(
    transcript: &Transcript,
    limits: &Limits,
    used_up: Option<Skip>,
) -> Option<ExitReason> {
    let had_last_turn = || {
        let max = limits.max_turns?;
        (transcript.totals().turns >= max as usize).then_some(ExitReason::MaxTurns)
    };
    used_up.map(Skip::exit_reason).or_else(had_last_turn)
}

/// Returns the budget that is used up, if any.
fn used_up(transcript: &Transcript, limits: &Limits, now: Time) -> Option<Skip> {
    let spent = Spent::from(transcript.totals()) + limits.spent_beside;
    let last_call = || {
        let mut answers = transcript.run().iter().rev();
        let last = answers.find(|message| message.role == Role::Assistant);
        last.map_or(0, |last| last.usage().total())
    };
    if limits.max_budget.is_some_and(|budget| spent.cost >= budget) {
        return Some(Skip::Money);
    }
    if limits.max_tokens.is_some_and(|max| spent.tokens > max)
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

/// Counts the continuations at the end of the run with only cut answers between them.
fn continuations(run: &[Arc<Message>]) -> usize {
    run.iter()
        .rev()
        .take_while(|message| {
            is_cut(Some(message)) || message.is_summary() || message.origin == Origin::Continuation
        })
        .filter(|message| message.origin == Origin::Continuation)
        .count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Cost;
    use crate::testing::{limits, transcript};

    fn shown(step: &Step) -> String {
        let calls = |calls: &[ToolUse]| {
            calls
                .iter()
                .map(|call| call.name.as_str())
                .collect::<Vec<_>>()
                .join(" ")
        };
        match step {
            Step::CallModel => "call".to_owned(),
            Step::RunTools(tools) => format!("run {}", calls(tools)),
            Step::SkipTools(tools, skip) => format!("skip {} {skip:?}", calls(tools)),
            Step::Nudge(repetition) => format!("nudge {}", repetition.count),
            Step::Continue => "continue".to_owned(),
            Step::Compact => "compact".to_owned(),
            Step::Overflow { needed, window } => format!("overflow {needed}/{window}"),
            Step::Finish(reason) => format!("finish {reason}"),
        }
    }

    fn check(cases: &[(&str, &str)], limits: &Limits) {
        for (line, expected) in cases {
            let step = next(&transcript(line), limits, Time(100));
            assert_eq!(shown(&step), *expected, "after {line}");
        }
    }

    #[test]
    fn the_last_message_decides_the_next_step() {
        let cases = [
            ("", "finish end_turn"),
            ("user", "call"),
            ("user assistant:tool_use(bash ls)", "run bash"),
            ("user assistant:tool_use(bash ls, read a)", "run bash read"),
            ("user assistant:tool_use(bash ls) results", "call"),
            ("user assistant:tool_use", "finish end_turn"), // `tool_use` without calls: an ordinary answer.
            ("user assistant:end_turn", "finish end_turn"),
            ("user assistant:end_turn(bash ls)", "run bash"), // The calls count, not the stop reason.
            ("user assistant:stop_sequence", "finish stop_sequence"),
            ("user assistant:refusal", "finish refusal"),
            ("user assistant:interrupted", "finish interrupted"),
            ("user assistant:pause_turn", "call"),
            ("user assistant:something_new", "finish something_new"),
            ("user assistant:end_turn followup", "call"),
            ("user steering", "call"),
        ];
        check(&cases, &limits());
    }

    #[test]
    fn a_cut_answer_is_continued_three_times() {
        let cases = [
            ("user assistant:max_tokens", "continue"),
            ("user assistant:max_tokens continue", "call"),
            (
                "user assistant:max_tokens continue assistant:max_tokens",
                "continue",
            ),
            (
                "user assistant:max_tokens continue assistant:max_tokens continue assistant:max_tokens continue \
                 assistant:max_tokens",
                "finish max_tokens",
            ),
            (
                "user assistant:max_tokens continue assistant:max_tokens continue assistant:tool_use(bash) results \
                 assistant:max_tokens",
                "continue",
            ),
            ("user assistant:max_tokens(bash ls)", "run bash"),
        ];
        check(&cases, &limits());
    }

    #[test]
    fn a_cut_answer_without_room_is_summarised_first_and_once() {
        let cases = [
            (
                "user assistant:end_turn user assistant:max_tokens@90%",
                "compact",
            ),
            (
                "user assistant:end_turn user assistant:max_tokens(nothing)",
                "compact",
            ),
            (
                "user assistant:end_turn user assistant:model_context_window_exceeded",
                "compact",
            ),
            (
                "user assistant:end_turn user assistant:max_tokens@90% summary(3)",
                "continue",
            ),
            (
                "user assistant:end_turn user assistant:max_tokens@90% summary(3) continue",
                "call",
            ),
            ("user assistant:max_tokens(nothing)", "continue"), // There is nothing to summarise.
            (
                "user assistant:end_turn user assistant:max_tokens@90% summary(3) continue assistant:max_tokens@90%",
                "continue",
            ),
        ];
        check(&cases, &limits());
    }

    #[test]
    fn the_window_is_summarised_past_80_percent_and_never_overflows() {
        let cases = [
            (
                "user assistant:end_turn user assistant:tool_use(bash)@79% results",
                "call",
            ),
            // The results take it past 80 %.
            (
                "user assistant:end_turn user assistant:tool_use(bash)@80% results",
                "compact",
            ),
            (
                "user assistant:end_turn user assistant:tool_use(bash)@99% results",
                "compact",
            ),
            // Nothing of a few words can be left out.
            ("user assistant:tool_use(bash)@99% results", "call"),
            ("user assistant:tool_use(bash)@99%", "run bash"),
            ("user assistant:end_turn@90% user", "compact"),
            ("user assistant:end_turn@90% user summary(2)", "call"),
        ];
        check(&cases, &limits());
        let reserved = Limits {
            reserved_output: 100,
            ..limits()
        };
        check(
            &[
                ("user assistant:end_turn@70% user", "compact"),
                ("user assistant:end_turn@60% user", "call"),
            ],
            &reserved,
        );
        check(
            &[
                ("user", "call"),
                // A reserve larger than an eighth of the window makes no conversation impossible.
                ("user assistant:end_turn@67% user", "call"),
                ("user assistant:end_turn@68% user", "compact"),
                ("summary user", "call"),
            ],
            &Limits {
                reserved_output: 974,
                ..limits()
            },
        );
    }

    #[test]
    fn repetition_warns_at_three_and_four_and_ends_at_five() {
        let turns = |count: usize| {
            format!(
                "user{}",
                " assistant:tool_use(bash ls) results".repeat(count)
            )
        };
        let mut line = turns(2);
        check(&[(&line, "call")], &limits());
        for (words, expected) in [("nudge 3", "call"), ("nudge 4", "call")] {
            line.push_str(" assistant:tool_use(bash ls) results");
            check(&[(&line, words)], &limits());
            line.push_str(" nudge");
            check(&[(&line, expected)], &limits());
        }
        line.push_str(" assistant:tool_use(bash ls) results");
        check(&[(&line, "finish loop_detected")], &limits());
        let varied = "user assistant:tool_use(bash 1) results assistant:tool_use(bash 2) results assistant:tool_use(bash 3) results";
        check(
            &[(varied, "call"), (&format!("{} user", turns(4)), "call")],
            &limits(),
        );
    }

    #[test]
    fn turns_are_counted_from_the_prompt() {
        let two = Limits {
            max_turns: Some(2),
            ..limits()
        };
        let cases = [
            ("user assistant:tool_use(bash) results", "call"),
            (
                "user assistant:tool_use(bash) results assistant:tool_use(read)",
                "run read",
            ),
            (
                "user assistant:tool_use(bash) results assistant:tool_use(read) results",
                "finish max_turns",
            ),
            (
                "user assistant:tool_use(bash) results assistant:end_turn",
                "finish end_turn",
            ),
            (
                "user assistant:end_turn user assistant:end_turn user",
                "call",
            ),
            (
                "user assistant:max_tokens continue assistant:max_tokens",
                "finish max_turns",
            ),
        ];
        check(&cases, &two);
        let three = Limits {
            max_turns: Some(3),
            ..limits()
        };
        // The run ends here, so there is no warning about repeated turns, which the model would not read.
        let turns = " assistant:tool_use(bash ls) results".repeat(3);
        check(&[(&format!("user{turns}"), "finish max_turns")], &three);
    }

    #[test]
    fn a_used_up_budget_answers_open_calls_and_ends_the_run() {
        let tokens = Limits {
            max_tokens: Some(500),
            ..limits()
        };
        let cases = [
            ("user assistant:tool_use(bash)@50%", "run bash"),
            ("user assistant:tool_use(bash)@51%", "skip bash Tokens"),
            (
                "user assistant:tool_use(bash)@51% results",
                "finish budget_exceeded",
            ),
            (
                "user assistant:tool_use(bash)@30% results assistant:tool_use(read)@30%",
                "skip read Tokens",
            ),
            ("user assistant:end_turn@60%", "finish end_turn"),
            ("user assistant:end_turn@60% user", "call"),
        ];
        check(&cases, &tokens);
        let context = Limits {
            max_context_tokens: Some(500),
            ..limits()
        };
        check(
            &[(
                "user assistant:tool_use(a)@40% results assistant:tool_use(b)@40%",
                "run b",
            )],
            &context,
        );
        check(
            &[(
                "user assistant:tool_use(a)@40% results assistant:tool_use(b)@51%",
                "skip b Tokens",
            )],
            &context,
        );
        let money = Limits {
            max_budget: Some(Cost(500)),
            ..limits()
        };
        check(
            &[
                ("user assistant:tool_use(a)@49%", "run a"),
                ("user assistant:tool_use(a)@50%", "skip a Money"),
            ],
            &money,
        );
        check(
            &[(
                "user assistant:tool_use(a)@50% results",
                "finish error_max_budget_usd",
            )],
            &money,
        );
        let shared = Limits {
            max_tokens: Some(500),
            max_budget: Some(Cost(500)),
            spent_beside: Spent {
                tokens: 200,
                cost: Cost(200),
            },
            ..limits()
        };
        check(
            &[
                ("user assistant:tool_use(a)@29%", "run a"),
                ("user assistant:tool_use(a)@30%", "skip a Money"),
            ],
            &shared,
        );
        let late = Limits {
            deadline: Some(Time(100)),
            ..limits()
        };
        check(
            &[
                ("user", "finish timeout"),
                ("user assistant:tool_use(a)", "skip a Time"),
            ],
            &late,
        );
        check(
            &[("user", "call")],
            &Limits {
                deadline: Some(Time(101)),
                ..limits()
            },
        );
    }
}
