//! Git, by the program of that name, so that nothing which a repository holds is run: no hooks, no monitors, no
//! external diffs. The repository of an agent's work is a stranger's; that of the user has the user's own settings,
//! by which its remote is reached.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ah_process::{Command, Keep};

/// How long a command may take; a large repository is fetched within it.
const DEADLINE: Duration = Duration::from_secs(600);
/// What git would run, or ask, on its own.
const QUIET: [&str; 14] = [
    "-c",
    "core.hooksPath=/dev/null",
    "-c",
    "core.fsmonitor=false",
    "-c",
    "core.pager=cat",
    "-c",
    "protocol.ext.allow=never",
    "-c",
    "gc.auto=0",
    "-c",
    "submodule.recurse=false",
    "-c",
    "core.attributesFile=/dev/null",
];

/// Whose repository it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Owner {
    /// The user's: settings of user and system count, for they say how the remote is reached.
    User,
    /// An agent's: nothing counts but what we say.
    Agent,
}

/// Git in a folder.
#[derive(Debug, Clone)]
pub struct Git {
    program: PathBuf,
    folder: PathBuf,
    environment: Vec<(String, String)>,
}

/// Why git did not do what was asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`git {command}` failed: {reason}")]
pub struct GitError {
    /// The command's words.
    pub command: String,
    /// What git said last.
    pub reason: String,
}

impl Git {
    /// The program `program` in `folder`, with these variables.
    pub fn new(
        program: PathBuf,
        folder: &Path,
        owner: Owner,
        variables: &[(String, String)],
    ) -> Self {
        let own = match owner {
            Owner::User => &[] as &[_],
            Owner::Agent => &[
                ("GIT_CONFIG_GLOBAL", "/dev/null"),
                ("GIT_CONFIG_NOSYSTEM", "1"),
            ],
        };
        let always = [
            ("GIT_TERMINAL_PROMPT", "0"),
            ("GIT_OPTIONAL_LOCKS", "0"),
            ("GIT_EDITOR", "true"),
            ("LC_ALL", "C"),
        ];
        // Those that lead git elsewhere are not for us.
        let leads_elsewhere = [
            "GIT_DIR",
            "GIT_WORK_TREE",
            "GIT_INDEX_FILE",
            "GIT_EXTERNAL_DIFF",
        ];
        let added = own.iter().chain(&always);
        let mut environment: Vec<_> = variables
            .iter()
            .filter(|(name, _)| !leads_elsewhere.contains(&name.as_str()))
            .filter(|(name, _)| !added.clone().any(|(own, _)| own == name))
            .cloned()
            .collect();
        let added = added.map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        environment.extend(added);
        Self {
            program,
            folder: folder.to_owned(),
            environment,
        }
    }

    /// Where it works.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Runs `git WORDS…`; gives what it wrote to standard output, without the line's end.
    ///
    /// # Errors
    ///
    /// Where it cannot be started, or ends with another code than 0.
    pub async fn run(&self, words: &[&str]) -> Result<String, GitError> {
        let fault = |reason: String| GitError {
            command: words.join(" "),
            reason,
        };
        let command = Command {
            program: self.program.clone(),
            arguments: QUIET.iter().chain(words).map(Into::into).collect(),
            cwd: self.folder.clone(),
            environment: self.environment.clone(),
            stdin: Vec::new(),
            deadline: Some(DEADLINE),
            keep: Keep::new(PathBuf::new(), 0),
            sandbox: None,
            note: |_| None,
        };
        let started = command.converse().await;
        let (child, pipes) = started.map_err(|error| fault(error.to_string()))?;
        drop(pipes.stdin);
        let read = |mut pipe: std::io::PipeReader| {
            tokio::task::spawn_blocking(move || {
                let mut bytes = Vec::new();
                // What came before a fault is all there is to say.
                let _ = pipe.read_to_end(&mut bytes);
                String::from_utf8_lossy(&bytes).into_owned()
            })
        };
        let (out, err) = (read(pipes.stdout), read(pipes.stderr));
        let (out, err) = tokio::join!(out, err);
        let code = child.wait().await.ending.code();
        let (out, err) = (out.unwrap_or_default(), err.unwrap_or_default());
        match code {
            0 => Ok(out.trim_end_matches('\n').to_owned()),
            code => Err(fault(reason(&err, code))),
        }
    }

    /// Whether `git WORDS…` ends well.
    pub async fn is_so(&self, words: &[&str]) -> bool {
        self.run(words).await.is_ok()
    }

    /// The commit that `name` names.
    ///
    /// # Errors
    ///
    /// Where there is none.
    pub async fn commit(&self, name: &str) -> Result<String, GitError> {
        let name = format!("{name}^{{commit}}");
        self.run(&[
            "rev-parse",
            "--verify",
            "--quiet",
            "--end-of-options",
            &name,
        ])
        .await
    }
}

/// What git said last that tells something, without what may be a password in an address.
fn reason(err: &str, code: i32) -> String {
    let lines: Vec<_> = err
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.starts_with("hint:"))
        .collect();
    match lines.as_slice() {
        [] => format!("exit code {code}"),
        lines => {
            let last = &lines[lines.len().saturating_sub(4)..];
            without_passwords(&last.join("; "))
        }
    }
}

/// `https://user:secret@host` as `https://host`.
pub fn without_passwords(text: &str) -> String {
    let mut rest = text;
    let mut clean = String::new();
    while let Some(at) = rest.find("://") {
        let (before, after) = rest.split_at(at + 3);
        clean.push_str(before);
        let end = after
            .find(|c: char| c == '/' || c.is_whitespace() || matches!(c, '\'' | '"'))
            .unwrap_or(after.len());
        let host = after[..end].rfind('@').map_or(0, |sign| sign + 1);
        rest = &after[host..];
    }
    clean + rest
}

/// The repository that the address of a remote names, as `OWNER/NAME`.
pub fn repository_of(address: &str) -> Option<String> {
    let path = match address.split_once("://") {
        Some((_, rest)) => rest.split_once('/')?.1,
        // `git@host:owner/name`
        None => address.split_once(':')?.1,
    };
    let path = path.trim_matches('/');
    let path = path.strip_suffix(".git").unwrap_or(path);
    is_repository(path).then(|| path.to_owned())
}

/// Whether `name` has the form `OWNER/NAME`.
pub fn is_repository(name: &str) -> bool {
    let is_word = |word: &str| {
        !word.is_empty()
            && !word.starts_with('.')
            && word
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))
    };
    let words: Vec<_> = name.split('/').collect();
    matches!(words[..], [owner, name] if is_word(owner) && is_word(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_of_a_remote_names_the_repository() {
        for (address, expected) in [
            ("https://github.com/o/n.git", Some("o/n")),
            ("https://x:secret@github.com/o/n", Some("o/n")),
            ("git@github.com:o/n.git", Some("o/n")),
            ("ssh://git@ghe.example:22/o/n.git/", Some("o/n")),
            ("/srv/git/n.git", None),
            ("file:///srv/git/a/n.git", None),
            ("https://github.com/o", None),
            ("https://github.com/o/../n", None),
            ("", None),
        ] {
            assert_eq!(repository_of(address).as_deref(), expected, "{address}");
        }
    }

    #[test]
    fn passwords_in_addresses_are_not_repeated() {
        for (text, expected) in [
            (
                "no access to 'https://u:p@h/x'",
                "no access to 'https://h/x'",
            ),
            ("a://b c://d@e f@g", "a://b c://e f@g"),
            ("nothing", "nothing"),
        ] {
            assert_eq!(without_passwords(text), expected);
        }
    }
}
