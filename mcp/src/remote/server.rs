//! Supervises one server: connects, lists its tools, watches the connection and reconnects when it ends.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ah_conversation::{ServerPrompt, ServerState, ServerStatus, Software};
use parking_lot::{Mutex, MutexGuard};
use rmcp::model::{ProtocolVersion, ServerPeerInfo};
use rmcp::service::ClientCacheConfig;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep, sleep_until, timeout};

use crate::config::{ServerConfig, Transport};
use crate::options::Options;
use crate::remote::cell::ServerCell;
use crate::remote::connection::{ConnectOptions, Connection, Place};
use crate::remote::error::ServerError;
use crate::remote::link::{ConnectedServer, LinkState, ServerLink};
use crate::remote::listing::{self, ToolListing};
use crate::remote::name::{clean, clean_line};
use crate::remote::oauth;
use crate::remote::prompts;
use crate::remote::revision::{self, Beginning, LIST_INTERVAL};
use crate::remote::tool::RemoteTool;

/// Delays before reconnecting, by the number of failures; the first only applies to a server that was connected.
const RECONNECT_DELAYS: [Duration; 7] = [
    Duration::ZERO,
    Duration::from_secs(1),
    Duration::from_secs(2),
    Duration::from_secs(4),
    Duration::from_secs(8),
    Duration::from_secs(16),
    Duration::from_secs(30),
];
/// Uptime after which the end of a connection resets the number of failures.
const STEADY: Duration = Duration::from_secs(60);
/// Time for the list of prompts.
const PROMPTS_PATIENCE: Duration = Duration::from_secs(5);
const LONGEST_INSTRUCTIONS: usize = 2_048;

/// State shared by all servers of a session.
pub(crate) struct Shared {
    pub(crate) options: Options,
    connect_options: ConnectOptions,
    /// Changes whenever the tools of a server change.
    version: watch::Sender<u64>,
}

impl Shared {
    pub(crate) fn new(options: Options) -> Self {
        let connect_options = ConnectOptions {
            environment: options.environment.clone(),
            http: options.http.clone(),
            credentials: options.credentials.clone(),
            host: options.host.clone(),
            asked: options.asked.clone(),
        };
        Self {
            options,
            connect_options,
            // A toolbox starts at 0, without the tools of servers.
            version: watch::Sender::new(1),
        }
    }

    pub(crate) fn version(&self) -> u64 {
        *self.version.borrow()
    }

    /// Waits for another version than this one.
    pub(crate) async fn changed(&self, version: u64) {
        // It fails only without a sender, which is here.
        let _ = { self.version.subscribe() }
            .wait_for(|now| *now != version)
            .await;
    }

    pub(crate) fn mark_changed(&self) {
        self.version.send_modify(|version| *version += 1);
    }
}

/// One server and its state.
pub(crate) struct Server {
    pub(crate) name: String,
    pub(crate) config: ServerConfig,
    /// How it begins connections, once known.
    beginning: Mutex<Option<Beginning>>,
    /// Its sandbox, if it runs in one.
    cell: Option<Arc<ServerCell>>,
    state: watch::Sender<LinkState>,
    offer: Mutex<Offer>,
    /// Its prompts; `None` until they were asked for.
    prompts: watch::Sender<Option<Vec<ServerPrompt>>>,
    /// Whether its tools are hidden from the model.
    is_off: AtomicBool,
}

/// Tools, instructions and capabilities of a server; kept while it reconnects.
#[derive(Default)]
struct Offer {
    listing: ToolListing,
    tools: Vec<Arc<RemoteTool>>,
    software: Option<Software>,
    instructions: String,
    has_resources: bool,
}

/// Waits until each server is connected or has failed.
pub(crate) async fn settled(servers: &[Arc<Server>]) {
    for server in servers {
        // The error is in the server's status.
        let _ = server.link().settled().await;
    }
}

/// Keeps one server connected, until an error that retrying cannot mend or too many failures.
pub(crate) async fn supervise(server: Arc<Server>, shared: Arc<Shared>) {
    let mut failures = 0;
    loop {
        let (uptime, error) = server.run_once(&shared).await;
        tracing::warn!(server = server.name, "{error}");
        if uptime.is_some_and(|time| time >= STEADY) {
            failures = 0;
        }
        if uptime.is_none() && failures == 0 {
            failures = 1;
        }
        let delay = RECONNECT_DELAYS
            .get(failures)
            .filter(|_| matches!(error, ServerError::Transient(_)));
        failures += 1;
        match delay {
            None => return server.give_up(error, &shared),
            Some(delay) if !delay.is_zero() => {
                server.state.send_replace(LinkState::Failed(error));
                sleep(*delay).await;
            }
            Some(_) => {}
        }
        server.set_connecting();
    }
}

