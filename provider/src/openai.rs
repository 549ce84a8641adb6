//! Chat completions, the protocol of OpenAI and of the many servers that followed it.

mod calls;
mod decode;
mod encode;
mod messages;
mod quirks;
mod reasoning;
pub(crate) mod usage;
mod wire;

pub use self::encode::{Additions, Encoder};
pub use self::quirks::{OutputLimit, Quirks, ReturnedReasoning, ThinkingField, ToolCallIds};

/// Turns the bytes of an answer into events.
pub type Decoder = crate::decode::Decoder<decode::Answer>;
