//! The destination of lasting permissions.

use ah_conversation::Destination;

use crate::config::Config;
use crate::rulebook::SettingsFiles;

/// Settings file for a lasting permission, and its path for display.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Keeping {
    /// The file: the project's own counts only in a trusted folder.
    pub destination: Destination,
    /// Its path, relative to the working directory if it is below, in backquotes.
    pub shown: String,
}

impl Keeping {
    /// Returns the file for `config`, if there is one. A permission in an untrusted project would not count, so it is
    /// stored in the user's settings.
    pub fn of(config: &Config) -> Option<Self> {
        let destination = if config.trust.is_given() {
            Destination::LocalSettings
        } else {
            Destination::UserSettings
        };
        let files = SettingsFiles::of(config);
        let path = files.path(destination)?;
        let shown = path.strip_prefix(config.environment.cwd()).unwrap_or(path);
        Some(Self {
            destination,
            shown: format!("`{}`", shown.display()),
        })
    }
}
