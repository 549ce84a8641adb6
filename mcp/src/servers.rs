//! The servers of a session, each in a task of its own; which there are, and what they offer together.

use std::collections::BTreeMap;
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ah_conversation::{Environment, Interface, Rule, ServerStatus, Servers, ServersChange, Tool};
use async_trait::async_trait;
use serde_json::Value;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};

use crate::config::{ServerConfig, ServerEntry, Transport};
use crate::fault::Fault;
use crate::name::{clean_line, prefix};
use crate::overview::{Awaited, Overview};
use crate::program::Confined;
use crate::resources::{self, Resources, resource_tools};
use crate::sdk::SdkHost;
use crate::server::{Server, Shared, keep};

/// What holds for all servers.
#[derive(Debug, Clone)]
pub struct Options {
    /// What a child sees, and where it runs.
    pub environment: Environment,
    /// How addresses are reached.
    pub http: ah_http::Options,
    /// Where servers of the type `sdk` are, if a program drives this one.
    pub host: Option<SdkHost>,
    /// Where servers that are children of ours run, if not with our rights.
    pub confined: Option<Confined>,
    /// How long a server may take to start.
    pub start_timeout: Duration,
    /// How long a call may take without a sign of progress.
    pub call_timeout: Duration,
    /// Tools that the model is not told of.
    pub denied: Vec<Rule>,
    /// What our own tools about servers are called.
    pub interface: Interface,
}

/// The servers of a session. Dropped, they end.
pub struct RemoteServers {
    kept: Mutex<BTreeMap<String, Kept>>,
    shared: Arc<Shared>,
}

/// A server, and what looks after it.
struct Kept {
    server: Arc<Server>,
    /// Whether a program has named it since the session began, so that it goes when it is named no more.
    is_set: bool,
    /// When it was started the last time.
    since: Instant,
    /// The one task that looks after it; dropped, it ends the server. None, where the server was not started at all.
    task: JoinSet<()>,
}

impl Kept {
    fn new(name: &str, config: ServerConfig) -> Self {
        Self {
            server: Arc::new(Server::new(name.to_owned(), config)),
            is_set: false,
            since: Instant::now(),
            task: JoinSet::new(),
        }
    }

    /// Whether it goes, or makes room, where a program wants `config` in its place.
    fn yields_to(&self, config: Option<&ServerConfig>) -> bool {
        let own = &self.server.config;
        match config {
            Some(config) => !own.is_reached_as(config),
            None => self.is_set || own.transport == Transport::Sdk,
        }
    }

    /// Ends the server for good.
    async fn end(mut self, shared: &Shared) {
        self.task.shutdown().await;
        self.server
            .give_up(Fault::hopeless("it was removed"), shared);
    }
}

impl RemoteServers {
    /// Starts all servers and waits for none. Within a runtime.
    pub fn start(servers: BTreeMap<String, ServerConfig>, options: Options) -> Self {
        let started = Self {
            kept: Mutex::default(),
            shared: Arc::new(Shared::new(options)),
        };
        for (name, config) in servers {
            started.add(&name, config);
        }
        started
    }

    /// Servers that were not started, since their tools could be taken for those of another one.
    pub fn not_started(&self) -> Vec<ServerStatus> {
        let kept = self.lock();
        let idle = kept.values().filter(|kept| kept.task.is_empty());
        idle.map(|kept| kept.server.status()).collect()
    }

    /// Waits until each server can be asked or has failed at least once.
    pub async fn settled(&self) {
        settled(&self.all()).await;
    }

    /// The servers that there are, by name.
    fn all(&self) -> Arc<[Arc<Server>]> {
        let kept = self.lock();
        kept.values().map(|kept| kept.server.clone()).collect()
    }

