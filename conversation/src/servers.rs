//! Port: servers that offer tools, each in its own time.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde::Serialize;
use serde_json::Value;

use crate::Tool;

/// Servers that offer tools. They start on their own and may be slow, end and come back while a session runs: nobody
/// waits for them but a call of theirs, and who asks for it with [`ready`](Self::ready).
#[async_trait]
pub trait Servers: Send + Sync {
    /// A number that grows whenever [`tools`](Self::tools) has changed.
    fn version(&self) -> u64;

    /// The tools that there are now, in an order that does not depend on which server was quicker.
    fn tools(&self) -> Vec<Arc<dyn Tool>>;

    /// The tool of this name, in any case, also where the server is still starting: its calls wait for the server then.
    fn find(&self, name: &str) -> Option<Arc<dyn Tool>>;

    /// How each server is.
    fn status(&self) -> Vec<ServerStatus>;

    /// Waits until each server can be asked or has failed, for none longer than `patience` since it was started. So
    /// a server that hangs is waited for once and not in every turn.
    async fn ready(&self, patience: Duration);

    /// Makes `servers`, by name and each as a file would configure it, the servers that a program has set. Those that
    /// it named before and does not name now are removed, and servers of its own; others stay. A server that is the
    /// same stays connected; another one of a name that is taken takes its place. Waits until each new one can be
    /// asked or has failed.
    async fn set(&self, servers: BTreeMap<String, Value>) -> ServersChange;

    /// Ends a server and starts it again; waits until it can be asked.
    ///
    /// # Errors
    ///
    /// Where there is no such server, or it cannot be asked; the text says why.
    async fn reconnect(&self, name: &str) -> Result<(), String>;

    /// Shows the tools of a server to the model, or hides them; the connection stays.
    ///
    /// # Errors
    ///
    /// Where there is no such server.
    fn toggle(&self, name: &str, enabled: bool) -> Result<(), String>;

    /// The resources of a server, each with `server`, `uri` and `name`, and `mimeType` and `description` where it has
    /// them; of a template, `uriTemplate` is in the place of `uri`.
    ///
    /// # Errors
    ///
    /// Where there is no such server, or it does not answer.
    async fn resources(&self, server: &str) -> Result<Vec<Value>, String>;

    /// The contents of a resource, each with `uri`, with `text` or `blob` (in base64), and `mimeType` where it has one.
    ///
    /// # Errors
    ///
    /// As for [`resources`](Self::resources), and where there is no such resource.
    async fn read_resource(&self, server: &str, uri: &str) -> Result<Vec<Value>, String>;
}

/// What came of setting servers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ServersChange {
    /// Servers that are new, or were replaced.
    pub added: Vec<String>,
    /// Servers that are gone.
    pub removed: Vec<String>,
    /// Why servers cannot be asked, by name.
    pub errors: BTreeMap<String, String>,
}

/// How a server is. What the server says of itself is cleaned of control characters and short.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ServerStatus {
    /// The name that the settings give it.
    pub name: String,
    /// Whether it can be asked.
    pub state: ServerState,
    /// Where it was set.
    pub scope: ServerScope,
    /// How it is reached, as it was written: `type`, `command` and `args`, or `url`. No variables and no headers, which
    /// may be secrets.
    pub config: Value,
    /// What it says that it is.
    pub software: Option<Software>,
    /// Why it cannot be asked, or could not the last time.
    pub error: Option<String>,
    /// Its tools.
    pub tools: Vec<ServerTool>,
    /// Tools that it offers and that cannot be used, with the reason.
    pub left_out: Vec<String>,
}

/// What a server says that it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Software {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
}

/// A tool of a server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ServerTool {
    /// The name by which the model knows it.
    pub name: String,
    /// The name that its server gives it.
    pub own_name: String,
    /// What it does.
    pub description: String,
    /// Whether the server says that it changes nothing.
    pub read_only: Option<bool>,
    /// Whether the server says that it may destroy something.
    pub destructive: Option<bool>,
    /// Whether the server says that it deals with the world outside.
    pub open_world: Option<bool>,
}

/// Whether a server can be asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ServerState {
    /// It is starting, or coming back.
    Pending,
    /// It can be asked.
    Connected,
    /// It wants to know who asks, and what it was told is not enough.
    NeedsAuth,
    /// It could not be reached, or ended.
    Failed,
    /// Its tools are hidden.
    Disabled,
}

impl ServerState {
    /// The state as programs and people read it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Connected => "connected",
            Self::NeedsAuth => "needs-auth",
            Self::Failed => "failed",
            Self::Disabled => "disabled",
        }
    }
}

/// Where a server was set.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ServerScope {
    /// In the user's settings.
    User,
    /// In what comes with the project.
    Project,
    /// In the user's settings for this project.
    Local,
    /// On the command line, or by a program while the session runs.
    #[default]
    Dynamic,
}

impl ServerScope {
    /// The scope as programs read it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Project => "project",
            Self::Local => "local",
            Self::Dynamic => "dynamic",
        }
    }
}
