//! Model server on the loopback interface, for tests that run the real binary over a real socket.
//!
//! It speaks the Messages API, chat completions, the Responses API and the Interactions API, each at its own path. It answers with the turns
//! of a scenario, and refuses every request that the vendor would refuse, with the vendor's error text: the modules named
//! `history` have the rules of each API, as strict as the strictest of its vendors, and [`vendor`] what single vendors add
//! to them. It records all requests. Expectations in a scenario are checked by the scripted model only; here the
//! test inspects the requests.

pub mod chat;
mod connections;
pub mod given;
pub(crate) mod http;
pub mod interactions;
mod json;
pub mod local;
mod log;
pub mod messages;
mod new_input;
pub mod picture;
pub mod protocol;
mod received;
pub mod refusal;
pub mod responses;
mod sending;
mod socket;
mod stored;
pub mod vendor;

use std::collections::HashMap;
use std::io::BufReader;
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use ah_provider::script::format::{Scenario, Turn, Wire};
use ah_provider::script::play::{Step, TurnContext};
use parking_lot::{Condvar, Mutex};
use serde_json::{Value, json};

use self::http::{Broken, IncomingRequest, Line, OutgoingResponse};
use self::local::{Local, Program};
use self::log::{Log, Reply};
use self::new_input::NewInput;
use self::protocol::{Protocol, Stream};
pub use self::received::{Outcome, Pick, Received};
use self::refusal::Refusal;
use self::sending::{fail, play, refuse, send};
use self::vendor::{Answers, Asked, Vendor};
use crate::script::{says, scenario};
use crate::wait::HANG;

/// Path at which tests in other languages get the bodies of the requests so far. No vendor has such a path.
const REQUESTS: &str = "/requests";

/// Server that runs until it is dropped.
pub struct Server {
    address: SocketAddr,
    shared: Arc<Shared>,
}

struct Shared {
    scenario: Scenario,
    order: Vec<usize>,
    pick: Pick,
    /// Answer to requests that offer no tools; without it they get a turn like all others.
    aside: OnceLock<Turn>,
    /// Program that it is, with a window; without one, every conversation fits.
    local: OnceLock<Local>,
    /// Vendor whose rules it has; without one, those of the strictest.
    vendor: OnceLock<&'static Vendor>,
    /// Set if it takes requests for an answer that is not streamed.
    takes_whole: OnceLock<()>,
    /// Part of its ids, which keeps them apart from those of other servers.
    port: u16,
    log: Mutex<Log>,
    changed: Condvar,
    is_stopped: AtomicBool,
    /// Number of connections that were ever opened.
    accepted: AtomicUsize,
    /// Open connections by the client's address, to be closed with the server.
    connections: Mutex<HashMap<SocketAddr, TcpStream>>,
}

impl Server {
    /// Starts a server that answers with `turns` in order.
    pub fn new(turns: impl IntoIterator<Item = Turn>) -> Self {
        Self::start(scenario(turns), Pick::InOrder, 0).unwrap_or_else(|error| panic!("{error}"))
    }

    /// Starts a server that chooses among `turns` by the history of each request.
    pub fn by_history(turns: impl IntoIterator<Item = Turn>) -> Self {
        Self::start(scenario(turns), Pick::ByHistory, 0).unwrap_or_else(|error| panic!("{error}"))
    }

