//! How the conversation at a terminal is had.

use serde_json::{Value, json};

use crate::first::First;
use crate::origin::{Origin, Sourced};
use crate::settings::conversation::{EditorMode, Notify, StatusLine};

/// What holds of the conversation.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ConversationConfig {
    /// Which keys edit, where that was said.
    pub editor_mode: Option<Sourced<EditorMode>>,
    /// Whose words stand at the bottom, where they are not ours.
    pub status_line: Option<Sourced<StatusLine>>,
    /// How somebody is told who is away, where that was said.
    pub notify: Option<Sourced<Notify>>,
}

impl ConversationConfig {
    pub(crate) fn of(first: &First<'_>) -> Self {
        Self {
            editor_mode: first.value(|settings| settings.editor_mode),
            status_line: first.value(|settings| settings.status_line.clone()),
            notify: first.value(|settings| settings.notify.clone()),
        }
    }

    /// The settings in force: key, value and where it comes from.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (&'static str, Value, &Origin)> {
        let editor_mode =
            { self.editor_mode.iter() }.map(|set| ("editorMode", json!(set.value), &set.origin));
        let status_line =
            { self.status_line.iter() }.map(|set| ("statusLine", json!(set.value), &set.origin));
        let notify = { self.notify.iter() }.map(|set| ("notify", json!(set.value), &set.origin));
        editor_mode.chain(status_line).chain(notify)
    }
}
