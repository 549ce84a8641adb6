//! A model behind an HTTP API, as far as all APIs are alike: an encoder writes the body of each request, and a reader
//! turns the answer into stream events. One call of [`Provider::stream`] is one attempt; retries are left to
//! [`retry`](crate::retry). Only what the server says about the request itself is heeded here, and the request sent again:
//! with the limit of the output that the server names, without the part or the field that it refuses, and with all of a
//! conversation of which the server has forgotten the beginning.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use ah_conversation::{
    Continuity, ErrorClass, EventStream, Message, Model, Provider, ProviderError, ProviderExtras,
    Request, StreamEvent,
};
use bytes::Bytes;
use futures_core::Stream;
use futures_util::{StreamExt, stream};

use crate::abilities::Abilities;
use crate::cached_prefix::{CachedPrefixes, left_by_last};
use crate::decode::AnswerReader;
use crate::exchange::Endpoint;
use crate::fact::{Fact, KeepFact};
use crate::fields;
use crate::held::{Gathered, Held, HeldBody, is_untouched, may_be_forgotten};
use crate::keep_warm::{KeepWarm, Warming};
use crate::limit::{self, Limit, MIN_OUTPUT, Windows};
use crate::over_socket::{self, is_lost, is_not_now, is_refused};
use crate::pieces::len;
use crate::refused::{self, LeftOut};
use crate::socket::Sockets;

/// Most times that one request is sent, each time with less.
const MOST_ATTEMPTS: usize = 32;
/// How often in a row a server may forget what it was asked to hold before it is asked no more.
const MOST_FORGOTTEN: u32 = 3;
/// How many sockets may be lost before an answer begins until the request is sent without one.
const MOST_LOST: u32 = 2;

/// Writes the bodies of requests to one model.
pub trait RequestEncoder: Send + 'static {
    /// The model that the requests are for.
    fn model(&self) -> &Model;

    /// Returns how the model takes changes in a conversation.
    fn continuity(&self) -> Continuity {
        Continuity::default()
    }

    /// Returns the abilities of the model, to which what is learned of it is added.
    fn abilities(&mut self) -> &mut Abilities;

    /// Returns the body of `request` in pieces, which share memory with those of earlier requests. The first ends where the
    /// messages begin.
    fn encode(&mut self, request: &Request) -> Vec<Bytes>;

    /// Returns what stands before the messages of the whole body of a request.
    fn beginning(&self, whole: &[Bytes]) -> Bytes {
        whole.first().cloned().unwrap_or_default()
    }

    /// Returns the body of `request` to a server that is asked to hold conversations: with what it does not hold yet, or with
    /// all. `whole` is the body to a server that holds nothing, as it was just encoded. `None` if the server is not asked.
    fn held(&mut self, _request: &Request, _whole: &[Bytes]) -> Option<HeldBody> {
        None
    }

    /// Notes what the server holds of the conversation that begins with `first`.
    fn hold(&mut self, _first: &Arc<Message>, _held: Held) {}

    /// Asks the server to hold no conversation any more.
    fn hold_nothing(&mut self) {}
}

/// A model whose requests `E` encodes and whose answers `R` reads.
pub struct HttpModel<E, R> {
    model: Model,
    learned: Arc<Learned>,
    endpoint: Endpoint,
    encoder: Arc<Mutex<E>>,
    reader: Reader<R>,
    cached: Arc<Mutex<CachedPrefixes>>,
    keep_warm: KeepWarm,
    warming: Arc<Warming>,
    /// The sockets over which the server is asked to hold conversations; without them, it does not depend on the connection.
    sockets: Option<Arc<Sockets>>,
}

/// What the server has said about the model and the conversations.
#[derive(Default)]
struct Learned {
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

/// Makes the reader of an answer.
type Reader<R> = Arc<dyn Fn() -> R + Send + Sync>;

impl<E: RequestEncoder, R: AnswerReader> HttpModel<E, R> {
    /// A model at `endpoint`.
    pub(crate) fn at(endpoint: Endpoint, encoder: E) -> Self {
        Self::with_reader(endpoint, encoder, R::default)
    }

    /// A model at `endpoint`, with readers that `reader` makes.
    pub(crate) fn with_reader(
        endpoint: Endpoint,
        encoder: E,
        reader: impl Fn() -> R + Send + Sync + 'static,
    ) -> Self {
        Self {
            model: encoder.model().clone(),
            learned: Arc::default(),
            endpoint,
            encoder: Arc::new(Mutex::new(encoder)),
            reader: Arc::new(reader),
            cached: Arc::default(),
            keep_warm: KeepWarm::default(),
            warming: Arc::default(),
            sockets: None,
        }
    }

