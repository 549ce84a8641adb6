//! The ports through which a session reaches the outside.

use std::sync::Arc;

use ah_conversation::{Clock, Provider, Rulebook, Store};

use crate::Frontend;
use crate::hooks::Hooks;

/// Ports of a session to the outside.
#[derive(Clone)]
pub struct Ports {
    /// Provider of answers.
    pub provider: Arc<dyn Provider>,
    /// Provider of summaries; usually the same.
    pub summarizer: Arc<dyn Provider>,
    /// Storage of the conversation.
    pub store: Arc<dyn Store>,
    /// Time and fresh ids.
    pub clock: Arc<dyn Clock>,
    /// Display of the run.
    pub frontend: Arc<dyn Frontend>,
    /// Storage of permission rules.
    pub rules: Arc<dyn Rulebook>,
    /// Hooks of the session.
    pub hooks: Hooks,
}
