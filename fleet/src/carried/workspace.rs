//! The folder that a worker makes of a session's files, and the folder that they come home to.

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};

use ah_beneath::Folder;
use ah_config::Error;
use ah_conversation::{Environment, Record, SessionId, SharedState as _, Store as _};
use ah_git::{Git, Owner, fetch_variables};
use ah_store::SessionStore;
use tokio::sync::Mutex;

use super::files::{Files, Layer, failed, is_branch, strange};
use super::folder::UsersFolder;
use super::shadow::{PATH, Shadow, fetch};

/// Name of the folder with the files.
const FILES: &str = "files";
/// Most layers before one takes the place of all.
const MOST_LAYERS: usize = 64;
/// Name of the session's note that says, if it is not empty, that the session may be ahead of its stored files.
const AHEAD: &str = "files.ahead";

/// The files of a session on this machine.
#[derive(Debug)]
pub struct Workspace {
    place: Place,
    /// What the session says of them.
    files: Mutex<Files>,
    /// Whether the session may have been ahead of its stored files when this was opened, and its files are here.
    is_ahead: bool,
}

/// Where they are.
#[derive(Debug)]
struct Place {
    program: PathBuf,
    environment: Environment,
    shadow: Shadow,
    /// The top of the files.
    top: PathBuf,
}

impl Workspace {
    /// Makes the files of a session anew in `folder`, unless they are there. If the session is ahead of them, the files say
    /// so ([`Files::told`]).
    ///
    /// # Errors
    ///
    /// If there is no git, or the files cannot be fetched or written.
    pub async fn open(
        environment: &Environment,
        mut files: Files,
        folder: &Path,
        store: &SessionStore,
    ) -> Result<Self, Error> {
        let top = folder.join(FILES);
        let program = ah_git::program(environment)?;
        let place = Place {
            shadow: Shadow::open(&program, &folder.join("git"), folder)
                .await
                .map_err(|error| failed(&error))?,
            program,
            environment: environment.clone(),
            top: top.clone(),
        };
        let state = last(&files)?.state.clone();
        let is_here = place.shadow.here().await == Some((state, files.losses)) && top.is_dir();
        let mut is_ahead = store
            .note(AHEAD)
            .await?
            .is_some_and(|note| !note.is_empty());
        let place = if is_here {
            place.at(&top)
        } else {
            if is_ahead {
                files.losses = files.losses.saturating_add(1);
                files.keep(store, None).await?;
                store.append(vec![Self::ahead(false)]).await?;
                is_ahead = false;
            }
            place.make(&files, store, folder, &top).await?
        };
        Ok(Self {
            place,
            files: Mutex::new(files),
            is_ahead,
        })
    }

    /// Whether the session may have been ahead of its stored files when this was opened.
    pub(super) fn is_ahead(&self) -> bool {
        self.is_ahead
    }

    /// Returns the record by which a session says whether it may be ahead of its stored files.
    pub(super) fn ahead(is_ahead: bool) -> Record {
        let note = if is_ahead { "ahead" } else { "" };
        Record::Note(AHEAD.to_owned(), note.to_owned())
    }

    /// Returns what the model is told of the files; `None` if nothing was lost.
    pub async fn told(&self) -> Option<String> {
        self.files.lock().await.told()
    }

    /// Returns the folder to work in.
    ///
    /// # Errors
    ///
    /// If it cannot be made. An agent may have put a link in its place, and the next one would work where that leads.
    pub async fn folder(&self) -> Result<PathBuf, Error> {
        let within = self.files.lock().await.within.clone();
        let folder = self.place.top.join(&within);
        // Git knows no empty folders.
        let made = Folder::follow(&self.place.top)
            .and_then(|top| top.make_folders(within.as_ref(), 0o777));
        match made {
            Ok(_) => Ok(folder),
            Err(error) => Err(unwritable(&folder, &error)),
        }
    }

    /// Stores the files at the end of a run: what it has changed is stored, and nothing runs any more.
    ///
    /// # Errors
    ///
    /// As [`Workspace::keep`].
    pub async fn close(&self, store: &SessionStore) -> Result<(), Error> {
        self.keep(store).await?;
        Ok(store.append(vec![Self::ahead(false)]).await?)
    }

