//! `/goal`: a check says when the work of a session is done.

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
    Is(&'a str, Option<&'a str>),
}

impl<'a> Goal<'a> {
    /// Name of the command, without the slash.
    pub const NAME: &'static str = "goal";
    /// What it does.
    pub const ABOUT: &'static str = "Work until a check passes";
    /// Its arguments.
    pub const HINT: &'static str = "[off] [WORDS] [--until COMMAND]";

    /// Reads what was typed after the name.
    pub fn of(typed: &'a str) -> Self {
        let is_word = |(before, after): &(&str, &str)| {
            (before.is_empty() || before.ends_with(char::is_whitespace))
                && after.starts_with(char::is_whitespace)
        };
        match typed.trim() {
            "" => Self::Which,
            "off" | "clear" => Self::Off,
            typed => match typed.split_once(UNTIL).filter(is_word) {
                Some((words, command)) => Self::Is(words.trim(), Some(command.trim())),
                None => Self::Is(typed, None),
            },
        }
    }

    /// Reads a prompt; `None` if it is not this command.
    pub fn in_prompt(prompt: &'a str) -> Option<Self> {
        let line = prompt.trim().strip_prefix('/')?.strip_prefix(Self::NAME)?;
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
            ("mend it", Goal::Is("mend it", None)),
            (
                "mend it --until make test -- -q",
                Goal::Is("mend it", Some("make test -- -q")),
            ),
            ("--until make", Goal::Is("", Some("make"))),
            (
                "what does --until=x do",
                Goal::Is("what does --until=x do", None),
            ),
            ("off --until make", Goal::Is("off", Some("make"))),
        ] {
            assert_eq!(Goal::of(typed), expected, "{typed}");
            let prompt = format!("/goal {typed}");
            assert_eq!(Goal::in_prompt(&prompt), Some(expected), "{prompt}");
        }
        for other in ["goal mend it", "/goals", "/go", "mend it /goal", ""] {
            assert_eq!(Goal::in_prompt(other), None, "{other}");
        }
    }
}
