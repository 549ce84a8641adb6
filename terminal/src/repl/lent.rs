//! What a command lends the run of its prompt.

use std::sync::Arc;

use ah_conversation::{Provider, Rule};

/// Model and permissions for the run of one prompt.
#[derive(Default)]
pub struct Lent {
    /// The model, if it is another one.
    pub model: Option<LentModel>,
    /// Rules that allow calls.
    pub rules: Vec<Rule>,
}

/// Model of the run of one prompt.
pub struct LentModel {
    /// Its name.
    pub name: String,
    /// The model.
    pub own: Arc<dyn Provider>,
    /// The one to restore.
    pub former: Arc<dyn Provider>,
}
