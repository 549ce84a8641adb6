//! What the SDKs build on, as lines: the fields of each message, what a host may ask, and how a talk ends. The SDKs
//! themselves are in `interop/sdk`.

pub mod host;
mod lines;
mod network;
mod requests;
mod transcript;
mod transport;
mod turns;