    /// Starts a server that plays `scenario` on `port`; 0 chooses a free port.
    ///
    /// # Errors
    /// If the scenario is invalid or the port cannot be used.
    pub fn start(scenario: Scenario, pick: Pick, port: u16) -> Result<Self, String> {
        scenario.check()?;
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))
            .map_err(|error| format!("cannot listen on port {port}: {error}"))?;
        let address = listener.local_addr().map_err(|error| error.to_string())?;
        let shared = Arc::new(Shared {
            order: scenario.order(),
            scenario,
            pick,
            aside: OnceLock::new(),
            local: OnceLock::new(),
            vendor: OnceLock::new(),
            takes_whole: OnceLock::new(),
            port: address.port(),
            log: Mutex::default(),
            changed: Condvar::new(),
            is_stopped: AtomicBool::new(false),
            accepted: AtomicUsize::new(0),
            connections: Mutex::default(),
        });
        let accepting = shared.clone();
        std::thread::spawn(move || accept(&listener, &accepting));
        Ok(Self { address, shared })
    }

    /// Answers requests that offer no tools with `text`, outside the scenario: programs ask for the titles of sessions and
    /// the like beside the conversation, each at times of its own.
    #[must_use]
    pub fn answers_asides(self, text: &str) -> Self {
        // Only the first text counts.
        let _ = self.shared.aside.set(says(text));
        self
    }

    /// Takes requests for an answer that is not streamed, which it refuses otherwise. The body of the answer has to be in
    /// the turn.
    #[must_use]
    pub fn takes_whole(self) -> Self {
        // A second time changes nothing.
        let _ = self.shared.takes_whole.set(());
        self
    }

    /// Keeps of each request only its size once the next has come: those of a long conversation fill the memory.
    #[must_use]
    pub fn keeps_sizes(self) -> Self {
        self.shared.log.lock().keeps_sizes = true;
        self
    }

    /// Opens WebSockets to the Responses API, and stores its answers, which it refuses otherwise.
    #[must_use]
    pub fn opens_sockets(self) -> Self {
        self.shared.log.lock().chains.stores = true;
        self
    }

    /// Returns how many WebSockets were asked for.
    pub fn sockets_wanted(&self) -> usize {
        self.shared.log.lock().sockets_wanted
    }

    /// Lets the WebSockets have been open for too long.
    pub fn expire_sockets(&self) {
        self.shared.log.lock().chains.expire();
    }

    /// Serves the APIs of `vendor` alone, with its rules and answers.
    #[must_use]
    pub fn of(self, vendor: &'static Vendor) -> Self {
        // Only the first vendor counts.
        let _ = self.shared.vendor.set(vendor);
        self
    }

    /// Serves a model as `program` does on the user's machine, with this window.
    #[must_use]
    pub fn on_this_machine(self, program: Program, model: &str, window: u64) -> Self {
        // Only the first program counts.
        let _ = self.shared.local.set(Local::new(program, model, window));
        self
    }

    /// Changes the window of a server [`on_this_machine`](Self::on_this_machine).
    pub fn set_window(&self, window: u64) {
        if let Some(local) = self.shared.local.get() {
            local.set_window(window);
        }
    }

    /// Forgets the conversations that it holds.
    pub fn forget(&self) {
        let mut log = self.shared.log.lock();
        log.threads.forget();
        log.chains.forget();
        log.interactions.forget();
    }

    /// Returns the base URL, for `ANTHROPIC_BASE_URL` and the like.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Returns the requests so far, oldest first.
    pub fn requests(&self) -> Vec<Received> {
        self.shared.log.lock().received.clone()
    }

    /// Returns the error texts of the refused requests.
    pub fn refusals(&self) -> Vec<String> {
        let log = self.shared.log.lock();
        log.received
            .iter()
            .filter_map(|request| request.refused.clone())
            .collect()
    }

    /// Returns what was lost with requests that were not refused.
    pub fn losses(&self) -> Vec<String> {
        let log = self.shared.log.lock();
        let lost = log.received.iter().flat_map(|request| &request.lost);
        lost.cloned().collect()
    }

    /// Waits until `condition` holds for the requests so far; panics after a minute.
    pub fn wait_until(&self, condition: impl Fn(&[Received]) -> bool) {
        let mut log = self.shared.log.lock();
        let is_awaited = |log: &mut Log| !condition(&log.received);
        let waited = { &self.shared.changed }.wait_while_for(&mut log, is_awaited, HANG);
        assert!(
            !waited.timed_out(),
            "the condition did not hold within {HANG:?}: {:?}",
            log.received
        );
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shared.is_stopped.store(true, Ordering::SeqCst);
        // Wakes the accepting thread; if it cannot be reached, it has ended.
        let _ = TcpStream::connect(self.address);
        for (_, connection) in self.shared.connections.lock().drain() {
            let _ = connection.shutdown(Shutdown::Both);
        }
    }
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    for stream in listener.incoming() {
        if shared.is_stopped.load(Ordering::SeqCst) {
            return;
        }
        let Ok((stream, copy, client)) = stream.and_then(|stream| {
            let (copy, client) = (stream.try_clone()?, stream.peer_addr()?);
            Ok((stream, copy, client))
        }) else {
            continue;
        };
        shared.connections.lock().insert(client, copy);
        shared.accepted.fetch_add(1, Ordering::SeqCst);
        let shared = shared.clone();
        std::thread::spawn(move || {
            shared.serve(&stream);
            shared.connections.lock().remove(&client);
        });
    }
}

