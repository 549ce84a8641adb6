//! Keeps the prompt cache of the last conversation alive while nobody asks: just before its entries expire, the last
//! request is sent again, and its answer is dropped as soon as it begins. Each time costs the price of reading the cache.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use ah_conversation::{EventStream, StreamEvent, UnseenUse, Usage};
use futures_util::StreamExt;
use tokio::task::AbortHandle;

use crate::caching::CacheTtl;

/// Time before the end of an entry's life at which it is used again, in seconds.
const MARGIN: u64 = 30;

/// How often an idle conversation is kept in the cache; by default, never.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct KeepWarm {
    /// Lifetime of the entries.
    pub ttl: CacheTtl,
    /// Limit of requests for one pause.
    pub times: u32,
}

/// The requests of the pause since the last answer.
#[derive(Debug, Default)]
pub struct Warming {
    task: Mutex<Option<AbortHandle>>,
    spent: Mutex<Vec<Usage>>,
}

impl UnseenUse for Warming {
    fn end_pause(&self) -> Vec<Usage> {
        self.abort();
        std::mem::take(&mut *self.spent.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Warming {
    /// Begins a pause, in which `ask` sends the last request again.
    pub fn begin(
        self: &std::sync::Arc<Self>,
        settings: KeepWarm,
        ask: impl Fn() -> EventStream + Send + 'static,
    ) {
        let pause = Duration::from_secs(settings.ttl.seconds() - MARGIN);
        let warming = std::sync::Arc::downgrade(self);
        let task = tokio::spawn(async move {
            for _ in 0..settings.times {
                tokio::time::sleep(pause).await;
                let Some(usage) = begun(ask()).await else {
                    return;
                };
                let Some(warming) = warming.upgrade() else {
                    return;
                };
                let mut spent = warming.spent.lock().unwrap_or_else(PoisonError::into_inner);
                spent.push(usage);
            }
        });
        self.abort();
        *self.task.lock().unwrap_or_else(PoisonError::into_inner) = Some(task.abort_handle());
    }

    fn abort(&self) {
        let task = self
            .task
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(task) = task {
            task.abort();
        }
    }
}

impl Drop for Warming {
    fn drop(&mut self) {
        self.abort();
    }
}

/// The tokens of an answer that has begun; `None` if it fails. The rest is not waited for.
async fn begun(mut events: EventStream) -> Option<Usage> {
    while let Some(event) = events.next().await {
        match event {
            Ok(StreamEvent::Started { usage, .. }) => return Some(usage),
            Ok(_) => {}
            Err(_) => return None,
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    use ah_conversation::{ErrorClass, ProviderError};
    use futures_util::stream;
    use tokio::time::{Instant, sleep};

    use super::*;

    /// Requests that say how many there were before; after `working` of them, all fail.
    fn asking(working: u64) -> (Arc<AtomicU64>, impl Fn() -> EventStream + Send + 'static) {
        let count = Arc::new(AtomicU64::new(0));
        let asked = count.clone();
        let ask = move || -> EventStream {
            let number = asked.fetch_add(1, Ordering::Relaxed);
            let usage = Usage {
                cache_read_input_tokens: number,
                ..Usage::default()
            };
            let id = String::new();
            let event = match number < working {
                true => Ok(StreamEvent::Started { id, usage }),
                false => Err(ProviderError::new(ErrorClass::Server, "no")),
            };
            Box::pin(stream::iter([event]))
        };
        (count, ask)
    }

    /// A pause of so many seconds; returns the requests and those of which the usage is known.
    async fn pause(times: u32, working: u64, seconds: u64) -> (u64, usize) {
        let (count, ask) = asking(working);
        let warming = Arc::new(Warming::default());
        let settings = KeepWarm {
            ttl: CacheTtl::FiveMinutes,
            times,
        };
        warming.begin(settings, ask);
        sleep(Duration::from_secs(seconds)).await;
        let spent = warming.end_pause();
        let asked = count.load(Ordering::Relaxed);
        // After the pause nothing is asked.
        sleep(Duration::from_secs(10_000)).await;
        assert_eq!(count.load(Ordering::Relaxed), asked);
        assert!(warming.end_pause().is_empty());
        (asked, spent.len())
    }

    #[tokio::test(start_paused = true)]
    async fn a_pause_is_bridged_as_often_as_is_set() {
        let start = Instant::now();
        for (times, working, seconds, expected) in [
            (3, 9, 269, (0, 0)),
            (3, 9, 271, (1, 1)),
            (3, 9, 2_000, (3, 3)),
            (3, 1, 2_000, (2, 1)),
        ] {
            assert_eq!(
                pause(times, working, seconds).await,
                expected,
                "{times} {seconds}"
            );
        }
        assert!(start.elapsed() > Duration::from_secs(5_000));
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_is_asked_once_the_provider_is_gone() {
        let (count, ask) = asking(9);
        let warming = Arc::new(Warming::default());
        let ttl = CacheTtl::Hour;
        warming.begin(KeepWarm { ttl, times: 9 }, ask);
        drop(warming);
        sleep(Duration::from_secs(100_000)).await;
        assert_eq!(count.load(Ordering::Relaxed), 0);
    }
}
