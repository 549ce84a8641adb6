//! Model server on the loopback interface, for tests that run the real binary over a real socket.
//!
//! It speaks the Messages API, chat completions and the Responses API, each at its own path. It answers with the turns
//! of a scenario, and refuses every request that the vendor would refuse, with the vendor's error text: the modules named
//! `history` have the rules of each API, as strict as the strictest of its vendors, and [`vendor`] what single vendors add
//! to them. It records all requests. Expectations in a scenario are checked by the scripted model only; here the
//! test inspects the requests.

pub mod chat;
pub mod given;
pub(crate) mod http;
mod json;
pub mod local;
pub mod messages;
mod new_input;
pub mod picture;
pub mod protocol;
pub mod refusal;
pub mod responses;
mod sending;
pub mod vendor;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io::BufReader;
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Instant;

use ah_provider::script::format::{Scenario, Turn, Wire};
use ah_provider::script::play::{Step, TurnContext};
use serde_json::{Value, json};

use self::given::Given;
use self::http::{Broken, IncomingRequest, OutgoingResponse};
use self::local::{Local, Program};
use self::messages::threads::Threads;
use self::new_input::NewInput;
use self::protocol::{Protocol, Stream};
use self::refusal::Refusal;
use self::sending::{fail, play, refuse};
use self::vendor::{Answers, Asked, Vendor};
use crate::script::{says, scenario};
use crate::wait::HANG;

/// Path at which tests in other languages get the bodies of the requests so far. No vendor has such a path.
const REQUESTS: &str = "/requests";

/// Rule for choosing the turn that answers a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pick {
    /// The next turn, whichever client asks.
    InOrder,
    /// The turn after as many answers as the request's history has, so that many clients can run through one scenario,
    /// and a client that was killed resumes at its turn. A failing turn is played once in all.
    ByHistory,
}

/// Server that runs until it is dropped.
pub struct Server {
    address: SocketAddr,
    shared: Arc<Shared>,
}

/// Request that the server received.
#[derive(Debug, Clone, PartialEq)]
pub struct Received {
    /// Method, such as `POST`.
    pub method: String,
    /// Path with the query.
    pub path: String,
    /// Headers by lower-case name.
    pub headers: BTreeMap<String, String>,
    /// Body; null if it is not JSON.
    pub body: Value,
    /// The body with what the server held put before it; `None` if it continued nothing.
    pub whole: Option<Value>,
    /// Length of the body.
    pub bytes: usize,
    /// Time at which it was complete.
    pub arrived: Instant,
    /// Error text of the response, if it was refused.
    pub refused: Option<String>,
    /// What the vendor takes without a refusal although something is lost by it.
    pub lost: Vec<String>,
    /// State of the response.
    pub outcome: Outcome,
}

/// State of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Being sent.
    Answering,
    /// Sent completely.
    Whole,
    /// Cut by the scenario.
    Cut,
    /// Cut by the client, which closed the connection.
    Closed,
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
    /// Open connections by the client's address, to be closed with the server.
    connections: Mutex<HashMap<SocketAddr, TcpStream>>,
}

#[derive(Default)]
struct Log {
    received: Vec<Received>,
    next: usize,
    given: Given,
    threads: Threads,
    /// Failing turns that were already played.
    spent: HashSet<usize>,
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
        self.shared.log().threads.forget();
    }

    /// Returns the base URL, for `ANTHROPIC_BASE_URL` and the like.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Returns the requests so far, oldest first.
    pub fn requests(&self) -> Vec<Received> {
        self.shared.log().received.clone()
    }

    /// Returns the error texts of the refused requests.
    pub fn refusals(&self) -> Vec<String> {
        let log = self.shared.log();
        log.received
            .iter()
            .filter_map(|request| request.refused.clone())
            .collect()
    }

    /// Returns what was lost with requests that were not refused.
    pub fn losses(&self) -> Vec<String> {
        let log = self.shared.log();
        let lost = log.received.iter().flat_map(|request| &request.lost);
        lost.cloned().collect()
    }

    /// Waits until `condition` holds for the requests so far; panics after a minute.
    pub fn wait_until(&self, condition: impl Fn(&[Received]) -> bool) {
        let log = self.shared.log();
        let (log, waited) = self
            .shared
            .changed
            .wait_timeout_while(log, HANG, |log| !condition(&log.received))
            .unwrap_or_else(PoisonError::into_inner);
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
        for (_, connection) in self.shared.connections().drain() {
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
        shared.connections().insert(client, copy);
        let shared = shared.clone();
        std::thread::spawn(move || {
            shared.serve(&stream);
            shared.connections().remove(&client);
        });
    }
}

