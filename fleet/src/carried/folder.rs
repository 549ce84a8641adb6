//! The files of a folder of the user, as they leave it, and what stays behind.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use ah_beneath::Folder;
use ah_config::Error;
use ah_conversation::Environment;
use ah_git::{Git, Owner, without_passwords};
use ah_store::SessionStore;

use super::files::{Files, LARGEST, Layer, failed, is_branch};
use super::shadow::Shadow;

/// Most names in one sentence.
const NAMED: usize = 5;
/// Beginning of a file that stands for one in the store of Git LFS.
const POINTER: &str = "^version https://git-lfs.github.com/spec/";

/// The files of a folder.
#[derive(Debug)]
pub struct Captured {
    /// What the session says of them, without the hash of the content.
    pub files: Files,
    /// The content of the only layer.
    pub content: Vec<u8>,
    /// What stays behind, a sentence for each kind.
    pub left: Vec<String>,
}

impl Captured {
    /// Makes them the files of a session.
    ///
    /// # Errors
    ///
    /// If the session was taken over or cannot be written.
    pub async fn keep(mut self, store: &SessionStore) -> Result<(), Error> {
        self.files.keep(store, Some(self.content)).await
    }
}

/// A folder of the user, and its repository if it is in one.
pub(super) struct UsersFolder {
    pub git: Git,
    pub program: PathBuf,
    /// The top of the repository, or the folder itself.
    pub top: PathBuf,
    pub is_repository: bool,
    within: String,
    pub head: Option<String>,
    pub branch: Option<String>,
}

/// Takes the files of a folder: those of its whole repository if it is in one. The folder stays as it is.
///
/// # Errors
///
/// If git fails, or there is more than can be carried.
pub async fn capture(
    environment: &Environment,
    folder: &Path,
    is_trusted: bool,
) -> Result<Captured, Error> {
    let users = UsersFolder::find(environment, folder, is_trusted).await?;
    let scratch = tempfile::tempdir()
        .map_err(|error| Error::failure(format!("cannot make a folder: {error}")))?;
    let shadow = users
        .shadow(environment, &scratch.path().join("git"))
        .await?;
    let (remote, base) = users.known_elsewhere().await;
    if let Some(base) = &base {
        shadow
            .set_base(base)
            .await
            .map_err(|error| failed(&error))?;
    }
    let mut left = Vec::new();
    if let Some(head) = &users.head {
        let all = shadow.run(&["read-tree", head]).await;
        all.map_err(|error| failed(&error))?;
    }
    let new = list(&shadow, &["--others", "--modified", "--exclude-standard"]).await?;
    let top = Folder::follow(&users.top).map_err(|error| {
        Error::failure(format!("cannot use `{}`: {error}", users.top.display()))
    })?;
    check_size(&top, &new)?;
    let ignored = ["--others", "--ignored", "--exclude-standard", "--directory"];
    let ignored = list(&shadow, &ignored).await?;
    let others = ignored.iter().filter(|name| !is_of_sessions(name));
    let others: Vec<_> = others.cloned().collect();
    left.extend(sentence("ignored", &others));
    let special = find_special(&top, &ignored);
    left.extend(sentence("neither files nor folders", &special));
    let taken = shadow.take(users.head.as_deref()).await;
    let taken = taken.map_err(|error| failed(&error))?;
    left.extend(taken.unread);
    let links = shadow.run(&["ls-files", "--stage"]).await;
    let links = links.map_err(|error| failed(&error))?;
    let mut nested: BTreeSet<_> = links
        .lines()
        .filter_map(|line| line.strip_prefix("160000 ")?.split('\t').nth(1))
        .map(|name| format!("{name}/"))
        .collect();
    nested.extend(new.into_iter().filter(|name| name.ends_with('/')));
    let nested: Vec<_> = nested.into_iter().collect();
    left.extend(sentence("nested repositories, or submodules", &nested));
    left.extend(users.pointers().await);
    let known: Vec<_> = base.as_deref().into_iter().collect();
    let bundle = shadow.bundle(&known).await;
    let content = bundle.map_err(|error| failed(&error).hint(TOO_MUCH))?;
    if let Some(path) = remote.as_deref().filter(|url| url.starts_with('/')) {
        left.push(format!(
            "the repository at `{path}`, which other machines must reach by the same path"
        ));
    }
    let layer = Layer {
        state: taken.state,
        head: users.head,
        branch: users.branch,
        content: String::new(),
    };
    Ok(Captured {
        files: Files {
            remote,
            base,
            within: users.within,
            layers: vec![layer],
            losses: 0,
        },
        content,
        left,
    })
}

