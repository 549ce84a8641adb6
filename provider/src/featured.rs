//! A model that is asked with the features that only newer servers know, until its server refuses them; from then on, it is
//! asked without.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ah_conversation::{EventStream, Model, Provider, ProviderError, ProviderExtras, Request};

use crate::decode::AnswerReader;
use crate::http_model::HttpModel;
use crate::request_encoder::RequestEncoder;
use crate::ways::or_again;

/// A model with and without the newer features.
pub struct Featured<E, R> {
    whole: Arc<HttpModel<E, R>>,
    /// The model without the features; `None` if it has none.
    plain: Option<Arc<HttpModel<E, R>>>,
    /// Whether the server has refused them. It is not asked with them again.
    is_plain: Arc<AtomicBool>,
    refuses: fn(&ProviderError) -> bool,
}

impl<E: RequestEncoder, R: AnswerReader> Featured<E, R> {
    /// A model that is asked as `whole`, or as `plain` after an error that `refuses` takes for a refusal of the features.
    pub(crate) fn with(
        whole: HttpModel<E, R>,
        plain: Option<HttpModel<E, R>>,
        refuses: fn(&ProviderError) -> bool,
    ) -> Self {
        Self {
            whole: Arc::new(whole),
            plain: plain.map(Arc::new),
            is_plain: Arc::default(),
            refuses,
        }
    }

    /// Returns the model as it is asked now.
    pub(crate) fn current(&self) -> &Arc<HttpModel<E, R>> {
        let is_plain = self.is_plain.load(Ordering::Relaxed);
        self.plain
            .as_ref()
            .filter(|_| is_plain)
            .unwrap_or(&self.whole)
    }
}

impl<E: RequestEncoder, R: AnswerReader> Provider for Featured<E, R> {
    fn model(&self) -> &Model {
        self.current().model()
    }

    fn extras(&self) -> ProviderExtras<'_> {
        self.current().extras()
    }

    fn stream(&self, request: Request) -> EventStream {
        let (is_plain, refuses) = (self.is_plain.clone(), self.refuses);
        let Some(plain) = self
            .plain
            .clone()
            .filter(|_| !is_plain.load(Ordering::Relaxed))
        else {
            return self.current().stream(request);
        };
        or_again(self.whole.stream(request.clone()), move |error| {
            if !refuses(&error) {
                return Err(error);
            }
            is_plain.store(true, Ordering::Relaxed);
            match request.summary {
                // Without the feature the request would ask for an answer.
                Some(_) => Err(error),
                None => Ok(plain.stream(request)),
            }
        })
    }
}