    fn one(&self, name: &str) -> Result<Arc<Server>, String> {
        let kept = self.lock();
        kept.get(name)
            .map(|kept| kept.server.clone())
            .ok_or_else(|| unknown(name, kept.keys()))
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Kept>> {
        // Each change is whole, so a panic leaves nothing half done.
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, name: &str, config: ServerConfig) {
        self.lock().insert(name.to_owned(), Kept::new(name, config));
        self.run(name);
    }

    /// Starts a server that does not run, unless its tools could be taken for those of another one.
    fn run(&self, name: &str) {
        let mut all = self.lock();
        let rival = all.values().find(|kept| {
            let other = &kept.server.name;
            other != name && !kept.task.is_empty() && are_alike(other, name)
        });
        let rival = rival.map(|kept| clean_line(&kept.server.name, 100));
        let Some(kept) = all.get_mut(name) else {
            return;
        };
        match rival {
            None => {
                kept.since = Instant::now();
                kept.server.will_start();
                let task = keep(kept.server.clone(), self.shared.clone());
                kept.task.spawn(task);
            }
            Some(rival) => {
                let fault = format!(
                    "its tools could be taken for those of the server `{rival}`; give it another name"
                );
                kept.server.give_up(Fault::Hopeless(fault), &self.shared);
            }
        }
        self.shared.has_changed();
    }

    fn is_denied(&self, tool: &str) -> bool {
        let mut denied = self.shared.options.denied.iter();
        denied.any(|rule| rule.covers_tool(tool))
    }

    fn read(&self, value: Value) -> Result<ServerConfig, String> {
        let entry: ServerEntry =
            serde_json::from_value(value).map_err(|fault| format!("it is no server: {fault}"))?;
        let environment = &self.shared.options.environment;
        entry.resolve(&|name| environment.get(name).map(str::to_owned))
    }
}

pub(crate) async fn settled(servers: &[Arc<Server>]) {
    for server in servers {
        // Why it cannot be asked is in its status.
        let _ = server.line().settled().await;
    }
}

/// Whether the tools of one server could have names that tools of the other have.
fn are_alike(one: &str, other: &str) -> bool {
    let (one, other) = (prefix(one), prefix(other));
    one.starts_with(&other) || other.starts_with(&one)
}

fn unknown<'a>(name: &str, known: impl Iterator<Item = &'a String>) -> String {
    let name = clean_line(name, 100);
    let known: Vec<_> = known.map(|known| clean_line(known, 100)).collect();
    match known.is_empty() {
        true => format!("there is no MCP server `{name}`, and no other"),
        false => format!(
            "there is no MCP server `{name}`; there are: {}",
            known.join(", ")
        ),
    }
}

#[async_trait]
impl Servers for RemoteServers {
    fn version(&self) -> u64 {
        self.shared.version()
    }

    fn tools(&self) -> Vec<Arc<dyn Tool>> {
        let servers = self.all();
        let interface = self.shared.options.interface;
        let mut tools: Vec<Arc<dyn Tool>> = Vec::new();
        if Overview::is_of_use(&servers, interface) {
            tools.push(Arc::new(Overview::new(servers.clone(), interface)));
        }
        if servers.iter().any(|server| server.has_resources()) {
            let resources = Resources::new(servers.clone(), self.shared.clone());
            tools.extend(resource_tools(&resources, interface));
        }
        for server in servers.iter().filter(|server| server.is_on()) {
            tools.extend(server.tools().into_iter().map(|tool| tool as Arc<dyn Tool>));
        }
        tools.retain(|tool| !self.is_denied(&tool.spec().name));
        tools
    }

    fn find(&self, name: &str) -> Option<Arc<dyn Tool>> {
        if self.is_denied(name) {
            return None;
        }
        let is_of = |server: &&Arc<Server>| {
            let prefix = prefix(&server.name);
            let start = name.get(..prefix.len());
            server.is_on() && start.is_some_and(|start| start.eq_ignore_ascii_case(&prefix))
        };
        let servers = self.all();
        let mut servers = servers.iter().filter(is_of);
        servers.find_map(|server| match server.is_pending() {
            true => Some(Arc::new(Awaited::new(server.clone(), name)) as Arc<dyn Tool>),
            false => server.tool(name).map(|tool| tool as _),
        })
    }

    fn status(&self) -> Vec<ServerStatus> {
        self.all().iter().map(|server| server.status()).collect()
    }

    async fn ready(&self, patience: Duration) {
        let waits: Vec<_> = {
            let kept = self.lock();
            let wait = |kept: &Kept| (kept.server.line(), kept.since + patience);
            kept.values().map(wait).collect()
        };
        for (line, until) in waits {
            // Why it cannot be asked, or not yet, is in its status.
            let _ = timeout_at(until, line.settled()).await;
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
        let left: BTreeMap<_, _> = {
            let yields = |name: &String, kept: &mut Kept| kept.yields_to(wanted.get(name));
            self.lock().extract_if(.., yields).collect()
        };
        for (name, kept) in left {
            kept.end(&self.shared).await;
            if !wanted.contains_key(&name) {
                change.removed.push(name);
            }
        }
        for (name, config) in wanted {
            if self.one(&name).is_err() {
                self.add(&name, config);
                change.added.push(name.clone());
            }
            if let Some(kept) = self.lock().get_mut(&name) {
                kept.is_set = true;
            }
        }
        for name in &change.added {
            let Ok(server) = self.one(name) else { continue };
            if let Err(fault) = server.line().settled().await {
                change.errors.insert(name.clone(), fault.to_string());
            }
        }
        change
    }

    async fn reconnect(&self, name: &str) -> Result<(), String> {
        let server = self.one(name)?;
        let former = self
            .lock()
            .get_mut(name)
            .map(|kept| mem::take(&mut kept.task));
        if let Some(mut former) = former {
            former.shutdown().await;
        }
        self.run(name);
        let settled = server.line().settled().await;
        settled.map(drop).map_err(|fault| fault.to_string())
    }

    fn toggle(&self, name: &str, enabled: bool) -> Result<(), String> {
        self.one(name)?.toggle(enabled);
        self.shared.has_changed();
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
}