const TOO_MUCH: &str =
    "push what the remote lacks, and list large files that need not be uploaded in `.gitignore`";

/// Returns the names of files in a list of git's.
async fn list(shadow: &Shadow, options: &[&str]) -> Result<Vec<String>, Error> {
    let words: Vec<_> = ["ls-files", "-z"].iter().chain(options).copied().collect();
    let listed = shadow.run(&words).await.map_err(|error| failed(&error))?;
    let names = listed.split('\0').filter(|name| !name.is_empty());
    Ok(names.map(str::to_owned).collect())
}

fn check_size(top: &Folder, names: &[String]) -> Result<(), Error> {
    let size = |name: &String| match top.look(name.as_ref()) {
        Ok(Some(found)) => found.length,
        Ok(None) | Err(_) => 0,
    };
    let mut sizes: Vec<_> = names.iter().map(|name| (size(name), name)).collect();
    let sum: u64 = sizes.iter().map(|(size, _)| size).sum();
    // What compresses well may be larger.
    if sum <= 8 * LARGEST {
        return Ok(());
    }
    sizes.sort_unstable_by(|left, right| right.cmp(left));
    let largest = sizes.iter().take(NAMED);
    let largest: Vec<_> = largest.map(|(_, name)| format!("`{name}`")).collect();
    Err(Error::failure(format!(
        "the changed and new files have {} MiB, the largest are {}",
        sum >> 20,
        largest.join(", ")
    ))
    .hint(TOO_MUCH))
}

/// Returns what is not carried of a kind: its number, and some names.
fn sentence(kind: &str, names: &[String]) -> Option<String> {
    let some: Vec<_> = names
        .iter()
        .take(NAMED)
        .map(|name| format!("`{name}`"))
        .collect();
    let more = match names.len() {
        0 => return None,
        count if count > NAMED => format!(" and {} more", count - NAMED),
        _ => String::new(),
    };
    Some(format!("{kind}: {}{more}", some.join(", ")))
}

/// Returns whether an ignored file belongs to the sessions of a folder, which are none of its files.
fn is_of_sessions(name: &str) -> bool {
    let Some((_, file)) = name.rsplit_once(".ah/") else {
        return false;
    };
    let kinds = [".db", ".lock", ".out", ".queue"];
    file.is_empty() || file == ".gitignore" || kinds.iter().any(|kind| file.contains(kind))
}

/// Finds sockets, pipes and devices, which git does not mention. Ignored folders are not looked into.
fn find_special(top: &Folder, ignored: &[String]) -> Vec<String> {
    let (mut folders, mut special) = (vec![PathBuf::new()], Vec::new());
    while let Some(below) = folders.pop() {
        let Ok(folder) = top.folder(&below) else {
            continue;
        };
        for name in folder.list().unwrap_or_default() {
            let Ok(Some(found)) = folder.status(&name) else {
                continue;
            };
            let path = below.join(&name);
            let shown = path.to_string_lossy().into_owned();
            if found.is_folder() {
                let is_ignored = ignored.iter().any(|it| *it == format!("{shown}/"));
                if name != ".git" && !is_ignored {
                    folders.push(path);
                }
            } else if !found.is_file() && !found.is_link() {
                special.push(shown);
            }
        }
    }
    special
}

impl UsersFolder {
    /// Finds the repository around a folder, if there is one. Of one that is not trusted, no program runs.
    pub(super) async fn find(
        environment: &Environment,
        folder: &Path,
        is_trusted: bool,
    ) -> Result<Self, Error> {
        let variables: Vec<_> = environment
            .for_children()
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect();
        let program = ah_git::program(environment)?;
        let folder = std::fs::canonicalize(folder).map_err(|error| {
            Error::failure(format!("cannot use `{}`: {error}", folder.display()))
        })?;
        let git = Git::new(program.clone(), &folder, Owner::User, &variables);
        let top = git.run(&["rev-parse", "--show-toplevel"]).await.ok();
        let top = top.filter(|top| !top.is_empty()).map(PathBuf::from);
        let git = git.trusted(is_trusted || top.is_none()).await;
        let git = git.map_err(|error| failed(&error))?;
        let head = match &top {
            Some(_) => git.commit("HEAD").await.ok(),
            None => None,
        };
        let branch = match &top {
            Some(_) => git
                .run(&["symbolic-ref", "--quiet", "--short", "HEAD"])
                .await
                .ok(),
            None => None,
        };
        let within = top.as_ref().and_then(|top| folder.strip_prefix(top).ok());
        Ok(Self {
            within: within
                .unwrap_or(Path::new(""))
                .to_string_lossy()
                .into_owned(),
            is_repository: top.is_some(),
            top: top.unwrap_or(folder),
            git,
            program,
            head,
            branch: branch.filter(|name| is_branch(name)),
        })
    }

