//! Runs git so that nothing in a repository is executed: no hooks, file system monitors or external diffs. In
//! repositories of agents all other configuration is ignored; in the user's repository it applies, since it defines how
//! remotes are reached.

use std::collections::BTreeSet;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ah_process::{Command, Keep};

/// Time limit of a command, long enough to fetch a large repository.
const DEADLINE: Duration = Duration::from_secs(600);
/// Variable with the protocols that git may fetch by.
const ALLOWED: &str = "GIT_ALLOW_PROTOCOL";
/// Disables everything that git would run or ask for on its own.
const QUIET: [&str; 16] = [
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
    // Older versions serve no commit by its id.
    "-c",
    "protocol.version=2",
];

/// Lists what is in the index, for [`Git::add_all`].
pub const STAGED: [&str; 3] = ["ls-files", "--stage", "-z"];

/// Option of `git status`: repositories within this one are not looked into. What their configuration names would run, and
/// they may be an agent's.
pub const NOT_BELOW: &str = "--ignore-submodules=dirty";

/// Owner of a repository, which determines the configuration that applies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Owner {
    /// The user: system and user configuration apply, since they define how remotes are reached.
    User,
    /// An agent: only the repository's own configuration and our overrides apply.
    Agent,
}

/// Git in a directory.
#[derive(Debug, Clone)]
pub struct Git {
    program: PathBuf,
    folder: PathBuf,
    environment: Vec<(String, String)>,
}

/// Failure of a git command.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`git {command}` failed: {reason}")]
pub struct GitError {
    /// Arguments of the command.
    pub command: String,
    /// Last lines of git's error output.
    pub reason: String,
    /// Exit code, if git was started.
    pub code: Option<i32>,
}

impl GitError {
    /// Returns whether the remote was reached, and refused what was pushed.
    pub fn is_refusal(&self) -> bool {
        self.reason.contains("[remote rejected]")
    }

    /// Returns advice for the user, if the reason is a known one.
    pub fn hint(&self) -> Option<&'static str> {
        let says = |words: &[&str]| words.iter().any(|word| self.reason.contains(word));
        if says(&["couldn't find remote ref", "Couldn't find remote ref"]) {
            Some("push a first commit, or name another branch with `--base`")
        } else if says(&[
            "could not read Username",
            "Authentication failed",
            "Permission denied",
            "403",
            "correct access rights",
        ]) {
            Some(
                "git needs access to `origin`, for pushing too: `git push --dry-run origin HEAD` shows whether it has",
            )
        } else {
            None
        }
    }
}

