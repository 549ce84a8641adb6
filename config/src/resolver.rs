//! Configurations beside that of the process: of other folders, or of later, when settings may have changed. A program
//! that serves others resolves one for each of their sessions.

use std::path::{Path, PathBuf};

use ah_conversation::{Environment, Interface};

use crate::overlay::Overlay;
use crate::{Config, Error, Overrides};

/// Resolves configurations with the choices, the variables and the embedded files that the program was started with.
#[derive(Debug, Clone)]
pub struct Resolver {
    overrides: Overrides,
    interface: Interface,
    variables: Vec<(String, String)>,
    overlay: Overlay,
    /// Folder of the embedded programs that were copied to disk.
    unpacked: Option<PathBuf>,
}

impl Resolver {
    /// Creates the resolver of a program that was started with these choices and has this configuration.
    pub fn new(overrides: Overrides, interface: Interface, config: &Config) -> Self {
        let variables = config.environment.all();
        let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
        Self {
            overrides,
            interface,
            variables: variables.collect(),
            overlay: Overlay::of_process().unwrap_or_default(),
            unpacked: config.unpacked.clone(),
        }
    }

    /// Returns the environment of a folder.
    pub fn environment(&self, folder: &Path) -> Environment {
        Environment::new(self.variables.iter().cloned(), folder.to_owned())
    }

    /// Returns the configuration of a folder as it is now, with the choices that `choose` changes.
    ///
    /// # Errors
    ///
    /// If the settings are not valid, or the choices contradict each other.
    pub fn resolve(
        &self,
        folder: &Path,
        choose: impl FnOnce(&mut Overrides),
    ) -> Result<Config, Error> {
        let mut overrides = self.overrides.clone();
        choose(&mut overrides);
        let environment = self.environment(folder);
        let config = Config::resolve(overrides, self.interface, environment, &self.overlay)?;
        Ok(Config {
            unpacked: self.unpacked.clone(),
            ..config
        })
    }
}
