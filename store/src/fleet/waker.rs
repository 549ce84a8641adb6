//! Port: what wakes whoever waits for a queue.

use std::time::Duration;

use async_trait::async_trait;

/// Wakes whoever waits. A hint says only that it is worth looking: what there is to do is in the rows, and with every hint
/// lost it is found a little later.
#[async_trait]
pub trait Waker: Send + Sync {
    /// Waits for a hint that came after the last call, at most this long.
    async fn wait(&self, at_most: Duration);
}
