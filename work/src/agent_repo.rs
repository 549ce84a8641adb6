//! Repository that the agents of an issue work in. It is separate from the user's, and holds only what the base commit
//! consists of: what is stashed, not pushed or only in a log of references is none of an agent's business.
//!
//! A linked worktree would not do: it shares references and configuration, so that an agent could move the user's
//! branches. Neither would borrowed objects: all of the user's could be listed and read.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use ah_conversation::{Steered, steered_by};

use crate::artifact::FOLDER;
use ah_git::{Git, GitError, Owner};

/// Directories whose content runs with the repository's permissions once pushed.
const WORKFLOWS: [&str; 2] = [".github/workflows", ".github/actions"];

/// Repository of an issue's agents.
#[derive(Debug, Clone)]
pub struct AgentRepo {
    folder: PathBuf,
    git: Git,
}

/// Parameters for creating the repository.
#[derive(Debug, Clone, Copy)]
pub struct AgentRepoSource<'a> {
    /// Git in the user's repository.
    pub main: &'a Git,
    /// Path of the git executable.
    pub program: &'a Path,
    /// Environment of git in the agents' repository.
    pub variables: &'a [(String, String)],
    /// Base branch.
    pub base: &'a str,
    /// Commit of the base branch.
    pub base_commit: &'a str,
    /// Commit that the work starts from: that of the base, or of the branch if it exists.
    pub start_commit: &'a str,
    /// Branch for the commits.
    pub branch: &'a str,
}

/// Error of setting up the repository.
#[derive(Debug, thiserror::Error)]
pub enum AgentRepoError {
    /// Git failed.
    #[error(transparent)]
    Git(#[from] GitError),
    /// A file cannot be read or written.
    #[error("cannot create a repository for the agents: {0}")]
    Io(#[from] io::Error),
}

impl AgentRepo {
    /// Opens the repository below `folder`, and creates it if necessary.
    ///
    /// # Errors
    ///
    /// If it cannot be created.
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
        let repo = Self {
            folder: folder.to_owned(),
            git,
        };
        if !Self::is_at(folder) {
            repo.make(&common, origin).await?;
            fs::write(folder.join("ready"), "")?;
        }
        Ok(repo)
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
        fs::create_dir_all(own.join("info"))?;
        fs::write(own.join("info/exclude"), format!("/{FOLDER}/\n"))?;
        // The base commit, its history, and the tags in it. A shallow repository is as shallow here.
        let refs = format!("{}:refs/remotes/origin/{}", origin.base_commit, origin.base);
        let common = common.to_string_lossy();
        let fetch = [
            "fetch",
            "--quiet",
            "--update-shallow",
            "--no-recurse-submodules",
            "--no-write-fetch-head",
            &common,
            &refs,
            origin.start_commit,
        ];
        // The user's settings say whether the repository may be read. There is nothing of an agent here yet.
        let variables = origin.variables;
        let users = Git::new(origin.program.to_owned(), path, Owner::User, variables);
        users.run(&fetch).await?;
        let checkout = [
            "checkout",
            "--quiet",
            "-B",
            origin.branch,
            origin.start_commit,
        ];
        self.git.run(&checkout).await?;
        Ok(())
    }

    /// Removes the repository and the sessions below `folder`.
    ///
    /// # Errors
    ///
    /// If they cannot be removed.
    pub fn discard(folder: &Path) -> io::Result<()> {
        match fs::remove_dir_all(folder) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// Returns whether there is a complete repository below `folder`.
    pub fn is_at(folder: &Path) -> bool {
        folder.join("ready").exists()
    }

    /// Returns the top-level directory of its work tree.
    pub fn path(&self) -> &Path {
        self.git.folder()
    }

    /// Returns git in this repository.
    pub fn git(&self) -> &Git {
        &self.git
    }

    /// Returns the session database of phase number `number`.
    pub fn session(&self, number: usize) -> PathBuf {
        self.folder.join(format!("sessions/{number}.db"))
    }

    /// Removes the session databases below `folder` from number `first` on.
    ///
    /// # Errors
    ///
    /// If one cannot be removed.
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
            if entry.file_type()?.is_dir() {
                fs::remove_dir_all(entry.path())?;
            } else {
                fs::remove_file(entry.path())?;
            }
        }
        Ok(())
    }

