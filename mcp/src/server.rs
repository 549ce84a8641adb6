//! One server: connected, listed, looked after, and brought back when it ends.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ah_conversation::{ServerState, ServerStatus, Software};
use rmcp::RoleClient;
use rmcp::model::{ProtocolVersion, ServerPeerInfo};
use rmcp::service::Peer;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep, sleep_until, timeout};

use crate::config::ServerConfig;
use crate::connection::{Live, Reach};
use crate::fault::Fault;
use crate::listing::{self, Listing};
use crate::name::{clean, clean_line};
use crate::news::News;
use crate::remote_tool::RemoteTool;
use crate::servers::Options;

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
/// How often a server is asked for its tools at most, however often it says that they are other ones.
const PACE: Duration = Duration::from_secs(1);
const LONGEST_INSTRUCTIONS: usize = 2_048;

/// What all servers of a session have in common.
pub(crate) struct Shared {
    pub(crate) options: Options,
    reach: Reach,
    version: AtomicU64,
}

impl Shared {
    pub(crate) fn new(options: Options) -> Self {
        let reach = Reach {
            environment: options.environment.clone(),
            http: options.http.clone(),
            host: options.host.clone(),
            confined: options.confined.clone(),
        };
        Self {
            options,
            reach,
            // A toolbox begins with 0 and has none of our tools yet.
            version: AtomicU64::new(1),
        }
    }

    pub(crate) fn version(&self) -> u64 {
        self.version.load(Ordering::SeqCst)
    }

    pub(crate) fn has_changed(&self) {
        self.version.fetch_add(1, Ordering::SeqCst);
    }
}

/// One server.
pub(crate) struct Server {
    pub(crate) name: String,
    pub(crate) config: ServerConfig,
    state: watch::Sender<State>,
    offer: Mutex<Offer>,
    /// Whether the model is not to know its tools.
    is_off: AtomicBool,
}

/// Whether a server can be asked.
#[derive(Clone)]
enum State {
    Pending,
    Up(Contact),
    Down(Fault),
}

impl State {
    /// Whether it is known. A connection that has ended is on its way to another state.
    fn is_settled(&self) -> bool {
        match self {
            Self::Pending => false,
            Self::Up(contact) => !contact.peer.is_transport_closed(),
            Self::Down(_) => true,
        }
    }
}

/// A server that can be asked.
#[derive(Clone)]
pub(crate) struct Contact {
    pub(crate) peer: Peer<RoleClient>,
    pub(crate) news: News,
}

/// What a server has offered; kept while it comes back.
#[derive(Default)]
struct Offer {
    listing: Listing,
    tools: Vec<Arc<RemoteTool>>,
    software: Option<Software>,
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
    pub(crate) async fn contact(&self) -> Result<Contact, String> {
        let fault = match self.settled().await {
            Ok(contact) => return Ok(contact),
            Err(fault) => fault,
        };
        Err(format!(
            "the MCP server `{}` cannot be asked: {fault}",
            self.server
        ))
    }

    /// The same, and the reason alone.
    pub(crate) async fn settled(&self) -> Result<Contact, Fault> {
        let mut state = self.state.clone();
        let settled = state.wait_for(State::is_settled).await;
        match settled.as_deref() {
            Ok(State::Up(contact)) => Ok(contact.clone()),
            Ok(State::Down(fault)) => Err(fault.clone()),
            Ok(State::Pending) | Err(_) => Err(Fault::hopeless("it was left")),
        }
    }
}

/// Looks after one server for as long as there is hope.
pub(crate) async fn keep(server: Arc<Server>, shared: Arc<Shared>) {
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
            None => return server.give_up(fault, &shared),
            Some(pause) if !pause.is_zero() => {
                server.state.send_replace(State::Down(fault));
                sleep(*pause).await;
            }
            Some(_) => {}
        }
        server.will_start();
    }
}

impl Server {
    pub(crate) fn new(name: String, config: ServerConfig) -> Self {
        Self {
            name,
            config,
            state: watch::Sender::new(State::Pending),
            offer: Mutex::default(),
            is_off: AtomicBool::new(false),
        }
    }

