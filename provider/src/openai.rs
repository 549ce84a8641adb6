//! Chat completions, the protocol of OpenAI and of the many servers that followed it.

mod calls;
mod decode;
mod reasoning;
pub(crate) mod usage;
mod wire;

pub use self::decode::Decoder;
