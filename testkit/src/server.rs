//! A Messages API on the loopback interface, for tests that drive the real binary over a real socket.
//!
//! It answers with the turns of a scenario and refuses every request that the vendor would refuse, in the vendor's
//! words: see [`history`]. It keeps what it was asked. What a scenario expects of requests is left to the scripted
//! model; here the test looks at the requests itself.

pub mod history;
mod http;
mod sse;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io::BufReader;
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use ah_conversation::{ErrorClass, StreamEvent};
use ah_provider::script::failure::{Class, Failure};
use ah_provider::script::format::{Scenario, Turn, Wire};
use ah_provider::script::play::{Question, Step};
use serde_json::{Value, json};

use self::http::{Answer, Asked, Broken};
use crate::script::scenario;

/// How long [`Server::wait_until`] waits before it calls the test hung.
const HUNG: Duration = Duration::from_secs(60);

/// Which turn answers a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pick {
    /// The next one, whoever asks.
    InOrder,
    /// The one behind as many answers as the request carries, so that many clients can run through one scenario, and
    /// one that was killed comes back to its turn. A turn that fails is played once in all.
    ByHistory,
}

/// A server that runs until it is dropped.
pub struct Server {
    address: SocketAddr,
    shared: Arc<Shared>,
}

/// A request that the server got.
#[derive(Debug, Clone, PartialEq)]
pub struct Received {
    /// `POST` …
    pub method: String,
    /// The path, with its query.
    pub path: String,
    /// The headers, names in lower case.
    pub headers: BTreeMap<String, String>,
    /// The body, null where it is not JSON.
    pub body: Value,
    /// How long the body is.
    pub bytes: usize,
    /// When the whole of it was there.
    pub arrived: Instant,
    /// Why it was refused, in the words of the answer.
    pub refused: Option<String>,
    /// How far the answer has come.
    pub outcome: Outcome,
}

/// How far an answer has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It is on its way.
    Answering,
    /// All of it was written.
    Whole,
    /// The scenario cut it.
    Cut,
    /// The client closed the connection before its end.
    Closed,
}

struct Shared {
    scenario: Scenario,
    order: Vec<usize>,
    pick: Pick,
    /// Tells this server's ids from those of others.
    port: u16,
    log: Mutex<Log>,
    changed: Condvar,
    is_stopped: AtomicBool,
    /// Those that are open, by the client's address, so that the end of the server ends them.
    connections: Mutex<HashMap<SocketAddr, TcpStream>>,
}

#[derive(Default)]
struct Log {
    received: Vec<Received>,
    next: usize,
    /// Failing turns that were played.
    spent: HashSet<usize>,
}

impl Server {
    /// A server that answers with `turns`, one after the other.
    pub fn new(turns: impl IntoIterator<Item = Turn>) -> Self {
        Self::start(scenario(turns), Pick::InOrder, 0).unwrap_or_else(|error| panic!("{error}"))
    }

    /// A server that answers with `turns`, each to the requests that carry the answers before it.
    pub fn by_history(turns: impl IntoIterator<Item = Turn>) -> Self {
        Self::start(scenario(turns), Pick::ByHistory, 0).unwrap_or_else(|error| panic!("{error}"))
    }

