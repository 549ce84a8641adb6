//! The environment variables of the process, read once by the binary and handed down as a value.

mod secret;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde_json::Value;

/// Variables by which git is told another repository than that of its working directory, or another part of it. Git sets
/// them for its hooks, and those that they start.
const GIT_PLACE: [&str; 13] = [
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_COMMON_DIR",
    "GIT_DIR",
    "GIT_GRAFT_FILE",
    "GIT_IMPLICIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_INTERNAL_SUPER_PREFIX",
    "GIT_NAMESPACE",
    "GIT_OBJECT_DIRECTORY",
    "GIT_PREFIX",
    "GIT_QUARANTINE_PATH",
    "GIT_SHALLOW_FILE",
    "GIT_WORK_TREE",
];
/// Shorter values are not redacted: `1` is no secret and occurs everywhere.
const SHORTEST_SECRET: usize = 8;
/// Of a secret of several lines, words of this length are also redacted alone: a diff has something before each line.
const SECRET_WORD: usize = 24;

/// Environment variables, working directory and home, as the process found them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Environment {
    variables: BTreeMap<String, String>,
    /// Additional names of secret variables.
    secrets: BTreeSet<String>,
    /// Names of variables that child processes see although they look like secrets.
    passed: BTreeSet<String>,
    /// Variables that tell git what it would not find from the working directory.
    git_place: Vec<(String, String)>,
    cwd: PathBuf,
}

impl Environment {
    /// Creates the environment from the variables and working directory of the process.
    pub fn new(variables: impl IntoIterator<Item = (String, String)>, cwd: PathBuf) -> Self {
        Self {
            variables: variables.into_iter().collect(),
            secrets: BTreeSet::new(),
            passed: BTreeSet::new(),
            git_place: Vec::new(),
            cwd,
        }
    }

    /// Returns the same environment with this working directory, in which no variable of git's names a repository.
    #[must_use]
    pub fn within(self, cwd: PathBuf) -> Self {
        Self {
            cwd,
            git_place: Vec::new(),
            ..self
        }
    }

    /// Returns the same environment with variables that tell git what it would not find from the working directory, but of
    /// the repository that is there.
    #[must_use]
    pub fn with_git_place(self, git_place: Vec<(String, String)>) -> Self {
        Self { git_place, ..self }
    }

    /// Returns these variables, for commands that work in that repository and nowhere else.
    pub fn git_place(&self) -> &[(String, String)] {
        &self.git_place
    }

