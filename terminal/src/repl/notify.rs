//! Notifies a user who is away that the agent has finished or waits for an answer. The user is away if the terminal has
//! no focus; if it does not report focus, if no key was pressed for a while.

use std::time::{Duration, Instant};

use ah_conversation::Environment;

use super::ending::Ending;
use crate::print::elapsed;
use ah_config::Sourced;
use ah_config::settings::conversation::{Channel, Notify};

/// Default time in seconds without a key after which the user is away.
const AFTER: u64 = 10;
/// Longest text of a notification, in characters.
const MOST: usize = 120;

/// Reason of a notification.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotificationKind {
    /// The agent waits for an answer.
    Waiting,
    /// The agent has finished.
    Done,
}

impl NotificationKind {
    /// Returns its name in hooks.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Waiting => "permission_prompt",
            Self::Done => "idle_prompt",
        }
    }
}

/// A notification to a user who is away.
#[derive(Debug, PartialEq, Eq)]
pub struct Notification {
    /// Its reason.
    pub kind: NotificationKind,
    /// Its text, safe for a terminal.
    pub text: String,
    /// Sequence to write to the terminal, if it is notified.
    pub sequence: Option<String>,
    /// Whether the user's command is run.
    pub has_command: bool,
}

/// Settings of notifications.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Settings {
    /// Way of the terminal; never `Auto`.
    channel: Channel,
    /// Whether tmux is in between, which has to pass the sequence on.
    is_tmux: bool,
    /// Whether a command is run too.
    has_command: bool,
    /// Time without a key after which the user is away.
    after: Duration,
    /// Name of the folder.
    folder: String,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            channel: Channel::None,
            is_tmux: false,
            has_command: false,
            after: Duration::from_secs(AFTER),
            folder: String::new(),
        }
    }
}

/// Decides whether the user is notified, and how.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Notifier {
    settings: Settings,
    /// Whether the terminal has the focus, once it has reported that.
    pub is_focused: Option<bool>,
    /// Time of the last key.
    pub typed_at: Option<Instant>,
}

impl Notifier {
    /// Returns the notifier that the settings ask for and the terminal supports.
    pub fn new(environment: &Environment, notify: Option<&Sourced<Notify>>) -> Self {
        let notify = notify
            .map(|notify| notify.value.clone())
            .unwrap_or_default();
        let folder = environment.cwd().file_name().unwrap_or_default();
        let settings = Settings {
            channel: match notify.channel {
                Channel::Auto => channel(environment),
                channel => channel,
            },
            is_tmux: environment.get("TMUX").is_some(),
            has_command: notify.command.is_some(),
            after: Duration::from_secs(notify.after.unwrap_or(AFTER)),
            folder: folder.to_string_lossy().into_owned(),
        };
        Self {
            settings,
            ..Self::default()
        }
    }

    /// Returns the notification of a question, whose head is given.
    pub fn waiting(&self, head: &str, now: Instant) -> Option<Notification> {
        let first = ah_conversation::neutralise(head).replace('\n', " ");
        let folder = &self.settings.folder;
        let text = format!("is waiting for you in {folder}: {first}");
        self.notification(NotificationKind::Waiting, &text, now)
    }

    /// Returns the notification of the end of a run that began at `since`; none if the user has stopped it.
    pub fn done(&self, since: Instant, ending: &Ending, now: Instant) -> Option<Notification> {
        let outcome = match ending {
            Ending::Well => "has finished",
            Ending::Failed(..) => "has failed",
            Ending::Interrupted | Ending::Left => return None,
        };
        let took = elapsed(now.saturating_duration_since(since).as_secs());
        let text = format!("{outcome} in {} after {took}", self.settings.folder);
        self.notification(NotificationKind::Done, &text, now)
    }

    fn notification(
        &self,
        kind: NotificationKind,
        text: &str,
        now: Instant,
    ) -> Option<Notification> {
        if !self.is_away(now) {
            return None;
        }
        let text = plain(text);
        let has_channel = self.settings.channel != Channel::None;
        Some(Notification {
            kind,
            sequence: has_channel.then(|| sequence(&self.settings, &text)),
            text,
            has_command: self.settings.has_command,
        })
    }

    fn is_away(&self, now: Instant) -> bool {
        match (self.is_focused, self.typed_at) {
            (Some(is_focused), _) => !is_focused,
            (None, Some(typed)) => now.saturating_duration_since(typed) >= self.settings.after,
            (None, None) => false,
        }
    }
}

