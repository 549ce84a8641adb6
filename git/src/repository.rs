//! The state of the git repository for the prompt, read from its files. Git itself is not run: in an untrusted folder
//! its configuration may name programs to execute.

use std::fs;
use std::path::{Path, PathBuf};

/// Length of an abbreviated commit id.
const SHORT: usize = 9;
/// These files are never longer in a regular repository.
const MAX_FILE: u64 = 4 * 1024 * 1024;

/// Checked-out state and origin of a repository.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Repository {
    /// Root of the working tree.
    pub root: PathBuf,
    /// Current branch, `None` with a detached HEAD.
    pub branch: Option<String>,
    /// Current commit, abbreviated; `None` before the first one.
    pub commit: Option<String>,
    /// The URL of `origin`, without user name and password.
    pub remote: Option<String>,
}

/// Returns the repository that contains `directory`, if any. Unreadable parts are left out.
pub fn repository(directory: &Path) -> Option<Repository> {
    let root = directory
        .ancestors()
        .find(|ancestor| ancestor.join(".git").exists())?;
    let git = git_directory(&root.join(".git"))?;
    // A worktree has a HEAD of its own and shares the rest.
    let shared = match read(&git.join("commondir")) {
        Some(path) => git.join(path.trim()),
        None => git.clone(),
    };
    let head = read(&git.join("HEAD")).unwrap_or_default();
    let (branch, commit) = match head.trim().strip_prefix("ref: ") {
        Some(name) => (
            name.strip_prefix("refs/heads/").map(str::to_owned),
            resolve(&git, &shared, name),
        ),
        None => (None, Some(head.trim().to_owned())),
    };
    let commit =
        commit.filter(|id| id.len() >= SHORT && id.bytes().all(|byte| byte.is_ascii_hexdigit()));
    Some(Repository {
        root: root.to_owned(),
        branch,
        commit: commit.map(|id| id[..SHORT].to_owned()),
        remote: read(&shared.join("config"))
            .and_then(|config| origin(&config))
            .map(|url| without_credentials(&url)),
    })
}

/// Resolves `.git`: the directory itself, or a file that names it.
pub fn git_directory(dot_git: &Path) -> Option<PathBuf> {
    if dot_git.is_dir() {
        return Some(dot_git.to_owned());
    }
    let path = read(dot_git)?
        .trim()
        .strip_prefix("gitdir:")?
        .trim()
        .to_owned();
    Some(dot_git.parent()?.join(path))
}

fn resolve(git: &Path, shared: &Path, name: &str) -> Option<String> {
    let is_plain = Path::new(name)
        .components()
        .all(|part| matches!(part, std::path::Component::Normal(_)));
    if !is_plain {
        return None;
    }
    let loose = [git, shared]
        .into_iter()
        .find_map(|directory| read(&directory.join(name)));
    let packed = || {
        let packed = read(&shared.join("packed-refs"))?;
        let found = packed
            .lines()
            .find_map(|line| line.split_once(' ').filter(|(_, packed)| *packed == name));
        found.map(|(id, _)| id.to_owned())
    };
    loose.map(|id| id.trim().to_owned()).or_else(packed)
}

/// Returns `url` of the section `[remote "origin"]`.
fn origin(config: &str) -> Option<String> {
    let section = config
        .lines()
        .map(str::trim)
        .skip_while(|line| *line != "[remote \"origin\"]")
        .skip(1);
    let mut entries = section
        .take_while(|line| !line.starts_with('['))
        .filter_map(|line| line.split_once('='));
    entries
        .find(|(key, _)| key.trim() == "url")
        .map(|(_, url)| url.trim().to_owned())
}

/// Removes the credentials before the `@` of `https://user:password@host/…`; `git@host:…` stays, as it contains no
/// secret.
fn without_credentials(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else {
        return url.to_owned();
    };
    let host_end = rest.find('/').unwrap_or(rest.len());
    match rest[..host_end].rfind('@') {
        Some(at) => format!("{scheme}://{}", &rest[at + 1..]),
        None => url.to_owned(),
    }
}

fn read(path: &Path) -> Option<String> {
    let metadata = fs::metadata(path).ok()?;
    (metadata.is_file() && metadata.len() <= MAX_FILE).then(|| fs::read_to_string(path).ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "0123456789abcdef0123456789abcdef01234567";

    fn write(root: &Path, name: &str, text: &str) {
        let path = root.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    #[test]
    fn branch_commit_and_remote_are_found_from_a_subfolder() {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), ".git/HEAD", "ref: refs/heads/feature/x\n");
        write(
            folder.path(),
            ".git/packed-refs",
            &format!("# pack-refs\n{ID} refs/heads/feature/x\n"),
        );
        write(
            folder.path(),
            ".git/config",
            "[core]\n\tbare = false\n[remote \"origin\"]\n\turl = https://me:secret@example.org/a.git\n",
        );
        write(folder.path(), "src/deep/file", "");
        let repository = repository(&folder.path().join("src/deep")).unwrap();
        assert_eq!(repository.root, folder.path());
        assert_eq!(repository.branch.as_deref(), Some("feature/x"));
        assert_eq!(repository.commit.as_deref(), Some("012345678"));
        assert_eq!(
            repository.remote.as_deref(),
            Some("https://example.org/a.git")
        );
    }

    #[test]
    fn a_worktree_shares_the_main_repository() {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), "main/.git/refs/heads/side", ID);
        write(
            folder.path(),
            "main/.git/worktrees/side/HEAD",
            "ref: refs/heads/side\n",
        );
        write(
            folder.path(),
            "main/.git/worktrees/side/commondir",
            "../..\n",
        );
        write(
            folder.path(),
            "side/.git",
            "gitdir: ../main/.git/worktrees/side\n",
        );
        let repository = repository(&folder.path().join("side")).unwrap();
        assert_eq!(
            (repository.branch.as_deref(), repository.commit.as_deref()),
            (Some("side"), Some("012345678"))
        );
    }

    #[test]
    fn malformed_and_missing_files_are_ignored() {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), "secret", ID);
        write(folder.path(), ".git/HEAD", "ref: ../secret\n");
        assert_eq!(
            repository(folder.path()).unwrap(),
            Repository {
                root: folder.path().to_owned(),
                ..Repository::default()
            }
        );
        write(folder.path(), ".git/HEAD", "");
        assert_eq!(repository(folder.path()).unwrap().commit, None);
    }
}
