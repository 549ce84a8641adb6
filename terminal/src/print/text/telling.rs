//! Events of a run that take one line each.

use ah_conversation::{EventKind, LoopAction, neutralise};

use super::{State, Text};
use crate::print::{count, cut, said};

impl Text {
    /// Prints the events that take one line.
    pub(super) fn tell(&self, state: &mut State, kind: &EventKind) {
        match kind {
            EventKind::SteeringReceived { content, .. } => {
                return self.heard(state, "steering", content);
            }
            EventKind::FollowupReceived { content, .. } => {
                return self.heard(state, "follow-up", content);
            }
            _ => {}
        }
        let Some((words, is_warning)) = self.words(kind) else {
            return;
        };
        let words = neutralise(&words);
        let line = match is_warning {
            true => self.paint.warn(&words),
            false => self.paint.dim(&words),
        };
        self.tell_line(state, &line);
        if matches!(kind, EventKind::CompactionTriggered { .. }) {
            self.spin("compacting");
        }
    }

    /// Prints a line about the run. Such lines stand together, apart from all else.
    pub(super) fn tell_line(&self, state: &mut State, line: &str) {
        match state.is_after_line {
            true => self.tell_looked(state),
            false => self.part(state),
        }
        state.is_after_line = true;
        self.note(line);
    }

    /// Returns the line of an event, and whether it is a warning; `None` if it has none.
    fn words(&self, kind: &EventKind) -> Option<(String, bool)> {
        Some(match kind {
            EventKind::LoopDetected {
                consecutive_count,
                turn_signature,
                action,
            } => {
                let signature = neutralise(turn_signature);
                let signature = cut(&signature, self.paint.width).replace('\n', " ");
                let then = match action {
                    LoopAction::Warn => "the model was warned",
                    LoopAction::Break => "stopping the run",
                };
                let words = format!(
                    "loop: the same calls {consecutive_count} times in a row; {then}: {signature}"
                );
                (words, true)
            }
            EventKind::CompactionTriggered {
                input_tokens,
                context_limit,
            } => {
                let (used, limit) = (count(*input_tokens), count(*context_limit));
                let words = format!("{used} of {limit} tokens used, compacting the conversation");
                (words, false)
            }
            EventKind::CompactionComplete { output_tokens, .. } => (
                format!("compacted to {} tokens", count(*output_tokens)),
                false,
            ),
            EventKind::BudgetExceeded {
                total_input_tokens,
                total_output_tokens,
                max_tokens,
            } => {
                let used = count(total_input_tokens + total_output_tokens);
                let allowed = count(*max_tokens);
                let words = format!("stopped: {used} tokens used, {allowed} allowed");
                (words, true)
            }
            EventKind::Fallback {
                from_model,
                to_model,
                error,
            } => {
                let words = format!("falling back from {from_model} to {to_model}: {error}");
                (words, true)
            }
            EventKind::Checked { verification, .. } => {
                let ending = verification.ending.as_deref().unwrap_or_default();
                let (command, left) = (&verification.command, verification.left);
                let words = format!("`{command}` did not pass ({ending}); {left} checks left");
                (words.replace('\n', " "), true)
            }
            EventKind::PayloadWarn { payload_bytes, .. } => {
                let words = format!("the request is large: {} kB", payload_bytes / 1000);
                (words, false)
            }
            _ => return None,
        })
    }

    /// Shows what the person has said during the run: on a terminal like any prompt.
    fn heard(&self, state: &mut State, kind: &str, content: &str) {
        if !self.is_drawn() {
            return self.dim(&format!("{kind}: {content}"));
        }
        self.part(state);
        let words = neutralise(content.trim()).replace('\n', "\n  ");
        let words = said(&format!("> {words}"), self.paint.colours);
        self.screen.note(&format!("{words}\n"));
    }
}