impl Shared {
    /// Answers the requests of one connection until it breaks.
    fn serve(&self, stream: &TcpStream) {
        // Only affects speed.
        let _ = stream.set_nodelay(true);
        let mut reader = BufReader::new(stream);
        while let Ok(Some(asked)) = http::read(&mut reader) {
            if socket::is_wanted(&asked) {
                let mut log = self.log.lock();
                log.sockets_wanted += 1;
                if log.chains.stores {
                    drop(log);
                    return self.serve_socket(stream, &asked);
                }
            }
            let path = asked.path.split('?').next().unwrap_or_default();
            let is_used = || {
                self.log
                    .lock()
                    .received
                    .iter()
                    .any(|it| it.refused.is_none())
            };
            let about = self
                .local
                .get()
                .and_then(|local| local.about(path, is_used()));
            let answered = if about.is_some() || asked.method == "GET" && path != REQUESTS {
                self.send_about(stream, about)
            } else if path == REQUESTS {
                self.send_requests(stream)
            } else {
                self.answer(stream.into(), None, asked)
            };
            if answered.is_err() {
                return;
            }
        }
    }

    /// Answers the requests of a WebSocket until it breaks.
    fn serve_socket(&self, stream: &TcpStream, opening: &IncomingRequest) {
        let Ok((mut socket, client)) =
            socket::open(stream, opening).and_then(|socket| Ok((socket, stream.peer_addr()?)))
        else {
            return;
        };
        let line = Line {
            stream,
            is_socket: true,
        };
        while let Some(asked) = socket::read(&mut socket, opening) {
            if self.answer(line, Some(client), asked).is_err() {
                return;
            }
        }
    }

    /// Receives a request, which came over a WebSocket of a client or not, and answers it.
    fn answer(
        &self,
        line: Line<'_>,
        client: Option<SocketAddr>,
        asked: IncomingRequest,
    ) -> Result<(), Broken> {
        let (number, protocol, reply) = self.receive(asked, client);
        let is_failing = !matches!(&reply, Reply::Play(turn, ..) if turn.error.is_none());
        if let Some(client) = client.filter(|_| is_failing) {
            self.log.lock().chains.evict(client);
        }
        let answered = self.reply((line, client), number, protocol, reply);
        let mut log = self.log.lock();
        log.received[number].outcome = match &answered {
            Ok(()) => Outcome::Whole,
            Err(Broken::Cut) => Outcome::Cut,
            Err(Broken::Closed) => Outcome::Closed,
        };
        drop(log);
        self.changed.notify_all();
        answered
    }

    /// Sends the bodies of the requests so far.
    fn send_requests(&self, stream: &TcpStream) -> Result<(), Broken> {
        let log = self.log.lock();
        let bodies: Value = log.received.iter().map(|it| it.body.clone()).collect();
        drop(log);
        send(stream, 200, &bodies)
    }

    /// Sends what a program says of itself. Asking for it is no part of a scenario, and is not recorded; vendors' lists of
    /// models it does not have.
    fn send_about(&self, stream: &TcpStream, about: Option<Value>) -> Result<(), Broken> {
        let status = if about.is_some() { 200 } else { 404 };
        let no_path = || json!({"type": "error", "error": {"type": "not_found_error", "message": "no such path"}});
        send(stream, status, &about.unwrap_or_else(no_path))
    }

