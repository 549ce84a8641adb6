//! Settings of the terminal conversation.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::file::File;
use super::group::{Setter, first, group, in_force, put_in_force};
use crate::entry::{SettingEntry, entry};
use crate::error::Error;
use crate::origin::{Origin, Sourced};

group! {
    /// The terminal conversation.
    ConversationSettings => ConversationConfig {
        /// The keys that edit a line of the conversation; `normal` is emacs, `vim` is vi.
        editor_mode: EditorMode = "editorMode", Anyone, {"enum": ["emacs", "vi", "normal", "vim"], "default": "emacs"};
        /// A small model that titles conversations, a name as for `--model`: it is sent the first message of each. Without it, a
        /// conversation is titled by its first words. A project can set it only where it is trusted.
        title_model: String = "titleModel", User, {"type": "string"};
        /// The line below the conversation, if it is not the built-in one. A project can set it only where it is trusted.
        status_line: StatusLine = "statusLine", User, {
            "type": "object",
            "required": ["type", "command"],
            "properties": {
                "type": {"const": "command"},
                "command": {
                    "type": "string",
                    "description": "A command line. It reads the state of the session as JSON, and prints the lines."
                },
                "padding": {"type": "integer", "minimum": 0, "description": "Number of spaces before each line.", "default": 0},
                "refreshInterval": {
                    "type": "integer",
                    "minimum": 1,
                    "description": "Interval in seconds to run the command again without an event."
                }
            }
        };
        /// Notifications that the agent has finished or needs an answer, while you are away. A project can set it only where it
        /// is trusted.
        notify: Notify = "notify", User, {
            "type": "object",
            "additionalProperties": false,
            "properties": {
                "channel": {
                    "enum": ["auto", "bell", "osc9", "osc777", "none"],
                    "description": "How the terminal notifies; auto: the way it is known to support, else the bell.",
                    "default": "auto"
                },
                "command": {
                    "type": "string",
                    "description": "A further command line, which reads the notification as JSON."
                },
                "after": {
                    "type": "integer",
                    "minimum": 0,
                    "description": "Seconds without a key after which you count as away, if the terminal does not report focus.",
                    "default": 10
                }
            }
        };
    }
}

/// Key bindings of the editor.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum EditorMode {
    /// As in emacs and most shells.
    #[default]
    #[serde(alias = "normal")]
    Emacs,
    /// As in vi.
    #[serde(alias = "vim")]
    Vi,
}

/// A status line made by a command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StatusLine {
    /// Always `command`; other agents know more.
    #[serde(rename = "type")]
    pub kind: Kind,
    /// The command line. It reads the state of the session as JSON, and prints the lines.
    pub command: String,
    /// Number of spaces before each line.
    #[serde(default)]
    pub padding: usize,
    /// Interval in seconds to run the command again without an event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refresh_interval: Option<u64>,
}

/// Source of the status line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Kind {
    /// A command line.
    Command,
}

/// Notifications for an absent user.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Notify {
    /// The terminal's way to notify.
    pub channel: Channel,
    /// Additional command line, which reads the notification as JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// Seconds without a key after which the user counts as absent, if the terminal does not report focus.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<u64>,
}

/// A terminal's way to notify.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Channel {
    /// The one this terminal supports, else the bell.
    #[default]
    Auto,
    /// The bell.
    Bell,
    /// The sequence of iTerm2.
    Osc9,
    /// The sequence of rxvt-unicode.
    Osc777,
    /// None.
    None,
}
