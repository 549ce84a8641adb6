//! A word of a command line.

/// Variables whose value a program runs: as a command line, or as a prompt in which the shell replaces commands.
const RUN: [&str; 27] = [
    "BROWSER",
    "CVS_RSH",
    "EDITOR",
    "FCEDIT",
    "GIT_ASKPASS",
    "GIT_EDITOR",
    "GIT_EXTERNAL_DIFF",
    "GIT_PAGER",
    "GIT_PROXY_COMMAND",
    "GIT_SEQUENCE_EDITOR",
    "GIT_SSH",
    "GIT_SSH_COMMAND",
    "LESSCLOSE",
    "LESSOPEN",
    "MANPAGER",
    "PAGER",
    "PROMPT_COMMAND",
    "PS0",
    "PS1",
    "PS2",
    "PS4",
    "RSYNC_RSH",
    "RUSTC_WRAPPER",
    "SSH_ASKPASS",
    "SUDO_ASKPASS",
    "SYSTEMD_PAGER",
    "VISUAL",
];

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
        self.variable().is_some()
    }

    /// Returns the name of the variable that it sets.
    fn variable(&self) -> Option<&str> {
        let (name, _) = self.raw.split_once('=')?;
        let name = name.strip_suffix('+').unwrap_or(name);
        let name = name.split_once('[').map_or(name, |(name, _)| name);
        let mut bytes = name.bytes();
        let is_name = bytes
            .next()
            .is_some_and(|first| first.is_ascii_alphabetic() || first == b'_')
            && bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        is_name.then_some(name)
    }

    /// Returns the command line that it puts into a variable whose value programs run, if it does; the line is `None`
    /// if it is known only at run time.
    pub fn assigned_line(&self) -> Option<Option<&str>> {
        self.variable().filter(|name| RUN.contains(name))?;
        let value = self.text.as_deref().and_then(|text| text.split_once('='));
        Some(value.map(|(_, line)| line))
    }
}