    /// Returns a repository at `path` for the folder's files, which borrows the objects of the folder's own.
    pub(super) async fn shadow(
        &self,
        environment: &Environment,
        path: &Path,
    ) -> Result<Shadow, Error> {
        let shadow = Shadow::open(&self.program, path, &self.top).await;
        let shadow = shadow.map_err(|error| failed(&error))?;
        if !self.is_repository {
            return Ok(shadow);
        }
        let place = async |name: &str| {
            let words = ["rev-parse", "--path-format=absolute", "--git-path", name];
            let place = self.git.run(&words).await;
            place.map(PathBuf::from).map_err(|error| failed(&error))
        };
        let borrowed = shadow.borrow(&place("objects").await?);
        borrowed.map_err(|error| failed(&error))?;
        let (excluded, shallow) = (place("info/exclude").await?, place("shallow").await?);
        let copied = std::fs::read(excluded).map_or(Ok(()), |patterns| shadow.exclude(&patterns));
        let copied = copied.and_then(|()| match shallow.is_file() {
            true => std::fs::copy(shallow, path.join("shallow")).map(drop),
            false => Ok(()),
        });
        copied.map_err(|error| {
            Error::failure(format!("cannot write to `{}`: {error}", path.display()))
        })?;
        Ok(shadow.without(self.excludes(environment).await))
    }

    /// Returns the user's file with names of files that are ignored everywhere.
    async fn excludes(&self, environment: &Environment) -> PathBuf {
        let set = ["config", "--path", "core.excludesFile"];
        if let Ok(set) = self.git.run(&set).await {
            return PathBuf::from(set);
        }
        let folder = environment.get("XDG_CONFIG_HOME").map(PathBuf::from);
        let folder = folder.or_else(|| Some(environment.home()?.join(".config")));
        folder.map_or_else(|| PathBuf::from("/dev/null"), |it| it.join("git/ignore"))
    }

    /// Returns the address of the remote, and the newest commit of `HEAD` that it has.
    async fn known_elsewhere(&self) -> (Option<String>, Option<String>) {
        let Some(head) = &self.head else {
            return (None, None);
        };
        let remotes = self.git.run(&["remote"]).await.unwrap_or_default();
        let mut names: Vec<_> = remotes.lines().collect();
        names.sort_by_key(|name| *name != "origin");
        let Some(name) = names.first() else {
            return (None, None);
        };
        let url = self
            .git
            .run(&["config", &format!("remote.{name}.url")])
            .await;
        let Ok(url) = url else {
            return (None, None);
        };
        let remote = format!("--remotes={name}");
        let words = ["rev-list", "--boundary", head, "--not", &remote];
        let Ok(listed) = self.git.run(&words).await else {
            return (None, None);
        };
        let base = match listed.is_empty() {
            // The remote has it. Without any commit of the remote there would be all.
            true => Some(head.clone()),
            false => {
                let mut boundary = listed.lines().filter_map(|line| line.strip_prefix('-'));
                boundary.next().map(str::to_owned)
            }
        };
        match base {
            Some(base) => (Some(self.address(&url)), Some(base)),
            None => (None, None),
        }
    }

    /// Returns an address as others may have it: without a password, and from the root.
    fn address(&self, url: &str) -> String {
        if url.starts_with("http") {
            return without_passwords(url);
        }
        let is_path = url.starts_with("./") || url.starts_with("../");
        match is_path
            .then(|| std::fs::canonicalize(self.top.join(url)).ok())
            .flatten()
        {
            Some(path) => path.to_string_lossy().into_owned(),
            None => url.to_owned(),
        }
    }

    /// Returns what stays behind of Git LFS: contents that are not in the folder either.
    async fn pointers(&self) -> Option<String> {
        if !self.is_repository {
            return None;
        }
        let words = ["grep", "-lz", "-e", POINTER, "--", ":(top,attr:filter=lfs)"];
        let found = self.git.run(&words).await.unwrap_or_default();
        let names = found.split('\0').filter(|name| !name.is_empty());
        let names: Vec<_> = names.map(str::to_owned).collect();
        sentence("contents of Git LFS that are not here", &names)
    }
}
