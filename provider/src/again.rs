//! Requests that are sent again, since the server says what it refuses: with the limit of the output that it names, without the
//! part or the field that it refuses, and with all of a conversation of which it has forgotten the beginning.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

use ah_conversation::{ErrorClass, EventStream, Model, ProviderError, Request, StreamEvent};
use bytes::Bytes;
use futures_util::StreamExt as _;
use parking_lot::{Mutex, MutexGuard};

use crate::decode::AnswerReader;
use crate::exchange::Endpoint;
use crate::fact::{Fact, KeepFact};
use crate::fields;
use crate::held::{Held, HeldBody, is_untouched, may_be_forgotten};
use crate::limit::{self, Limit, MIN_OUTPUT, Windows};
use crate::note::Noted;
use crate::over_socket::{self, is_lost, is_not_now, is_refused};
use crate::pieces::len;
use crate::refused::{self, LeftOut};
use crate::request_encoder::{RequestEncoder, encoded};
use crate::socket::{Socket, Sockets};

/// Most times that one request is sent, each time with less.
const MOST_ATTEMPTS: usize = 32;
/// How often in a row a server may forget what it was asked to hold before it is asked no more.
const MOST_FORGOTTEN: u32 = 3;
/// How many sockets may be lost before an answer begins until the request is sent without one.
const MOST_LOST: u32 = 2;

/// What the server has said about the model and the conversations.
#[derive(Default)]
pub struct Learned {
    /// The model with the window that a refusal has named.
    model: OnceLock<Model>,
    windows: Mutex<Windows>,
    left_out: Mutex<LeftOut>,
    /// How often the server has forgotten a conversation since it continued one.
    forgotten: AtomicU32,
    /// Fields of requests that it refuses, whatever their values.
    refused_fields: Mutex<Vec<String>>,
    /// Keeps what is learned for later sessions.
    keep: Option<KeepFact>,
}

impl Learned {
    /// Knows that the server refuses these fields; `keep` keeps what is learned.
    pub fn keeping(refused_fields: Vec<String>, keep: Option<KeepFact>) -> Self {
        Self {
            refused_fields: Mutex::new(refused_fields),
            keep,
            ..Self::default()
        }
    }

    /// Returns the model with the window that a refusal has named, if one has.
    pub fn model(&self) -> Option<&Model> {
        self.model.get()
    }

    /// Returns what is left out of requests.
    pub fn left_out(&self) -> MutexGuard<'_, LeftOut> {
        self.left_out.lock()
    }
}

/// Makes the reader of an answer.
pub type Reader<R> = Arc<dyn Fn() -> R + Send + Sync>;

/// Returns the fewest output tokens with which a request is worth sending again.
fn least(window: u64) -> u64 {
    MIN_OUTPUT.min(window / 8)
}

/// Returns the events with the size of what the server holds of the request.
fn counted(events: EventStream, held: Option<u64>) -> EventStream {
    let Some(held) = held else {
        return events;
    };
    let counted = events.map(move |mut event| {
        if let Ok(StreamEvent::Sent { held_bytes, .. }) = &mut event {
            *held_bytes = Some(held);
        }
        event
    });
    Box::pin(counted)
}

/// A request that was sent, and its answer.
pub struct Asked<E, R> {
    events: EventStream,
    body: Arc<Vec<Bytes>>,
    /// What is needed to send it again, until the server has taken it.
    again: Option<Box<Again<E, R>>>,
    /// Whether the server has begun an answer.
    is_begun: bool,
}

impl<E: RequestEncoder, R: AnswerReader> Asked<E, R> {
    /// Sends the request.
    pub fn of(mut again: Again<E, R>) -> Self {
        let (body, events) = again.ask();
        Self {
            events,
            body,
            // Boxed, as it is moved with each event.
            again: Some(Box::new(again)),
            is_begun: false,
        }
    }

    /// Returns the body with all messages, as it was sent last.
    pub fn body(&self) -> &Arc<Vec<Bytes>> {
        &self.body
    }

