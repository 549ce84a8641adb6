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
    /// Source of refused connections.
    pub refusals: Refusals,
}

/// Returns a text for the model about the connections that the sandbox refused since the last call; it becomes part of
/// the next result.
pub type Refusals = Arc<dyn Fn() -> Option<String> + Send + Sync>;

/// Returns the source of a session without a sandbox.
pub fn no_refusals() -> Refusals {
    Arc::new(|| None)
}
