//! A model behind an HTTP API, as far as all APIs are alike: an encoder writes the body of each request, and a reader
//! turns the answer into stream events. One call of [`Provider::stream`] is one attempt; retries are left to
//! [`retry`](crate::retry). Only a request for more output than the server allows is sent again here, once, with the
//! limit that the server names.

use std::sync::{Arc, Mutex, PoisonError};

use ah_conversation::{
    Continuity, EventStream, Model, Provider, ProviderError, Request, StreamEvent, Usage,
};
use bytes::Bytes;
use futures_core::Stream;
use futures_util::{StreamExt, stream};

use crate::abilities::Abilities;
use crate::cached_prefix::{CachedPrefixes, left_by_last};
use crate::decode::AnswerReader;
use crate::exchange::Endpoint;
use crate::keep_warm::{KeepWarm, Warming};
use crate::limit::{self, Limit, MIN_OUTPUT};

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

    /// Returns the body of `request` in pieces, which share memory with those of earlier requests.
    fn encode(&mut self, request: &Request) -> Vec<Bytes>;
}

/// A model whose requests `E` encodes and whose answers `R` reads.
pub struct HttpModel<E, R> {
    model: Model,
    endpoint: Endpoint,
    encoder: Arc<Mutex<E>>,
    reader: Reader<R>,
    cached: Arc<Mutex<CachedPrefixes>>,
    keep_warm: KeepWarm,
    warming: Arc<Warming>,
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
            endpoint,
            encoder: Arc::new(Mutex::new(encoder)),
            reader: Arc::new(reader),
            cached: Arc::default(),
            keep_warm: KeepWarm::default(),
            warming: Arc::default(),
        }
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
        move || endpoint.ask(encode(&encoder, &least), reader())
    }

    /// Sends `body` as a request of its own.
    pub(crate) fn ask(&self, body: Vec<Bytes>) -> EventStream {
        self.endpoint.ask(body, (self.reader)())
    }
}

impl<E: RequestEncoder, R: AnswerReader> Provider for HttpModel<E, R> {
    fn model(&self) -> &Model {
        &self.model
    }

    fn continuity(&self) -> Continuity {
        let encoder = self.encoder.lock().unwrap_or_else(PoisonError::into_inner);
        encoder.continuity()
    }

    fn end_pause(&self) -> Vec<Usage> {
        self.warming.end()
    }

    fn stream(&self, request: Request) -> EventStream {
        let (keep_warm, warming) = (self.keep_warm, self.warming.clone());
        let mut warmer = (keep_warm.times > 0).then(|| self.warmer(&request));
        let first = request.messages.first().cloned();
        let left = left_by_last(&request.messages, self.model());
        let mut cached_body = Arc::default();
        let cached = self.cached.clone();
        let events = self.asked(request).flat_map(move |(event, body)| {
            let miss = match (&event, &first) {
                (Ok(StreamEvent::Sent { .. }), _) => {
                    cached_body = body;
                    None
                }
                (Ok(StreamEvent::Stopping { usage, .. }), Some(first)) => {
                    let mut cached = cached.lock().unwrap_or_else(PoisonError::into_inner);
                    cached.miss(first, std::mem::take(&mut cached_body), usage, left)
                }
                (Ok(StreamEvent::Ended), _) => {
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
    /// The events of the answer to `request`, which is sent again if the server names a limit that it exceeds.
    fn asked(&self, request: Request) -> impl Stream<Item = EventOfBody> + Send + use<E, R> {
        let body = Arc::new(encode(&self.encoder, &request));
        // Boxed, as it is moved with each event.
        let again = Box::new(Again {
            endpoint: self.endpoint.clone(),
            encoder: self.encoder.clone(),
            reader: self.reader.clone(),
            request,
        });
        let state = (self.ask(body.to_vec()), body, Some(again));
        stream::unfold(state, |(mut events, body, again)| async move {
            let event = events.next().await?;
            let again = match (&event, again) {
                (Ok(StreamEvent::Sent { .. } | StreamEvent::Accepted { .. }), again) => {
                    return Some(((event, body.clone()), (events, body, again)));
                }
                (Err(error), Some(again)) => again.learn(error),
                _ => None,
            };
            let Some(again) = again else {
                return Some(((event, body.clone()), (events, body, None)));
            };
            let body = Arc::new(encode(&again.encoder, &again.request));
            let mut events = again.endpoint.ask(body.to_vec(), (again.reader)());
            let event = events.next().await?;
            Some(((event, body.clone()), (events, body, None)))
        })
    }
}

fn encode<E: RequestEncoder>(encoder: &Mutex<E>, request: &Request) -> Vec<Bytes> {
    let mut encoder = encoder.lock().unwrap_or_else(PoisonError::into_inner);
    encoder.encode(request)
}

/// A request that may be sent again.
struct Again<E, R> {
    endpoint: Endpoint,
    encoder: Arc<Mutex<E>>,
    reader: Reader<R>,
    request: Request,
}

impl<E: RequestEncoder, R> Again<E, R> {
    /// Learns the limit that `error` names; returns the request with less output, unless that is no help.
    fn learn(mut self: Box<Self>, error: &ProviderError) -> Option<Box<Self>> {
        let mut encoder = self.encoder.lock().unwrap_or_else(PoisonError::into_inner);
        let abilities = encoder.abilities();
        let known = abilities.max_output.unwrap_or(u64::MAX);
        let wanted = self.request.max_output.min(known);
        match limit::named(&error.message)? {
            Limit::Output(limit) if limit < known => abilities.max_output = Some(limit),
            Limit::Window { window, room } if (MIN_OUTPUT..wanted).contains(&room) => {
                // Later requests have longer inputs, and are to fit as well.
                let limit = (window / 4).max(MIN_OUTPUT);
                if limit < wanted {
                    abilities.max_output = Some(limit);
                }
                self.request.max_output = room;
            }
            Limit::Output(_) | Limit::Window { .. } => return None,
        }
        drop(encoder);
        Some(self)
    }
}
