//! Reasons to continue a run when the model ends its turn, in this order: steering that came with its last answer,
//! the demand of a Stop hook, a missing structured answer, a missing file, queued follow-ups. Each becomes a user
//! message.

use std::path::Path;
use std::sync::Arc;

use ah_conversation::{Message, Origin};

use crate::SessionSettings;
use crate::structured::AnswerForm;

/// Returns the reminder of missing results, if any.
pub(crate) fn reminder(run: &[Arc<Message>], settings: &SessionSettings) -> Option<String> {
    let form = settings.answer_form.as_ref();
    let file = settings.must_produce.as_ref();
    form.and_then(|form| form.reminder(run))
        .or_else(|| file.and_then(|file| file_reminder(run, file)))
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