    /// Returns the next event of the answer.
    pub async fn next(&mut self) -> Option<Result<StreamEvent, ProviderError>> {
        loop {
            let event = self.events.next().await?;
            self.is_begun |= matches!(event, Ok(StreamEvent::Started { .. }));
            // Some servers begin an answer and refuse the request then.
            if let Ok(
                StreamEvent::Sent { .. }
                | StreamEvent::Accepted { .. }
                | StreamEvent::Reading { .. }
                | StreamEvent::Started { .. },
            ) = event
            {
                return Some(event);
            }
            let Some(mut again) = self.again.take() else {
                return Some(event);
            };
            let error = match event {
                Ok(event) => {
                    again.keep();
                    return Some(Ok(event));
                }
                // What may cost something is not asked for again without a word.
                Err(error) if self.is_begun && is_lost(&error) => return Some(Err(error)),
                Err(error) => error,
            };
            let notice = match again.learn(&error, &self.body) {
                Lesson::Nothing => return Some(Err(error)),
                Lesson::Forgotten | Lesson::Output => None,
                Lesson::Refused(notice) => Some(notice),
            };
            (self.body, self.events) = again.ask();
            self.is_begun = false;
            self.again = Some(again);
            if let Some(notice) = notice {
                return Some(Ok(StreamEvent::LeftOut { notice }));
            }
        }
    }
}

/// A request that may be sent again.
pub struct Again<E, R> {
    model: Model,
    endpoint: Endpoint,
    encoder: Arc<Mutex<E>>,
    reader: Reader<R>,
    learned: Arc<Learned>,
    left_out: LeftOut,
    /// The fields of this request that the server has refused, whatever their values.
    refused_fields: Vec<String>,
    attempts: usize,
    request: Request,
    /// How it was sent, if the server is asked to hold the conversation.
    held: Option<Sent>,
    sockets: Option<Arc<Sockets>>,
    noted: Option<Arc<Noted>>,
    /// How many sockets were lost.
    lost: u32,
    /// Whether the server has forgotten what it held.
    is_forgotten: bool,
    /// What may help without asking the server to hold the conversation.
    without: Without,
}

/// Why a request is sent without asking the server to hold the conversation.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Without {
    /// It is asked.
    Nothing,
    /// The key of the open socket may have expired.
    Key,
    /// The server has refused the request, and nothing explains that. If it takes it so, it holds no conversations.
    Holding,
}

/// What a server that is asked to hold a conversation was sent.
enum Sent {
    /// All of it.
    All,
    /// What is new since this.
    RestOf(Held),
}

/// What is learned from a refusal.
enum Lesson {
    /// Nothing that helps.
    Nothing,
    /// The server holds no conversation, or not this one.
    Forgotten,
    /// A limit of the output.
    Output,
    /// A part or a field of the request that is refused, and what the user is told of it.
    Refused(String),
}

impl<E: RequestEncoder, R: AnswerReader> Again<E, R> {
    /// A request to `model`, which is not sent yet.
    pub fn new(
        model: Model,
        (endpoint, sockets): (Endpoint, Option<Arc<Sockets>>),
        (encoder, reader): (Arc<Mutex<E>>, Reader<R>),
        (learned, noted): (Arc<Learned>, Option<Arc<Noted>>),
        request: Request,
    ) -> Self {
        let left_out = learned.left_out().clone();
        Self {
            model,
            endpoint,
            encoder,
            reader,
            left_out,
            learned,
            refused_fields: Vec::new(),
            attempts: 1,
            request,
            held: None,
            sockets,
            noted,
            lost: 0,
            is_forgotten: false,
            without: Without::Nothing,
        }
    }

