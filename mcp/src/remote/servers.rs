//! All servers of a session: starts, removes and reconfigures them, and merges what they offer.

use std::collections::{BTreeMap, BTreeSet};
use std::mem;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ah_conversation::{Completion, ServerPrompt, ServerStatus, Servers, ServersChange, Tool};
use async_trait::async_trait;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};

use crate::config::{ServerConfig, ServerEntry, Transport};
use crate::options::{Granted, Options};
use crate::remote::error::ServerError;
use crate::remote::name::{clean_line, prefix};
use crate::remote::overview::{PendingTool, ServersTool};
use crate::remote::prompts;
use crate::remote::resources::{self, Resources, resource_tools};
use crate::remote::server::{Server, Shared, settled, supervise};
use crate::remote::tasks_tool::TasksTool;
use crate::remote::unfinished::{Record, noted};

/// Time for the values of an argument: somebody is typing.
const COMPLETION_PATIENCE: Duration = Duration::from_secs(3);

/// The servers of a session. Dropping it ends them.
pub struct RemoteServers {
    servers: Mutex<BTreeMap<String, SupervisedServer>>,
    /// Names of those that a host has removed.
    removed: Mutex<BTreeSet<String>>,
    shared: Arc<Shared>,
    /// Tasks that an earlier process has left, with their files.
    unfinished: Vec<(PathBuf, Record)>,
}

/// A server and the task that supervises it.
struct SupervisedServer {
    server: Arc<Server>,
    /// Whether a host has set it during the session; it is removed when the host leaves it out.
    is_set: bool,
    /// Time of its last start.
    since: Instant,
    /// The supervising task; dropping it ends the server. Empty if the server was not started.
    task: JoinSet<()>,
}

impl SupervisedServer {
    fn new(name: &str, config: ServerConfig, options: &Options) -> Self {
        Self {
            server: Arc::new(Server::new(name.to_owned(), config, options)),
            is_set: false,
            since: Instant::now(),
            task: JoinSet::new(),
        }
    }

    /// Returns whether it is removed or replaced when a host sets `config` under its name, or `None`.
    fn is_replaced_by(&self, config: Option<&ServerConfig>) -> bool {
        let own = &self.server.config;
        match config {
            Some(config) => !is_same_connection(own, config),
            None => self.is_set || own.transport == Transport::Sdk,
        }
    }

    /// Ends the server for good.
    async fn end(mut self, shared: &Shared) {
        self.task.shutdown().await;
        self.server
            .give_up(ServerError::permanent("it was removed"), shared);
    }
}

/// Returns whether both connect to the same server in the same way.
fn is_same_connection(one: &ServerConfig, other: &ServerConfig) -> bool {
    (&one.transport, one.call_timeout) == (&other.transport, other.call_timeout)
}

impl RemoteServers {
    /// Starts all servers without waiting for them. Must be called within a runtime.
    pub fn start(servers: BTreeMap<String, ServerConfig>, options: Options) -> Self {
        let folder = options.outputs.as_deref();
        let started = Self {
            unfinished: folder.map(noted).unwrap_or_default(),
            servers: Mutex::default(),
            removed: Mutex::default(),
            shared: Arc::new(Shared::new(options)),
        };
        for (name, config) in servers {
            started.add(&name, config);
        }
        started
    }

    /// Returns the servers that were not started because their tool names would clash with another server's.
    pub fn not_started(&self) -> Vec<ServerStatus> {
        self.servers
            .lock()
            .values()
            .filter(|supervised| supervised.task.is_empty())
            .map(|supervised| supervised.server.status())
            .collect()
    }

    /// Waits until each server is connected or has failed at least once.
    pub async fn settled(&self) {
        settled(&self.all()).await;
    }

    /// Returns all servers, ordered by name.
    fn all(&self) -> Arc<[Arc<Server>]> {
        self.servers
            .lock()
            .values()
            .map(|supervised| supervised.server.clone())
            .collect()
    }

    /// Returns the server of this name; the error names those that exist.
    fn one(&self, name: &str) -> Result<Arc<Server>, String> {
        let servers = self.servers.lock();
        servers
            .get(name)
            .map(|supervised| supervised.server.clone())
            .ok_or_else(|| unknown(name, servers.keys()))
    }

    fn add(&self, name: &str, config: ServerConfig) {
        let server = SupervisedServer::new(name, config, &self.shared.options);
        self.servers.lock().insert(name.to_owned(), server);
        self.removed.lock().remove(name);
        self.run(name);
    }

