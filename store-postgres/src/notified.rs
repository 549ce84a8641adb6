//! Wakes by `NOTIFY`, which every statement that gives work ends with. Each hint is for all who wait; a worker that looks
//! then takes a row that no other has locked (`SKIP LOCKED`).

use std::time::Duration;

use ah_store::fleet::Waker;
use async_trait::async_trait;
use tokio::time::timeout;

use crate::connection::Postgres;

#[async_trait]
impl Waker for Postgres {
    async fn wait(&self, at_most: Duration) {
        // Without a hint, the time is up.
        let _ = timeout(at_most, self.hint.notified()).await;
    }
}
