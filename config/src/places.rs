//! Paths of sessions, of the user's and the project's folders, and of protected folders.

use std::path::{Path, PathBuf};

use ah_conversation::{Environment, Layer};

use crate::config::Config;

/// Folder of a project's sessions, settings, tools and skills, below the working directory.
pub const SESSIONS: &str = ".ah";
/// Folders of other agents whose files count too, highest precedence last.
const FOREIGN: [&str; 2] = [".agents", ".claude"];

/// Returns the path of the user's own settings for the project at `root`: `projects/NAME@HASH/settings.json` below the
/// user's folder `home`. Nothing in the project has a say in them.
pub(crate) fn own_settings(home: &Path, root: &Path) -> PathBuf {
    let name = root.file_name().unwrap_or_default().to_string_lossy();
    let folder = ah_mcp::folder_name(&name, Some(root));
    home.join("projects").join(folder).join("settings.json")
}

/// A folder with a subfolder each for tools, skills, commands ….
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LayerFolder {
    /// Its precedence.
    pub layer: Layer,
    /// Its path.
    pub path: PathBuf,
}

impl Config {
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