    /// Returns the existing directories that agents must not write.
    pub fn workflows(&self) -> Vec<PathBuf> {
        let paths = WORKFLOWS.map(|name| self.path().join(name));
        paths.into_iter().filter(|path| path.exists()).collect()
    }

    /// Removes a lock left behind by a killed git process.
    pub fn release(&self) {
        // Git would take it for the lock of a running process.
        let _ = fs::remove_file(self.path().join(".git/index.lock"));
    }

    /// Returns the current commit.
    ///
    /// # Errors
    ///
    /// If there is none.
    pub async fn head(&self) -> Result<String, GitError> {
        self.git.commit("HEAD").await
    }

    /// Takes in a newer commit of the base branch, for the agent to merge.
    ///
    /// # Errors
    ///
    /// If git fails.
    pub async fn take_in(&self, main: &Git, commit: &str, base: &str) -> Result<(), GitError> {
        self.fetch(main, &format!("+{commit}:refs/remotes/origin/{base}"))
            .await
    }

    /// Discards what was changed since `commit`.
    ///
    /// # Errors
    ///
    /// If git fails.
    pub async fn back_to(&self, commit: &str) -> Result<(), GitError> {
        let reset = ["reset", "--quiet", "--hard", commit];
        self.git.run(&reset).await.map(drop)
    }

    /// Returns whether one of these files has the marker of a conflict in the current commit.
    ///
    /// # Errors
    ///
    /// If git fails.
    pub async fn has_markers(&self, files: &[String]) -> Result<bool, GitError> {
        let mut grep = vec![
            "--literal-pathspecs",
            "grep",
            "-q",
            "-e",
            "^<<<<<<< ",
            "HEAD",
            "--",
        ];
        grep.extend(files.iter().map(String::as_str));
        Ok(!files.is_empty() && self.git.exit(&grep).await?.0 == 0)
    }

    /// Continues at another commit of the user's repository.
    ///
    /// # Errors
    ///
    /// If git fails.
    pub async fn move_to(&self, main: &Git, commit: &str) -> Result<(), GitError> {
        self.fetch(main, commit).await?;
        self.back_to(commit).await
    }

    /// Fetches `what` from the user's repository.
    async fn fetch(&self, main: &Git, what: &str) -> Result<(), GitError> {
        let common = ["rev-parse", "--path-format=absolute", "--git-common-dir"];
        let common = main.run(&common).await?;
        let fetch = [
            "fetch",
            "--quiet",
            "--update-shallow",
            "--no-tags",
            "--no-recurse-submodules",
            "--no-write-fetch-head",
            &common,
            what,
        ];
        self.git.run(&fetch).await.map(drop)
    }

    /// Fetches the commits of `head` into the user's repository, without a reference to them.
    ///
    /// # Errors
    ///
    /// If git fails, or the repository was changed to borrow objects from elsewhere.
    pub async fn hand_over(&self, main: &Git, head: &str) -> Result<(), AgentRepoError> {
        // It would serve the objects of any repository of the user.
        let borrowed = self.path().join(".git/objects/info/alternates");
        if fs::symlink_metadata(borrowed).is_ok() {
            let reason = "the agents' repository was changed to borrow objects from elsewhere";
            return Err(io::Error::other(reason).into());
        }
        let path = self.path().to_string_lossy();
        let fetch = [
            "fetch",
            "--quiet",
            "--no-tags",
            "--no-recurse-submodules",
            "--no-write-fetch-head",
            &path,
            head,
        ];
        main.run(&fetch).await?;
        Ok(())
    }
}

