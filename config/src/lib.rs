//! Configuration: the settings in force, the origin of each, and the trust in a project's settings.
//!
//! [`Overrides`] (the caller's choices), environment and settings files are resolved once into a [`Config`], which is
//! handed down. A project's files count as far as it is trusted ([`trust`]); skills, commands and subagents are found
//! here ([`extensions`]) and interpreted in `ah-agent`. The crate above makes a model, a sandbox and a session of the
//! configuration.
//!
//! Nothing here prints: warnings are in [`Config::warnings`] and in return values.

mod answers_file;
mod changeable;
mod concurrency;
mod config;
mod dot_env;
pub mod embedded;
mod entries;
mod entry;
pub mod environment;
mod error;
pub mod extensions;
mod first;
pub mod found_file;
mod git_place;
mod held_notes;
pub mod installed;
mod keeping;
pub mod layers;
mod layout;
pub mod login;
mod mcp;
mod models;
mod origin;
pub mod overlay;
pub mod overrides;
pub mod own_folder;
pub mod places;
mod plugin;
mod plugins;
pub mod profile;
mod project;
mod resolve;
mod resolver;
pub mod rulebook;
mod rules;
pub mod sandboxing;
pub mod server_answers;
pub mod server_file;
pub mod server_files;
pub mod settings;
mod stand_in;
pub mod stated;
mod tier;
pub mod trust;
pub mod untrusted;
pub mod web;

pub use changeable::Changeable;
pub use concurrency::Concurrency;
pub use config::Config;
pub use entry::SettingEntry;
pub use error::{Error, ErrorKind};
pub use keeping::Keeping;
pub use mcp::parse_servers;
pub use origin::{Origin, Sourced};
pub use overrides::Overrides;
pub use plugin::Plugin;
pub use plugins::PluginParts;
pub use resolver::Resolver;
pub use rules::parse_rules;
pub use tier::SandboxTier;

#[cfg(test)]
mod tests;
