//! Port: from a name to a model that can be asked, for whoever changes the model of a session or starts another one.

use std::sync::Arc;

use crate::{Model, Provider, ProviderError};

/// The models that can be asked.
pub trait Models: Send + Sync {
    /// The model of this name or alias; `None`: the one that the settings name.
    ///
    /// # Errors
    /// Where there is no such model, or no key for it.
    fn connect(&self, name: Option<&str>) -> Result<Arc<dyn Provider>, ProviderError>;

    /// What is known of a model that has answered.
    fn describe(&self, provider: &str, name: &str) -> Model;
}