    /// Records the request and decides the response.
    fn receive(
        &self,
        asked: IncomingRequest,
        client: Option<SocketAddr>,
    ) -> (usize, Protocol, Reply<'_>) {
        let mut body: Result<Value, _> = serde_json::from_slice(&asked.body);
        let named = Protocol::model_in(&asked.path);
        let named_twice = match (named, &mut body) {
            (Some(name), Ok(Value::Object(body))) => {
                body.insert("model".to_owned(), name.into()).is_some()
            }
            _ => false,
        };
        let vendor = self.vendor.get().copied();
        let is_of_vendor = |api: &Protocol| vendor.is_none_or(|vendor| vendor.apis.contains(api));
        let is_served = |api: &Protocol| asked.method == "POST" && is_of_vendor(api);
        let protocol = Protocol::at(&asked.path).filter(is_served);
        let mut log = self.log.lock();
        let mut lost = Vec::new();
        let held = |body| log.whole(protocol, &asked.headers, client, body);
        let whole = body.as_ref().map_or(Ok(None), held);
        let reply = match (protocol, &body) {
            (None, _) => Reply::Refuse(Refusal::unknown_path()),
            (_, Err(error)) => Reply::Refuse(Refusal::invalid(format!(
                "The request body is not valid JSON: {error}"
            ))),
            (Some(_), Ok(_)) if named_twice => {
                let message = "model: Extra inputs are not permitted";
                Reply::Refuse(Refusal::invalid(message.to_owned()))
            }
            (Some(protocol), Ok(body)) => {
                let body = match &whole {
                    Ok(whole) => whole.as_ref().unwrap_or(body),
                    Err(_) => body,
                };
                let asked = Asked {
                    headers: &asked.headers,
                    body,
                    given: &log.given,
                };
                let is_whole = body["stream"] == false && self.takes_whole.get().is_some();
                let refusal = protocol.refusal(vendor, &asked).filter(|_| !is_whole);
                let not_held = whole.as_ref().err().cloned();
                // Nothing else can be said there of a request without its beginning.
                let is_alone = client.is_some() || protocol == Protocol::Interactions;
                let first = not_held.clone().filter(|_| is_alone);
                let refusal = first.or(refusal).or(not_held);
                let local = self.local.get();
                let dropped = || local.map_or(Ok(None), |local| local.check(body));
                match refusal.map_or_else(dropped, Err) {
                    Ok(dropped) => {
                        lost.extend(vendor.map(|vendor| vendor.losses(protocol, &asked)));
                        lost.push(dropped.into_iter().collect());
                        self.turn(&mut log, protocol, body)
                    }
                    Err(refusal) => Reply::Refuse(refusal),
                }
            }
        };
        let number = log.take(Received {
            method: asked.method,
            path: asked.path,
            headers: asked.headers,
            bytes: asked.body.len(),
            body: body.unwrap_or_default(),
            whole: whole.unwrap_or_default(),
            arrived: Instant::now(),
            refused: match &reply {
                Reply::Refuse(refusal) => Some(refusal.message.clone()),
                Reply::Play(..) => None,
            },
            lost: lost.concat(),
            outcome: Outcome::Answering,
        });
        drop(log);
        self.changed.notify_all();
        // A request to an unknown path gets its error in the form of the Messages API.
        (number, protocol.unwrap_or(Protocol::Messages), reply)
    }

