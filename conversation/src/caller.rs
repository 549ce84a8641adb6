//! Port: calls that a running call makes itself.
//!
//! They are calls of a conversation below the call, in which a [`Provider`] that is no model answers. So each is decided
//! about, run, stored and shown as if a model had asked for it, and nothing else can make one.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;

use crate::{Provider, ToolUse};

/// Makes calls for a running call.
#[async_trait]
pub trait Caller: fmt::Debug + Send + Sync {
    /// Runs the conversation below `call` that begins with `prompt`, until `answering` ends its turn. Returns why it ended
    /// before that, if it did. Dropping the future ends it, and the call that runs.
    async fn converse(
        &self,
        call: &ToolUse,
        prompt: String,
        answering: Arc<dyn Provider>,
    ) -> Option<String>;
}