    pub(crate) fn line(&self) -> Line {
        Line {
            server: self.name.as_str().into(),
            state: self.state.subscribe(),
        }
    }

    /// What is asked of it waits from now on.
    pub(crate) fn will_start(&self) {
        self.state.send_replace(State::Pending);
    }

    /// It cannot be asked any more and has nothing to offer.
    pub(crate) fn give_up(&self, fault: Fault, shared: &Shared) {
        *self.offer() = Offer::default();
        self.state.send_replace(State::Down(fault));
        shared.has_changed();
    }

    /// Hides its tools, or shows them.
    pub(crate) fn toggle(&self, is_on: bool) {
        self.is_off.store(!is_on, Ordering::SeqCst);
    }

    pub(crate) fn is_on(&self) -> bool {
        !self.is_off.load(Ordering::SeqCst)
    }

    fn offer(&self) -> MutexGuard<'_, Offer> {
        // Each change is one assignment, so a panic leaves nothing half done.
        self.offer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn is_pending(&self) -> bool {
        matches!(*self.state.borrow(), State::Pending)
    }

    pub(crate) fn has_resources(&self) -> bool {
        self.is_on() && self.offer().has_resources
    }

    pub(crate) fn instructions(&self) -> String {
        self.offer().instructions.clone()
    }

    pub(crate) fn tools(&self) -> Vec<Arc<RemoteTool>> {
        self.offer().tools.clone()
    }

    pub(crate) fn tool(&self, name: &str) -> Option<Arc<RemoteTool>> {
        let offer = self.offer();
        let mut tools = offer.tools.iter();
        let tool = tools.find(|tool| tool.definition.spec.name.eq_ignore_ascii_case(name));
        tool.cloned()
    }

    pub(crate) fn status(&self) -> ServerStatus {
        let (mut state, error) = match &*self.state.borrow() {
            State::Pending => (ServerState::Pending, None),
            State::Up(_) => (ServerState::Connected, None),
            State::Down(fault @ Fault::NeedsAuth) => {
                (ServerState::NeedsAuth, Some(fault.to_string()))
            }
            State::Down(fault) => (ServerState::Failed, Some(fault.to_string())),
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
        self.state.send_replace(State::Up(Contact {
            peer: peer.clone(),
            news: live.news.clone(),
        }));
        shared.has_changed();
        Ok(live)
    }

    async fn look_after(&self, live: Live, shared: &Shared) -> Fault {
        let Live { service, news, end } = live;
        let peer = service.peer().clone();
        let closed = service.waiting();
        tokio::pin!(closed);
        let mut earliest = Instant::now();
        loop {
            tokio::select! {
                _ = &mut closed => {
                    self.will_start();
                    return end.fate().await;
                }
                () = change(&news.has_changed, earliest) => {}
            }
            match listing::ask(&peer, &self.name, shared.options.start_timeout).await {
                Ok(listing) => self.publish(peer.peer_info().as_deref(), listing, shared),
                Err(fault) => tracing::warn!(server = self.name, "no list of tools: {fault}"),
            }
            earliest = Instant::now() + PACE;
        }
    }

    /// Offers what the server lists. A tool that was there stays the same, so that nothing is told twice.
    fn publish(&self, info: Option<&ServerPeerInfo>, listing: Listing, shared: &Shared) {
        let mut offer = self.offer();
        let software = info.and_then(|info| info.server_info.as_ref());
        let software = software.map(|software| Software {
            name: clean_line(&software.name, 100),
            version: clean_line(&software.version, 100),
        });
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

/// Waits for a change, and then until it may be looked at.
async fn change(has_changed: &Notify, earliest: Instant) {
    has_changed.notified().await;
    sleep_until(earliest).await;
}

fn check_version(info: Option<&ServerPeerInfo>) -> Result<(), Fault> {
    match info.map(|info| &info.protocol_version) {
        Some(version) if !ProtocolVersion::KNOWN_VERSIONS.contains(version) => {
            let version = clean_line(version.as_str(), 50);
            Err(Fault::hopeless(format!(
                "it speaks revision {version} of the protocol, which is not known here"
            )))
        }
        _ => Ok(()),
    }
}