impl Shared {
    fn log(&self) -> MutexGuard<'_, Log> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn connections(&self) -> MutexGuard<'_, HashMap<SocketAddr, TcpStream>> {
        self.connections
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Answers the requests of one connection until it breaks.
    fn serve(&self, stream: &TcpStream) {
        // Only affects speed.
        let _ = stream.set_nodelay(true);
        let mut reader = BufReader::new(stream);
        while let Ok(Some(asked)) = http::read(&mut reader) {
            let path = asked.path.split('?').next().unwrap_or_default();
            let is_used = || self.log().received.iter().any(|it| it.refused.is_none());
            let about = self
                .local
                .get()
                .and_then(|local| local.about(path, is_used()));
            if about.is_some() || asked.method == "GET" && path != REQUESTS {
                if self.send_about(stream, about).is_err() {
                    return;
                }
                continue;
            }
            if asked.path == REQUESTS {
                if self.send_requests(stream).is_err() {
                    return;
                }
                continue;
            }
            let (number, protocol, reply) = self.receive(asked);
            let answered = self.reply(stream, number, protocol, reply);
            let mut log = self.log();
            log.received[number].outcome = match &answered {
                Ok(()) => Outcome::Whole,
                Err(Broken::Cut) => Outcome::Cut,
                Err(Broken::Closed) => Outcome::Closed,
            };
            drop(log);
            self.changed.notify_all();
            if answered.is_err() {
                return;
            }
        }
    }

    /// Sends the bodies of the requests so far.
    fn send_requests(&self, stream: &TcpStream) -> Result<(), Broken> {
        let bodies: Value = self
            .log()
            .received
            .iter()
            .map(|it| it.body.clone())
            .collect();
        let headers = [("content-type", "application/json".to_owned())];
        let wire = Wire::default();
        let mut answer = OutgoingResponse::new(stream, &wire, 200, &headers);
        answer.push(bodies.to_string().as_bytes())?;
        answer.finish()
    }

    /// Sends what a program says of itself. Asking for it is no part of a scenario, and is not recorded; vendors' lists of
    /// models it does not have.
    fn send_about(&self, stream: &TcpStream, about: Option<Value>) -> Result<(), Broken> {
        let headers = [("content-type", "application/json".to_owned())];
        let wire = Wire::default();
        let status = if about.is_some() { 200 } else { 404 };
        let no_path = || json!({"type": "error", "error": {"type": "not_found_error", "message": "no such path"}});
        let body = about.unwrap_or_else(no_path);
        let mut answer = OutgoingResponse::new(stream, &wire, status, &headers);
        answer.push(body.to_string().as_bytes())?;
        answer.finish()
    }

    /// Records the request and decides the response.
    fn receive(&self, asked: IncomingRequest) -> (usize, Protocol, Reply<'_>) {
        let mut body: Result<Value, _> = serde_json::from_slice(&asked.body);
        let named = Protocol::model_in(&asked.path);
        let named_twice = match (named, &mut body) {
            (Some(name), Ok(Value::Object(body))) => {
                body.insert("model".to_owned(), name.into()).is_some()
            }
            _ => false,
        };
        let vendor = self.vendor.get().copied();
        let is_served = |api: &Protocol| vendor.is_none_or(|vendor| vendor.apis.contains(api));
        let protocol = Protocol::at(&asked.path).filter(is_served);
        let protocol = protocol.filter(|_| asked.method == "POST");
        let mut log = self.log();
        let mut lost = Vec::new();
        let whole = match &body {
            Ok(body) => log.threads.whole(&asked.headers, body),
            Err(_) => Ok(None),
        };
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
                match refusal.or(whole.as_ref().err().cloned()) {
                    Some(refusal) => Reply::Refuse(refusal),
                    None => {
                        lost.extend(vendor.map(|vendor| vendor.losses(protocol, &asked)));
                        let local = self.local.get();
                        match local.map_or(Ok(None), |local| local.check(body)) {
                            Ok(dropped) => {
                                lost.push(dropped.into_iter().collect());
                                self.turn(&mut log, protocol, body)
                            }
                            Err(refusal) => Reply::Refuse(refusal),
                        }
                    }
                }
            }
        };
        let number = log.received.len();
        log.received.push(Received {
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

    /// Holds the conversation of an answer that has ended, if that was asked for.
    fn hold(&self, number: usize, answer: &Stream) {
        if let Stream::Messages(_, _, answer) = answer {
            let mut log = self.log();
            let headers = log.received[number].headers.clone();
            log.threads.keep(&headers, answer);
        }
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
        stream: &TcpStream,
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
                refuse(stream, &Wire::default(), refusal.status, None, &body, id)
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
                        fail(stream, wire, form, failure, id)
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
                        let out = OutgoingResponse::new(stream, wire, status, &headers);
                        let ended = |answer: &Stream| self.hold(number, answer);
                        play(out, wire, turn, steps, answer, ended)
                    }
                }
            }
        }
    }
}

/// Response to a request.
enum Reply<'a> {
    Refuse(Refusal),
    /// With the tokens of the request, if the server counts them.
    Play(&'a Turn, Box<(TurnContext, Option<u64>)>, Stream),
}
