//! Servers in a build without a client: each has failed, and none has tools.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use ah_conversation::{
    Completion, ServerPrompt, ServerState, ServerStatus, Servers, ServersChange, Tool,
};
use async_trait::async_trait;
use serde_json::Value;

use crate::config::ServerConfig;
use crate::options::Options;

/// Error of every server.
const ABSENT: &str = "this build does not support MCP servers";

/// The servers of a session, none of which is started.
pub struct RemoteServers {
    servers: BTreeMap<String, ServerConfig>,
}

impl RemoteServers {
    /// Returns the servers without starting them.
    pub fn start(servers: BTreeMap<String, ServerConfig>, options: Options) -> Self {
        drop(options);
        Self { servers }
    }

    /// Returns all servers.
    pub fn not_started(&self) -> Vec<ServerStatus> {
        self.status()
    }

    /// Returns at once.
    pub async fn settled(&self) {}
}

#[async_trait]
impl Servers for RemoteServers {
    fn version(&self) -> u64 {
        0
    }

    async fn changed(&self, _: u64) {
        std::future::pending::<()>().await;
    }

    fn tools(&self) -> Vec<Arc<dyn Tool>> {
        Vec::new()
    }

    fn find(&self, _: &str) -> Option<Arc<dyn Tool>> {
        None
    }

    fn status(&self) -> Vec<ServerStatus> {
        let servers = self.servers.iter();
        servers
            .map(|(name, config)| ServerStatus {
                name: name.clone(),
                state: ServerState::Failed,
                scope: config.scope,
                config: config.as_written.clone(),
                software: None,
                error: Some(ABSENT.to_owned()),
                tools: Vec::new(),
                left_out: Vec::new(),
            })
            .collect()
    }

    async fn ready(&self, _: Duration) {}

    async fn set(&self, servers: BTreeMap<String, Value>) -> ServersChange {
        let errors = servers.into_keys().map(|name| (name, ABSENT.to_owned()));
        ServersChange {
            errors: errors.collect(),
            ..ServersChange::default()
        }
    }

    async fn reconnect(&self, _: &str) -> Result<(), String> {
        Err(ABSENT.to_owned())
    }

    fn toggle(&self, _: &str, _: bool) -> Result<(), String> {
        Err(ABSENT.to_owned())
    }

    async fn resources(&self, _: &str) -> Result<Vec<Value>, String> {
        Err(ABSENT.to_owned())
    }

    async fn read_resource(&self, _: &str, _: &str) -> Result<Vec<Value>, String> {
        Err(ABSENT.to_owned())
    }

    fn withdrawn(&self) -> Vec<String> {
        Vec::new()
    }

    fn prompts(&self) -> Vec<ServerPrompt> {
        Vec::new()
    }

    async fn prompts_known(&self, _: Duration) {}

    async fn complete(&self, _: &Completion) -> Vec<String> {
        Vec::new()
    }

    async fn prompt(
        &self,
        _: &str,
        _: &str,
        _: BTreeMap<String, String>,
    ) -> Result<String, String> {
        Err(ABSENT.to_owned())
    }
}
