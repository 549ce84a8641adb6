//! The servers of a session, each in a task of its own: connected, listed, looked after, and brought back when it ends.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ah_conversation::{Environment, Rule, ServerState, ServerStatus, Servers, Tool};
use rmcp::RoleClient;
use rmcp::model::{ProtocolVersion, ServerPeerInfo};
use rmcp::service::Peer;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use crate::config::ServerConfig;
use crate::connection::{Fault, Live, Reach};
use crate::listing::{self, Listing};
use crate::name::{clean, clean_line, prefix};
use crate::own_tools::{Awaited, Overview, Resources, resource_tools};
use crate::remote_tool::RemoteTool;

/// How long a server that has ended, or was not there, is left alone: the first applies only to one that was there.
const PAUSES: [Duration; 7] = [
    Duration::ZERO,
    Duration::from_secs(1),
    Duration::from_secs(2),
    Duration::from_secs(4),
    Duration::from_secs(8),
    Duration::from_secs(16),
    Duration::from_secs(30),
];
/// A server that lived so long is no failure when it ends.
const STEADY: Duration = Duration::from_secs(60);
const LONGEST_INSTRUCTIONS: usize = 2_048;

/// What holds for all servers.
#[derive(Debug, Clone)]
pub struct Options {
    /// What a child sees, and where it runs.
    pub environment: Environment,
    /// How addresses are reached.
    pub http: ah_http::Options,
    /// How long a server may take to start.
    pub start_timeout: Duration,
    /// How long a call may take without a sign of progress.
    pub call_timeout: Duration,
    /// Tools that the model is not told of.
    pub denied: Vec<Rule>,
    /// What our own tools about servers are called.
    pub naming: Naming,
}

/// What our own tools about servers are called.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Naming {
    /// `mcp_servers`, `mcp_resources`, `mcp_read`.
    #[default]
    Own,
    /// `McpServers`, `ListMcpResources`, `ReadMcpResource`.
    Sdk,
}

/// The servers of a session. Dropped, they end.
pub struct RemoteServers {
    servers: Arc<[Arc<Server>]>,
    shared: Arc<Shared>,
    _tasks: JoinSet<()>,
}

pub(crate) struct Shared {
    pub(crate) options: Options,
    reach: Reach,
    version: AtomicU64,
}

/// One server.
pub(crate) struct Server {
    pub(crate) name: String,
    config: ServerConfig,
    state: watch::Sender<State>,
    offer: Mutex<Offer>,
}

/// Whether a server can be asked.
#[derive(Debug, Clone)]
enum State {
    Pending,
    Up(Peer<RoleClient>),
    Down(Fault),
}

impl State {
    /// Whether it is known. A connection that has ended is on its way to another state.
    fn is_settled(&self) -> bool {
        match self {
            Self::Pending => false,
            Self::Up(peer) => !peer.is_transport_closed(),
            Self::Down(_) => true,
        }
    }
}

/// What a server has offered; kept while it comes back.
#[derive(Default)]
struct Offer {
    listing: Listing,
    tools: Vec<Arc<RemoteTool>>,
    software: Option<String>,
    instructions: String,
    has_resources: bool,
}

/// The way to a server.
#[derive(Clone)]
pub(crate) struct Line {
    server: Arc<str>,
    state: watch::Receiver<State>,
}

impl Line {
    /// The server, once it can be asked; the reason, for the model, where it cannot.
    pub(crate) async fn peer(&self) -> Result<Peer<RoleClient>, String> {
        let mut state = self.state.clone();
        let settled = state.wait_for(State::is_settled).await;
        let fault = match settled.as_deref() {
            Ok(State::Up(peer)) => return Ok(peer.clone()),
            Ok(State::Down(fault)) => fault.to_string(),
            Ok(State::Pending) | Err(_) => "it was left".to_owned(),
        };
        Err(format!(
            "the MCP server `{}` cannot be asked: {fault}",
            self.server
        ))
    }
}

impl RemoteServers {
    /// Starts all servers and waits for none. Within a runtime.
    pub fn start(servers: BTreeMap<String, ServerConfig>, options: Options) -> Self {
        let reach = Reach {
            environment: options.environment.clone(),
            http: options.http.clone(),
        };
        let shared = Arc::new(Shared {
            options,
            reach,
            // A toolbox begins with 0 and has none of our tools yet.
            version: AtomicU64::new(1),
        });
        let servers: Arc<[_]> = servers
            .into_iter()
            .map(|(name, config)| Arc::new(Server::new(name, config)))
            .collect();
        let mut tasks = JoinSet::new();
        for server in &*servers {
            tasks.spawn(keep(server.clone(), shared.clone()));
        }
        Self {
            servers,
            shared,
            _tasks: tasks,
        }
    }

