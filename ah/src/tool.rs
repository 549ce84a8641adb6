//! Tools of a program's own.
//!
//! [`tool`](fn@tool) makes one of an asynchronous function with typed arguments; their JSON Schema is derived by
//! [`schemars`]. The trait [`Tool`] is for tools that say more about each call: which files it reads or writes,
//! which argument stands for it on a display.

#[cfg(feature = "schema")]
mod function;

pub use ah_conversation::{
    Access, Context, DisplayKey, Foresight, Input, Output, Progress, StandsFor, Tasks, Tool,
    ToolExtras, ToolSpec, ToolUse, ToolUseId, Truncation,
};
#[cfg(feature = "schema")]
pub use function::{FunctionTool, tool};
