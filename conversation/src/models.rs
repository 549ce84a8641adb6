//! Port: resolves a model name to a provider, to change the model of a session or to start a subagent.

use std::sync::Arc;

use crate::{Model, Provider, ProviderError};

/// The available models.
pub trait Models: Send + Sync {
    /// Returns a provider for the model of this name or alias, or for the default model if `None`.
    ///
    /// # Errors
    ///
    /// If there is no such model, or no key for it.
    fn connect(&self, name: Option<&str>) -> Result<Arc<dyn Provider>, ProviderError>;

    /// Returns the known properties of a model that has answered.
    fn describe(&self, provider: &str, name: &str) -> Model;
}
