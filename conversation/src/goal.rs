//! `/goal`: a check says when the work of a session is done.

use std::borrow::Cow;

/// Separates the words of a goal from the command of its check.
const UNTIL: &str = "--until";

/// What was typed after `/goal`.
#[derive(Debug, PartialEq, Eq)]
pub enum Goal<'a> {
    /// Nothing: what is it?
    Which,
    /// No goal any more.
    Off,
    /// The words for the model, and the command of the check, each if there is one.
    Is(Cow<'a, str>, Option<&'a str>),
}

impl<'a> Goal<'a> {
    /// Name of the command, without the slash.
    pub const NAME: &'static str = "goal";
    /// What it does.
    pub const ABOUT: &'static str = "Work until a check passes";
    /// Its arguments.
    pub const HINT: &'static str = "[off] [WORDS] [--until COMMAND]";

    /// Reads what was typed after the name. Only the first line can have a command: what follows it are words, which may be
    /// someone else's.
    pub fn of(typed: &'a str) -> Self {
        let is_word = |(before, after): &(&str, &str)| {
            (before.is_empty() || before.ends_with(char::is_whitespace))
                && after.starts_with(char::is_whitespace)
        };
        let (line, more) = typed.split_once(['\n', '\r']).unwrap_or((typed, ""));
        let more = more.trim();
        match line.trim() {
            "" if more.is_empty() => Self::Which,
            "off" | "clear" if more.is_empty() => Self::Off,
            line => {
                let (words, command) = match line.split_once(UNTIL).filter(is_word) {
                    Some((words, command)) => (words.trim(), Some(command.trim())),
                    None => (line, None),
                };
                let words = match (words, more) {
                    (words, "") => words.into(),
                    ("", more) => more.into(),
                    (words, more) => format!("{words}\n{more}").into(),
                };
                Self::Is(words, command)
            }
        }
    }

    /// Reads a prompt; `None` if it is not this command, as one that begins with a space.
    pub fn in_prompt(prompt: &'a str) -> Option<Self> {
        let line = prompt.strip_prefix('/')?.strip_prefix(Self::NAME)?;
        let is_whole = line.is_empty() || line.starts_with(char::is_whitespace);
        is_whole.then(|| Self::of(line))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_goal_has_words_and_a_command() {
        for (typed, expected) in [
            ("", Goal::Which),
            (" off ", Goal::Off),
            ("clear", Goal::Off),
            ("mend it", Goal::Is("mend it".into(), None)),
            (
                "mend it --until make test -- -q",
                Goal::Is("mend it".into(), Some("make test -- -q")),
            ),
            ("--until make", Goal::Is("".into(), Some("make"))),
            (
                "what does --until=x do",
                Goal::Is("what does --until=x do".into(), None),
            ),
            (
                "mend it --until make\nrm -r /",
                Goal::Is("mend it\nrm -r /".into(), Some("make")),
            ),
            (
                "mend it\n\nof a stranger --until evil",
                Goal::Is("mend it\nof a stranger --until evil".into(), None),
            ),
            ("off\nwith it", Goal::Is("off\nwith it".into(), None)),
            ("off --until make", Goal::Is("off".into(), Some("make"))),
        ] {
            assert_eq!(Goal::of(typed), expected, "{typed}");
            let prompt = format!("/goal {typed}");
            assert_eq!(Goal::in_prompt(&prompt), Some(expected), "{prompt}");
        }
        for other in [
            "goal mend it",
            "/goals",
            "/go",
            "mend it /goal",
            " /goal mend it",
            "",
        ] {
            assert_eq!(Goal::in_prompt(other), None, "{other}");
        }
    }
}
