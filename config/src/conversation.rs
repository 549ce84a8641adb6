//! Configuration of the terminal conversation.

use serde_json::{Value, json};

use crate::first::First;
use crate::origin::{Origin, Sourced};
use crate::settings::conversation::{EditorMode, Notify, StatusLine};

/// Configuration of the terminal conversation.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ConversationConfig {
    /// Key bindings of the editor, if set.
    pub editor_mode: Option<Sourced<EditorMode>>,
    /// The status line, if it is not the built-in one.
    pub status_line: Option<Sourced<StatusLine>>,
    /// Notifications for an absent user, if set.
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

    /// Returns key, value and origin of the settings in force.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (&'static str, Value, &Origin)> {
        let editor_mode = self
            .editor_mode
            .iter()
            .map(|set| ("editorMode", json!(set.value), &set.origin));
        let status_line = self
            .status_line
            .iter()
            .map(|set| ("statusLine", json!(set.value), &set.origin));
        let notify = self
            .notify
            .iter()
            .map(|set| ("notify", json!(set.value), &set.origin));
        editor_mode.chain(status_line).chain(notify)
    }
}
