//! Port: notifications that wake workers and viewers which wait for the queue.

use std::time::Duration;

use async_trait::async_trait;

/// Notifications of a queue. One says only that it is worth looking: what there is to do is in the rows, and is found a little
/// later if every notification is lost.
#[async_trait]
pub trait Waker: Send + Sync {
    /// Waits for a hint that came after the last call, at most this long.
    async fn wait(&self, at_most: Duration);
}
