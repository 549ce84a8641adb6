//! Which settings hold for a run, where each is from, and whether the project may say so.
//!
//! [`Overrides`] (the choices of whoever starts the run), environment and settings files are resolved once into a
//! [`Config`], which is handed down. Files that a project brings along count as far as it is trusted ([`trust`]);
//! skills, commands and definitions of subagents are found here ([`extensions`]) and understood in `ah-agent`. What a
//! configuration becomes (a model, a sandbox, a session) is left to the crate above.
//!
//! Nothing here prints: what the user should know is in [`Config::warnings`] and in return values.

mod concurrency;
mod config;
pub mod conversation;
mod dot_env;
pub mod embedded;
mod entries;
mod entry;
pub mod environment;
mod error;
pub mod extensions;
mod first;
pub mod found_file;
mod keeping;
pub mod layers;
mod mcp;
mod models;
mod origin;
pub mod overlay;
pub mod overrides;
pub mod own_folder;
pub mod places;
mod plugin;
mod plugins;
mod project;
mod resolve;
pub mod rulebook;
mod rules;
pub mod sandboxing;
pub mod settings;
mod tier;
pub mod trust;
pub mod untrusted;
pub mod web;

pub use concurrency::Concurrency;
pub use config::Config;
pub use entry::Entry;
pub use error::{Error, ErrorKind};
pub use keeping::Keeping;
pub use mcp::parse_servers;
pub use origin::{Origin, Sourced};
pub use overrides::Overrides;
pub use plugin::Plugin;
pub use rules::parse_rules;
pub use tier::SandboxTier;

#[cfg(test)]
mod tests;
