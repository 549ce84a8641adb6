//! A place of its own for a subagent, so that several can change files at the same time.

use std::path::Path;
use std::sync::Arc;

use ah_conversation::Tool;
use async_trait::async_trait;

/// Port: makes places for subagents whose definition or call has `isolation: worktree`.
#[async_trait]
pub trait Isolation: Send + Sync {
    /// Returns a new place.
    ///
    /// # Errors
    ///
    /// If it cannot be made; the text is for the model.
    async fn enter(&self) -> Result<Box<dyn OwnPlace>, String>;
}

/// A folder that a subagent has for itself.
#[async_trait]
pub trait OwnPlace: Send {
    /// Returns the folder.
    fn folder(&self) -> &Path;

    /// Returns the tools that work in it, in the place of those of the same names.
    fn tools(&self) -> &[Arc<dyn Tool>];

    /// Returns the project's instructions and the environment, as they are there.
    fn context(&self) -> (String, String);

    /// Gives it up, and returns what is left of it for the caller; `None` if nothing is.
    async fn leave(self: Box<Self>) -> Option<String>;
}
