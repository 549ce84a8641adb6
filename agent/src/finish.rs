//! What may keep a run going when the model has said what it had to say, in this order: steering that came with its
//! last answer, a file still owed, then the follow-ups that waited. Each gives a user message.

use std::path::Path;

use ah_conversation::{Message, Origin};

/// The reminder that `file` is still owed; `None` if it is there, or was asked for in this run already.
pub(crate) fn reminder(run: &[impl AsRef<Message>], file: &Path) -> Option<String> {
    let was_reminded = run
        .iter()
        .any(|message| message.as_ref().origin == Origin::Reminder);
    (!was_reminded && !file.exists()).then(|| {
        format!(
            "You have not produced the required file `{}` yet. Write it now, then finish.",
            file.display()
        )
    })
}
