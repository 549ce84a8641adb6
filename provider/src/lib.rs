//! Asks a model: wire formats, decoding, retry, and the scripted model. Vendors change weekly; nobody outside this
//! crate knows their JSON.

pub mod script;
