//! The end of a prompt: its result.

use std::sync::Arc;

use ah_agent::{RunFailure, RunOutcome};
use ah_conversation::{Cost, ExitReason, Message, Origin, StopReason, Transcript};
use serde_json::{Value, json};

use super::{Served, Worker};
use ah_desk::{Refusal, RefusalKind};

use crate::Engaged;
use crate::stream_json::api_error::ApiError;
use crate::stream_json::result::{self, Circumstances};

impl Worker {
    /// Reports that the session could not be opened.
    pub(super) fn refuse(&self, refusal: &Refusal) -> Served {
        let line = match &refusal.kind {
            RefusalKind::Model(Some(error)) => {
                let told = ApiError::of(error, "");
                self.speaker.failed(&told, error);
                result::not_asked(&told, &refusal.text)
            }
            _ => result::not_begun(&refusal.text),
        };
        self.speaker.say_result(line, None);
        Served::Refused
    }

    /// Reports the end of a run; `command` is the local command that it carried out.
    pub(super) fn ended(&mut self, engaged: &Engaged, outcome: RunOutcome, command: Option<&str>) {
        let run = engaged.session.transcript().run();
        self.ended_after(engaged, outcome, command, run);
    }

    /// Reports the end of a run, of which `run` are the messages that this process has added.
    pub(super) fn ended_after(
        &mut self,
        engaged: &Engaged,
        mut outcome: RunOutcome,
        command: Option<&str>,
        run: &[Arc<Message>],
    ) {
        let last = engaged.session.transcript().last();
        let while_speaking = last.is_none_or(|last| last.origin != Origin::Results);
        if let Some(RunFailure::Provider(error)) = &outcome.failure {
            let told = ApiError::of(error, &engaged.session.model().name);
            self.speaker.failed(&told, error);
        }
        if outcome.reason == ExitReason::Interrupted {
            let words = if while_speaking {
                "[Request interrupted by user]"
            } else {
                "[Request interrupted by user for tool use]"
            };
            self.speaker.user(words, json!({}));
        }
        let cost: Option<Cost> = outcome.models.iter().map(|share| share.cost).sum();
        self.spent = self.spent + cost.unwrap_or_default();
        // An answer that used up the budget counts as over it, as in the original program.
        let is_over = self.budget.is_some_and(|budget| self.spent >= budget);
        if is_over && outcome.reason.is_end_of_turn() {
            outcome.reason = ExitReason::MaxBudget;
        }
        outcome.denials.extend(self.speaker.take_denied_below());
        let session = &engaged.session;
        let form = session.settings().answer_form.as_ref();
        self.shared.totals.lock().add(&outcome);
        let describe = |provider: &str, name: &str| engaged.model(provider, name);
        let is_local = outcome.turns == 0 && outcome.verification.is_none();
        if is_local && outcome.reason == ExitReason::EndTurn {
            let totals = self.shared.totals.lock();
            let (text, used) = (&outcome.answer, &outcome.models);
            let line = result::local(text, command, used, &totals, &describe);
            drop(totals);
            self.failure = None;
            return self.finish(line, Some(outcome.reason));
        }
        let transcript = session.transcript();
        let circumstances = Circumstances {
            max_turns: engaged.max_turns,
            max_budget_usd: engaged.max_budget_usd,
            while_speaking,
            no_structure: form.and_then(|form| form.failure(transcript.run())),
            stopped_by_hook: !while_speaking && outcome.structured.is_none(),
            stop_reason: stop_reason(transcript).filter(|_| outcome.turns > 0),
            num_turns: result::num_turns(run.iter().map(|it| &**it), &outcome),
            model: session.model().name.clone(),
        };
        let line = result::result(
            &outcome,
            &self.shared.totals.lock(),
            circumstances,
            &describe,
        );
        self.finish(line, Some(outcome.reason.clone()));
        self.failure = outcome.failure;
    }

    /// Sends the result of a prompt.
    pub(super) fn finish(&mut self, mut result: Value, exit_reason: Option<ExitReason>) {
        if let Some(origin) = self.origin.take() {
            result["origin"] = origin;
        }
        result["result_index"] = json!(self.results);
        result["queued_turn_count"] = json!(self.shared.queue.waiting());
        self.results += 1;
        self.is_error = result["is_error"] == json!(true);
        self.speaker.say_result(result, exit_reason);
    }

    /// Reports the end of a local command.
    pub(super) fn finish_locally(&mut self, engaged: &Engaged, text: &str, name: Option<&str>) {
        let describe = |provider: &str, name: &str| engaged.model(provider, name);
        let line = result::local(text, name, &[], &self.shared.totals.lock(), &describe);
        self.finish(line, None);
    }
}

/// Returns why the last answer of the run ended; `None` if it was interrupted.
fn stop_reason(transcript: &Transcript) -> Option<String> {
    let mut answers = transcript
        .run()
        .iter()
        .filter_map(|it| it.response.as_ref());
    let last = &answers.next_back()?.stop_reason;
    (*last != StopReason::Interrupted).then(|| last.as_str().to_owned())
}
