//! How the conversation at a terminal is had, as settings say it.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::layers::First;
use crate::origin::{Origin, Sourced};

/// Which keys edit a line.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum EditorMode {
    /// Those of emacs and of most shells.
    #[default]
    #[serde(alias = "normal")]
    Emacs,
    /// Those of vi.
    #[serde(alias = "vim")]
    Vi,
}

/// Whose words stand at the bottom.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StatusLine {
    /// Always `command`; what else there may be is somebody else's.
    #[serde(rename = "type")]
    pub kind: Kind,
    /// The command line. It reads what is known of the session, as JSON, and prints the lines.
    pub command: String,
    /// So many blanks stand before them.
    #[serde(default)]
    pub padding: usize,
    /// After so many seconds it is asked again, though nothing has happened.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refresh_interval: Option<u64>,
}

/// What kind of thing makes the status line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Kind {
    /// A command line.
    Command,
}

/// How somebody is told who has turned to something else.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Notify {
    /// In which of the terminal's ways.
    pub channel: Channel,
    /// A command line, which reads what there is to tell as JSON; besides.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// After so many seconds without a key somebody is taken to be away, where the terminal does not tell.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<u64>,
}

/// A way in which terminals tell something.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Channel {
    /// The one that this terminal is known to have, else the bell.
    #[default]
    Auto,
    /// The bell.
    Bell,
    /// The way of iTerm2.
    Osc9,
    /// The way of rxvt-unicode.
    Osc777,
    /// None.
    None,
}

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