    fn turn(&self, log: &mut Log, protocol: Protocol, body: &Value) -> Reply<'_> {
        let turn = |at: usize| self.order.get(at).map(|place| &self.scenario.turns[*place]);
        let offers_tools = body["tools"].as_array().is_some_and(|it| !it.is_empty());
        if let Some(aside) = self.aside.get().filter(|_| !offers_tools) {
            return self.play(log, protocol, body, aside, 0);
        }
        let at = match self.pick {
            Pick::InOrder => log.next,
            Pick::ByHistory => {
                let mut answered = protocol.answers(body);
                let from = (0..self.order.len()).find(|at| {
                    let is_next = answered == 0;
                    answered -= usize::from(!is_next && turn(*at).is_some_and(Turn::answers));
                    is_next
                });
                let from = from.unwrap_or(self.order.len());
                let is_left =
                    |at: &usize| turn(*at).is_some_and(Turn::answers) || log.spent.insert(*at);
                (from..self.order.len())
                    .find(is_left)
                    .unwrap_or(self.order.len())
            }
        };
        log.next = at + 1;
        match turn(at) {
            Some(turn) => self.play(log, protocol, body, turn, at),
            None => Reply::Refuse(Refusal::invalid(format!(
                "the scenario ends with turn {}",
                self.order.len()
            ))),
        }
    }

    fn play<'a>(
        &self,
        log: &mut Log,
        protocol: Protocol,
        body: &Value,
        turn: &'a Turn,
        at: usize,
    ) -> Reply<'a> {
        let context = self.context(log.received.len(), at, protocol.new_input(body));
        let model = body["model"].as_str().unwrap_or_default();
        log.given.note(turn, &context.id, model);
        if turn.error.is_none() {
            log.threads.answer(body);
        }
        let counted = self.local.get().map(|_| local::tokens(body));
        let answer = Stream::new(protocol, self.answers(), body, turn);
        Reply::Play(turn, Box::new((context, counted)), answer)
    }

    /// Returns the shape of its answers.
    fn answers(&self) -> Answers {
        self.vendor
            .get()
            .map_or(Answers::OF_API, |vendor| vendor.answers)
    }

    fn context(&self, number: usize, at: usize, input: NewInput) -> TurnContext {
        TurnContext {
            id: format!("{}x{number}", self.port),
            turn: at + 1,
            user: input.user_texts.join("\n"),
            result: input.tool_result,
            templates: !self.scenario.strict,
        }
    }

    fn reply(
        &self,
        (line, client): (Line<'_>, Option<SocketAddr>),
        number: usize,
        protocol: Protocol,
        reply: Reply<'_>,
    ) -> Result<(), Broken> {
        let id = format!("req_{}x{number}", self.port);
        match reply {
            Reply::Refuse(refusal) => {
                let mut error = json!({"type": refusal.kind, "message": refusal.message});
                if let Some(code) = refusal.code {
                    error["details"] = json!({"error_code": code});
                }
                let body = protocol.failure(self.answers(), refusal.status, &error, &id);
                refuse(line, &Wire::default(), refusal.status, None, &body, id)
            }
            Reply::Play(turn, about, answer) => {
                let (context, counted) = *about;
                let no_wire = Wire::default();
                let wire = turn.wire.as_ref().unwrap_or(&no_wire);
                let mut steps = turn.steps(&context, self.scenario.chunk_delay_ms);
                if let Some(counted) = counted.filter(|_| turn.usage.is_none()) {
                    local::count(&mut steps, counted);
                }
                let mut steps = steps.into_iter().peekable();
                while let Some(Step::Wait(time)) =
                    steps.next_if(|step| matches!(step, Step::Wait(_)))
                {
                    std::thread::sleep(time);
                }
                match &turn.error {
                    Some(failure) if wire.body.is_none() => {
                        let form = (protocol, self.answers());
                        fail(line, wire, form, failure, id)
                    }
                    failure => {
                        let status = failure
                            .as_ref()
                            .and_then(|failure| failure.status)
                            .unwrap_or(200);
                        let headers = [
                            (
                                "content-type",
                                "text/event-stream; charset=utf-8".to_owned(),
                            ),
                            ("request-id", id),
                        ];
                        let out = OutgoingResponse::new(line, wire, status, &headers);
                        let ended = |answer: &Stream| self.log.lock().hold(number, client, answer);
                        play(out, wire, turn, steps, answer, ended)
                    }
                }
            }
        }
    }
}
