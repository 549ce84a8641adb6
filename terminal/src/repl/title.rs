//! The terminal's own title and its mark of progress: what the conversation is about, and whether it works or waits. A value
//! of the state; the driver writes it when it has changed.

use ah_conversation::{Environment, neutralise};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::app::{App, Unread};
use crate::line::preview;

/// Longest title, in characters.
pub const MOST: usize = 60;
/// Saves the title that the terminal has, and restores it.
pub const SAVE: &str = "\x1b[22;0t";
/// The other end of [`SAVE`].
const RESTORE: &str = "\x1b[23;0t";
/// Takes the mark of progress away.
const NO_PROGRESS: &str = "\x1b]9;4;0;0\x1b\\";
/// First version of Ghostty that shows the state of programs.
const GHOSTTY: (u32, u32) = (1, 4);

/// What the terminal understands.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Abilities {
    /// Whether it has a title (OSC 0).
    has_title: bool,
    /// Whether it shows progress (OSC 9;4). Others would show a notification.
    has_progress: bool,
    /// Whether it shows the state of programs (OSC 7501). It is not asked: its answer would come among the keys.
    has_state: bool,
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
            has_state: program == Some("ghostty")
                && environment
                    .get("TERM_PROGRAM_VERSION")
                    .and_then(release)
                    .is_some_and(|version| version >= GHOSTTY),
        }
    }

    /// Returns the sequences that give the terminal back as it was.
    pub fn restored(self) -> String {
        let progress = match self.has_progress {
            true => NO_PROGRESS,
            false => "",
        };
        let state = match self.has_state {
            true => "\x1b]7501;state=clear\x1b\\",
            false => "",
        };
        format!("{progress}{RESTORE}{state}")
    }
}

/// Returns the first two numbers of a version.
fn release(version: &str) -> Option<(u32, u32)> {
    let mut numbers = version.split(['.', '-']).map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

/// Returns the sequences for the state; empty where the terminal understands none.
pub fn sequences(app: &App, abilities: Abilities) -> String {
    let is_asked = !app.questions.is_empty();
    let is_working = app.work.is_some();
    let mut sequences = String::new();
    let about = match &app.title {
        Some(title) => preview(title, MOST),
        None => app
            .session
            .as_ref()
            .map_or_else(String::new, |session| session.place.clone()),
    };
    let about = neutralise(&about).replace(char::is_control, " ");
    if abilities.has_title {
        let sign = match (is_asked, is_working) {
            (true, _) => "? ",
            (false, true) => "* ",
            (false, false) => "",
        };
        let about = match about.as_str() {
            "" => String::new(),
            about => format!("{about} - "),
        };
        sequences.push_str(&format!("\x1b]0;{sign}{about}ah\x1b\\"));
    }
    if abilities.has_progress {
        let state = match (is_asked, is_working) {
            (true, _) => 4,
            (false, true) => 3,
            (false, false) => 0,
        };
        sequences.push_str(&format!("\x1b]9;4;{state};0\x1b\\"));
    }
    if abilities.has_state {
        let state = state(app);
        let about = STANDARD.encode(about);
        sequences.push_str(&format!("\x1b]7501;state={state}:app=ah:msg={about}\x1b\\"));
    }
    sequences
}

/// Returns what the program is doing, in the words of OSC 7501.
fn state(app: &App) -> &'static str {
    match app.questions.first() {
        Some(panel) if panel.sheet.takes_words => return "blocked:kind=question",
        Some(_) => return "blocked:kind=permission",
        None => {}
    }
    match (&app.work, app.unread) {
        (Some(_), _) => "working",
        (None, Some(Unread::Answer)) => "done",
        (None, Some(Unread::Failure)) => "error",
        (None, None) => "idle",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_shown_is_taken_back() {
        let title = Abilities {
            has_title: true,
            ..Abilities::default()
        };
        assert_eq!(title.restored(), RESTORE);
        let progress = Abilities {
            has_progress: true,
            ..title
        };
        assert_eq!(progress.restored(), format!("{NO_PROGRESS}{RESTORE}"));
        let all = Abilities {
            has_state: true,
            ..progress
        };
        let clear = "\x1b]7501;state=clear\x1b\\";
        assert_eq!(all.restored(), format!("{NO_PROGRESS}{RESTORE}{clear}"));
    }

    #[test]
    fn what_a_terminal_understands_is_told_by_its_variables() {
        for (variables, expected) in [
            ("TERM=xterm", "title"),
            ("TERM=dumb", ""),
            ("TERM=xterm CLAUDE_CODE_DISABLE_TERMINAL_TITLE=1", ""),
            ("TERM=xterm WT_SESSION=x", "title progress"),
            (
                "TERM=xterm TERM_PROGRAM=ghostty TERM_PROGRAM_VERSION=1.3.1",
                "title progress",
            ),
            (
                "TERM=xterm TERM_PROGRAM=ghostty TERM_PROGRAM_VERSION=1.4.0-dev",
                "title progress state",
            ),
            (
                "TERM=xterm TERM_PROGRAM=ghostty TERM_PROGRAM_VERSION=2.0",
                "title progress state",
            ),
            ("TERM=xterm TERM_PROGRAM=ghostty", "title progress"),
        ] {
            let variables = variables.split(' ').map(|it| it.split_once('=').unwrap());
            let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
            let environment = Environment::new(variables, "/work".into());
            let found = Abilities::of(&environment);
            let names = [
                (found.has_title, "title"),
                (found.has_progress, "progress"),
                (found.has_state, "state"),
            ];
            let names = names
                .into_iter()
                .filter_map(|(is, name)| is.then_some(name));
            assert_eq!(names.collect::<Vec<_>>().join(" "), expected);
        }
    }
}
