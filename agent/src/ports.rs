//! The ports through which a session reaches the outside.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use ah_conversation::{Clock, FileState, MessageId, Provider, Rulebook, Store, ToolUseId};

use crate::hooks::Hooks;
use crate::{Audience, Conflict, Pictures, Watcher};

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
    /// Those who see the run and are asked by it.
    pub audience: Audience,
    /// Storage of permission rules.
    pub rules: Arc<dyn Rulebook>,
    /// Hooks of the session.
    pub hooks: Hooks,
    /// Check of pictures.
    pub pictures: Pictures,
    /// Source of refused connections.
    pub refusals: Refusals,
    /// Environment variables for the commands of each call, beside those that all commands see.
    pub variables: CallVariables,
    /// Id of the subagent whose session it is; its commands have it in the variable [`AGENT`](crate::AGENT).
    pub agent_id: Option<String>,
    /// Files that confined commands change; `None` if nobody sees them.
    pub command_files: Option<Arc<dyn CommandFiles>>,
}

/// Files that confined commands change, seen by the sandbox.
pub trait CommandFiles: Send + Sync {
    /// Says that a call of the run with this first message is about to start. Changes belong to the last run so named.
    fn begin(&self, run: &MessageId);

    /// Returns what has changed since the last call of this.
    fn take(&self) -> SeenFiles;

    /// Says that what was taken is stored.
    fn stored(&self);

    /// Returns the files of a subagent's commands, which work at the same time. When it is dropped, the subagent has
    /// ended. Its commands have the environment variable [`AGENT`](crate::AGENT).
    fn of_agent(&self, id: &str) -> Arc<dyn CommandFiles>;

    /// Says that this agent is told now of what its subagents did.
    fn told(&self);

    /// Says that a tool has written this file.
    fn wrote(&self, path: &Path);

    /// Returns what commands of this agent have overwritten without knowing it, since the last call of this.
    fn conflicts(&self) -> Vec<Conflict>;

    /// Returns all of [`Self::conflicts`] so far that still exist.
    fn all_conflicts(&self) -> Vec<Conflict>;
}

/// Files that commands have changed.
#[derive(Debug, Default)]
pub struct SeenFiles {
    /// State of each path before its first change in the run.
    pub before: Vec<(PathBuf, FileState<Arc<[u8]>>)>,
    /// All paths that have changed.
    pub changed: Vec<PathBuf>,
    /// What has changed without being kept, in a few words each.
    pub unseen: Vec<String>,
}

/// Returns a text for the model about the connections that the sandbox refused since the last call; it becomes part of
/// the next result.
pub type Refusals = Arc<dyn Fn() -> Option<String> + Send + Sync>;

/// Returns the environment variables for the commands of a call.
pub type CallVariables = Arc<dyn Fn(&ToolUseId) -> Vec<(String, String)> + Send + Sync>;

/// Returns the variables of a session whose calls have none of their own.
pub fn no_variables() -> CallVariables {
    Arc::new(|_| Vec::new())
}

/// One who watches a session from its beginning to its end, and what makes the programs of its calls part of what is seen.
pub struct SessionWatcher {
    /// Learns of everything before the others.
    pub watcher: Arc<dyn Watcher>,
    /// The variables of each call.
    pub variables: CallVariables,
}

/// Returns the source of a session without a sandbox.
pub fn no_refusals() -> Refusals {
    Arc::new(|| None)
}
