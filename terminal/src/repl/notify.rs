//! Tells somebody who has turned to something else that the agent has finished, or waits for them. Nobody who looks at
//! the terminal is told; where it does not say whether it is looked at, whoever has not typed for a while is away.

use std::time::{Duration, Instant};

use ah_conversation::Environment;

use super::app::{App, Effect, Ending, Task, Work};
use super::view::seconds;
use ah_config::Config;
use ah_config::settings::conversation::Channel;

/// After so many seconds without a key somebody is away, where nobody says otherwise.
const AFTER: u64 = 10;
/// So much of a text is told.
const MOST: usize = 120;

/// What there is to tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum News {
    /// The agent waits for an answer.
    Waits,
    /// It has finished.
    Done,
}

impl News {
    /// What hooks call it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Waits => "permission_prompt",
            Self::Done => "idle_prompt",
        }
    }
}

/// How somebody is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notifying {
    /// The terminal's way; never `Auto`.
    channel: Channel,
    /// Whether terminals are several behind one, which has to let others' words through.
    is_tmux: bool,
    /// Whether a command is to be run besides.
    has_command: bool,
    /// After which time without a key somebody is away.
    after: Duration,
    /// What the folder is called.
    place: String,
}

impl Default for Notifying {
    fn default() -> Self {
        Self {
            channel: Channel::None,
            is_tmux: false,
            has_command: false,
            after: Duration::from_secs(AFTER),
            place: String::new(),
        }
    }
}

impl Notifying {
    /// As the settings say, and the terminal can.
    pub fn of(config: &Config) -> Self {
        let environment = &config.environment;
        let set = config.conversation.notify.as_ref();
        let set = set.map(|set| set.value.clone()).unwrap_or_default();
        let place = environment.cwd().file_name().unwrap_or_default();
        Self {
            channel: match set.channel {
                Channel::Auto => channel(environment),
                channel => channel,
            },
            is_tmux: environment.get("TMUX").is_some(),
            has_command: set.command.is_some(),
            after: Duration::from_secs(set.after.unwrap_or(AFTER)),
            place: place.to_string_lossy().into_owned(),
        }
    }
}

/// The way that a terminal is known to have, by what it says of itself.
fn channel(environment: &Environment) -> Channel {
    let is = |name: &str, values: &[&str]| {
        let value = environment.get(name).unwrap_or_default();
        values.iter().any(|start| value.starts_with(start))
    };
    if environment.get("TMUX").is_some() || is("TERM", &["screen", "tmux"]) {
        // It rings through whatever stands before it.
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

/// A question waits: tells who is away.
pub fn waits(app: &App, now: Instant) -> Vec<Effect> {
    let Some(panel) = app.questions.front() else {
        return Vec::new();
    };
    let first = panel.text.lines().find(|line| !line.trim().is_empty());
    let first = first.unwrap_or("there is a question");
    let place = &app.notifying.place;
    tell(
        app,
        News::Waits,
        &format!("waits for you in {place}: {first}"),
        now,
    )
}

/// A run has ended: tells who is away, unless they have stopped it or something follows.
pub fn done(app: &App, work: Option<&Work>, ending: &Ending, now: Instant) -> Vec<Effect> {
    let how = match ending {
        Ending::Well => "has finished",
        Ending::Failed(..) => "has failed",
        Ending::Interrupted => return Vec::new(),
    };
    let Some(work) = work.filter(|_| app.queued.is_empty()) else {
        return Vec::new();
    };
    let took = seconds(now.saturating_duration_since(work.since).as_secs());
    let place = &app.notifying.place;
    tell(
        app,
        News::Done,
        &format!("{how} in {place} after {took}"),
        now,
    )
}

fn tell(app: &App, news: News, text: &str, now: Instant) -> Vec<Effect> {
    let Notifying {
        channel,
        has_command,
        ..
    } = app.notifying;
    if !is_away(app, now) {
        return Vec::new();
    }
    let text = plain(text);
    let mut effects = Vec::new();
    if channel != Channel::None {
        effects.push(Effect::Ring(sequence(&app.notifying, &text)));
    }
    if has_command {
        effects.push(Effect::Task(Task::Notify(news, text)));
    }
    effects
}

fn is_away(app: &App, now: Instant) -> bool {
    match (app.is_looked_at, app.typed_at) {
        (Some(is_looked_at), _) => !is_looked_at,
        (None, Some(typed)) => now.saturating_duration_since(typed) >= app.notifying.after,
        (None, None) => false,
    }
}

/// A text as terminals may be told it: nothing in it ends or steers what it stands in.
fn plain(text: &str) -> String {
    let words = text.split(|c: char| c.is_control() || c.is_whitespace());
    let words: Vec<_> = words.filter(|word| !word.is_empty()).collect();
    let text = words.join(" ").replace(';', ",");
    text.chars().take(MOST).collect()
}

/// What the terminal is written.
fn sequence(notifying: &Notifying, text: &str) -> String {
    let sequence = match notifying.channel {
        // Some take a number at the beginning for another thing.
        Channel::Osc9 => format!("\x1b]9;ah {text}\x07"),
        Channel::Osc777 => format!("\x1b]777;notify;ah;{text}\x07"),
        Channel::Auto | Channel::Bell => return "\x07".to_owned(),
        Channel::None => return String::new(),
    };
    match notifying.is_tmux {
        true => format!("\x1bPtmux;{}\x1b\\", sequence.replace('\x1b', "\x1b\x1b")),
        false => sequence,
    }
}

#[cfg(test)]
mod tests {
    use super::super::history::History;
    use super::*;
    use ah_config::settings::conversation::EditorMode;

    #[test]
    fn who_looks_at_the_terminal_is_not_told() {
        let begin = Instant::now();
        let seconds = Duration::from_secs;
        for (is_looked_at, typed, now, expected) in [
            (Some(true), Some(0), 3_600, false),
            (Some(false), Some(0), 1, true),
            (Some(false), None, 1, true),
            (None, Some(0), 9, false),
            (None, Some(0), 10, true),
            (None, Some(5), 10, false),
            (None, None, 3_600, false),
        ] {
            let mut app = App::new(EditorMode::Emacs, History::default(), (80, 24), false);
            app.is_looked_at = is_looked_at;
            app.typed_at = typed.map(|typed| begin + seconds(typed));
            assert_eq!(
                is_away(&app, begin + seconds(now)),
                expected,
                "{is_looked_at:?} {typed:?} {now}"
            );
        }
    }

    #[test]
    fn strangers_words_steer_no_terminal() {
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
            let notifying = Notifying {
                channel,
                is_tmux,
                ..Notifying::default()
            };
            assert_eq!(sequence(&notifying, &plain(hostile)), expected);
        }
        assert_eq!(plain(&"long ".repeat(100)).len(), MOST);
    }

    #[test]
    fn terminals_are_known_by_what_they_say_of_themselves() {
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