/// Returns the channel of a terminal, by the variables it sets.
fn channel(environment: &Environment) -> Channel {
    let is = |name: &str, values: &[&str]| {
        let value = environment.get(name).unwrap_or_default();
        values.iter().any(|start| value.starts_with(start))
    };
    if environment.get("TMUX").is_some() || is("TERM", &["screen", "tmux"]) {
        // A bell reaches the outer terminal.
        Channel::Bell
    } else if is("TERM_PROGRAM", &["iTerm.app", "WarpTerminal"]) || is("TERM", &["xterm-kitty"]) {
        Channel::Osc9
    } else if is("TERM_PROGRAM", &["ghostty", "WezTerm"])
        || is("TERM", &["foot", "rxvt-unicode"])
        || environment.get("VTE_VERSION").is_some()
    {
        Channel::Osc777
    } else {
        Channel::Bell
    }
}

/// Returns a text without control characters and semicolons, which would end the sequence it stands in.
fn plain(text: &str) -> String {
    let words: Vec<_> = text
        .split(|c: char| c.is_control() || c.is_whitespace())
        .filter(|word| !word.is_empty())
        .collect();
    let text = words.join(" ").replace(';', ",");
    text.chars().take(MOST).collect()
}

/// Returns the sequence that makes the terminal notify.
fn sequence(settings: &Settings, text: &str) -> String {
    let sequence = match settings.channel {
        // Some terminals give a number at the beginning another meaning.
        Channel::Osc9 => format!("\x1b]9;ah {text}\x07"),
        Channel::Osc777 => format!("\x1b]777;notify;ah;{text}\x07"),
        Channel::Auto | Channel::Bell => return "\x07".to_owned(),
        Channel::None => return String::new(),
    };
    if settings.is_tmux {
        format!("\x1bPtmux;{}\x1b\\", sequence.replace('\x1b', "\x1b\x1b"))
    } else {
        sequence
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_at_the_terminal_is_not_notified() {
        let begin = Instant::now();
        let seconds = Duration::from_secs;
        for (is_focused, typed, now, expected) in [
            (Some(true), Some(0), 3_600, false),
            (Some(false), Some(0), 1, true),
            (Some(false), None, 1, true),
            (None, Some(0), 9, false),
            (None, Some(0), 10, true),
            (None, Some(5), 10, false),
            (None, None, 3_600, false),
        ] {
            let notifier = Notifier {
                is_focused,
                typed_at: typed.map(|typed| begin + seconds(typed)),
                ..Notifier::default()
            };
            assert_eq!(
                notifier.is_away(begin + seconds(now)),
                expected,
                "{is_focused:?} {typed:?} {now}"
            );
        }
    }

    #[test]
    fn foreign_text_cannot_inject_sequences() {
        let hostile = "a\x1b]0;title\x07;b\u{9c}\n\tc\x1b\\";
        for (channel, is_tmux, expected) in [
            (Channel::Bell, false, "\x07"),
            (Channel::None, false, ""),
            (Channel::Osc9, false, "\x1b]9;ah a ]0,title ,b c \\\x07"),
            (
                Channel::Osc777,
                false,
                "\x1b]777;notify;ah;a ]0,title ,b c \\\x07",
            ),
            (
                Channel::Osc9,
                true,
                "\x1bPtmux;\x1b\x1b]9;ah a ]0,title ,b c \\\x07\x1b\\",
            ),
        ] {
            let settings = Settings {
                channel,
                is_tmux,
                ..Settings::default()
            };
            assert_eq!(sequence(&settings, &plain(hostile)), expected);
        }
        assert_eq!(plain(&"long ".repeat(100)).len(), MOST);
    }

    #[test]
    fn terminals_are_recognised_by_their_variables() {
        for (variables, expected) in [
            (&[] as &[(&str, &str)], Channel::Bell),
            (&[("TERM_PROGRAM", "iTerm.app")], Channel::Osc9),
            (&[("TERM", "xterm-kitty")], Channel::Osc9),
            (&[("TERM", "foot-extra")], Channel::Osc777),
            (&[("VTE_VERSION", "7600")], Channel::Osc777),
            (
                &[("TERM_PROGRAM", "ghostty"), ("TMUX", "/tmp/t,1,0")],
                Channel::Bell,
            ),
        ] {
            let variables = variables.iter();
            let variables =
                variables.map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
            let environment = Environment::new(variables, "/".into());
            assert_eq!(channel(&environment), expected);
        }
    }
}
