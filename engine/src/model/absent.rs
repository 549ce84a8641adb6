//! A model that cannot be asked, in the place of one whose key was forgotten: the conversation stays open, and each request says why
//! there is no answer.

use std::sync::Arc;

use ah_conversation::{
    Continuity, EventStream, Model, Provider, ProviderError, ProviderExtras, Request,
};
use futures_util::stream;

struct Absent {
    model: Model,
    continuity: Continuity,
    why: ProviderError,
}

/// Returns what stands for `former`, which is not asked any more. It is as the former is, so that nothing of the conversation changes.
pub fn absent(former: &dyn Provider, why: ProviderError) -> Arc<dyn Provider> {
    Arc::new(Absent {
        model: former.model().clone(),
        continuity: former.extras().continuity,
        why,
    })
}

impl Provider for Absent {
    fn model(&self) -> &Model {
        &self.model
    }

    fn stream(&self, _: Request) -> EventStream {
        Box::pin(stream::iter([Err(self.why.clone())]))
    }

    fn extras(&self) -> ProviderExtras<'_> {
        ProviderExtras {
            continuity: self.continuity,
            ..ProviderExtras::default()
        }
    }
}
