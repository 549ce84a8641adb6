//! A repository beside a folder, which keeps states of the folder's files. The folder's own repository has no say in it:
//! neither its configuration nor its attributes apply, so nothing of it runs, and the files are kept byte for byte.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use ah_git::{Git, GitError, Owner, STAGED};

use super::files::LARGEST;

/// Reference to the last state.
const STATE: &str = "refs/ah/files";
/// Reference to the state that the folder has, or has had and gone on from.
const HERE: &str = "refs/ah/here";
/// Setting of its git with how often the session had lost changes when the folder had its state.
const LOSSES: &str = "ah.losses";
/// Reference to the commit that others have, too.
const BASE: &str = "refs/ah/base";
/// Attributes above all others: nothing is converted.
const ATTRIBUTES: &str = "* -text -ident -filter !eol !crlf !working-tree-encoding\n";
/// The sessions of a folder are none of its files.
const SESSIONS: &str = "**/.ah/*.db*
**/.ah/*.lock
**/.ah/*.out/
**/.ah/*.queue*
**/.ah/leaving/
**/.ah/coming/
";
/// Where git finds what it starts, whoever calls us.
pub(super) const PATH: (&str, &str) = ("PATH", "/usr/local/bin:/usr/bin:/bin");
/// Variables that make a commit the same wherever it is made.
const IDENTITY: [(&str, &str); 6] = [
    ("GIT_AUTHOR_NAME", "ah"),
    ("GIT_AUTHOR_EMAIL", "ah@localhost"),
    ("GIT_AUTHOR_DATE", "@0 +0000"),
    ("GIT_COMMITTER_NAME", "ah"),
    ("GIT_COMMITTER_EMAIL", "ah@localhost"),
    ("GIT_COMMITTER_DATE", "@0 +0000"),
];
const CONFIGURATION: [&str; 10] = [
    "-c",
    "core.fileMode=true",
    "-c",
    "core.symlinks=true",
    "-c",
    "core.autocrlf=false",
    "-c",
    "core.quotePath=false",
    "-c",
    "advice.addEmbeddedRepo=false",
];

/// A repository beside a folder.
#[derive(Debug, Clone)]
pub(super) struct Shadow {
    git: Git,
    path: PathBuf,
    /// A file with patterns of files to leave out.
    excludes: PathBuf,
}

/// A state of a folder.
#[derive(Debug)]
pub(super) struct Taken {
    /// The commit.
    pub state: String,
    /// What git could not read, in its words.
    pub unread: Option<String>,
}

impl Shadow {
    /// Returns the repository at `path` for the files in `folder`; both are made if they are missing.
    pub(super) async fn open(program: &Path, path: &Path, folder: &Path) -> Result<Self, GitError> {
        let variables: Vec<_> = IDENTITY
            .iter()
            .copied()
            .chain([PATH])
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect();
        let failed = |error: io::Error| failed(path, &error);
        fs::create_dir_all(folder).map_err(failed)?;
        fs::create_dir_all(path).map_err(failed)?;
        let shadow = Self {
            git: Git::new(program.to_owned(), folder, Owner::Agent, &variables),
            path: path.to_owned(),
            excludes: PathBuf::from("/dev/null"),
        };
        shadow.unlock();
        if !path.join("HEAD").exists() {
            let place = path.to_string_lossy();
            let words = ["init", "--quiet", "--bare", "--template=", "--", &place];
            shadow.git.run(&words).await?;
            let info = path.join("info");
            fs::create_dir_all(&info).map_err(failed)?;
            fs::write(info.join("attributes"), ATTRIBUTES).map_err(failed)?;
            fs::write(info.join("exclude"), SESSIONS).map_err(failed)?;
        }
        Ok(shadow)
    }

    /// Returns the same repository, which leaves out files that match the patterns in a file.
    pub(super) fn without(self, excludes: PathBuf) -> Self {
        Self { excludes, ..self }
    }

    /// Leaves out files that match these patterns, too.
    pub(super) fn exclude(&self, patterns: &[u8]) -> io::Result<()> {
        let all = [SESSIONS.as_bytes(), patterns].concat();
        fs::write(self.path.join("info/exclude"), all)
    }

