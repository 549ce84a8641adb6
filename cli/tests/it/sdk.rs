//! The protocol that the SDKs rely on: the fields of each message, a host's requests, and the end of the stream. The
//! SDKs themselves are tested in `interop/sdk`.

mod commands;
mod elicitation;
mod hooks;
pub mod host;
mod initialize;
mod lines;
mod modes;
mod network;
mod permission_tool;
mod reading;
mod requests;
mod sessions;
mod surroundings;
mod tasks;
mod transcript;
mod transport;
mod turns;
mod without_model;