    /// Sends the request; returns its body with all messages, and the events of the answer.
    fn ask(&mut self) -> (Arc<Vec<Bytes>>, EventStream) {
        let (whole, held, socket) = self.encode();
        let reader = (self.reader)();
        let mut held_bytes = self.is_forgotten.then_some(0);
        let Some(HeldBody { body, rest_of }) = held else {
            self.held = None;
            let events = self.endpoint.ask(whole.clone(), reader);
            return (Arc::new(whole), counted(events, held_bytes));
        };
        if rest_of.is_some() {
            held_bytes = Some(len(&whole).saturating_sub(len(&body)).max(1));
        }
        self.held = Some(rest_of.map_or(Sent::All, Sent::RestOf));
        let events = match &self.sockets {
            Some(sockets) => {
                let first = self.request.messages.first();
                let of = first.map(Arc::downgrade).unwrap_or_default();
                over_socket::ask(&self.endpoint, sockets, (socket, of), &body, reader)
            }
            None => self.endpoint.ask(body, reader),
        };
        (Arc::new(whole), counted(events, held_bytes))
    }

    /// Returns the body of the request with all messages, that to a server which is asked to hold the conversation, and the
    /// open socket to send it over.
    fn encode(&mut self) -> (Vec<Bytes>, Option<HeldBody>, Option<Socket>) {
        let is_wanted = self.without == Without::Nothing;
        let mut socket = None;
        let mut encoder = self.encoder.lock();
        let whole = encoded(&mut *encoder, &self.request);
        let noted = self
            .noted
            .as_ref()
            .filter(|_| encoder.outlives_connection());
        if let Some(noted) = noted
            && let [first, _, ..] = &self.request.messages[..]
            && let Some(held) = noted.find(first)
        {
            encoder.hold(first, held);
        }
        let mut held = || encoder.held(&self.request, &whole);
        let held = match &self.sockets {
            _ if !is_wanted => None,
            None => held(),
            Some(_) if self.lost >= MOST_LOST => None,
            Some(sockets) => held().and_then(|body| {
                let Some(rest_of) = &body.rest_of else {
                    return Some(body);
                };
                socket = sockets.take(&rest_of.answer);
                if socket.is_some() {
                    return Some(body);
                }
                self.is_forgotten = true;
                // What was held is taken, so that the second is all of it.
                held()
            }),
        };
        let held = held.map(|held| HeldBody {
            body: fields::without(held.body, &encoder.abilities().refused_fields),
            ..held
        });
        let first = self.request.messages.first().filter(|_| held.is_some());
        if let (Some(sockets), Some(first)) = (&self.sockets, first) {
            sockets.leave(first);
        }
        (whole, held, socket)
    }

    /// Learns from `error` what the server holds after it was sent the rest of a conversation; returns whether all of it is worth
    /// sending.
    fn learn_held(&mut self, error: &ProviderError) -> bool {
        let is_rest = |sent: &mut Sent| matches!(sent, Sent::RestOf(_));
        let Some(Sent::RestOf(held)) = self.held.take_if(is_rest) else {
            return false;
        };
        if let Some(first) = self.request.messages.first()
            && is_untouched(error)
        {
            self.encoder.lock().hold(first, held);
        }
        self.lost += u32::from(is_lost(error));
        let is_forgotten = is_lost(error) || self.encoder.lock().may_be_forgotten(error);
        if is_forgotten {
            self.is_forgotten = true;
            self.count_forgotten();
        }
        is_forgotten
    }

    /// Learns from `error` that the key of an open socket may have expired: the request is sent without it, for which another key is
    /// had, and the next one over another socket.
    fn learn_key(&mut self, error: &ProviderError) -> bool {
        let is_of_key =
            { error.status }.is_some_and(|status| self.endpoint.may_have_expired(status));
        if !is_of_key || self.sockets.is_none() {
            return false;
        }
        let held = self.held.take();
        self.is_forgotten |= matches!(held, Some(Sent::RestOf(_)));
        self.without = Without::Key;
        held.is_some()
    }

    fn count_forgotten(&self) {
        let before = self.learned.forgotten.fetch_add(1, Ordering::Relaxed);
        if before + 1 >= MOST_FORGOTTEN {
            self.encoder.lock().hold_nothing();
        }
    }

    /// Learns from `error` about the sockets of the server; returns whether the request is worth sending again, at last without
    /// one.
    fn learn_socket(&mut self, error: &ProviderError) -> bool {
        if is_refused(error) {
            self.encoder.lock().hold_nothing();
            return true;
        }
        if is_not_now(error) {
            self.lost = MOST_LOST;
            return true;
        }
        self.lost += u32::from(is_lost(error));
        is_lost(error) && self.held.is_some()
    }

