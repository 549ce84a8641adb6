//! What may keep a run going when the model has said what it had to say, in this order: steering that came with its
//! last answer, what a Stop hook demands, an answer in a form that was asked for, a file still owed, then the follow-ups
//! that waited. Each gives a user message.

use std::path::Path;
use std::sync::Arc;

use ah_conversation::{Message, Origin};

use crate::SessionSettings;

/// What to say to a model that would end and still owes something.
pub(crate) fn owed(run: &[Arc<Message>], settings: &SessionSettings) -> Option<String> {
    let form = settings.answer_form.as_ref();
    let file = settings.must_produce.as_ref();
    { form.and_then(|form| form.reminder(run)) }
        .or_else(|| file.and_then(|file| reminder(run, file)))
}

/// The reminder that `file` is still owed; `None` if it is there, or was asked for in this run already.
fn reminder(run: &[impl AsRef<Message>], file: &Path) -> Option<String> {
    let text = format!(
        "You have not produced the required file `{}` yet. Write it now, then finish.",
        file.display()
    );
    // Hooks remind of other things.
    let was_reminded = run.iter().any(|message| {
        let message = message.as_ref();
        message.origin == Origin::Reminder && message.text() == text
    });
    (!was_reminded && !file.exists()).then_some(text)
}
