//! What a settings file says of the conversation at a terminal.

use serde::{Deserialize, Serialize};

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