    /// Stores a layer if the files have changed.
    ///
    /// # Errors
    ///
    /// If git fails, or the session was taken over.
    pub async fn keep(&self, store: &SessionStore) -> Result<(), Error> {
        // One at a time.
        let mut files = self.files.lock().await;
        let (head, branch) = self.place.head().await?;
        let taken = self.place.shadow.take(head.as_deref()).await;
        let taken = taken.map_err(|error| failed(&error))?;
        let mut next = files.clone();
        let former = next.layers.last_mut().ok_or_else(strange)?;
        if former.state == taken.state {
            former.branch = branch;
            if next != *files {
                next.keep(store, None).await?;
                *files = next;
            }
            return Ok(());
        }
        if next.layers.len() >= MOST_LAYERS {
            // What has changed since the first one, which may be large, is one layer.
            next.layers.truncate(1);
        }
        let former = next.layers.last().map(|layer| layer.state.as_str());
        let known: Vec<_> = next.base.as_deref().into_iter().chain(former).collect();
        let content = self.place.shadow.bundle(&known).await;
        let content = content.map_err(|error| failed(&error))?;
        next.layers.push(Layer {
            state: taken.state.clone(),
            head,
            branch,
            content: String::new(),
        });
        next.keep(store, Some(content)).await?;
        *files = next;
        let here = self
            .place
            .shadow
            .set_here(Some((&taken.state, files.losses)))
            .await;
        here.map_err(|error| failed(&error))
    }
}

impl Place {
    fn at(self, top: &Path) -> Self {
        Self {
            shadow: self.shadow.moved(&self.program, top),
            top: top.to_owned(),
            ..self
        }
    }

    /// Makes the files in a folder that takes the place of `top` when it is complete.
    async fn make(
        self,
        files: &Files,
        store: &SessionStore,
        folder: &Path,
        top: &Path,
    ) -> Result<Self, Error> {
        self.shadow
            .set_here(None)
            .await
            .map_err(|error| failed(&error))?;
        self.gather(files, store).await?;
        let around = Folder::follow(folder).map_err(|error| unwritable(folder, &error))?;
        let (name, drafted) = (OsStr::new(FILES), OsStr::new("files.new"));
        let cleared = around
            .remove_all(drafted)
            .and_then(|()| around.remove_all(name))
            .and_then(|()| around.create_folder(drafted, 0o777));
        cleared.map_err(|error| unwritable(folder, &error))?;
        let draft = self.at(&folder.join(drafted));
        draft.shadow.forget_files();
        draft.fill(files).await?;
        let renamed = around.rename(drafted, name);
        renamed.map_err(|error| unwritable(top, &error))?;
        let made = draft.at(top);
        let here = made
            .shadow
            .set_here(Some((&last(files)?.state, files.losses)))
            .await;
        here.map_err(|error| failed(&error))?;
        Ok(made)
    }

    /// Gets all commits that the files need.
    async fn gather(&self, files: &Files, store: &SessionStore) -> Result<(), Error> {
        let shadow = &self.shadow;
        if let Some(base) = &files.base {
            if shadow.has(base).await {
                shadow
                    .set_base(base)
                    .await
                    .map_err(|error| failed(&error))?;
            } else if let Some(url) = &files.remote {
                let variables = fetch_variables(&self.environment);
                let path = shadow.path();
                let users = Git::new(self.program.clone(), path, Owner::User, &variables);
                let fetched = shadow.fetch_base(&users, url, base).await;
                fetched.map_err(|error| {
                    failed(&error).hint(
                        "this machine must be able to clone the repository, as git is set up here",
                    )
                })?;
            }
        }
        for layer in &files.layers {
            if shadow.has(&layer.state).await {
                let set = shadow.set_state(&layer.state).await;
                set.map_err(|error| failed(&error))?;
            } else {
                let content = store.kept(&layer.content).await?;
                let added = shadow.add(&layer.state, &content).await;
                added.map_err(|error| failed(&error))?;
            }
        }
        Ok(())
    }

