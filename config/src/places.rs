//! Paths of sessions, of the user's and the project's folders, and of protected folders.

use std::path::{Path, PathBuf};

use ah_conversation::{Environment, Interface, Layer};

use crate::config::Config;
use crate::layout::sessions_beside;
pub use crate::layout::{SESSIONS, WORKTREES, repository_of};

/// Folders of other agents whose files count too, highest precedence last.
const FOREIGN: [&str; 2] = [".agents", ".claude"];

/// Returns the top of the git repository, or the working directory if there is none.
pub fn project_root(environment: &Environment) -> PathBuf {
    let cwd = environment.cwd();
    let root = cwd.ancestors().find(|folder| folder.join(".git").exists());
    root.unwrap_or(cwd).to_owned()
}

/// Returns the folders that may have the sessions of the project at `root`, nearest first; the last is for the first
/// session. There is at least one.
pub fn session_folders(environment: &Environment, root: &Path) -> Vec<PathBuf> {
    if let Some(beside) = sessions_beside(root) {
        return vec![beside];
    }
    let folders = of_project(environment, root).map(|folder| folder.join(SESSIONS));
    let mut folders: Vec<_> = folders.collect();
    if folders.is_empty() {
        folders.push(environment.cwd().join(SESSIONS));
    }
    folders
}

/// Returns the path of the user's own settings for the project at `root`. Nothing in the project has a say in them.
pub(crate) fn own_settings(home: &Path, environment: &Environment, root: &Path) -> PathBuf {
    own_folder(home, environment, root).join("settings.json")
}

/// Returns the folder for what the user has of the project at `root` outside of it: `projects/NAME@HASH` below the user's
/// folder `home`. The project is that which is trusted or not: a home directory that is a repository is none.
fn own_folder(home: &Path, environment: &Environment, root: &Path) -> PathBuf {
    let top = of_project(environment, root).last();
    let top = top.unwrap_or(environment.cwd());
    // What is the user's for a repository is for its worktrees too.
    let top = repository_of(top).unwrap_or(top);
    let name = top.file_name().unwrap_or_default().to_string_lossy();
    home.join("projects")
        .join(ah_mcp::folder_name(&name, Some(top)))
}

/// A folder with a subfolder each for tools, skills, commands ….
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LayerFolder {
    /// Its precedence.
    pub layer: Layer,
    /// Its path.
    pub path: PathBuf,
}

/// Folder of the sessions that are begun and found from a working directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionFolder {
    /// Its path; it may be missing.
    pub path: PathBuf,
    /// Whether it is the user's, because the project cannot be written.
    pub is_outside: bool,
}

impl Config {
    /// Returns the folder of sessions. A repository has one for all of its folders: `.ah` at its top, or nearer if there are
    /// sessions already. Hosts of the Agent SDKs list sessions by working directory, so each has its own for them. A worktree has
    /// its sessions beside it, where they stay without it. For a project that cannot be written it is below the user's folder.
    pub fn session_folder(&self) -> SessionFolder {
        let environment = &self.environment;
        let path = match self.interface {
            Interface::AgentSdk => sessions_beside(&self.project_root)
                .unwrap_or_else(|| environment.cwd().join(SESSIONS)),
            Interface::Native => {
                let mut folders = session_folders(environment, &self.project_root);
                let used = folders.iter().position(|folder| has_sessions(folder));
                folders.swap_remove(used.unwrap_or(folders.len() - 1))
            }
        };
        match &self.home {
            Some(home) if !is_writable(&path) => SessionFolder {
                path: own_folder(home, environment, &self.project_root).join("sessions"),
                is_outside: true,
            },
            _ => SessionFolder {
                path,
                is_outside: false,
            },
        }
    }

    /// Returns the folder with the queue of runs of the sessions in this folder: the user's, whatever came with a project.
    pub fn queue_folder(&self, sessions: &Path) -> PathBuf {
        // The folder itself may not be there yet.
        let project = sessions
            .parent()
            .and_then(|above| above.canonicalize().ok());
        let real = project.zip(sessions.file_name());
        let real = real.map(|(project, name)| project.join(name));
        let sessions = real.as_deref().unwrap_or(sessions);
        match &self.home {
            Some(home) if !sessions.starts_with(home) => {
                let project = sessions.parent().and_then(Path::file_name);
                let name = project.unwrap_or_default().to_string_lossy();
                let name = ah_mcp::folder_name(&name, Some(sessions));
                home.join("queues").join(name)
            }
            _ => sessions.to_owned(),
        }
    }

    /// Returns the folders in `AH_PROTECT_DIRS`, separated by colons.
    pub fn protected_folders(&self) -> Vec<PathBuf> {
        let list = self.environment.get("AH_PROTECT_DIRS").unwrap_or_default();
        list.split(':')
            .filter(|folder| !folder.is_empty())
            .map(PathBuf::from)
            .collect()
    }

    /// Returns the existing folders with tools, skills, commands …: later ones take precedence. `--setting-sources`
    /// restricts them.
    pub fn layer_folders(&self) -> Vec<LayerFolder> {
        let environment = &self.environment;
        let mut folders = Vec::new();
        let mut add = |layer, path: PathBuf| {
            if path.is_dir() {
                folders.push(LayerFolder { layer, path });
            }
        };
        if self.sources.user {
            if let Some(home) = environment.home() {
                add(Layer::ForeignUser, home.join(FOREIGN[0]));
            }
            for (layer, folder) in [
                (Layer::ForeignUser, &self.foreign_home),
                (Layer::User, &self.home),
            ] {
                folder.iter().for_each(|folder| add(layer, folder.clone()));
            }
        }
        if self.sources.project {
            let mut above: Vec<_> = of_project(environment, &self.project_root).collect();
            above.reverse();
            for folder in &above {
                for name in FOREIGN {
                    add(Layer::ForeignProject, folder.join(name));
                }
            }
            for folder in &above {
                add(Layer::Project, folder.join(SESSIONS));
            }
        }
        folders
    }
}

/// Returns the working directory and its parents up to `root`, nearest first. Without the home directory: its files are
/// the user's.
pub(crate) fn of_project<'a>(
    environment: &'a Environment,
    root: &'a Path,
) -> impl Iterator<Item = &'a Path> {
    let home = environment.home();
    let above = environment.cwd().ancestors();
    above
        .take_while(move |folder| folder.starts_with(root))
        .filter(move |folder| home.as_deref() != Some(folder))
}

/// Returns whether the folder has a database.
fn has_sessions(folder: &Path) -> bool {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .map(|entry| entry.path())
        .any(|path| path.extension().is_some_and(|extension| extension == "db"))
}

/// Returns whether the folder, or the one that it would be made in, can be written.
fn is_writable(folder: &Path) -> bool {
    let parent = folder.parent().unwrap_or(folder);
    let place = if folder.exists() { folder } else { parent };
    let written = rustix::fs::access(place, rustix::fs::Access::WRITE_OK);
    // Other errors are told when the session is made.
    !matches!(
        written,
        Err(rustix::io::Errno::ROFS | rustix::io::Errno::ACCESS)
    )
}

/// Returns a path with `~` for the home directory.
pub fn short(path: &Path, home: Option<&Path>) -> String {
    match home.map(|home| path.strip_prefix(home)) {
        Some(Ok(below)) if below.as_os_str().is_empty() => "~".to_owned(),
        Some(Ok(below)) => format!("~/{}", below.display()),
        _ => path.display().to_string(),
    }
}
