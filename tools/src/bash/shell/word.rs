//! A word of a command line.

/// A word.
#[derive(Debug, Clone)]
pub(super) struct Word {
    /// Source text, quotes included.
    pub raw: String,
    /// Text that the program receives; `None` if it is known only at run time.
    pub text: Option<String>,
    /// Constructs that the word is written with.
    pub spelling: Spelling,
}

/// Constructs that a word is written with, in ascending order of how much a shell may make of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Spelling {
    /// Plain characters and quotes only: one word, which means itself, except for `=program` in zsh.
    Literal,
    /// Also patterns and `~`: any number of file names, even ones that begin with `-`.
    Pattern,
    /// Also expansions, escapes or other special characters.
    Complex,
}

impl Word {
    /// An unknown number of unknown arguments.
    pub fn unknown_arguments() -> Self {
        Self {
            raw: String::new(),
            text: None,
            spelling: Spelling::Pattern,
        }
    }

    /// Whether it has no quotes or escapes, so that it may be a keyword.
    pub fn is_bare(&self) -> bool {
        self.text.as_deref() == Some(self.raw.as_str())
    }

    /// Whether it sets a variable if it precedes the program.
    pub fn is_assignment(&self) -> bool {
        let Some((name, _)) = self.raw.split_once('=') else {
            return false;
        };
        let name = name.strip_suffix('+').unwrap_or(name);
        let name = name.split_once('[').map_or(name, |(name, _)| name);
        let mut bytes = name.bytes();
        bytes
            .next()
            .is_some_and(|first| first.is_ascii_alphabetic() || first == b'_')
            && bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    }
}