    /// Makes the files, and a repository if they are in one, in a folder that has none. Of its files those go that the shadow
    /// has looked at.
    async fn fill(&self, files: &Files) -> Result<(), Error> {
        let layer = last(files)?;
        let git = self.own_git();
        if layer.head.is_some() || layer.branch.is_some() {
            let run = async |words: &[&str]| git.run(words).await.map_err(|error| failed(&error));
            run(&["init", "--quiet", "--template="]).await?;
            if let Some(url) = &files.remote {
                run(&["config", "remote.origin.url", url]).await?;
                let all = "+refs/heads/*:refs/remotes/origin/*";
                run(&["config", "remote.origin.fetch", all]).await?;
            }
            if let Some(head) = &layer.head {
                fetch_from(&git, &self.shadow, head).await?;
            }
            point(&git, layer, true).await?;
        }
        let laid = self.shadow.lay(&layer.state).await;
        laid.map_err(|error| failed(&error))?;
        forget_staged(&git, layer).await
    }

    /// Returns git in the folder, whose repository is an agent's.
    fn own_git(&self) -> Git {
        let (name, value) = PATH;
        let variables = [(name.to_owned(), value.to_owned())];
        Git::new(self.program.clone(), &self.top, Owner::Agent, &variables)
    }

    /// Returns the commit and the branch that are checked out; their commits are in the shadow then. A repository that
    /// could show what is elsewhere on this machine counts as none.
    async fn head(&self) -> Result<(Option<String>, Option<String>), Error> {
        let own = self.top.join(".git");
        let repository = Folder::follow(&self.top).and_then(|top| top.folder(".git".as_ref()));
        if !repository.and_then(|it| is_alone(&it)).unwrap_or(false) {
            return Ok((None, None));
        }
        let git = self.own_git();
        let directory = format!("--git-dir={}", own.display());
        let words = [&directory, "symbolic-ref", "--quiet", "--short", "HEAD"];
        let branch = git.run(&words).await.ok();
        let branch = branch.filter(|name| is_branch(name));
        let words = [
            &directory,
            "rev-parse",
            "--verify",
            "--quiet",
            "HEAD^{commit}",
        ];
        let Ok(head) = git.run(&words).await else {
            return Ok((None, branch));
        };
        if !self.shadow.has(&head).await {
            let fetched = self.shadow.fetch(&own, &head).await;
            fetched.map_err(|error| failed(&error))?;
        }
        Ok((Some(head), branch))
    }
}

/// Returns whether a repository is a folder that refers to no other place: no links, and no borrowed objects.
fn is_alone(repository: &Folder) -> io::Result<bool> {
    for elsewhere in ["commondir", "objects/info/alternates"] {
        if repository.look(elsewhere.as_ref())?.is_some() {
            return Ok(false);
        }
    }
    let mut folders = vec![PathBuf::new()];
    while let Some(below) = folders.pop() {
        let folder = repository.folder(&below)?;
        for name in folder.list()? {
            match folder.status(&name)? {
                Some(found) if found.is_folder() => folders.push(below.join(name)),
                Some(found) if !found.is_file() => return Ok(false),
                _ => {}
            }
        }
    }
    Ok(true)
}

/// The folder of the user that a session's files come to.
pub struct Home {
    users: UsersFolder,
    folder: PathBuf,
    is_new: bool,
}

impl Home {
    /// Returns the folder if nothing is lost there: it is new or empty, or its files are those of one of the layers. Of one
    /// that is not trusted, no program runs. `begun` says of one that was being filled when that was cut off whether it was
    /// new.
    ///
    /// # Errors
    ///
    /// If it has other files.
    pub async fn find(
        environment: &Environment,
        files: &Files,
        folder: &Path,
        is_trusted: bool,
        begun: Option<bool>,
    ) -> Result<Self, Error> {
        let made = std::fs::create_dir_all(folder).and_then(|()| Folder::follow(folder)?.list());
        let names = made.map_err(|error| unwritable(folder, &error))?;
        let users = UsersFolder::find(environment, folder, is_trusted).await?;
        // Sessions do not count.
        let is_new = names.iter().all(|name| name == ah_config::places::SESSIONS);
        let home = Self {
            users,
            folder: folder.to_owned(),
            is_new: begun.unwrap_or(is_new),
        };
        if home.is_new || begun.is_some() {
            return Ok(home);
        }
        let scratch = tempfile::tempdir().map_err(|error| unwritable(folder, &error))?;
        let shadow = home
            .users
            .shadow(environment, &scratch.path().join("git"))
            .await?;
        let taken = shadow.take(home.users.head.as_deref()).await;
        let taken = taken.map_err(|error| failed(&error))?;
        match files.layers.iter().any(|layer| layer.state == taken.state) {
            true => Ok(home),
            false => Err(Error::failure(format!(
                "the files in `{}` differ from those of the session",
                folder.display()
            ))
            .hint("`--folder NEW` recreates them in a new folder")),
        }
    }