/// Returns why the commits between `base_commit` and `head` must not be pushed, if so. `merged` are later commits of the
/// base, of which some may be merged in them. `main` is the user's repository, from which they are pushed: what is
/// judged is what is sent.
///
/// # Errors
///
/// If git fails.
pub async fn push_refusal(
    main: &Git,
    base_commit: &str,
    merged: &[String],
    head: &str,
    allow_workflows: bool,
) -> Result<Option<String>, GitError> {
    let is_ahead = ["merge-base", "--is-ancestor", base_commit, head];
    if !main.succeeds(&is_ahead).await {
        return Ok(Some(
            "its commits are not based on the commit that the work started from".to_owned(),
        ));
    }
    // Every commit is pushed, also one whose changes a later one takes back. Each is compared with the base: a merge
    // can bring back what an ancestor of the base had.
    let excluded: Vec<_> = merged.iter().map(|commit| format!("^{commit}")).collect();
    let start = format!("^{base_commit}");
    let mut range = vec!["rev-list", head, &start];
    range.extend(excluded.iter().map(String::as_str));
    let commits = main.run(&range).await?;
    for commit in commits.lines() {
        let tree = people_tree(main, base_commit, merged, commit).await?;
        let words = [
            "diff-tree",
            "-r",
            "--no-renames",
            "--ignore-submodules=none",
            "--name-only",
            "-z",
            &tree,
            commit,
        ];
        let changed = main.run(&words).await?;
        let paths = changed.split('\0').filter(|path| !path.is_empty());
        let mut refused = paths.filter_map(|path| refusal(path, allow_workflows));
        if let Some(reason) = refused.next() {
            return Ok(Some(reason));
        }
    }
    Ok(None)
}

/// Returns what people have made of the files that an agent's commit begins with: the start of the work, with the newest
/// commit of the base that is merged in it. An agent's part of a merge is what differs from git's own.
async fn people_tree(
    main: &Git,
    start: &str,
    merged: &[String],
    commit: &str,
) -> Result<String, GitError> {
    for base in merged.iter().rev() {
        let is_in = ["merge-base", "--is-ancestor", base, commit];
        if !main.succeeds(&is_in).await {
            continue;
        }
        let merge = ["merge-tree", "--write-tree", "--no-messages", start, base];
        let (code, out) = main.exit(&merge).await?;
        let tree = out.lines().next().unwrap_or_default();
        if matches!(code, 0 | 1) && !tree.is_empty() {
            return Ok(tree.to_owned());
        }
    }
    Ok(start.to_owned())
}

/// Returns why a change of this path must not be pushed, if so.
fn refusal(path: &str, allow_workflows: bool) -> Option<String> {
    let is_below = |folder: &str| {
        let path = path.to_ascii_lowercase();
        path.strip_prefix(folder)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    if is_below(FOLDER) {
        return Some(format!("it commits `{path}`, which is reserved"));
    }
    let steered = steered_by(Path::new(path));
    let kind = match steered {
        Some(Steered::Agents) => Some("agents"),
        Some(Steered::Editors) => Some("editors"),
        Some(Steered::Hooks) => Some("hooks"),
        Some(Steered::Containers) => Some("containers"),
        Some(Steered::Git | Steered::Shells | Steered::Builds | Steered::Packages) | None => None,
    };
    if let Some(kind) = kind {
        return Some(format!("it changes `{path}`, which controls {kind}"));
    }
    let is_workflow = steered == Some(Steered::Builds);
    // CODEOWNERS, Dependabot settings and similar files have effects too; Markdown pages have not.
    let has_effects = is_below(".github") && !path.to_ascii_lowercase().ends_with(".md");
    let is_refused = (is_workflow || has_effects) && !allow_workflows;
    is_refused.then(|| {
        format!("it changes `{path}`, which runs with the repository's permissions; --allow-workflows permits it")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_with_effects_outside_the_sandbox_are_not_pushed() {
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
            ("sub/.claude/settings.json", true),
            (".vscode/tasks.json", true),
            ("opencode.json", true),
            (".devcontainer/devcontainer.json", true),
            (".husky/pre-commit", true),
            (".gitlab-ci.yml", true),
            (".circleci/config.yml", true),
            (".gitea/workflows/a.yml", true),
            ("Jenkinsfile", true),
            (".bashrc", false),
            (".gitmodules", false),
        ] {
            assert_eq!(refusal(path, false).is_some(), expected, "{path}");
        }
        assert_eq!(refusal(".github/workflows/ci.yml", true), None);
        assert!(refusal("o/work/x", true).is_some());
    }

    #[test]
    fn no_file_that_steers_programs_is_pushed() {
        for name in ah_conversation::steering_names() {
            let said = format!("it changes `a/b/c/{name}`, which controls ");
            let reason = refusal(&format!("a/b/c/{name}"), true).unwrap_or_default();
            assert!(reason.starts_with(&said), "{name}: {reason}");
        }
    }
}