    /// Returns its folder.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the same repository for files that are elsewhere now.
    pub(super) fn moved(&self, program: &Path, folder: &Path) -> Self {
        let variables = self.git.variables();
        Self {
            git: Git::new(program.to_owned(), folder, Owner::Agent, variables),
            ..self.clone()
        }
    }

    /// Uses the objects of another repository, too.
    pub(super) fn borrow(&self, objects: &Path) -> Result<(), GitError> {
        let file = self.path.join("objects/info/alternates");
        let line = [objects.as_os_str().as_encoded_bytes(), b"\n"].concat();
        fs::create_dir_all(self.path.join("objects/info"))
            .and_then(|()| fs::write(file, line))
            .map_err(|error| failed(&self.path, &error))
    }

    /// Runs git on this repository and the folder's files.
    pub(super) async fn run(&self, words: &[&str]) -> Result<String, GitError> {
        let directory = format!("--git-dir={}", self.path.display());
        let tree = format!("--work-tree={}", self.git.folder().display());
        let excludes = format!("core.excludesFile={}", self.excludes.display());
        let own = [directory.as_str(), &tree, "-c", &excludes];
        let all = CONFIGURATION.iter().copied().chain(own);
        let all: Vec<_> = all.chain(words.iter().copied()).collect();
        let result = self.git.run(&all).await;
        result.map_err(|error| GitError {
            command: words.join(" "),
            ..error
        })
    }

    /// Returns whether it has a commit with its history and its files. A fetch that was ended in the midst leaves commits
    /// without them.
    pub(super) async fn has(&self, commit: &str) -> bool {
        let all = ["rev-list", "--quiet", "--objects", commit];
        // What a reference leads to is complete.
        let known = ["--not", "--all", "--alternate-refs"];
        self.run(&[&all[..], &known].concat()).await.is_ok()
    }

    /// Fetches a commit and its history from a repository at an address, as the user who has access to it.
    pub(super) async fn fetch_base(
        &self,
        users: &Git,
        url: &str,
        commit: &str,
    ) -> Result<(), GitError> {
        let directory = format!("--git-dir={}", self.path.display());
        let words = [&[directory.as_str()][..], &fetch(url, commit)].concat();
        users.run(&words).await.map_err(|error| GitError {
            command: format!("fetch {}", ah_git::without_passwords(url)),
            ..error
        })?;
        self.set_base(commit).await
    }

    /// Says that others have a commit, which is here.
    pub(super) async fn set_base(&self, commit: &str) -> Result<(), GitError> {
        self.run(&["update-ref", BASE, commit]).await.map(drop)
    }

    /// Takes the commit `head`, and what it needs, from a repository on this machine.
    pub(super) async fn fetch(&self, repository: &Path, head: &str) -> Result<(), GitError> {
        let fetched = self.run(&fetch(&repository.to_string_lossy(), head)).await;
        fetched.map(drop)
    }

    /// Takes the state of the folder's files, but for those that are ignored. `head` is a commit that is here.
    pub(super) async fn take(&self, head: Option<&str>) -> Result<Taken, GitError> {
        self.unlock();
        let staged = self.run(&STAGED).await?;
        let all = Git::add_all(&["--ignore-errors"], &staged);
        let all: Vec<_> = all.iter().map(String::as_str).collect();
        let added = self.run(&all).await;
        let unread = match added {
            Ok(_) => None,
            // All others are in.
            Err(error) if error.code == Some(1) => Some(error.reason),
            Err(error) => return Err(error),
        };
        let tree = self.run(&["write-tree"]).await?;
        let mut words = vec!["commit-tree", &tree, "-m", "files"];
        words.extend(head.iter().flat_map(|head| ["-p", head]));
        let state = self.run(&words).await?;
        self.run(&["update-ref", STATE, &state]).await?;
        Ok(Taken { state, unread })
    }

