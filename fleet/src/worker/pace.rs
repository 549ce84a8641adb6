//! Requests of a run to models, under the limits that all workers share.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use ah_conversation::{
    Cost, ErrorClass, EventKind, EventStream, Model, Provider, ProviderError, ProviderExtras,
    Request, StoreError,
};
use ah_store::fleet::{Admission, Fleet};
use futures_util::{FutureExt as _, stream};
use tokio::sync::Mutex;
use tokio::time::sleep;

use super::metrics::Metrics;

/// What a run uses.
pub(super) struct Meter {
    fleet: Arc<dyn Fleet>,
    metrics: Arc<Metrics>,
    /// Cost that no budget knows yet, in 10⁻¹² US dollars.
    unsettled: AtomicI64,
    settling: Mutex<()>,
    is_spent: AtomicBool,
}

impl Meter {
    pub(super) fn new(fleet: Arc<dyn Fleet>, metrics: Arc<Metrics>) -> Self {
        Self {
            fleet,
            metrics,
            unsettled: AtomicI64::new(0),
            settling: Mutex::default(),
            is_spent: AtomicBool::new(false),
        }
    }

    /// Counts what happens in the run.
    pub(super) fn count(&self, event: &EventKind) {
        if let EventKind::ApiCallEnd {
            cost_usd: Some(cost),
            ..
        } = event
        {
            let cost = i64::try_from(Cost::from_usd(*cost).0).unwrap_or(i64::MAX);
            self.unsettled.fetch_add(cost, Ordering::SeqCst);
        }
        self.metrics.count(event);
    }

    /// Takes from the budgets what the run has cost since the last time.
    pub(super) async fn settle(&self) -> Result<(), StoreError> {
        // One at a time, or two would spend the same. What the store does not confirm is spent again.
        let _one = self.settling.lock().await;
        let cost = self.unsettled.load(Ordering::SeqCst);
        if cost != 0 {
            self.fleet.spend(cost).await?;
            self.unsettled.fetch_sub(cost, Ordering::SeqCst);
        }
        Ok(())
    }

    /// Returns whether a request was refused because a budget is spent.
    pub(super) fn is_spent(&self) -> bool {
        self.is_spent.load(Ordering::SeqCst)
    }

    /// Waits until a request may be sent.
    async fn admitted(&self, model: &str) -> Result<(), ProviderError> {
        let admission = async {
            self.settle().await?;
            self.fleet.admit(model).await
        };
        match admission.await {
            Ok(Admission::After(wait)) => {
                sleep(wait).await;
                Ok(())
            }
            Ok(Admission::Spent) => {
                self.is_spent.store(true, Ordering::SeqCst);
                let text = "the budget is spent";
                Err(ProviderError::new(ErrorClass::Billing, text))
            }
            Err(error) => Err(ProviderError::new(ErrorClass::Unknown, error.to_string())),
        }
    }
}

/// A model whose requests wait for their slot.
pub(super) struct Paced {
    pub inner: Arc<dyn Provider>,
    pub meter: Arc<Meter>,
}

impl Provider for Paced {
    fn model(&self) -> &Model {
        self.inner.model()
    }

    fn extras(&self) -> ProviderExtras<'_> {
        self.inner.extras()
    }

    fn stream(&self, request: Request) -> EventStream {
        let (meter, name) = (self.meter.clone(), self.inner.model().name.clone());
        let answer = self.inner.stream(request);
        let admitted = async move {
            match meter.admitted(&name).await {
                Ok(()) => answer,
                Err(error) => Box::pin(stream::iter([Err(error)])) as EventStream,
            }
        };
        Box::pin(admitted.flatten_stream())
    }
}