    /// Sends what the server is asked to hold over `sockets`.
    pub(crate) fn over(mut self, sockets: Option<Sockets>) -> Self {
        self.sockets = sockets.map(Arc::new);
        self
    }

    /// Keeps what the server shows of the model for later sessions.
    pub(crate) fn keeping(mut self, keep: Option<KeepFact>) -> Self {
        let known = locked(&self.encoder).abilities().refused_fields.clone();
        self.learned = Arc::new(Learned {
            refused_fields: Mutex::new(known),
            keep,
            ..Learned::default()
        });
        self
    }

    /// Keeps the last conversation in the prompt cache.
    pub(crate) fn kept_warm(mut self, settings: KeepWarm) -> Self {
        self.keep_warm = settings;
        self
    }

    /// Returns a request that only reads the cache: `request` with the least output.
    fn warmer(&self, request: &Request) -> impl Fn() -> EventStream + Send + 'static {
        let (endpoint, encoder, reader) = (
            self.endpoint.clone(),
            self.encoder.clone(),
            self.reader.clone(),
        );
        let least = Request {
            max_output: 1,
            ..request.clone()
        };
        move || endpoint.ask(encoded(&mut *locked(&encoder), &least), reader())
    }

    /// Sends `body` as a request of its own.
    pub(crate) fn ask(&self, body: Vec<Bytes>) -> EventStream {
        self.endpoint.ask(body, (self.reader)())
    }
}

impl<E: RequestEncoder, R: AnswerReader> Provider for HttpModel<E, R> {
    fn model(&self) -> &Model {
        self.learned.model.get().unwrap_or(&self.model)
    }

    fn extras(&self) -> ProviderExtras<'_> {
        let encoder = self.encoder.lock().unwrap_or_else(PoisonError::into_inner);
        ProviderExtras {
            continuity: encoder.continuity(),
            unseen: Some(&*self.warming),
            search: None,
        }
    }

    fn stream(&self, request: Request) -> EventStream {
        let request = locked(&self.learned.left_out).apply(request);
        let (keep_warm, warming) = (self.keep_warm, self.warming.clone());
        let mut warmer = (keep_warm.times > 0).then(|| self.warmer(&request));
        let first = request.messages.first().cloned();
        let left = left_by_last(&request.messages, self.model());
        let mut cached_body = Arc::default();
        let cached = self.cached.clone();
        let (encoder, messages) = (self.encoder.clone(), request.messages.len());
        let mut gathered = None;
        // A summary takes the place of the conversation.
        let is_held = request.summary.is_none();
        let events = self.asked(request).flat_map(move |(event, body)| {
            match (&event, &mut gathered) {
                (Ok(StreamEvent::Sent { .. }), _) => {
                    let head = || locked(&encoder).beginning(&body);
                    gathered = is_held.then(|| Gathered::new(head()));
                }
                (Ok(event), Some(gathered)) => gathered.note(event),
                _ => {}
            }
            let miss = match (&event, &first) {
                (Ok(StreamEvent::Sent { .. }), _) => {
                    cached_body = body;
                    None
                }
                (Ok(StreamEvent::Stopping { usage, .. }), Some(first)) => {
                    locked(&cached).miss(first, std::mem::take(&mut cached_body), usage, left)
                }
                (Ok(StreamEvent::Ended), _) => {
                    let held = gathered.take().and_then(|it: Gathered| it.held(messages));
                    if let Some((first, held)) = first.as_ref().zip(held) {
                        locked(&encoder).hold(first, held);
                    }
                    if let Some(warmer) = warmer.take() {
                        warming.begin(keep_warm, warmer);
                    }
                    None
                }
                _ => None,
            };
            let miss = miss.map(|miss| Ok(StreamEvent::CacheMissed(miss)));
            stream::iter(miss.into_iter().chain([event]))
        });
        Box::pin(events)
    }
}

/// An event, and with [`StreamEvent::Sent`] the body of the request.
type EventOfBody = (Result<StreamEvent, ProviderError>, Arc<Vec<Bytes>>);