    /// Returns whether it is new or empty.
    pub fn is_new(&self) -> bool {
        self.is_new
    }

    /// Gives the folder the session's files. Repeated after it was cut off, it finishes.
    ///
    /// # Errors
    ///
    /// If git fails, or the repository cannot be fetched.
    pub async fn receive(
        self,
        environment: &Environment,
        files: &Files,
        store: &SessionStore,
        scratch: &Path,
    ) -> Result<(), Error> {
        let layer = last(files)?;
        let shadow = match self.is_new {
            true => Shadow::open(&self.users.program, &scratch.join("git"), &self.folder)
                .await
                .map_err(|error| failed(&error))?,
            false => self.users.shadow(environment, &scratch.join("git")).await?,
        };
        let place = Place {
            program: self.users.program.clone(),
            environment: environment.clone(),
            top: if self.is_new {
                self.folder.clone()
            } else {
                self.users.top.clone()
            },
            shadow,
        };
        place.gather(files, store).await?;
        if self.is_new {
            place.shadow.forget_files();
            return place.fill(files).await;
        }
        // The files as they are now are the ones that may go.
        let now = place.shadow.take(self.users.head.as_deref()).await;
        now.map_err(|error| failed(&error))?;
        if !self.users.is_repository {
            return place.fill(files).await;
        }
        if let Some(head) = &layer.head {
            fetch_from(&self.users.git, &place.shadow, head).await?;
        }
        let is_same = self.users.branch == layer.branch;
        let is_free = match &layer.branch {
            Some(branch) => {
                let name = format!("refs/heads/{branch}");
                self.users.git.commit(&name).await.is_err()
            }
            None => false,
        };
        let laid = place.shadow.lay(&layer.state).await;
        laid.map_err(|error| failed(&error))?;
        point(&self.users.git, layer, is_same || is_free).await?;
        forget_staged(&self.users.git, layer).await
    }
}

async fn fetch_from(git: &Git, shadow: &Shadow, commit: &str) -> Result<(), Error> {
    git.beside()
        .run(&fetch(&shadow.path().to_string_lossy(), commit))
        .await
        .map(drop)
        .map_err(|error| failed(&error))
}

/// Checks out the commit of a layer without touching files: on its branch, or on none.
async fn point(git: &Git, layer: &Layer, on_branch: bool) -> Result<(), Error> {
    let run = async |words: &[&str]| git.run(words).await.map_err(|error| failed(&error));
    let branch = layer.branch.as_ref().filter(|_| on_branch);
    if let Some(branch) = branch {
        let name = format!("refs/heads/{branch}");
        if let Some(head) = &layer.head {
            run(&["update-ref", &name, head]).await?;
        }
        run(&["symbolic-ref", "HEAD", &name]).await?;
    } else if let Some(head) = &layer.head {
        run(&["update-ref", "--no-deref", "HEAD", head]).await?;
    }
    Ok(())
}

/// Makes the index that of the commit.
async fn forget_staged(git: &Git, layer: &Layer) -> Result<(), Error> {
    if layer.head.is_none() {
        return Ok(());
    }
    let reset = git.run(&["reset", "--quiet", "--mixed"]).await;
    reset.map(drop).map_err(|error| failed(&error))
}

fn last(files: &Files) -> Result<&Layer, Error> {
    files.layers.last().ok_or_else(strange)
}

fn unwritable(path: &Path, error: &io::Error) -> Error {
    Error::failure(format!("cannot write to `{}`: {error}", path.display()))
}

/// Returns the folder of the files of a session. It is not below the user's `.ah`: what is there steers agents, and they
/// may not write it.
///
/// # Errors
///
/// If the user has no folder.
pub fn place(environment: &Environment, session: &SessionId) -> Result<PathBuf, Error> {
    let set = environment.get("XDG_STATE_HOME").map(PathBuf::from);
    let set = set.filter(|folder| folder.is_absolute());
    let state = set.or_else(|| Some(environment.home()?.join(".local/state")));
    let state = state.ok_or_else(|| {
        Error::failure("there is no folder for the session's files").hint("set HOME")
    })?;
    Ok(state.join("ah/workspaces").join(session.as_str()))
}
