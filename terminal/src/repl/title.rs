//! The terminal's own title and its mark of progress: what the conversation is about, and whether it works or waits. A value
//! of the state; the driver writes it when it has changed.

use ah_conversation::{Environment, neutralise};

use super::app::App;
use crate::line::preview;

/// Longest title, in characters.
const MOST: usize = 60;
/// Saves the title that the terminal has, and restores it.
pub const SAVE: &str = "\x1b[22;0t";
/// The other end of [`SAVE`].
pub const RESTORE: &str = "\x1b[23;0t";

/// What the terminal understands.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Abilities {
    /// Whether it has a title (OSC 0).
    has_title: bool,
    /// Whether it shows progress (OSC 9;4). Others would show a notification.
    has_progress: bool,
}

impl Abilities {
    /// Returns what the terminal understands, by the variables that it sets. With `CLAUDE_CODE_DISABLE_TERMINAL_TITLE` the title
    /// stays as it is.
    pub fn of(environment: &Environment) -> Self {
        let is_set = |name: &str| environment.get(name).is_some_and(|value| !value.is_empty());
        let program = environment.get("TERM_PROGRAM");
        let is_plain = matches!(environment.get("TERM"), None | Some("dumb" | "linux"));
        let is_refused = is_set("CLAUDE_CODE_DISABLE_TERMINAL_TITLE");
        Self {
            has_title: !is_plain && !is_refused,
            has_progress: is_set("WT_SESSION")
                || environment.get("ConEmuANSI") == Some("ON")
                || matches!(program, Some("ghostty" | "WezTerm")),
        }
    }
}

/// Returns the sequences for the state; empty where the terminal understands none.
pub fn sequences(app: &App, abilities: Abilities) -> String {
    let is_asked = !app.questions.is_empty();
    let is_working = app.work.is_some();
    let mut sequences = String::new();
    if abilities.has_title {
        let about = match &app.title {
            Some(title) => preview(title, MOST),
            None => app
                .session
                .as_ref()
                .map_or_else(String::new, |session| session.place.clone()),
        };
        let sign = match (is_asked, is_working) {
            (true, _) => "? ",
            (false, true) => "* ",
            (false, false) => "",
        };
        let about = neutralise(&about).replace(char::is_control, " ");
        sequences.push_str(&format!("\x1b]0;{sign}{about} - ah\x1b\\"));
    }
    if abilities.has_progress {
        let state = match (is_asked, is_working) {
            (true, _) => 4,
            (false, true) => 3,
            (false, false) => 0,
        };
        sequences.push_str(&format!("\x1b]9;4;{state};0\x1b\\"));
    }
    sequences
}