    /// Starts a server that is not running, unless its tool names would clash with those of a running one.
    fn run(&self, name: &str) {
        let mut servers = self.servers.lock();
        let rival = servers
            .values()
            .filter(|supervised| !supervised.task.is_empty())
            .map(|supervised| &supervised.server.name)
            .find(|other| *other != name && have_clashing_tools(other, name))
            .map(|other| clean_line(other, 100));
        let Some(supervised) = servers.get_mut(name) else {
            return;
        };
        match rival {
            None => {
                supervised.since = Instant::now();
                supervised.server.set_connecting();
                let task = supervise(supervised.server.clone(), self.shared.clone());
                supervised.task.spawn(task);
            }
            Some(rival) => {
                let error = ServerError::permanent(format!(
                    "its tool names would clash with those of the server `{rival}`; rename it"
                ));
                supervised.server.give_up(error, &self.shared);
            }
        }
        self.shared.mark_changed();
    }

    fn is_denied(&self, tool: &str) -> bool {
        let mut denied = self.shared.options.denied.iter();
        denied.any(|rule| rule.covers_tool(tool))
    }

    fn read(&self, value: Value) -> Result<ServerConfig, String> {
        let (is_granted, is_of_project) = match &self.shared.options.granted {
            Granted::All => (true, false),
            Granted::Entries(entries) => (entries.contains(&value), true),
        };
        let entry: ServerEntry = serde_json::from_value(value)
            .map_err(|error| format!("invalid server configuration: {error}"))?;
        let Options { environment, .. } = &self.shared.options;
        let config = entry.resolve(&|name| environment.get(name).map(str::to_owned))?;
        Ok(ServerConfig {
            is_granted,
            project: is_of_project.then(|| environment.cwd().to_owned()),
            ..config
        })
    }
}

/// Returns whether tools of the two servers could have the same name.
fn have_clashing_tools(one: &str, other: &str) -> bool {
    let (one, other) = (prefix(one), prefix(other));
    one.starts_with(&other) || other.starts_with(&one)
}

fn unknown<'a>(name: &str, known: impl Iterator<Item = &'a String>) -> String {
    let name = clean_line(name, 100);
    let known: Vec<_> = known.map(|known| clean_line(known, 100)).collect();
    if known.is_empty() {
        format!("there is no MCP server `{name}`; none are configured")
    } else {
        let known = known.join(", ");
        format!("there is no MCP server `{name}`; there are: {known}")
    }
}

#[async_trait]
impl Servers for RemoteServers {
    fn version(&self) -> u64 {
        self.shared.version()
    }

    async fn changed(&self, version: u64) {
        self.shared.changed(version).await;
    }

    fn tools(&self) -> Vec<Arc<dyn Tool>> {
        let servers = self.all();
        let interface = self.shared.options.interface;
        let mut tools: Vec<Arc<dyn Tool>> = Vec::new();
        if ServersTool::is_of_use(&servers, interface) {
            tools.push(Arc::new(ServersTool::new(servers.clone(), interface)));
        }
        if servers.iter().any(|server| server.has_resources()) {
            let resources = Resources::new(servers.clone(), self.shared.clone());
            tools.extend(resource_tools(&resources, interface));
        }
        let unfinished = TasksTool::new(&self.unfinished, servers.clone(), self.shared.clone());
        tools.extend(unfinished.map(|tool| Arc::new(tool) as Arc<dyn Tool>));
        for server in servers.iter().filter(|server| server.is_on()) {
            tools.extend(server.tools().into_iter().map(|tool| tool as Arc<dyn Tool>));
        }
        let reserved = self.shared.options.reserved.as_deref();
        tools.retain(|tool| {
            let name = &*tool.spec().name;
            !self.is_denied(name) && reserved != Some(name)
        });
        tools
    }

    fn withdrawn(&self) -> Vec<String> {
        let removed = self.removed.lock();
        let all = self.all();
        let disabled = { all.iter() }.filter(|server| !server.is_on());
        let disabled = disabled.map(|server| &server.name);
        removed
            .iter()
            .chain(disabled)
            .map(|name| prefix(name))
            .collect()
    }

    fn find(&self, name: &str) -> Option<Arc<dyn Tool>> {
        if self.is_denied(name) {
            return None;
        }
        // A model to which it was once offered may go on calling it.
        let overview = ServersTool::new(self.all(), self.shared.options.interface);
        if overview.spec().name == name {
            return Some(Arc::new(overview));
        }
        let is_of = |server: &&Arc<Server>| {
            let prefix = prefix(&server.name);
            let start = name.get(..prefix.len());
            server.is_on() && start.is_some_and(|start| start.eq_ignore_ascii_case(&prefix))
        };
        self.all().iter().filter(is_of).find_map(|server| {
            if server.is_pending() {
                Some(Arc::new(PendingTool::new(server.clone(), name)) as Arc<dyn Tool>)
            } else {
                server.tool(name).map(|tool| tool as _)
            }
        })
    }

