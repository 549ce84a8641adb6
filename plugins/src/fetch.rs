//! Gets a commit of a repository that nobody has looked at: nothing of it runs, nothing else is fetched with it, and it
//! takes neither the disk nor forever.

use std::fs;
use std::path::Path;
use std::time::Duration;

use ah_config::Error;
use ah_conversation::Environment;
use ah_git::{Git, Owner, fetch_variables, program};
use tempfile::TempDir;

use super::source::GitSource;

/// Most bytes of a fetched repository, and of its files.
const MAX_BYTES: u64 = 512 << 20;
/// Interval at which a fetch's size is looked at.
const INTERVAL: Duration = Duration::from_millis(500);

/// A commit's files.
#[derive(Debug)]
pub struct Fetched {
    /// The folder with them, removed on drop.
    pub folder: TempDir,
    /// The commit.
    pub commit: String,
}

/// Fetches one commit, into a temporary folder below `place`.
///
/// # Errors
///
/// If there is no git, the repository cannot be read, or is too large.
pub async fn fetch(
    source: &GitSource,
    environment: &Environment,
    place: &Path,
) -> Result<Fetched, Error> {
    let folder = tempfile::Builder::new()
        .prefix(".fetched-")
        .tempdir_in(place);
    let folder = folder.map_err(|error| {
        Error::failure(format!("cannot write to `{}`: {error}", place.display()))
    })?;
    let git = Git::new(
        program(environment)?,
        folder.path(),
        Owner::User,
        &fetch_variables(environment),
    );
    let shown = ah_git::without_passwords(&source.url);
    let failed =
        |error: &dyn std::fmt::Display| Error::failure(format!("cannot fetch `{shown}`: {error}"));
    let run = async |words: &[&str]| git.run(words).await.map_err(|error| failed(&error.reason));
    run(&["init", "--quiet", "--template="]).await?;
    let wanted = source
        .commit
        .as_deref()
        .or(source.reference.as_deref())
        .unwrap_or("HEAD");
    let words = [
        "fetch",
        "--quiet",
        "--depth=1",
        "--no-tags",
        "--no-recurse-submodules",
        "--no-auto-maintenance",
        "--",
        &source.url,
        wanted,
    ];
    tokio::select! {
        done = run(&words) => drop(done?),
        () = grown(folder.path()) => {
            return Err(failed(&format!("it has more than {} MiB", MAX_BYTES >> 20)));
        }
    }
    let commit = git
        .commit("FETCH_HEAD")
        .await
        .map_err(|error| failed(&error.reason))?;
    if let Some(pinned) = source
        .commit
        .as_ref()
        .filter(|pinned| !pinned.eq_ignore_ascii_case(&commit))
    {
        return Err(failed(&format!("the commit is {commit}, and not {pinned}")));
    }
    let sizes = run(&["ls-tree", "-r", "--long", &commit]).await?;
    let size: u64 = sizes.lines().filter_map(size_of).sum();
    if size > MAX_BYTES {
        return Err(failed(&format!(
            "its files have more than {} MiB",
            MAX_BYTES >> 20
        )));
    }
    run(&["checkout", "--quiet", "--detach", &commit]).await?;
    let own = folder.path().join(".git");
    fs::remove_dir_all(&own).map_err(|error| failed(&error))?;
    Ok(Fetched { folder, commit })
}

/// Returns the size in a line `100644 blob ID SIZE<tab>PATH`.
fn size_of(line: &str) -> Option<u64> {
    line.split('\t')
        .next()?
        .split_whitespace()
        .nth(3)?
        .parse()
        .ok()
}

/// Returns when a folder has grown too large.
async fn grown(folder: &Path) {
    loop {
        tokio::time::sleep(INTERVAL).await;
        if size(folder) > MAX_BYTES {
            return;
        }
    }
}

fn size(folder: &Path) -> u64 {
    let mut folders = vec![folder.to_owned()];
    let mut size = 0;
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            match entry.metadata() {
                Ok(metadata) if metadata.is_dir() => folders.push(entry.path()),
                Ok(metadata) => size += metadata.len(),
                Err(_) => {}
            }
        }
    }
    size
}