impl Server {
    pub(crate) fn new(name: String, config: ServerConfig, options: &Options) -> Self {
        let cell = ServerCell::new(options.confined.as_ref(), &name, &config);
        Self {
            cell: cell.map(Arc::new),
            name,
            config,
            beginning: Mutex::new(None),
            state: watch::Sender::new(LinkState::Connecting),
            offer: Mutex::default(),
            prompts: watch::Sender::new(None),
            is_off: AtomicBool::new(false),
        }
    }

    /// Whether its calls have no effect outside the sandbox.
    pub(crate) fn is_confined(&self) -> bool {
        self.cell.as_ref().is_some_and(|cell| !cell.reaches_out)
    }

    pub(crate) fn link(&self) -> ServerLink {
        ServerLink::new(&self.name, self.state.subscribe())
    }

    /// Makes requests wait until the server is connected.
    pub(crate) fn set_connecting(&self) {
        self.state.send_replace(LinkState::Connecting);
    }

    /// Marks the server as failed and withdraws its tools.
    pub(crate) fn give_up(&self, error: ServerError, shared: &Shared) {
        *self.offer() = Offer::default();
        self.prompts.send_replace(None);
        self.state.send_replace(LinkState::Failed(error));
        shared.mark_changed();
    }

    /// Shows or hides its tools.
    pub(crate) fn toggle(&self, is_on: bool) {
        self.is_off.store(!is_on, Ordering::SeqCst);
    }

    pub(crate) fn is_on(&self) -> bool {
        !self.is_off.load(Ordering::SeqCst)
    }