impl Git {
    /// Returns git at `program`, to run in `folder` with these variables.
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
            // What is looked at is what is pushed.
            ("GIT_NO_REPLACE_OBJECTS", "1"),
            ("GIT_GRAFT_FILE", "/dev/null"),
            ("LC_ALL", "C"),
        ];
        // Variables that would redirect git to another repository or program.
        let redirects = |name: &str| {
            name == "GIT_EXTERNAL_DIFF" || ah_conversation::Environment::is_git_place(name)
        };
        let added = own.iter().chain(&always);
        let environment: Vec<_> = variables
            .iter()
            .filter(|(name, _)| !redirects(name))
            .filter(|(name, _)| !added.clone().any(|(own, _)| own == name))
            .cloned()
            .chain(
                added
                    .clone()
                    .map(|(name, value)| ((*name).to_owned(), (*value).to_owned())),
            )
            .collect();
        Self {
            program,
            folder: folder.to_owned(),
            environment,
        }
    }

    /// Returns the same git in another folder.
    #[must_use]
    pub fn in_folder(&self, folder: &Path) -> Self {
        Self {
            folder: folder.to_owned(),
            ..self.clone()
        }
    }

    /// Returns the same git for a repository that the user trusts, or not. Of one that is not trusted, no program runs that its
    /// configuration names for the content of files, or to fetch; and nothing is fetched, but see [`Git::beside`].
    ///
    /// # Errors
    ///
    /// If its configuration cannot be read.
    pub async fn trusted(mut self, is_trusted: bool) -> Result<Self, GitError> {
        if is_trusted {
            return Ok(self);
        }
        let filters = [
            "config",
            "--null",
            "--name-only",
            "--get-regexp",
            "^filter[.]",
        ];
        let (_, names) = self.exit(&filters).await?;
        let drivers = names
            .split('\0')
            .filter_map(|name| Some(name.rsplit_once('.')?.0));
        let drivers: BTreeSet<&str> = drivers.collect();
        let none = drivers.iter().flat_map(|driver| {
            [
                ("clean", ""),
                ("smudge", ""),
                ("process", ""),
                ("required", "false"),
            ]
            .map(|(key, value)| (format!("{driver}.{key}"), value))
        });
        let of_fetches = [
            ("core.alternateRefsCommand", "true"),
            ("fetch.bundleURI", ""),
        ]
        .map(|(key, value)| (key.to_owned(), value));
        let mut own = vec![
            ("GIT_NO_LAZY_FETCH".to_owned(), "1".to_owned()),
            (ALLOWED.to_owned(), String::new()),
        ];
        let mut count = 0;
        for (key, value) in none.chain(of_fetches) {
            own.push((format!("GIT_CONFIG_KEY_{count}"), key));
            own.push((format!("GIT_CONFIG_VALUE_{count}"), value.to_owned()));
            count += 1;
        }
        own.push(("GIT_CONFIG_COUNT".to_owned(), count.to_string()));
        self.environment
            .retain(|(name, _)| !own.iter().any(|(known, _)| known == name));
        self.environment.extend(own);
        Ok(self)
    }

    /// Returns the same git, which fetches from repositories on this machine, whatever else it may fetch from, and from no
    /// others.
    #[must_use]
    pub fn beside(&self) -> Self {
        let mut git = self.clone();
        git.environment.retain(|(name, _)| name != ALLOWED);
        git.environment
            .push((ALLOWED.to_owned(), "file".to_owned()));
        git
    }

    /// Returns the words with which git takes all files but those of repositories within this one, of which it has the
    /// commit already. `staged` is the output of [`STAGED`].
    pub fn add_all(options: &[&str], staged: &str) -> Vec<String> {
        let below = staged.split('\0').filter_map(|entry| {
            let path = entry.strip_prefix("160000 ")?.split_once('\t')?.1;
            Some(format!(":(exclude,top,literal){path}"))
        });
        let all = [&["add", "--all"], options, &["--", ":(top)"]].concat();
        all.into_iter().map(str::to_owned).chain(below).collect()
    }

    /// Returns the environment of git.
    pub fn variables(&self) -> &[(String, String)] {
        &self.environment
    }

    /// Returns the directory that git runs in.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Runs `git WORDS…` and returns its standard output, without the final newline.
    ///
    /// # Errors
    ///
    /// If git cannot be started, or exits with a code other than 0.
    pub async fn run(&self, words: &[&str]) -> Result<String, GitError> {
        match self.finish(words).await? {
            (0, out, _) => Ok(out),
            (code, _, err) => Err(GitError {
                command: words.join(" "),
                reason: reason(&err, code),
                code: Some(code),
            }),
        }
    }

    /// Runs `git WORDS…` and returns its exit code, and its standard output without the final newline.
    ///
    /// # Errors
    ///
    /// If git cannot be started.
    pub async fn exit(&self, words: &[&str]) -> Result<(i32, String), GitError> {
        let (code, out, _) = self.finish(words).await?;
        Ok((code, out))
    }

    async fn finish(&self, words: &[&str]) -> Result<(i32, String, String), GitError> {
        let git_error = |reason: String| GitError {
            command: words.join(" "),
            reason,
            code: None,
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
            bounds: None,
            note: |_| None,
        };
        let started = command.converse().await;
        let (child, pipes) = started.map_err(|error| git_error(error.to_string()))?;
        drop(pipes.stdin);
        let read = |mut pipe: std::io::PipeReader| {
            tokio::task::spawn_blocking(move || {
                let mut bytes = Vec::new();
                // After a read error, the output so far is used.
                let _ = pipe.read_to_end(&mut bytes);
                String::from_utf8_lossy(&bytes).into_owned()
            })
        };
        let (out, err) = (read(pipes.stdout), read(pipes.stderr));
        let (out, err) = tokio::join!(out, err);
        let code = child.wait().await.ending.code();
        let (out, err) = (out.unwrap_or_default(), err.unwrap_or_default());
        Ok((code, out.trim_end_matches('\n').to_owned(), err))
    }

    /// Returns whether `git WORDS…` exits with code 0.
    pub async fn succeeds(&self, words: &[&str]) -> bool {
        self.run(words).await.is_ok()
    }

    /// Returns the commit ID that `name` refers to.
    ///
    /// # Errors
    ///
    /// If there is no such commit.
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