impl<E: RequestEncoder, R: AnswerReader> HttpModel<E, R> {
    /// The events of the answer to `request`, which is sent again with less if the server says what it refuses.
    fn asked(&self, request: Request) -> impl Stream<Item = EventOfBody> + Send + use<E, R> {
        // Boxed, as it is moved with each event.
        let mut again = Box::new(Again {
            model: self.model.clone(),
            endpoint: self.endpoint.clone(),
            encoder: self.encoder.clone(),
            reader: self.reader.clone(),
            learned: self.learned.clone(),
            left_out: locked(&self.learned.left_out).clone(),
            refused_fields: Vec::new(),
            attempts: 1,
            request,
            held: None,
            sockets: self.sockets.clone(),
            lost: 0,
            is_forgotten: false,
        });
        let (body, events) = again.ask();
        let asked = Asked {
            events,
            body,
            again: Some(again),
            is_begun: false,
        };
        stream::unfold(asked, |mut asked| async move {
            let event = asked.next().await?;
            Some(((event, asked.body.clone()), asked))
        })
    }
}

/// Returns the fewest output tokens with which a request is worth sending again.
fn least(window: u64) -> u64 {
    MIN_OUTPUT.min(window / 8)
}

fn encoded(encoder: &mut impl RequestEncoder, request: &Request) -> Vec<Bytes> {
    let body = encoder.encode(request);
    fields::without(body, &encoder.abilities().refused_fields)
}

fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
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
struct Asked<E, R> {
    events: EventStream,
    body: Arc<Vec<Bytes>>,
    /// What is needed to send it again, until the server has taken it.
    again: Option<Box<Again<E, R>>>,
    /// Whether the server has begun an answer.
    is_begun: bool,
}

impl<E: RequestEncoder, R: AnswerReader> Asked<E, R> {
    async fn next(&mut self) -> Option<Result<StreamEvent, ProviderError>> {
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
struct Again<E, R> {
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
    /// How many sockets were lost.
    lost: u32,
    /// Whether the server has forgotten what it held.
    is_forgotten: bool,
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
    /// Sends the request; returns its body with all messages, and the events of the answer.
    fn ask(&mut self) -> (Arc<Vec<Bytes>>, EventStream) {
        let is_socket_wanted = self.lost < MOST_LOST;
        let sockets = self.sockets.clone();
        let mut socket = None;
        let (whole, held) = {
            let mut encoder = locked(&self.encoder);
            let whole = encoded(&mut *encoder, &self.request);
            let mut held = || encoder.held(&self.request, &whole);
            let held = match &sockets {
                None => held(),
                Some(_) if !is_socket_wanted => None,
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
            (whole, held)
        };
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
        let events = match &sockets {
            Some(sockets) => over_socket::ask(&self.endpoint, sockets, socket, &body, reader),
            None => self.endpoint.ask(body, reader),
        };
        (Arc::new(whole), counted(events, held_bytes))
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
            locked(&self.encoder).hold(first, held);
        }
        self.lost += u32::from(is_lost(error));
        let is_forgotten = may_be_forgotten(error) || is_lost(error);
        if is_forgotten {
            self.is_forgotten = true;
            self.count_forgotten();
        }
        is_forgotten
    }

    fn count_forgotten(&self) {
        let before = self.learned.forgotten.fetch_add(1, Ordering::Relaxed);
        if before + 1 >= MOST_FORGOTTEN {
            locked(&self.encoder).hold_nothing();
        }
    }

    /// Learns from `error` about the sockets of the server; returns whether the request is worth sending again, at last without
    /// one.
    fn learn_socket(&mut self, error: &ProviderError) -> bool {
        if is_refused(error) {
            locked(&self.encoder).hold_nothing();
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
        locked(&self.encoder).hold_nothing();
        Lesson::Forgotten
    }

    /// Learns from `error`, the answer to `body`; the request becomes one that the server may take.
    fn learn(&mut self, error: &ProviderError, body: &[Bytes]) -> Lesson {
        self.attempts += 1;
        if self.attempts > MOST_ATTEMPTS {
            return Lesson::Nothing;
        }
        if self.learn_held(error) || self.learn_socket(error) {
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
            let mut encoder = locked(&self.encoder);
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
        let mut encoder = locked(&self.encoder);
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
        let mut windows = locked(&self.learned.windows);
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
        if self.attempts > 1 {
            *locked(&self.learned.left_out) = std::mem::take(&mut self.left_out);
        }
        let fields = std::mem::take(&mut self.refused_fields);
        if let Some(keep) = self.learned.keep.as_ref().filter(|_| !fields.is_empty()) {
            let mut known = locked(&self.learned.refused_fields);
            known.extend(fields);
            let fact = Fact::RefusedFields(known.clone());
            keep(&self.model.provider, &self.model.name, fact);
        }
    }
}
