//! The environment variables of the process, read once by the binary and handed down as a value.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Variables with secrets whose names do not match the usual suffixes.
const ALSO_SECRET: [&str; 2] = ["ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN"];
const SECRET_ENDINGS: [&str; 6] = [
    "_API_KEY",
    "_TOKEN",
    "_SECRET",
    "_PASSWORD",
    "_ACCESS_KEY",
    "_PRIVATE_KEY",
];
/// Shorter values are not redacted: `1` is no secret and occurs everywhere.
const SHORTEST_SECRET: usize = 8;

/// Environment variables, working directory and home, as the process found them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Environment {
    variables: BTreeMap<String, String>,
    /// Additional names of secret variables.
    secrets: BTreeSet<String>,
    cwd: PathBuf,
}

impl Environment {
    /// Creates the environment from the variables and working directory of the process.
    pub fn new(variables: impl IntoIterator<Item = (String, String)>, cwd: PathBuf) -> Self {
        Self {
            variables: variables.into_iter().collect(),
            secrets: BTreeSet::new(),
            cwd,
        }
    }

    /// Returns the working directory.
    pub fn cwd(&self) -> &Path {
        &self.cwd
    }

    /// Returns the variable `name`; an empty one counts as unset.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.variables
            .get(name)
            .map(String::as_str)
            .filter(|value| !value.is_empty())
    }

    /// Returns the home directory, if known.
    pub fn home(&self) -> Option<PathBuf> {
        self.get("HOME").map(PathBuf::from)
    }

    /// Sets `name` where it is unset: for `env.d` files and the settings' `env`.
    pub fn set_default(&mut self, name: &str, value: &str) {
        if self.get(name).is_none() {
            self.variables.insert(name.to_owned(), value.to_owned());
        }
    }

    /// Returns all variables, secrets included, for programs that the user configured to receive them.
    pub fn all(&self) -> impl Iterator<Item = (&str, &str)> {
        let variables = self.variables.iter();
        variables.map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// Marks the variable `name` as secret, whatever its name.
    pub fn add_secret(&mut self, name: &str) {
        self.secrets.insert(name.to_owned());
    }

    /// Returns the variables that child processes may see: all but secrets.
    pub fn for_children(&self) -> impl Iterator<Item = (&str, &str)> {
        self.variables
            .iter()
            .filter(|(name, _)| !self.is_secret(name))
            .map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// Returns `text` with the values of secret variables replaced by their names, for logs, exports and reports.
    pub fn redact<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let mut secrets: Vec<_> = self
            .variables
            .iter()
            .filter(|(name, value)| self.is_secret(name) && value.len() >= SHORTEST_SECRET)
            .collect();
        // Longest first: one secret may be the beginning of another.
        secrets.sort_by_key(|(_, value)| std::cmp::Reverse(value.len()));
        let mut redacted = Cow::Borrowed(text);
        for (name, value) in secrets {
            if redacted.contains(value.as_str()) {
                redacted = Cow::Owned(redacted.replace(value.as_str(), &format!("[{name}]")));
            }
        }
        redacted
    }

    fn is_secret(&self, name: &str) -> bool {
        let upper = name.to_ascii_uppercase();
        self.secrets.contains(name)
            || ALSO_SECRET.contains(&upper.as_str())
            || SECRET_ENDINGS.iter().any(|ending| upper.ends_with(ending))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(variables: &[(&str, &str)]) -> Environment {
        Environment::new(
            variables
                .iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned())),
            PathBuf::new(),
        )
    }

    #[test]
    fn secrets_are_not_passed_to_children() {
        let mut environment = environment(&[
            ("PATH", "/bin"),
            ("ANTHROPIC_API_KEY", "sk-1"),
            ("GH_TOKEN", "x"),
            ("my_secret", "y"),
            ("CLIENT_SECRET", "z"),
            ("TOKENIZER", "fast"),
            ("TEAM_LOGIN", "w"),
        ]);
        environment.add_secret("TEAM_LOGIN");
        let names: Vec<_> = environment.for_children().map(|(name, _)| name).collect();
        assert_eq!(names, ["PATH", "TOKENIZER"]);
    }

    #[test]
    fn secrets_are_replaced_longest_first() {
        let environment = environment(&[
            ("A_TOKEN", "abcdefgh"),
            ("B_TOKEN", "abcdefghijkl"),
            ("C_TOKEN", "1"),
        ]);
        assert_eq!(
            environment.redact("abcdefghijkl, abcdefgh and 1"),
            "[B_TOKEN], [A_TOKEN] and 1"
        );
    }
}
