//! Options shared by all servers of a session.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ah_conversation::{Environment, Host, Interface, Rule};
use ah_process::Sandbox;
use serde_json::Value;

use crate::key_store::CredentialPlace;
use crate::sdk::SdkHost;

/// Options shared by all servers of a session.
#[derive(Debug, Clone)]
pub struct Options {
    /// Environment variables and working directory of child processes.
    pub environment: Environment,
    /// HTTP client options for servers with a URL.
    pub http: ah_http::Options,
    /// Where the credentials of servers are that the user has signed in to; without it no one has.
    pub credentials: Option<CredentialPlace>,
    /// Folder of the session's outputs, in which tasks of servers are noted; without it none is found again.
    pub outputs: Option<PathBuf>,
    /// Host of the servers of type `sdk`; `None` without a host program.
    pub host: Option<SdkHost>,
    /// Sandbox for child processes; `None` runs them with the user's permissions.
    pub confined: Option<Confined>,
    /// Start timeout of a server.
    pub start_timeout: Duration,
    /// Default timeout of a call, restarted by each progress notification.
    pub call_timeout: Duration,
    /// Tools hidden from the model.
    pub denied: Vec<Rule>,
    /// Answers questions to the user; servers are told whether somebody does.
    pub asked: Option<Asked>,
    /// Name of a tool that is there for the program, and not offered to the model.
    pub reserved: Option<String>,
    /// Which servers that are set during the session may reach the hosts that they need.
    pub granted: Granted,
    /// Naming of the built-in tools about servers.
    pub interface: Interface,
}

/// The host that answers servers' questions to the user.
#[derive(Clone)]
pub struct Asked(pub Arc<dyn Host>);

impl fmt::Debug for Asked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Asked")
    }
}

/// Servers, set during the session, that may reach the hosts that they need.
#[derive(Debug, Clone, PartialEq)]
pub enum Granted {
    /// All: a program sets them for its user.
    All,
    /// Those that are configured exactly like one of these entries; all belong to the project.
    Entries(Vec<Value>),
}

/// Sandbox for servers that are child processes.
#[derive(Debug, Clone)]
pub struct Confined {
    /// Sandbox of the session. Each server has a network and a home directory of its own in it.
    pub sandbox: Arc<Sandbox>,
    /// Folder for the servers' home directories; without it they use the session's.
    pub homes: Option<PathBuf>,
    /// Environment variables, besides those of the server's configuration.
    pub environment: Vec<(String, String)>,
    /// Names of servers that run outside the sandbox.
    pub free: Vec<String>,
}
