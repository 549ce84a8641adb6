//! Whether a worker is well, over HTTP.

use std::sync::Arc;
use std::time::Duration;

use ah_serve::Probes;
use ah_store::fleet::Fleet;
use async_trait::async_trait;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::metrics::{Metrics, Worker};

/// How long the store may take to count its runs.
const COUNTING: Duration = Duration::from_secs(5);

/// What a worker answers.
pub(super) struct OfWorker {
    pub worker: Worker,
    pub metrics: Arc<Metrics>,
    pub fleet: Arc<dyn Fleet>,
    pub stop: CancellationToken,
}

#[async_trait]
impl Probes for OfWorker {
    /// It takes runs if it is not ending and the store answers.
    fn is_ready(&self) -> bool {
        !self.stop.is_cancelled() && self.metrics.silence() < self.fleet.timing().dead
    }

    async fn metrics(&self) -> String {
        let counts = timeout(COUNTING, self.fleet.counts()).await;
        let counts = counts.ok().and_then(Result::ok).unwrap_or_default();
        self.metrics.text(&self.worker, &counts)
    }
}
