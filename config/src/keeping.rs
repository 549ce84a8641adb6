//! Where lasting permissions are kept.

use std::path::Path;

use ah_conversation::{Destination, Environment};

use crate::config::Config;
use crate::places::short;
use crate::rulebook::SettingsFiles;

/// The settings files for lasting permissions, for display: relative to the working directory or to the home
/// directory, in backquotes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Keeping {
    /// The file of [`Destination::LocalSettings`], for this project.
    pub for_project: String,
    /// The file of [`Destination::UserSettings`], for all projects.
    pub for_all: String,
}

impl Keeping {
    /// Returns the files for `config`; `None` without a home directory.
    pub fn of(config: &Config) -> Option<Self> {
        let files = SettingsFiles::of(config);
        let shown = |destination| Some(shown(files.path(destination)?, &config.environment));
        Some(Self {
            for_project: shown(Destination::LocalSettings)?,
            for_all: shown(Destination::UserSettings)?,
        })
    }
}

fn shown(path: &Path, environment: &Environment) -> String {
    if let Ok(below) = path.strip_prefix(environment.cwd()) {
        return format!("`{}`", below.display());
    }
    format!("`{}`", short(path, environment.home().as_deref()))
}