/// Returns the last relevant lines of git's error output, without passwords in URLs.
fn reason(err: &str, code: i32) -> String {
    let lines: Vec<_> = err
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.starts_with("hint:"))
        .collect();
    match lines.as_slice() {
        [] => format!("exit code {code}"),
        lines => {
            let last = &lines[lines.len().saturating_sub(6)..];
            without_passwords(&last.join("; "))
        }
    }
}

/// Removes user and password from URLs: `https://user:secret@host` becomes `https://host`.
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

/// Splits a remote's address into its host, with its port unless that is SSH's, and the path there.
fn host_and_path(address: &str) -> Option<(&str, &str)> {
    let (place, path) = match address.split_once("://") {
        Some(("file", _)) => return None,
        Some((_, rest)) => rest.split_once('/')?,
        // `git@host:owner/name`
        None => address.split_once(':')?,
    };
    let host = place.rsplit_once('@').map_or(place, |(_, host)| host);
    let is_web = address.starts_with("http");
    let host = match host.split_once(':') {
        Some((name, _)) if !is_web => name,
        _ => host,
    };
    (!host.is_empty()).then_some((host, path))
}

/// Returns the host in a remote's address.
pub fn host_of(address: &str) -> Option<String> {
    Some(host_and_path(address)?.0.to_ascii_lowercase())
}

/// Returns the repository in a remote's address, as `OWNER/NAME`.
pub fn repository_of(address: &str) -> Option<String> {
    let (_, path) = host_and_path(address)?;
    let path = path.trim_matches('/');
    let name = path.strip_suffix(".git").unwrap_or(path);
    is_repository(name).then(|| name.to_owned())
}

/// Returns whether `name` has the form `OWNER/NAME`; on GitLab the owner can be a group within others.
pub fn is_repository(name: &str) -> bool {
    let is_word = |word: &str| {
        !word.is_empty()
            && !word.starts_with('.')
            && word
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))
    };
    let words: Vec<_> = name.split('/').collect();
    (2..=20).contains(&words.len()) && words.into_iter().all(is_word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_repository_is_parsed_from_a_remote_address() {
        let at_github = Some("github.com");
        for (address, host, expected) in [
            ("https://github.com/o/n.git", at_github, Some("o/n")),
            ("https://x:secret@github.com/o/n", at_github, Some("o/n")),
            ("git@github.com:o/n.git", at_github, Some("o/n")),
            (
                "ssh://git@ghe.example:22/o/n.git/",
                Some("ghe.example"),
                Some("o/n"),
            ),
            (
                "http://git.example:3000/o/n",
                Some("git.example:3000"),
                Some("o/n"),
            ),
            (
                "git@gitlab.com:a/b/c/n.git",
                Some("gitlab.com"),
                Some("a/b/c/n"),
            ),
            ("/srv/git/n.git", None, None),
            ("file:///srv/git/a/n.git", None, None),
            ("https://github.com/o", at_github, None),
            ("https://github.com/o/../n", at_github, None),
            ("", None, None),
        ] {
            assert_eq!(repository_of(address).as_deref(), expected, "{address}");
            assert_eq!(host_of(address).as_deref(), host, "{address}");
        }
    }

    #[test]
    fn passwords_are_removed_from_urls() {
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
