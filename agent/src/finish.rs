//! Reasons to continue a run when the model ends its turn, in this order: steering that came with its last answer,
//! the demand of a Stop hook, a missing structured answer, a missing file, queued follow-ups, reports of background work, an
//! answer without a word, a check that does not pass. Each becomes a user message.

use std::path::Path;
use std::sync::Arc;

use ah_conversation::{Message, Origin, StopReason};

use crate::SessionSettings;
use crate::structured::AnswerForm;

/// Returns the reminder of missing results, if any.
pub(crate) fn reminder(run: &[Arc<Message>], settings: &SessionSettings) -> Option<String> {
    let form = settings.answer_form.as_ref();
    let file = settings.must_produce.as_ref();
    form.and_then(|form| form.reminder(run))
        .or_else(|| file.and_then(|file| file_reminder(run, file)))
}

/// Asks for an answer again.
pub(crate) const UNANSWERED: &str =
    "Your last answer was empty. Say what you have found or done, or continue with the task.";

/// How a run ended whose last answer says nothing and calls no tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Silence {
    /// The model may be asked once more.
    First,
    /// It was asked once more.
    Again,
}

/// Returns whether the last answer of the run is empty, or only thinking. An answer that a stop sequence ends may be.
pub(crate) fn silence(run: &[impl AsRef<Message>]) -> Option<Silence> {
    let last = run.last()?.as_ref();
    let ends_turn = matches!(
        last.stop_reason(),
        Some(StopReason::EndTurn | StopReason::ToolUse)
    );
    let is_silent = last.text().trim().is_empty() && last.tool_uses().next().is_none();
    if !ends_turn || !is_silent {
        return None;
    }
    let is_asking =
        |message: &Message| message.origin == Origin::Reminder && message.text() == UNANSWERED;
    let was_asked = run.iter().any(|message| is_asking(message.as_ref()));
    Some(if was_asked {
        Silence::Again
    } else {
        Silence::First
    })
}

/// Whether later decisions of the run read the message, however old it is: what it was reminded of, and its attempts at a
/// structured answer.
pub(crate) fn is_needed_later(message: &Message) -> bool {
    message.origin == Origin::Reminder || AnswerForm::is_attempt(message)
}

/// Returns the reminder that `file` is missing; `None` if it exists, or the run already has this reminder.
fn file_reminder(run: &[impl AsRef<Message>], file: &Path) -> Option<String> {
    let text = format!(
        "You have not produced the required file `{}` yet. Write it now, then finish.",
        file.display()
    );
    // Hooks add reminders of other things.
    let was_reminded = run.iter().any(|message| {
        let message = message.as_ref();
        message.origin == Origin::Reminder && message.text() == text
    });
    (!was_reminded && !file.exists()).then_some(text)
}