    /// Returns the last state as a bundle, without what the commits in `known` have.
    pub(super) async fn bundle(&self, known: &[&str]) -> Result<Vec<u8>, GitError> {
        let file = self.path.join("layer.bundle");
        let place = file.to_string_lossy();
        let known: Vec<_> = known.iter().map(|commit| format!("^{commit}")).collect();
        let mut words = vec!["bundle", "create", "--quiet", &place, STATE];
        words.extend(known.iter().map(String::as_str));
        self.run(&words).await?;
        let size = fs::metadata(&file).map_err(|error| failed(&file, &error))?;
        if size.len() > LARGEST {
            let _ = fs::remove_file(&file);
            return Err(GitError {
                command: "bundle".to_owned(),
                reason: format!(
                    "the changes have {} MiB, and at most {} MiB can be carried",
                    size.len() >> 20,
                    LARGEST >> 20
                ),
                code: None,
            });
        }
        let content = fs::read(&file).map_err(|error| failed(&file, &error))?;
        let _ = fs::remove_file(&file);
        Ok(content)
    }

    /// Adds the state in a bundle.
    pub(super) async fn add(&self, state: &str, bundle: &[u8]) -> Result<(), GitError> {
        let file = self.path.join("layer.bundle");
        fs::write(&file, bundle).map_err(|error| failed(&file, &error))?;
        let refs = format!("+{STATE}:{STATE}");
        self.run(&fetch(&file.to_string_lossy(), &refs)).await?;
        let _ = fs::remove_file(&file);
        match self.run(&["rev-parse", "--verify", STATE]).await? == state {
            true => Ok(()),
            false => Err(GitError {
                command: "fetch".to_owned(),
                reason: format!("a layer has another state than {state}"),
                code: None,
            }),
        }
    }

    /// Says that `state` is the last one, which is here.
    pub(super) async fn set_state(&self, state: &str) -> Result<(), GitError> {
        self.run(&["update-ref", STATE, state]).await.map(drop)
    }

    /// Gives the folder the files of a state; files that it does not know stay.
    pub(super) async fn lay(&self, state: &str) -> Result<(), GitError> {
        self.run(&["read-tree", "--reset", "-u", state])
            .await
            .map(drop)
    }

    /// Returns the state that the folder has, or has gone on from.
    pub(super) async fn here(&self) -> Option<(String, u32)> {
        let state = self.run(&["rev-parse", "--verify", "--quiet", HERE]).await;
        let losses = self.run(&["config", "--get", LOSSES]).await;
        let losses = losses.ok().and_then(|text| text.trim().parse().ok());
        Some((state.ok()?, losses.unwrap_or_default()))
    }

    /// Says which state the folder has, and how often the session had lost changes by then.
    pub(super) async fn set_here(&self, here: Option<(&str, u32)>) -> Result<(), GitError> {
        let Some((state, losses)) = here else {
            return self.run(&["update-ref", "-d", HERE]).await.map(drop);
        };
        self.run(&["config", LOSSES, &losses.to_string()]).await?;
        self.run(&["update-ref", HERE, state]).await.map(drop)
    }

    /// Removes the locks of a git that was killed. There is one user at a time.
    fn unlock(&self) {
        for name in ["index", STATE, HERE, BASE] {
            let _ = fs::remove_file(self.path.join(format!("{name}.lock")));
        }
    }

    /// Forgets which files the folder has, so that all are written.
    pub(super) fn forget_files(&self) {
        let _ = fs::remove_file(self.path.join("index"));
    }
}

/// Returns the words that fetch `what` from a repository or a bundle, and nothing else.
pub(super) fn fetch<'a>(place: &'a str, what: &'a str) -> [&'a str; 9] {
    [
        "fetch",
        "--quiet",
        "--no-tags",
        "--no-recurse-submodules",
        "--no-auto-maintenance",
        "--no-write-fetch-head",
        "--",
        place,
        what,
    ]
}

fn failed(path: &Path, error: &io::Error) -> GitError {
    GitError {
        command: "init".to_owned(),
        reason: format!("cannot use `{}`: {error}", path.display()),
        code: None,
    }
}