    /// Waits until each server can be asked or has failed at least once.
    pub async fn settled(&self) {
        settled(&self.servers).await;
    }
}

pub(crate) async fn settled(servers: &[Arc<Server>]) {
    for server in servers {
        // Why it cannot be asked is in its status.
        let _ = server.line().peer().await;
    }
}

impl Servers for RemoteServers {
    fn version(&self) -> u64 {
        self.shared.version.load(Ordering::SeqCst)
    }

    fn tools(&self) -> Vec<Arc<dyn Tool>> {
        let mut tools: Vec<Arc<dyn Tool>> = Vec::new();
        if self.servers.is_empty() {
            return tools;
        }
        let naming = self.shared.options.naming;
        tools.push(Arc::new(Overview::new(self.servers.clone(), naming)));
        if self.servers.iter().any(|server| server.has_resources()) {
            let resources = Resources::new(self.servers.clone(), self.shared.clone());
            tools.extend(resource_tools(&resources, naming));
        }
        for server in &*self.servers {
            let offered = server.offer().tools.clone();
            tools.extend(offered.into_iter().map(|tool| tool as Arc<dyn Tool>));
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
            start.is_some_and(|start| start.eq_ignore_ascii_case(&prefix))
        };
        let mut servers = self.servers.iter().filter(is_of);
        servers.find_map(|server| match server.is_pending() {
            true => Some(Arc::new(Awaited::new(server.clone(), name)) as Arc<dyn Tool>),
            false => server.tool(name).map(|tool| tool as _),
        })
    }

    fn status(&self) -> Vec<ServerStatus> {
        self.servers.iter().map(|server| server.status()).collect()
    }
}

impl RemoteServers {
    fn is_denied(&self, tool: &str) -> bool {
        let mut denied = self.shared.options.denied.iter();
        denied.any(|rule| rule.covers_tool(tool))
    }
}

impl Shared {
    fn has_changed(&self) {
        self.version.fetch_add(1, Ordering::SeqCst);
    }
}

fn check_version(info: Option<&ServerPeerInfo>) -> Result<(), Fault> {
    match info.map(|info| &info.protocol_version) {
        Some(version) if !ProtocolVersion::KNOWN_VERSIONS.contains(version) => {
            let version = clean_line(version.as_str(), 50);
            Err(Fault::Hopeless(format!(
                "it speaks revision {version} of the protocol, which is not known here"
            )))
        }
        _ => Ok(()),
    }
}

/// Looks after one server for as long as there is hope.
async fn keep(server: Arc<Server>, shared: Arc<Shared>) {
    let mut failures = 0;
    loop {
        let (lived, fault) = server.live(&shared).await;
        tracing::warn!(server = server.name, "{fault}");
        if lived.is_some_and(|time| time >= STEADY) {
            failures = 0;
        }
        failures = match lived {
            None if failures == 0 => 1,
            _ => failures,
        };
        let pause = PAUSES
            .get(failures)
            .filter(|_| matches!(fault, Fault::Failed(_)));
        failures += 1;
        match pause {
            None => {
                *server.offer() = Offer::default();
                server.state.send_replace(State::Down(fault));
                shared.has_changed();
                return;
            }
            Some(pause) if !pause.is_zero() => {
                server.state.send_replace(State::Down(fault));
                sleep(*pause).await;
            }
            Some(_) => {}
        }
        server.state.send_replace(State::Pending);
    }
}

impl Server {
    fn new(name: String, config: ServerConfig) -> Self {
        Self {
            name,
            config,
            state: watch::Sender::new(State::Pending),
            offer: Mutex::default(),
        }
    }

    pub(crate) fn line(&self) -> Line {
        Line {
            server: self.name.as_str().into(),
            state: self.state.subscribe(),
        }
    }

    fn offer(&self) -> MutexGuard<'_, Offer> {
        // Each change is one assignment, so a panic leaves nothing half done.
        self.offer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_pending(&self) -> bool {
        matches!(*self.state.borrow(), State::Pending)
    }

