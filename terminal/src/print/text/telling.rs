//! Events of a run that take one line each.

use ah_conversation::{EventKind, LoopAction, neutralise};

use super::{State, Text};
use crate::print::{count, cut, said};

impl Text {
    /// Prints the events that take one line.
    pub(super) fn tell(&self, state: &mut State, kind: &EventKind) {
        if is_told(kind) {
            self.tell_looked(state);
        }
        match kind {
            EventKind::SteeringReceived { content, .. } => self.heard("steering", content),
            EventKind::FollowupReceived { content, .. } => self.heard("follow-up", content),
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
                self.note(&self.paint.warn(&format!(
                    "loop: the same calls {consecutive_count} times in a row; {then}: {signature}"
                )));
            }
            EventKind::CompactionTriggered {
                input_tokens,
                context_limit,
            } => {
                self.dim(&format!(
                    "{} of {} tokens used, compacting the conversation",
                    count(*input_tokens),
                    count(*context_limit)
                ));
                self.spin("compacting");
            }
            EventKind::CompactionComplete { output_tokens, .. } => {
                self.dim(&format!("compacted to {} tokens", count(*output_tokens)));
            }
            EventKind::BudgetExceeded {
                total_input_tokens,
                total_output_tokens,
                max_tokens,
            } => {
                let used = count(total_input_tokens + total_output_tokens);
                self.note(&self.paint.warn(&format!(
                    "{used} tokens used, {} allowed",
                    count(*max_tokens)
                )));
            }
            EventKind::Fallback {
                from_model,
                to_model,
                error,
            } => {
                let line = format!("falling back from {from_model} to {to_model}: {error}");
                self.note(&self.paint.warn(&neutralise(&line)));
            }
            EventKind::Checked { verification, .. } => {
                let ending = verification.ending.as_deref().unwrap_or_default();
                let (command, left) = (&verification.command, verification.left);
                let line = format!("`{command}` did not pass ({ending}); {left} checks left");
                self.note(&self.paint.warn(&neutralise(&line).replace('\n', " ")));
            }
            EventKind::PayloadWarn { payload_bytes, .. } => {
                self.dim(&format!(
                    "the request is large: {} kB",
                    payload_bytes / 1000
                ));
            }
            _ => {}
        }
    }

    /// Shows what the person has said during the run: on a terminal like any prompt.
    fn heard(&self, kind: &str, content: &str) {
        if !self.is_drawn() {
            return self.dim(&format!("{kind}: {content}"));
        }
        let words = neutralise(content.trim()).replace('\n', "\n  ");
        let words = said(&format!("> {words}"), self.paint.colours);
        self.screen.note(&format!("\n{words}\n"));
    }
}

/// Returns whether an event is told in a line of its own, by [`Text::tell`].
fn is_told(kind: &EventKind) -> bool {
    matches!(
        kind,
        EventKind::SteeringReceived { .. }
            | EventKind::FollowupReceived { .. }
            | EventKind::LoopDetected { .. }
            | EventKind::CompactionTriggered { .. }
            | EventKind::CompactionComplete { .. }
            | EventKind::BudgetExceeded { .. }
            | EventKind::Fallback { .. }
            | EventKind::PayloadWarn { .. }
            | EventKind::Checked { is_last: false, .. }
    )
}