    fn status(&self) -> Vec<ServerStatus> {
        self.all().iter().map(|server| server.status()).collect()
    }

    async fn ready(&self, patience: Duration) {
        let links: Vec<_> = self
            .servers
            .lock()
            .values()
            .map(|supervised| (supervised.server.link(), supervised.since + patience))
            .collect();
        for (link, until) in links {
            // The error, or that it is still pending, is in the server's status.
            let _ = timeout_at(until, link.settled()).await;
        }
    }

    async fn set(&self, servers: BTreeMap<String, Value>) -> ServersChange {
        let mut change = ServersChange::default();
        let mut wanted = BTreeMap::new();
        for (name, value) in servers {
            match self.read(value) {
                Ok(config) => {
                    wanted.insert(name, config);
                }
                Err(reason) => {
                    change.errors.insert(name, reason);
                }
            }
        }
        let replaced: BTreeMap<_, _> = self
            .servers
            .lock()
            .extract_if(.., |name, supervised| {
                supervised.is_replaced_by(wanted.get(name))
            })
            .collect();
        for (name, supervised) in replaced {
            self.removed.lock().insert(name.clone());
            supervised.end(&self.shared).await;
            if !wanted.contains_key(&name) {
                change.removed.push(name);
            }
        }
        for (name, config) in wanted {
            if self.one(&name).is_err() {
                self.add(&name, config);
                change.added.push(name.clone());
            }
            if let Some(supervised) = self.servers.lock().get_mut(&name) {
                supervised.is_set = true;
            }
        }
        for name in &change.added {
            let Ok(server) = self.one(name) else { continue };
            if let Err(error) = server.link().settled().await {
                change.errors.insert(name.clone(), error.to_string());
            }
        }
        change
    }

    async fn reconnect(&self, name: &str) -> Result<(), String> {
        let server = self.one(name)?;
        if !server.is_on() {
            let name = clean_line(name, 100);
            return Err(format!("the MCP server `{name}` is disabled"));
        }
        let old_task = self
            .servers
            .lock()
            .get_mut(name)
            .map(|supervised| mem::take(&mut supervised.task));
        if let Some(mut old_task) = old_task {
            old_task.shutdown().await;
        }
        self.run(name);
        server
            .link()
            .settled()
            .await
            .map(drop)
            .map_err(|error| error.to_string())
    }

    fn toggle(&self, name: &str, enabled: bool) -> Result<(), String> {
        self.one(name)?.toggle(enabled);
        self.shared.mark_changed();
        Ok(())
    }

    async fn resources(&self, server: &str) -> Result<Vec<Value>, String> {
        resources::list(&*self.one(server)?, &self.shared).await
    }

    async fn read_resource(&self, server: &str, uri: &str) -> Result<Vec<Value>, String> {
        let contents = resources::read(&*self.one(server)?, uri, &self.shared).await?;
        let to_value = |contents| serde_json::to_value(contents).unwrap_or_default();
        Ok(contents.into_iter().map(to_value).collect())
    }

    fn prompts(&self) -> Vec<ServerPrompt> {
        let servers = self.all();
        let prompts = servers.iter().filter(|server| server.is_on());
        prompts.flat_map(|server| server.prompts()).collect()
    }

    async fn prompts_known(&self, patience: Duration) {
        let servers = self.all();
        let all = servers.iter().filter(|server| server.is_on());
        let known = futures_util::future::join_all(all.map(|server| server.prompts_known()));
        // Those of a server that is late come with the next list.
        let _ = tokio::time::timeout(patience, known).await;
    }

    async fn complete(&self, wish: &Completion) -> Vec<String> {
        let Ok(server) = self.one(&wish.server) else {
            return Vec::new();
        };
        match server.link().connected().await {
            Ok(server) => prompts::complete(&server.peer, wish, COMPLETION_PATIENCE).await,
            Err(_) => Vec::new(),
        }
    }

    async fn prompt(
        &self,
        server: &str,
        name: &str,
        arguments: BTreeMap<String, String>,
    ) -> Result<String, String> {
        let server = self.one(server)?.link().connected().await?;
        let time_limit = self.shared.options.call_timeout;
        prompts::get(&server.peer, name, arguments, time_limit).await
    }
}