    pub(crate) fn has_resources(&self) -> bool {
        self.offer().has_resources
    }

    pub(crate) fn instructions(&self) -> String {
        self.offer().instructions.clone()
    }

    pub(crate) fn tool(&self, name: &str) -> Option<Arc<RemoteTool>> {
        let offer = self.offer();
        let mut tools = offer.tools.iter();
        let tool = tools.find(|tool| tool.definition.spec.name.eq_ignore_ascii_case(name));
        tool.cloned()
    }

    pub(crate) fn status(&self) -> ServerStatus {
        let (state, error) = match &*self.state.borrow() {
            State::Pending => (ServerState::Pending, None),
            State::Up(_) => (ServerState::Connected, None),
            State::Down(fault @ Fault::NeedsAuth) => {
                (ServerState::NeedsAuth, Some(fault.to_string()))
            }
            State::Down(fault) => (ServerState::Failed, Some(fault.to_string())),
        };
        let offer = self.offer();
        let names = offer
            .listing
            .tools
            .iter()
            .map(|tool| tool.spec.name.clone());
        ServerStatus {
            name: self.name.clone(),
            state,
            software: offer.software.clone(),
            error,
            tools: names.collect(),
            left_out: offer.listing.left_out.clone(),
        }
    }

    /// One life of the server: how long it could be asked, if it could, and why it ended.
    async fn live(&self, shared: &Shared) -> (Option<Duration>, Fault) {
        let patience = shared.options.start_timeout;
        let started = timeout(patience, self.start(shared))
            .await
            .unwrap_or_else(|_| {
                let seconds = patience.as_secs_f64();
                Err(Fault::failed(format!(
                    "it did not start within {seconds} s"
                )))
            });
        let live = match started {
            Ok(live) => live,
            Err(fault) => return (None, fault),
        };
        let since = Instant::now();
        let fault = self.look_after(live, shared).await;
        (Some(since.elapsed()), fault)
    }

    async fn start(&self, shared: &Shared) -> Result<Live, Fault> {
        let live = Live::connect(&self.name, &self.config, &shared.reach).await?;
        let peer = live.service.peer();
        check_version(peer.peer_info().as_deref())?;
        let listing = listing::ask(peer, &self.name, shared.options.start_timeout).await?;
        self.publish(peer.peer_info().as_deref(), listing, shared);
        self.state.send_replace(State::Up(peer.clone()));
        Ok(live)
    }

    async fn look_after(&self, live: Live, shared: &Shared) -> Fault {
        let peer = live.service.peer().clone();
        let (service, has_changed, end) = live.into_parts();
        let closed = service.waiting();
        tokio::pin!(closed);
        loop {
            tokio::select! {
                _ = &mut closed => {
                    self.state.send_replace(State::Pending);
                    return end.fate().await;
                }
                () = has_changed.notified() => {}
            }
            match listing::ask(&peer, &self.name, shared.options.start_timeout).await {
                Ok(listing) => self.publish(peer.peer_info().as_deref(), listing, shared),
                Err(fault) => tracing::warn!(server = self.name, "no list of tools: {fault}"),
            }
        }
    }

    /// Offers what the server lists. A tool that was there stays the same, so that nothing is told twice.
    fn publish(&self, info: Option<&ServerPeerInfo>, listing: Listing, shared: &Shared) {
        let mut offer = self.offer();
        let software = info
            .and_then(|info| info.server_info.as_ref())
            .map(|software| clean_line(&format!("{} {}", software.name, software.version), 100));
        let instructions = info.and_then(|info| info.instructions.as_deref());
        let patience = self.config.call_timeout;
        let patience = patience.unwrap_or(shared.options.call_timeout);
        if offer.listing != listing || offer.software.is_none() {
            for left_out in &listing.left_out {
                tracing::warn!(server = self.name, "tool left out: {left_out}");
            }
            let tools = listing.tools.iter().cloned().map(|definition| {
                Arc::new(RemoteTool {
                    definition,
                    line: self.line(),
                    patience,
                })
            });
            *offer = Offer {
                tools: tools.collect(),
                listing,
                software,
                instructions: clean(instructions.unwrap_or_default(), LONGEST_INSTRUCTIONS),
                has_resources: info.is_some_and(|info| info.capabilities.resources.is_some()),
            };
            shared.has_changed();
        }
    }
}
