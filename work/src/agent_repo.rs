//! The tree that the agents of an issue work in: a repository of its own, so that nothing that they do to it reaches
//! the one of the user. It borrows the objects of that one, which the agents only read.
//!
//! A linked work tree would share references and configuration with the user's repository, and whoever may commit in
//! the one may move the branches of the other.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::artifact::FOLDER;
use crate::git::{Git, GitError, Owner};

/// What an agent may not change, for it is run with rights of the repository wherever it is pushed.
const WORKFLOWS: [&str; 2] = [".github/workflows", ".github/actions"];

/// What agents obey or run, in the tree that further agents work in.
const OBEYED: [&str; 7] = [
    ".ah",
    ".agents",
    ".claude",
    ".codex",
    ".cursor",
    ".gemini",
    ".mcp.json",
];

/// The tree of an issue.
#[derive(Debug, Clone)]
pub struct AgentRepo {
    folder: PathBuf,
    git: Git,
    objects: Vec<PathBuf>,
}

/// What a tree is made from.
#[derive(Debug, Clone, Copy)]
pub struct AgentRepoSource<'a> {
    /// Git in the user's repository.
    pub main: &'a Git,
    /// The program.
    pub program: &'a Path,
    /// The variables that git gets in the tree.
    pub variables: &'a [(String, String)],
    /// The branch that the work is for.
    pub base: &'a str,
    /// The commit that it begins at.
    pub base_commit: &'a str,
    /// The branch of the work.
    pub branch: &'a str,
}

/// Why there is no tree.
#[derive(Debug, thiserror::Error)]
pub enum AgentRepoError {
    /// Git failed.
    #[error(transparent)]
    Git(#[from] GitError),
    /// A file cannot be written or read.
    #[error("cannot lay out a tree to work in: {0}")]
    Io(#[from] io::Error),
}

impl AgentRepo {
    /// The tree below `folder`, made where there is none yet.
    ///
    /// # Errors
    ///
    /// Where it cannot be made.
    pub async fn of(folder: &Path, origin: &AgentRepoSource<'_>) -> Result<Self, AgentRepoError> {
        let path = folder.join("tree");
        let git = Git::new(
            origin.program.to_owned(),
            &path,
            Owner::Agent,
            origin.variables,
        );
        let common = origin
            .main
            .run(&["rev-parse", "--path-format=absolute", "--git-common-dir"])
            .await?;
        let common = PathBuf::from(common);
        let tree = Self {
            folder: folder.to_owned(),
            git,
            objects: object_folders(&common.join("objects")),
        };
        if !Self::is_at(folder) {
            tree.make(&common, origin).await?;
            fs::write(folder.join("ready"), "")?;
        }
        Ok(tree)
    }

    async fn make(
        &self,
        common: &Path,
        origin: &AgentRepoSource<'_>,
    ) -> Result<(), AgentRepoError> {
        let path = self.path();
        if path.exists() {
            fs::remove_dir_all(path)?;
        }
        fs::create_dir_all(path)?;
        let head = format!("--initial-branch={}", origin.branch);
        self.git
            .run(&["init", "--quiet", "--template=", &head])
            .await?;
        let own = path.join(".git");
        for folder in ["info", "objects/info"] {
            fs::create_dir_all(own.join(folder))?;
        }
        fs::write(own.join("info/exclude"), format!("/{FOLDER}/\n"))?;
        fs::write(own.join("objects/info/alternates"), self.alternates())?;
        match fs::copy(common.join("shallow"), own.join("shallow")) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.into()),
            _ => {}
        }
        let base = format!("refs/remotes/origin/{}", origin.base);
        self.git
            .run(&["update-ref", &base, origin.base_commit])
            .await?;
        let checkout = [
            "checkout",
            "--quiet",
            "-B",
            origin.branch,
            origin.base_commit,
        ];
        self.git.run(&checkout).await?;
        Ok(())
    }

    /// Removes the tree of an earlier work below `folder`, with its sessions.
    ///
    /// # Errors
    ///
    /// Where it stays.
    pub fn discard(folder: &Path) -> io::Result<()> {
        match fs::remove_dir_all(folder) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// Whether there is one below `folder`.
    pub fn is_at(folder: &Path) -> bool {
        folder.join("ready").exists()
    }

    /// Its top.
    pub fn path(&self) -> &Path {
        self.git.folder()
    }

    /// Git in it.
    pub fn git(&self) -> &Git {
        &self.git
    }

    /// The folders of objects that it borrows.
    pub fn objects(&self) -> &[PathBuf] {
        &self.objects
    }

    /// The session of the agent that is the `number`th of the work.
    pub fn session(&self, number: usize) -> PathBuf {
        self.folder.join(format!("sessions/{number}.db"))
    }

    /// Removes the sessions below `folder` from the `first` on.
    ///
    /// # Errors
    ///
    /// Where one stays.
    pub fn forget_sessions(folder: &Path, first: usize) -> io::Result<()> {
        let folder = folder.join("sessions");
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let number = name
                .split('.')
                .next()
                .and_then(|number| number.parse().ok());
            if number.is_none_or(|number: usize| number < first) {
                continue;
            }
            match entry.file_type()?.is_dir() {
                true => fs::remove_dir_all(entry.path())?,
                false => fs::remove_file(entry.path())?,
            }
        }
        Ok(())
    }

