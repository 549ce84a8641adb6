//! The catalogue of models: built in, extended by the user's and the project's files.

use ah_provider::catalog::Catalog;

use crate::config::Config;
use crate::error::Error;
use crate::found_file;
use crate::places::{self, SESSIONS};

impl Config {
    /// Returns the catalogue: built in, then `models.json` of the user's folder, then `.ah/models.json` of a trusted
    /// project (a price can lift a limit, an alias can redirect requests), nearest last.
    ///
    /// # Errors
    ///
    /// If such a file cannot be read.
    pub fn catalog(&self) -> Result<Catalog, Error> {
        let mut catalog = Catalog::built_in();
        let mut folders = Vec::new();
        if self.trust.is_given() && self.sources.project {
            let project = places::of_project(&self.environment, &self.project_root);
            folders.extend(project.map(|folder| folder.join(SESSIONS)));
        }
        folders.extend(self.home.clone());
        for folder in folders.iter().rev() {
            let path = folder.join("models.json");
            let Ok(text) = found_file::text(&path) else {
                continue;
            };
            let origin = path.display().to_string();
            catalog.extend(&text, &origin).map_err(|error| {
                let message = match std::error::Error::source(&error) {
                    Some(cause) => format!("{error}: {cause}"),
                    None => error.to_string(),
                };
                Error::failure(message).hint("`ah models --json` shows what an entry holds")
            })?;
        }
        Ok(catalog)
    }
}
