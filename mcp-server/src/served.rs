//! What clients of the server get.

use std::sync::Arc;

use ah_conversation::{Environment, Message, Verdicts};
use ah_desk::Sessions;

/// What clients are served.
#[derive(Clone)]
pub struct Served {
    /// The sessions.
    pub sessions: Arc<dyn Sessions>,
    /// The environment, whose secrets are in no conversation that a client reads.
    pub environment: Environment,
    /// Writes a conversation, given its name and what its checks have shown, as Markdown.
    pub written: fn(&str, &[Message], &Verdicts) -> String,
}