    /// The paths in it that agents only read, as far as they are there.
    pub fn workflows(&self) -> Vec<PathBuf> {
        let paths = WORKFLOWS.map(|name| self.path().join(name));
        paths.into_iter().filter(|path| path.exists()).collect()
    }

    /// Goes on in a tree in which a process was killed.
    pub fn release(&self) {
        // Git leaves it behind when it is killed, and takes it for another git that is at work.
        let _ = fs::remove_file(self.path().join(".git/index.lock"));
    }

    /// The commit that the work has come to.
    ///
    /// # Errors
    ///
    /// Where there is none.
    pub async fn head(&self) -> Result<String, GitError> {
        self.git.commit("HEAD").await
    }

    /// Why what is between `base_commit` and `head` may not be pushed, if so.
    ///
    /// # Errors
    ///
    /// Where git cannot tell.
    pub async fn fault(
        &self,
        base_commit: &str,
        head: &str,
        allow_workflows: bool,
    ) -> Result<Option<String>, AgentRepoError> {
        let alternates = fs::read_to_string(self.path().join(".git/objects/info/alternates"));
        if alternates.unwrap_or_default() != self.alternates() {
            return Ok(Some(
                "the repository borrows objects from elsewhere".to_owned(),
            ));
        }
        let is_ahead = ["merge-base", "--is-ancestor", base_commit, head];
        if !self.git.is_so(&is_ahead).await {
            return Ok(Some(
                "its commits do not go on from where the work began".to_owned(),
            ));
        }
        let words = [
            "diff",
            "--no-ext-diff",
            "--no-textconv",
            "--no-renames",
            "--name-only",
            "-z",
            base_commit,
            head,
        ];
        let changed = self.git.run(&words).await?;
        let paths = changed.split('\0').filter(|path| !path.is_empty());
        let mut refused = paths.filter_map(|path| refusal(path, allow_workflows));
        Ok(refused.next())
    }

    fn alternates(&self) -> String {
        let lines = self
            .objects
            .iter()
            .map(|path| format!("{}\n", path.display()));
        lines.collect()
    }
}

/// Why a change of this path is not pushed, if so.
fn refusal(path: &str, allow_workflows: bool) -> Option<String> {
    let is_below = |folder: &str| {
        let path = path.to_ascii_lowercase();
        path.strip_prefix(folder)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    if is_below(FOLDER) {
        return Some(format!("it commits `{path}`, which is ours"));
    }
    if OBEYED.iter().any(|name| is_below(name)) {
        return Some(format!("it changes `{path}`, which agents obey"));
    }
    let is_workflow = WORKFLOWS.iter().any(|folder| is_below(folder));
    // Who owns which code, what updates itself: these decide as well. Pages do not.
    let decides = is_below(".github") && !path.to_ascii_lowercase().ends_with(".md");
    let is_refused = (is_workflow || decides) && !allow_workflows;
    is_refused.then(|| {
        format!("it changes `{path}`, which runs with rights of the repository; --allow-workflows lets it")
    })
}

/// A folder of objects, and those that it borrows from.
fn object_folders(first: &Path) -> Vec<PathBuf> {
    let mut folders = vec![first.to_owned()];
    let mut next = 0;
    while let Some(folder) = folders.get(next).cloned() {
        let list = fs::read_to_string(folder.join("info/alternates")).unwrap_or_default();
        for line in list
            .lines()
            .filter(|line| !line.is_empty() && !line.starts_with('#'))
        {
            let other = folder.join(line);
            if !folders.contains(&other) && folders.len() < 16 {
                folders.push(other);
            }
        }
        next += 1;
    }
    folders
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_runs_with_the_rights_of_the_repository_is_not_pushed() {
        for (path, expected) in [
            ("src/main.rs", false),
            (".github/workflows/ci.yml", true),
            (".GitHub/Workflows/ci.yml", true),
            (".github/actions/x/action.yml", true),
            (".github/workflows", true),
            (".github", true),
            (".github/CODEOWNERS", true),
            (".github/README.md", false),
            (".github/workflows.md", false),
            (".githubx/a", false),
            ("o/workshop/a", false),
            ("o/work/plan/plan.md", true),
            (".claude/settings.json", true),
            (".mcp.json", true),
            (".mcp.json.md", false),
        ] {
            assert_eq!(refusal(path, false).is_some(), expected, "{path}");
        }
        assert_eq!(refusal(".github/workflows/ci.yml", true), None);
        assert!(refusal("o/work/x", true).is_some());
    }
}
