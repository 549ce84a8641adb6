//! A check of `ah doctor`.

/// Result of a check.
#[derive(Debug, PartialEq, Eq)]
pub struct Check {
    pub name: &'static str,
    pub state: CheckState,
    pub text: String,
    pub hint: Option<String>,
}

/// State of the checked item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CheckState {
    Fine,
    /// Usable, but could be better.
    Note,
    Problem,
}

impl CheckState {
    pub fn word(self) -> &'static str {
        match self {
            Self::Fine => "ok",
            Self::Note => "note",
            Self::Problem => "problem",
        }
    }
}

impl Check {
    pub fn fine(name: &'static str, text: impl Into<String>) -> Self {
        Self {
            name,
            state: CheckState::Fine,
            text: text.into(),
            hint: None,
        }
    }

    pub fn note(name: &'static str, text: impl Into<String>) -> Self {
        Self {
            state: CheckState::Note,
            ..Self::fine(name, text)
        }
    }

    pub fn problem(name: &'static str, text: impl Into<String>, hint: Option<String>) -> Self {
        Self {
            state: CheckState::Problem,
            hint,
            ..Self::fine(name, text)
        }
    }

    pub fn lines(&self) -> String {
        let mut lines = format!("{:<8} {:<12} {}\n", self.state.word(), self.name, self.text);
        if let Some(hint) = &self.hint {
            lines.push_str(&format!("{:21} hint: {hint}\n", ""));
        }
        lines
    }
}