    /// Whether the variable `name` leads git to another repository than that of its working directory.
    pub fn is_git_place(name: &str) -> bool {
        GIT_PLACE.contains(&name)
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

    /// Returns whether the home directory is `folder`, or lies in it.
    pub fn has_home_in(&self, folder: &Path) -> bool {
        self.home().is_some_and(|home| home.starts_with(folder))
    }

    /// Sets `name` where it is unset: for `env.d` files and the settings' `env`.
    pub fn set_default(&mut self, name: &str, value: &str) {
        if self.get(name).is_none() {
            self.variables.insert(name.to_owned(), value.to_owned());
        }
    }

    /// Sets a variable.
    pub fn set(&mut self, name: &str, value: &str) {
        self.variables.insert(name.to_owned(), value.to_owned());
    }

    /// Unsets a variable.
    pub fn unset(&mut self, name: &str) {
        self.variables.remove(name);
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

    /// Lets child processes see the variable `name`, even if it looks like a secret: the user has named it.
    pub fn pass(&mut self, name: &str) {
        self.passed.insert(name.to_owned());
    }

    /// Returns the variables that child processes may see: all but secrets and the repositories of git's hooks, unless the
    /// user has named them.
    pub fn for_children(&self) -> impl Iterator<Item = (&str, &str)> {
        let is_withheld = |name: &str| self.is_secret(name) || Self::is_git_place(name);
        self.variables
            .iter()
            .filter(move |(name, _)| !is_withheld(name) || self.passed.contains(*name))
            .map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// Returns `text` with the values of secret variables replaced by their names, for logs, exports and reports. Values are
    /// also found where they are in JSON, or in Rust's debug form, with their quotes and line breaks escaped.
    pub fn redact<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let mut redacted = Cow::Borrowed(text);
        for (name, value) in self.secrets() {
            if redacted.contains(&*value) {
                redacted = Cow::Owned(redacted.replace(&*value, &format!("[{name}]")));
            }
        }
        redacted
    }

    /// Returns where the end of `text` begins that may be the first part of a secret value, whose rest follows in another
    /// text; the length of `text` if there is none.
    pub fn safe_length(&self, text: &str) -> usize {
        let secrets = self.secrets();
        // The longest comes first, and must not be whole.
        let longest = secrets.first().map_or(0, |(_, value)| value.len());
        let from = (text.len() + 1).saturating_sub(longest);
        let begins = |at: &usize| {
            let end = &text[*at..];
            let mut values = secrets.iter().map(|(_, value)| value);
            values.any(|value| value.len() > end.len() && value.starts_with(end))
        };
        let mut starts = text.char_indices().map(|(at, _)| at);
        starts
            .find(|at| *at >= from && begins(at))
            .unwrap_or(text.len())
    }

    /// Returns the names and values of secret variables, each value in all forms, the longest first: one may be the
    /// beginning of another.
    fn secrets(&self) -> Vec<(&str, Cow<'_, str>)> {
        let variables = self.variables.iter();
        let secrets = variables
            .filter(|(name, value)| value.len() >= SHORTEST_SECRET && self.is_secret(name));
        let mut forms: Vec<(&str, Cow<'_, str>)> = Vec::new();
        for (name, value) in secrets {
            let escaped = [
                Value::from(value.as_str()).to_string(),
                format!("{value:?}"),
            ];
            let mut own = vec![Cow::Borrowed(value.as_str())];
            for form in escaped {
                let form = Cow::Owned(form[1..form.len() - 1].to_owned());
                if !own.contains(&form) {
                    own.push(form);
                }
            }
            if value.contains('\n') {
                let words = value.split_whitespace();
                own.extend(
                    words
                        .filter(|it| it.len() >= SECRET_WORD)
                        .map(Cow::Borrowed),
                );
            }
            forms.extend(own.into_iter().map(|form| (name.as_str(), form)));
        }
        forms.sort_by_key(|(_, value)| std::cmp::Reverse(value.len()));
        forms
    }

    /// Whether the variable `name` holds a secret, by its name or by its value.
    pub fn is_secret(&self, name: &str) -> bool {
        let is_value = |value: &String| secret::is_value(name, value);
        self.secrets.contains(name)
            || secret::is_name(name)
            || self.variables.get(name).is_some_and(is_value)
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
            ("DATABASE_URL", "postgres://app:hunter2@db.example/app"),
            ("GIT_DIR", "/else/.git"),
            ("GIT_INDEX_FILE", ".git/index"),
        ]);
        environment.add_secret("TEAM_LOGIN");
        let names = |environment: &Environment| -> Vec<String> {
            let names = environment.for_children();
            names.map(|(name, _)| name.to_owned()).collect()
        };
        assert_eq!(names(&environment), ["PATH", "TOKENIZER"]);
        environment.pass("GH_TOKEN");
        assert_eq!(names(&environment), ["GH_TOKEN", "PATH", "TOKENIZER"]);
        assert!(environment.is_secret("GH_TOKEN"), "it is still not shown");
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

    #[test]
    fn secrets_are_found_escaped_and_in_pieces() {
        let key = "BEGIN \"KEY\"\nabc\\def\u{1}\nEND";
        let environment = environment(&[("A_KEY", "unrelated"), ("PRIVATE_KEY", key)]);
        for text in [
            key.to_owned(),
            Value::from(key).to_string(),
            format!("{key:?}"),
            format!("{:?}", ["x", key]),
        ] {
            let redacted = environment.redact(&text).into_owned();
            assert!(redacted.contains("[PRIVATE_KEY]"), "{redacted}");
            assert!(!redacted.contains("abc"), "{redacted}");
        }
        let lines = ["MIIEvQIBADANBgkqhkiG9w0BAQEF", "AASCBKcwggSjAgEAAoIBAQDUx"];
        let key = format!(
            "-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----\n",
            lines.join("\n")
        );
        let with_lines = self::environment(&[("PRIVATE_KEY", &key)]);
        assert_eq!(
            with_lines.redact(&format!("-{}\n+{}\n", lines[0], lines[1])),
            "-[PRIVATE_KEY]\n+[PRIVATE_KEY]\n"
        );
        for (text, expected) in [
            ("", 0),
            ("nothing", 7),
            ("the BEGIN", 4),
            ("the BEGIN \"K", 4),
            ("the BEGIN \"x", 12),
            ("ä BEGIN \\\"KEY", 3),
        ] {
            assert_eq!(environment.safe_length(text), expected, "{text}");
        }
    }
}
