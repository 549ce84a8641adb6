//! Where things are: sessions, the folders of the user and of the project, folders that are not written.

use std::path::{Path, PathBuf};

use ah_conversation::{Environment, Layer};

use crate::config::Config;

/// The folder of a project's sessions, below the working directory; also of its settings, tools and skills.
pub const SESSIONS: &str = ".ah";
/// The folders of other agents whose files count as well, the one that counts more last.
const FOREIGN: [&str; 2] = [".agents", ".claude"];

/// A folder with tools, skills, commands …, each kind in a folder of its own below it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LayerFolder {
    /// How much it counts.
    pub layer: Layer,
    /// Where it is.
    pub path: PathBuf,
}

impl Config {
    /// What `AH_PROTECT_DIRS` names, separated by colons.
    pub fn protected_folders(&self) -> Vec<PathBuf> {
        let list = self.environment.get("AH_PROTECT_DIRS").unwrap_or_default();
        list.split(':')
            .filter(|folder| !folder.is_empty())
            .map(PathBuf::from)
            .collect()
    }

    /// The folders that are there with tools, skills, commands …: what is found in a later one counts more. Which
    /// there may be is said by `--setting-sources`.
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

/// The working directory and those above it up to `root`, nearest first. The home directory is none of them: what
/// lies there is the user's.
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
