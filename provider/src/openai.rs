//! Chat completions, the protocol of OpenAI and of the many servers that followed it.

mod calls;
mod decode;
mod reasoning;
pub(crate) mod usage;
mod wire;

/// Turns the bytes of an answer into events.
pub type Decoder = crate::decode::Decoder<decode::Answer>;