    fn offer(&self) -> MutexGuard<'_, Offer> {
        self.offer.lock()
    }

    pub(crate) fn is_pending(&self) -> bool {
        matches!(*self.state.borrow(), LinkState::Connecting)
    }

    pub(crate) fn has_resources(&self) -> bool {
        self.is_on() && self.offer().has_resources
    }

    pub(crate) fn instructions(&self) -> String {
        self.offer().instructions.clone()
    }

    pub(crate) fn prompts(&self) -> Vec<ServerPrompt> {
        self.prompts.borrow().clone().unwrap_or_default()
    }

    /// Waits until its prompts are known, or it is not connected.
    pub(crate) async fn prompts_known(&self) {
        if self.link().settled().await.is_ok() {
            // The sender is here.
            let _ = self.prompts.subscribe().wait_for(Option::is_some).await;
        }
    }

    pub(crate) fn tools(&self) -> Vec<Arc<RemoteTool>> {
        self.offer().tools.clone()
    }

    pub(crate) fn tool(&self, name: &str) -> Option<Arc<RemoteTool>> {
        self.offer()
            .tools
            .iter()
            .find(|tool| tool.definition.spec.name.eq_ignore_ascii_case(name))
            .cloned()
    }

    pub(crate) fn status(&self) -> ServerStatus {
        let (mut state, error) = match &*self.state.borrow() {
            LinkState::Connecting => (ServerState::Pending, None),
            LinkState::Connected(_) => (ServerState::Connected, None),
            LinkState::Failed(error @ ServerError::NeedsAuth { .. }) => {
                (ServerState::NeedsAuth, Some(error.of_server(&self.name)))
            }
            LinkState::Failed(error) => (ServerState::Failed, Some(error.to_string())),
        };
        if !self.is_on() {
            state = ServerState::Disabled;
        }
        let offer = self.offer();
        let tools = offer.listing.tools.iter();
        ServerStatus {
            name: self.name.clone(),
            state,
            scope: self.config.scope,
            config: self.config.as_written.clone(),
            software: offer.software.clone(),
            error,
            tools: tools.map(|tool| tool.status.clone()).collect(),
            left_out: offer.listing.left_out.clone(),
        }
    }

    /// Connects and stays connected until the connection ends; returns the uptime, `None` if it never connected, and
    /// the reason for the end.
    async fn run_once(&self, shared: &Shared) -> (Option<Duration>, ServerError) {
        let start_timeout = shared.options.start_timeout;
        let started = timeout(start_timeout, self.start(shared))
            .await
            .unwrap_or_else(|_| {
                let seconds = start_timeout.as_secs_f64();
                Err(ServerError::transient(format!(
                    "it did not start within {seconds} s"
                )))
            });
        let connection = match started {
            Ok(connection) => connection,
            Err(error) => {
                if let ServerError::NeedsAuth { scope } = &error {
                    self.note(scope.as_deref(), shared).await;
                }
                return (None, error);
            }
        };
        let since = Instant::now();
        let error = self.watch(connection, shared).await;
        (Some(since.elapsed()), error)
    }

    async fn start(&self, shared: &Shared) -> Result<Connection, ServerError> {
        let beginning = *self.beginning.lock();
        let place = Place {
            name: &self.name,
            config: &self.config,
            cell: self.cell.as_ref(),
        };
        let connection = Connection::connect(place, &shared.connect_options, beginning).await?;
        *self.beginning.lock() = Some(connection.beginning);
        let peer = connection.service.peer();
        check_version(peer.peer_info().as_deref())?;
        // What a server lets be kept is kept as long as it says, and no longer: the end of a resource is no reason to show
        // what it was.
        let cache = ClientCacheConfig::default().with_serve_stale_on_error(false);
        peer.set_response_cache_config(cache).await;
        let listing = listing::request(peer, &self.name, shared.options.start_timeout).await?;
        self.publish(peer.peer_info().as_deref(), listing, shared);
        self.state
            .send_replace(LinkState::Connected(ConnectedServer {
                peer: peer.clone(),
                notifications: connection.notifications.clone(),
                answers: connection.answers.clone(),
                credentials: connection.credentials.clone(),
                error_tail: connection.exit.error_tail.clone(),
            }));
        shared.mark_changed();
        Ok(connection)
    }

    /// Notes the scopes that the server wants.
    async fn note(&self, scope: Option<&str>, shared: &Shared) {
        let file = shared.options.credentials.as_ref();
        let credentials = match &self.config.transport {
            Transport::Http(address) | Transport::Sse(address) => oauth::credentials(address, file),
            Transport::Stdio(_) | Transport::Sdk => None,
        };
        if let Some(credentials) = credentials {
            oauth::note(scope, &self.name, &credentials).await;
        }
    }

    /// Follows changes of the list of tools until the connection ends; returns why it ended.
    async fn watch(&self, connection: Connection, shared: &Shared) -> ServerError {
        let Connection {
            service,
            notifications,
            exit,
            ..
        } = connection;
        let peer = service.peer().clone();
        let closed = service.waiting();
        tokio::pin!(closed);
        let listening = revision::listen(&peer, &notifications);
        tokio::pin!(listening);
        // Tools count for the first request; prompts are for people, who can wait for them.
        let prompts = prompts::list(&peer, &self.name, PROMPTS_PATIENCE);
        tokio::pin!(prompts);
        let mut has_prompts = false;
        let mut earliest = Instant::now();
        loop {
            tokio::select! {
                _ = &mut closed => {
                    self.set_connecting();
                    return exit.cause().await;
                }
                listed = &mut prompts, if !has_prompts => {
                    has_prompts = true;
                    self.prompts.send_replace(Some(listed));
                    shared.mark_changed();
                    continue;
                }
                () = &mut listening => {}
                () = change(&notifications.tools_changed, earliest) => {}
            }
            match listing::request(&peer, &self.name, shared.options.start_timeout).await {
                Ok(listing) => self.publish(peer.peer_info().as_deref(), listing, shared),
                Err(error) => tracing::warn!(server = self.name, "cannot list tools: {error}"),
            }
            earliest = Instant::now() + LIST_INTERVAL;
        }
    }

    /// Publishes the server's listing, unless nothing has changed.
    fn publish(&self, info: Option<&ServerPeerInfo>, listing: ToolListing, shared: &Shared) {
        let mut offer = self.offer();
        let software = info
            .and_then(|info| info.server_info.as_ref())
            .map(|software| Software {
                name: clean_line(&software.name, 100),
                version: clean_line(&software.version, 100),
            });
        let instructions = info.and_then(|info| info.instructions.as_deref());
        let call_timeout = self
            .config
            .call_timeout
            .unwrap_or(shared.options.call_timeout);
        if offer.listing != listing || offer.software.is_none() {
            for left_out in &listing.left_out {
                tracing::warn!(server = self.name, "tool left out: {left_out}");
            }
            let tools = listing.tools.iter().cloned().map(|definition| {
                Arc::new(RemoteTool {
                    definition,
                    link: self.link(),
                    call_timeout,
                    is_confined: self.is_confined(),
                    cell: self.cell.clone(),
                })
            });
            *offer = Offer {
                tools: tools.collect(),
                listing,
                software,
                instructions: clean(instructions.unwrap_or_default(), LONGEST_INSTRUCTIONS),
                has_resources: info.is_some_and(|info| info.capabilities.resources.is_some()),
            };
            shared.mark_changed();
        }
    }
}

/// Waits for a change, and after it until `earliest`.
async fn change(has_changed: &Notify, earliest: Instant) {
    has_changed.notified().await;
    sleep_until(earliest).await;
}

fn check_version(info: Option<&ServerPeerInfo>) -> Result<(), ServerError> {
    match info.map(|info| &info.protocol_version) {
        Some(version) if !ProtocolVersion::KNOWN_VERSIONS.contains(version) => {
            let version = clean_line(version.as_str(), 50);
            Err(ServerError::permanent(format!(
                "it uses protocol revision {version}, which is not supported"
            )))
        }
        _ => Ok(()),
    }
}