    /// Learns from a refusal that nothing else explains that the server may hold no conversations.
    fn learn_to_hold_nothing(&mut self, error: &ProviderError) -> Lesson {
        if self.held.take().is_none() || !may_be_forgotten(error) {
            return Lesson::Nothing;
        }
        self.without = Without::Holding;
        Lesson::Forgotten
    }

    /// Learns from `error`, the answer to `body`; the request becomes one that the server may take.
    fn learn(&mut self, error: &ProviderError, body: &[Bytes]) -> Lesson {
        self.attempts += 1;
        if self.attempts > MOST_ATTEMPTS {
            return Lesson::Nothing;
        }
        if self.learn_key(error) || self.learn_held(error) || self.learn_socket(error) {
            return Lesson::Forgotten;
        }
        if self.learn_output(error).is_some() {
            return Lesson::Output;
        }
        if error.class == ErrorClass::ContextTooLong {
            self.learn_window(error);
            return Lesson::Nothing;
        }
        let names = fields::refused(error, body);
        if !names.is_empty() {
            let notice = fields::notice(&names, error);
            if !fields::is_about_values(error) {
                self.refused_fields.extend(names.clone());
            }
            let mut encoder = self.encoder.lock();
            encoder.abilities().refused_fields.extend(names);
            return Lesson::Refused(notice);
        }
        let parts = refused::refused(error, &self.request, body);
        let notice = refused::notice(&parts, error);
        if !self.left_out.add(parts) {
            return self.learn_to_hold_nothing(error);
        }
        self.request = self.left_out.apply(self.request.clone());
        Lesson::Refused(notice)
    }

    /// Learns the limit of the output that `error` names; `None` if there is none, or it is no help.
    fn learn_output(&mut self, error: &ProviderError) -> Option<()> {
        let mut encoder = self.encoder.lock();
        let abilities = encoder.abilities();
        let known = abilities.max_output.unwrap_or(u64::MAX);
        let wanted = self.request.max_output.min(known);
        match limit::named(&error.message)? {
            Limit::Output(limit) if limit < known => abilities.max_output = Some(limit),
            Limit::Window { window, room } if (least(window)..wanted).contains(&room) => {
                // Later requests have longer inputs, and are to fit as well.
                let limit = (window / 4).max(least(window));
                if limit < wanted {
                    abilities.max_output = Some(limit);
                }
                self.request.max_output = room;
            }
            Limit::Output(_) | Limit::Window { .. } => return None,
        }
        Some(())
    }

    /// Learns the window that `error` names.
    fn learn_window(&self, error: &ProviderError) {
        let mut windows = self.learned.windows.lock();
        if let Some(window) = windows.learn(&error.message, &self.request, &self.model) {
            let model = Model {
                context_window: window,
                max_output: self.model.max_output.min((window / 4).max(least(window))),
                ..self.model.clone()
            };
            // A second one can only repeat it.
            let _ = self.learned.model.set(model);
        }
    }

    /// Keeps what was learned for later requests, since the server has taken this one.
    fn keep(&mut self) {
        if matches!(self.held, Some(Sent::RestOf(_))) {
            self.learned.forgotten.store(0, Ordering::Relaxed);
        }
        if self.lost >= MOST_LOST {
            self.count_forgotten();
        }
        if self.without == Without::Holding {
            self.encoder.lock().hold_nothing();
        }
        if self.attempts > 1 {
            *self.learned.left_out.lock() = std::mem::take(&mut self.left_out);
        }
        let fields = std::mem::take(&mut self.refused_fields);
        if let Some(keep) = self.learned.keep.as_ref().filter(|_| !fields.is_empty()) {
            let mut known = self.learned.refused_fields.lock();
            known.extend(fields);
            let fact = Fact::RefusedFields(known.clone());
            keep(&self.model.provider, &self.model.name, fact);
        }
    }
}
