//! Offers the tools and resources of MCP servers as tools of the engine.
//!
//! A server is third-party code that may be slow, dead or hostile. So each server is supervised by a task of its own,
//! which connects, lists tools, notices the end of the connection and reconnects; only calls to that server wait for
//! it. The protocol is the official SDK's; `process` starts child processes and `http` makes clients. Which servers
//! are configured, and whether they are trusted, is decided by the caller.

mod config;
mod home;
mod import;
mod key_store;
mod needs;
mod options;
#[cfg_attr(not(feature = "client"), path = "absent.rs")]
mod remote;
mod sdk;

pub use config::{Address, Program, ServerConfig, ServerEntry, SignInSettings, Transport};
pub use home::folder_name;
pub use import::imported;
pub use key_store::{CredentialPlace, KeyStore};
pub use needs::Needs;
pub use options::{Asked, Confined, Granted, Options};
pub use remote::RemoteServers;
#[cfg(feature = "client")]
pub use remote::{SignIn, SignInPlace, SignedIn, SignedOut};
pub use sdk::{SdkHost, SdkPipe};
