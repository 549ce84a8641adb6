//! Port: servers that offer tools, each in its own time.

use std::sync::Arc;

use serde::Serialize;

use crate::Tool;

/// Servers that offer tools. They start on their own and may be slow, end and come back while a session runs: nobody
/// waits for them but a call of theirs.
pub trait Servers: Send + Sync {
    /// A number that grows whenever [`tools`](Self::tools) has changed.
    fn version(&self) -> u64;

    /// The tools that there are now, in an order that does not depend on which server was quicker.
    fn tools(&self) -> Vec<Arc<dyn Tool>>;

    /// The tool of this name, in any case, also where the server is still starting: its calls wait for the server then.
    fn find(&self, name: &str) -> Option<Arc<dyn Tool>>;

    /// How each server is.
    fn status(&self) -> Vec<ServerStatus>;
}

/// How a server is. What the server says of itself is cleaned of control characters and short.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ServerStatus {
    /// The name that the settings give it.
    pub name: String,
    /// Whether it can be asked.
    pub state: ServerState,
    /// Name and version as the server tells them.
    pub software: Option<String>,
    /// Why it cannot be asked, or could not the last time.
    pub error: Option<String>,
    /// Its tools, as the model knows them.
    pub tools: Vec<String>,
    /// Tools that it offers and that cannot be used, with the reason.
    pub left_out: Vec<String>,
}

/// Whether a server can be asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ServerState {
    /// It is starting, or coming back.
    Pending,
    /// It can be asked.
    Connected,
    /// It wants to know who asks, and what it was told is not enough.
    NeedsAuth,
    /// It could not be reached, or ended.
    Failed,
}

impl ServerState {
    /// The state as programs and people read it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Connected => "connected",
            Self::NeedsAuth => "needs-auth",
            Self::Failed => "failed",
        }
    }
}
