//! A model behind an HTTP API, as far as all APIs are alike: an encoder writes the body of each request, and a reader
//! turns the answer into stream events. One call of [`Provider::stream`] is one attempt; retries are left to
//! [`retry`](crate::retry), and what the server says about the request itself to `again.rs`.

use std::sync::Arc;

use ah_conversation::{
    CallReason, Connecting, ConnectsEarly, EventStream, Model, Provider, ProviderError,
    ProviderExtras, Request, StreamEvent, UnseenUse, Usage,
};
use bytes::Bytes;
use futures_core::Stream;
use futures_util::{StreamExt, stream};
use parking_lot::Mutex;

use crate::again::{Again, Asked, Learned, Reader};
use crate::cached_prefix::{CachedPrefixes, left_by_last};
use crate::decode::AnswerReader;
use crate::exchange::Endpoint;
use crate::fact::KeepFact;
use crate::held::Gathered;
use crate::keep_warm::{KeepWarm, SentAt, Warming};
use crate::note::{Noted, Notes};
use crate::request_encoder::{RequestEncoder, encoded};
use crate::socket::Sockets;

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
    noted: Option<Arc<Noted>>,
}

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
            noted: None,
        }
    }

    /// Sends what the server is asked to hold over `sockets`.
    pub(crate) fn over(mut self, sockets: Option<Sockets>) -> Self {
        self.sockets = sockets.map(Arc::new);
        self
    }

    /// Keeps what the server shows of the model for later sessions.
    pub(crate) fn keeping(mut self, keep: Option<KeepFact>) -> Self {
        let known = self.encoder.lock().abilities().refused_fields.clone();
        self.learned = Arc::new(Learned::keeping(known, keep));
        self
    }

    /// Notes what the server holds, and goes on with what another process has noted.
    pub(crate) fn noting(mut self, notes: Option<Arc<dyn Notes>>) -> Self {
        let address = self.endpoint.address();
        self.noted = notes.map(|notes| Arc::new(Noted::of(notes, address)));
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
        move || endpoint.ask(encoded(&mut *encoder.lock(), &least), reader())
    }

    fn warmed(&self, spent: Vec<Usage>) -> Vec<(CallReason, Model, Usage)> {
        let of_model = |usage| (CallReason::KeepWarm, self.model().clone(), usage);
        spent.into_iter().map(of_model).collect()
    }

    /// Sends `body` as a request of its own.
    pub(crate) fn ask(&self, body: Vec<Bytes>) -> EventStream {
        self.endpoint.ask(body, (self.reader)())
    }
}

impl<E: RequestEncoder, R: AnswerReader> Provider for HttpModel<E, R> {
    fn model(&self) -> &Model {
        self.learned.model().unwrap_or(&self.model)
    }

    fn extras(&self) -> ProviderExtras<'_> {
        ProviderExtras {
            continuity: self.encoder.lock().continuity(),
            unseen: Some(self),
            search: None,
            early: Some(self),
        }
    }

    fn stream(&self, request: Request) -> EventStream {
        let request = self.learned.left_out().apply(request);
        let (keep_warm, warming) = (self.keep_warm, self.warming.clone());
        let is_kept = keep_warm.times > 0 && request.precedes_pause;
        let mut warmer = is_kept.then(|| self.warmer(&request));
        // Of what is not in the cache, nothing can be kept.
        let mut is_cached = false;
        let mut sent = SentAt::now();
        let (price, noted) = (self.model().price, self.noted.clone());
        let first = request.messages.first().cloned();
        let left = left_by_last(&request.messages, self.model());
        let mut cached_body = Arc::default();
        let cached = self.cached.clone();
        let (encoder, messages) = (self.encoder.clone(), request.messages.len());
        let mut gathered = None;
        // A summary takes the place of the conversation.
        let is_held = request.summary.is_none();
        // A request without tools is hardly continued, least of all by another process.
        let is_noted = !request.tools.is_empty();
        let events = self.asked(request).flat_map(move |(event, body)| {
            if let Ok(StreamEvent::Stopping { usage, .. }) = &event {
                is_cached = usage.cache_read_input_tokens + usage.cache_creation_input_tokens > 0;
            }
            match (&event, &mut gathered) {
                (Ok(StreamEvent::Sent { .. }), _) => {
                    let head = || encoder.lock().beginning(&body);
                    gathered = is_held.then(|| Gathered::new(head()));
                }
                (Ok(event), Some(gathered)) => gathered.note(event),
                _ => {}
            }
            let miss = match (&event, &first) {
                (Ok(StreamEvent::Sent { .. }), _) => {
                    cached_body = body;
                    sent = SentAt::now();
                    None
                }
                (Ok(StreamEvent::Stopping { usage, .. }), Some(first)) => {
                    cached
                        .lock()
                        .miss(first, std::mem::take(&mut cached_body), usage, left)
                }
                (Ok(StreamEvent::Ended), _) => {
                    let held = gathered.take().and_then(|it: Gathered| it.held(messages));
                    if let Some((first, held)) = first.as_ref().zip(held) {
                        let said = {
                            let encoder = encoder.lock();
                            let is_noted =
                                is_noted && noted.is_some() && encoder.outlives_connection();
                            is_noted.then(|| encoder.said(first, messages)).flatten()
                        };
                        if let Some((noted, said)) = noted.as_ref().zip(said) {
                            noted.keep(first, &held, said);
                        }
                        encoder.lock().hold(first, held);
                    }
                    if let Some(warmer) = warmer.take().filter(|_| is_cached) {
                        warming.begin(keep_warm, price, sent, warmer);
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

impl<E: RequestEncoder, R: AnswerReader> UnseenUse for HttpModel<E, R> {
    fn end_pause(&self) -> Vec<(CallReason, Model, Usage)> {
        self.warmed(self.warming.end_pause())
    }

    fn used(&self) -> Vec<(CallReason, Model, Usage)> {
        self.warmed(self.warming.used())
    }
}

impl<E: RequestEncoder, R: AnswerReader> ConnectsEarly for HttpModel<E, R> {
    fn connect_early(&self) -> Option<Connecting> {
        let needs_sockets = self.encoder.lock().needs_sockets();
        let client = match self.sockets.as_ref().filter(|_| needs_sockets) {
            Some(sockets) if sockets.is_any_open() => return None,
            Some(sockets) => sockets.client(self.endpoint.address()).ok()?,
            None => self.endpoint.client(),
        };
        self.endpoint.connect_early(client)
    }
}

/// An event, and with [`StreamEvent::Sent`] the body of the request.
type EventOfBody = (Result<StreamEvent, ProviderError>, Arc<Vec<Bytes>>);

impl<E: RequestEncoder, R: AnswerReader> HttpModel<E, R> {
    /// The events of the answer to `request`, which is sent again with less if the server says what it refuses.
    fn asked(&self, request: Request) -> impl Stream<Item = EventOfBody> + Send + use<E, R> {
        let again = Again::new(
            self.model.clone(),
            (self.endpoint.clone(), self.sockets.clone()),
            (self.encoder.clone(), self.reader.clone()),
            (self.learned.clone(), self.noted.clone()),
            request,
        );
        let asked = Asked::of(again);
        stream::unfold(asked, |mut asked| async move {
            let event = asked.next().await?;
            Some(((event, asked.body().clone()), asked))
        })
    }
}
