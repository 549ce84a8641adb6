//! Writes the conversation to a file, on demand.

use ah_config::Error;

use super::super::report;
use super::SessionWorker;
use crate::document;

impl SessionWorker {
    /// Writes the session to a new file, named or chosen.
    ///
    /// # Errors
    ///
    /// If the session cannot be read, or the file is there already or cannot be written.
    pub(super) async fn export(&self, path: &str) -> Result<(), Error> {
        let id = self.store.id().to_string();
        let environment = &self.factory.opening.config.environment;
        let path = report::export_path(path, &id, environment.cwd(), environment.home());
        let (file, redacting) = (path.clone(), environment.clone());
        let page = self
            .store
            .read(move |tree| document::for_file(&file, &id, tree, &redacting))
            .await?;
        let shown = path.display();
        let mut file = std::fs::File::create_new(&path)
            .map_err(|error| Error::failure(format!("cannot write `{shown}`: {error}")))?;
        std::io::Write::write_all(&mut file, page.as_bytes())
            .map_err(|error| Error::failure(format!("cannot write `{shown}`: {error}")))?;
        crate::note(&format!("Exported to `{shown}`"));
        Ok(())
    }
}
