//! What happens in a run of an [`Agent`](crate::Agent), and how it ends.

pub use ah_agent::{RunFailure, RunOutcome};
pub use ah_conversation::{
    Cost, Event, EventKind, ExitReason, LoopAction, MessageId, ModelUsage, PrefixBreak, Usage,
};
