//! A model's server on the loopback interface, for tests that drive the real binary over a real socket.
//!
//! It speaks the Messages API, chat completions and the Responses API, each at its own path. It answers with the turns
//! of a scenario and refuses every request that the vendor would refuse, in the vendor's words: see
//! [`messages::history`] and its like. It keeps what it was asked. What a scenario expects of requests is left to the scripted
//! model; here the test looks at the requests itself.

pub mod chat;
mod face;
pub(crate) mod http;
mod json;
pub mod messages;
pub mod responses;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io::BufReader;
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use ah_conversation::{ErrorClass, StreamEvent};
use ah_provider::script::failure::{Class, Failure};
use ah_provider::script::format::{Scenario, Turn, Wire};
use ah_provider::script::play::{Step, TurnContext};
use serde_json::{Value, json};

use self::face::{Face, News, Refusal, Stream};
use self::http::{Answer, Asked, Broken};
use crate::script::scenario;

/// How long [`Server::wait_until`] waits before it calls the test hung.
const HUNG: Duration = Duration::from_secs(60);

/// Where a test in another language asks for the bodies of the requests so far. No vendor has such a place.
const REQUESTS: &str = "/requests";

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

    /// Where it listens, as `ANTHROPIC_BASE_URL` and its like want it.
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
            if asked.path == REQUESTS {
                if self.tell_requests(stream).is_err() {
                    return;
                }
                continue;
            }
            let (number, face, reply) = self.receive(asked);
            let answered = self.reply(stream, number, face, reply);
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

    /// Answers with the bodies of the requests so far.
    fn tell_requests(&self, stream: &TcpStream) -> Result<(), Broken> {
        let bodies: Value = self
            .log()
            .received
            .iter()
            .map(|it| it.body.clone())
            .collect();
        let headers = [("content-type", "application/json".to_owned())];
        let wire = Wire::default();
        let mut answer = Answer::new(stream, &wire, 200, &headers);
        answer.push(bodies.to_string().as_bytes())?;
        answer.finish()
    }

    /// Notes the request and decides what to answer.
    fn receive(&self, asked: Asked) -> (usize, Face, Reply<'_>) {
        let body: Result<Value, _> = serde_json::from_slice(&asked.body);
        let face = Face::at(&asked.path).filter(|_| asked.method == "POST");
        let mut log = self.log();
        let reply = match (face, &body) {
            (None, _) => Reply::Refuse(Refusal::unknown_place()),
            (_, Err(error)) => Reply::Refuse(Refusal::invalid(format!(
                "The request body is not valid JSON: {error}"
            ))),
            (Some(face), Ok(body)) => match face.refusal(&asked.headers, body) {
                Some(refusal) => Reply::Refuse(refusal),
                None => self.turn(&mut log, face, body),
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
        // Who does not know where it is gets an answer all the same.
        (number, face.unwrap_or(Face::Messages), reply)
    }

    fn turn(&self, log: &mut Log, face: Face, body: &Value) -> Reply<'_> {
        let turn = |at: usize| self.order.get(at).map(|place| &self.scenario.turns[*place]);
        let at = match self.pick {
            Pick::InOrder => log.next,
            Pick::ByHistory => {
                let mut answered = face.answers(body);
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
                self.context(log.received.len(), at, face.news(body)),
                Stream::new(face, body),
            ),
            None => Reply::Refuse(Refusal::invalid(format!(
                "the scenario ends with turn {}",
                self.order.len()
            ))),
        }
    }

    fn context(&self, number: usize, at: usize, news: News) -> TurnContext {
        TurnContext {
            id: format!("{}x{number}", self.port),
            turn: at + 1,
            user: news.said.join("\n"),
            result: news.result,
            templates: !self.scenario.strict,
        }
    }

    fn reply(
        &self,
        stream: &TcpStream,
        number: usize,
        face: Face,
        reply: Reply<'_>,
    ) -> Result<(), Broken> {
        let id = format!("req_{}x{number}", self.port);
        match reply {
            Reply::Refuse(refusal) => {
                let words = json!({"type": refusal.kind, "message": refusal.message});
                let body = face.failure(&words, &id);
                refuse(stream, &Wire::default(), refusal.status, None, &body, id)
            }
            Reply::Play(turn, context, answer) => {
                let no_wire = Wire::default();
                let wire = turn.wire.as_ref().unwrap_or(&no_wire);
                let mut steps = turn
                    .steps(&context, self.scenario.chunk_delay_ms)
                    .into_iter()
                    .peekable();
                while let Some(Step::Wait(time)) =
                    steps.next_if(|step| matches!(step, Step::Wait(_)))
                {
                    std::thread::sleep(time);
                }
                match &turn.error {
                    Some(failure) if wire.body.is_none() => fail(stream, wire, face, failure, id),
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
                        let out = Answer::new(stream, wire, status, &headers);
                        play(out, wire, turn, steps, answer)
                    }
                }
            }
        }
    }
}

/// What to answer.
enum Reply<'a> {
    Refuse(Refusal),
    Play(&'a Turn, TurnContext, Stream),
}

/// Answers with a failure before any event: with a status, or by ending the connection where the failure has none.
fn fail(
    stream: &TcpStream,
    wire: &Wire,
    face: Face,
    failure: &Failure,
    id: String,
) -> Result<(), Broken> {
    let is_network = failure.class == Some(Class(ErrorClass::Network));
    let status = match failure.status {
        None if is_network || failure.kind.is_none() => {
            // What is gone already need not be ended.
            let _ = stream.shutdown(Shutdown::Both);
            return Err(Broken::Cut);
        }
        status => status.unwrap_or(500),
    };
    let body = face.failure(&failure.error_object(), &id);
    refuse(stream, wire, status, failure.retry_after, &body, id)
}

fn refuse(
    stream: &TcpStream,
    wire: &Wire,
    status: u16,
    retry_after: Option<f64>,
    body: &Value,
    id: String,
) -> Result<(), Broken> {
    let mut headers = vec![
        ("content-type", "application/json".to_owned()),
        ("request-id", id),
    ];
    headers.extend(retry_after.map(|seconds| ("retry-after", seconds.to_string())));
    let mut answer = Answer::new(stream, wire, status, &headers);
    answer.push(body.to_string().as_bytes())?;
    answer.finish()
}

/// Streams what the turn says, as the `answer` of its protocol.
fn play(
    mut out: Answer<'_>,
    wire: &Wire,
    turn: &Turn,
    steps: impl Iterator<Item = Step>,
    mut answer: Stream,
) -> Result<(), Broken> {
    if let Some(body) = &wire.body {
        out.push(body.as_bytes())?;
        return out.finish();
    }
    let mut events = 0;
    for step in steps {
        if wire.hang_after_events == Some(events) {
            return Err(out.hang(&answer.ping()));
        }
        match step {
            Step::Wait(time) => out.wait(time)?,
            Step::Event(event) => {
                let Some(bytes) = answer.event(&event) else {
                    continue;
                };
                events += 1;
                out.push(&bytes)?;
                if matches!(event, StreamEvent::BlockStarted { index: 0, .. }) {
                    out.push(&answer.ping())?;
                }
            }
            Step::Fail(_) => {
                let words = turn.stream_error.as_ref().map(Failure::error_object);
                out.push(&answer.failure(&words.unwrap_or_default()))?;
            }
            Step::Cut => {
                out.flush()?;
                return Err(out.cut());
            }
            Step::Hang => return Err(out.hang(&answer.ping())),
        }
    }
    out.finish()
}