    /// A server that plays `scenario` on `port`, or on any that is free if it is 0.
    pub fn start(scenario: Scenario, pick: Pick, port: u16) -> Result<Self, String> {
        scenario.check()?;
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))
            .map_err(|error| format!("cannot listen on port {port}: {error}"))?;
        let address = listener.local_addr().map_err(|error| error.to_string())?;
        let shared = Arc::new(Shared {
            order: scenario.order(),
            scenario,
            pick,
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

    /// Where it listens, as `ANTHROPIC_BASE_URL` wants it.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The requests so far, oldest first.
    pub fn requests(&self) -> Vec<Received> {
        self.shared.log().received.clone()
    }

    /// The requests that were refused, each with the reason.
    pub fn refusals(&self) -> Vec<String> {
        let log = self.shared.log();
        log.received
            .iter()
            .filter_map(|request| request.refused.clone())
            .collect()
    }

    /// Waits until the requests so far are as `is_so` wants them.
    pub fn wait_until(&self, is_so: impl Fn(&[Received]) -> bool) {
        let log = self.shared.log();
        let (log, waited) = self
            .shared
            .changed
            .wait_timeout_while(log, HUNG, |log| !is_so(&log.received))
            .unwrap_or_else(PoisonError::into_inner);
        assert!(
            !waited.timed_out(),
            "it did not come to that within {HUNG:?}: {:?}",
            log.received
        );
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shared.is_stopped.store(true, Ordering::SeqCst);
        // Wakes the thread that accepts; if it cannot be reached, it is gone.
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
        // Slower without it, but no less right.
        let _ = stream.set_nodelay(true);
        let mut reader = BufReader::new(stream);
        while let Ok(Some(asked)) = http::read(&mut reader) {
            let (number, reply) = self.receive(asked);
            let answered = self.reply(stream, number, &reply);
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

    /// Notes the request and decides what to answer.
    fn receive(&self, asked: Asked) -> (usize, Reply<'_>) {
        let body: Result<Value, _> = serde_json::from_slice(&asked.body);
        let mut log = self.log();
        let reply = match &body {
            Err(error) => Reply::Refuse(Refusal::invalid(format!(
                "The request body is not valid JSON: {error}"
            ))),
            Ok(body) => match Refusal::of(&asked, body) {
                Some(refusal) => Reply::Refuse(refusal),
                None => self.turn(&mut log, body),
            },
        };
        let number = log.received.len();
        log.received.push(Received {
            method: asked.method,
            path: asked.path,
            headers: asked.headers,
            bytes: asked.body.len(),
            body: body.unwrap_or_default(),
            arrived: Instant::now(),
            refused: match &reply {
                Reply::Refuse(refusal) => Some(refusal.message.clone()),
                Reply::Play(..) => None,
            },
            outcome: Outcome::Answering,
        });
        drop(log);
        self.changed.notify_all();
        (number, reply)
    }

    fn turn(&self, log: &mut Log, body: &Value) -> Reply<'_> {
        let turn = |at: usize| self.order.get(at).map(|place| &self.scenario.turns[*place]);
        let at = match self.pick {
            Pick::InOrder => log.next,
            Pick::ByHistory => {
                let mut answered = answers(body);
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
            Some(turn) => Reply::Play(
                turn,
                self.question(log.received.len(), at, body),
                model(body),
            ),
            None => Reply::Refuse(Refusal::invalid(format!(
                "the scenario ends with turn {}",
                self.order.len()
            ))),
        }
    }

    fn question(&self, number: usize, at: usize, body: &Value) -> Question {
        let messages = body["messages"].as_array().map_or(&[][..], Vec::as_slice);
        let answered = messages
            .iter()
            .rposition(|message| message["role"] == "assistant");
        let new = &messages[answered.map_or(0, |at| at + 1)..];
        let mut said = Vec::new();
        let mut result = "";
        for message in new {
            said.extend(message["content"].as_str());
            for block in message["content"].as_array().into_iter().flatten() {
                said.extend(block["text"].as_str());
                if block["type"] == "tool_result" {
                    let text = || block["content"].pointer("/0/text")?.as_str();
                    result = block["content"].as_str().or_else(text).unwrap_or_default();
                }
            }
        }
        Question {
            id: format!("{}x{number}", self.port),
            turn: at + 1,
            user: said.join("\n"),
            result: result.to_owned(),
            templates: !self.scenario.strict,
        }
    }

    fn reply(&self, stream: &TcpStream, number: usize, reply: &Reply<'_>) -> Result<(), Broken> {
        let id = format!("req_{}x{number}", self.port);
        match reply {
            Reply::Refuse(refusal) => {
                let error = json!({"type": refusal.kind, "message": refusal.message});
                refuse(stream, &Wire::default(), refusal.status, None, &error, &id)
            }
            Reply::Play(turn, question, model) => {
                let no_wire = Wire::default();
                let wire = turn.wire.as_ref().unwrap_or(&no_wire);
                let mut steps = turn
                    .steps(question, self.scenario.chunk_delay_ms)
                    .into_iter()
                    .peekable();
                while let Some(Step::Wait(time)) =
                    steps.next_if(|step| matches!(step, Step::Wait(_)))
                {
                    std::thread::sleep(time);
                }
                match &turn.error {
                    Some(failure) if wire.body.is_none() => fail(stream, wire, failure, &id),
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
                        let answer = Answer::new(stream, wire, status, &headers);
                        play(answer, wire, turn, steps, model)
                    }
                }
            }
        }
    }
}

/// What to answer.
enum Reply<'a> {
    Refuse(Refusal),
    Play(&'a Turn, Question, String),
}

struct Refusal {
    status: u16,
    kind: &'static str,
    message: String,
}

impl Refusal {
    fn invalid(message: String) -> Self {
        Self {
            status: 400,
            kind: "invalid_request_error",
            message,
        }
    }

    /// Why `asked` is refused, if it is.
    fn of(asked: &Asked, body: &Value) -> Option<Self> {
        let path = asked.path.split('?').next().unwrap_or_default();
        if asked.method != "POST" || path != "/v1/messages" {
            return Some(Self {
                status: 404,
                kind: "not_found_error",
                message: "Not found".to_owned(),
            });
        }
        let has = |name: &str| {
            asked
                .headers
                .get(name)
                .is_some_and(|value| !value.is_empty())
        };
        if !has("x-api-key") && !has("authorization") {
            return Some(Self {
                status: 401,
                kind: "authentication_error",
                message: "x-api-key header is required".to_owned(),
            });
        }
        if !has("anthropic-version") {
            return Some(Self::invalid(
                "anthropic-version: header is required".to_owned(),
            ));
        }
        if body["stream"] != true {
            return Some(Self::invalid(
                "this server only answers with `stream: true`".to_owned(),
            ));
        }
        history::check(body).err().map(Self::invalid)
    }
}

/// How many answers the request carries.
fn answers(body: &Value) -> usize {
    let messages = body["messages"].as_array().map_or(&[][..], Vec::as_slice);
    messages
        .iter()
        .filter(|message| message["role"] == "assistant")
        .count()
}

fn model(body: &Value) -> String {
    body["model"].as_str().unwrap_or_default().to_owned()
}

/// Answers with a failure before any event: with a status, or by ending the connection where the failure has none.
fn fail(stream: &TcpStream, wire: &Wire, failure: &Failure, id: &str) -> Result<(), Broken> {
    let is_network = failure.class == Some(Class(ErrorClass::Network));
    let status = match failure.status {
        None if is_network || failure.kind.is_none() => {
            // What is gone already need not be ended.
            let _ = stream.shutdown(Shutdown::Both);
            return Err(Broken::Cut);
        }
        status => status.unwrap_or(500),
    };
    refuse(
        stream,
        wire,
        status,
        failure.retry_after,
        &failure.words_of_server(),
        id,
    )
}

fn refuse(
    stream: &TcpStream,
    wire: &Wire,
    status: u16,
    retry_after: Option<f64>,
    error: &Value,
    id: &str,
) -> Result<(), Broken> {
    let mut headers = vec![
        ("content-type", "application/json".to_owned()),
        ("request-id", id.to_owned()),
    ];
    headers.extend(retry_after.map(|seconds| ("retry-after", seconds.to_string())));
    let body = json!({"type": "error", "error": error, "request_id": id});
    let mut answer = Answer::new(stream, wire, status, &headers);
    answer.push(body.to_string().as_bytes())?;
    answer.finish()
}

/// Streams what the turn says.
fn play(
    mut answer: Answer<'_>,
    wire: &Wire,
    turn: &Turn,
    steps: impl Iterator<Item = Step>,
    model: &str,
) -> Result<(), Broken> {
    if let Some(body) = &wire.body {
        answer.push(body.as_bytes())?;
        return answer.finish();
    }
    let mut events = 0;
    for step in steps {
        if wire.hang_after_events == Some(events) {
            return Err(answer.hang(&sse::ping()));
        }
        match step {
            Step::Wait(time) => answer.wait(time)?,
            Step::Event(event) => {
                let Some(bytes) = sse::event(&event, model) else {
                    continue;
                };
                events += 1;
                answer.push(&bytes)?;
                if matches!(event, StreamEvent::BlockStarted { index: 0, .. }) {
                    answer.push(&sse::ping())?;
                }
            }
            Step::Fail(_) => {
                let error = turn.stream_error.as_ref().map(Failure::words_of_server);
                answer.push(&sse::failure(&error.unwrap_or_default()))?;
            }
            Step::Cut => {
                answer.flush()?;
                return Err(answer.cut());
            }
            Step::Hang => return Err(answer.hang(&sse::ping())),
        }
    }
    answer.finish()
}
