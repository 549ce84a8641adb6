//! Keeps the prompt cache of the last conversation alive while nobody asks: just before its entries expire, the last
//! request is sent again, and its answer is dropped as soon as it begins. Each time costs the price of reading the cache.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use ah_conversation::{EventStream, Price, StreamEvent, Usage};
use futures_util::StreamExt;
use parking_lot::Mutex;
use tokio::task::AbortHandle;
use tokio::time::Instant;

use crate::caching::CacheTtl;

/// Time before the end of an entry's life at which it is used again.
const MARGIN: Duration = Duration::from_secs(30);
/// How long a pause is bridged at most: who has been away for so long is not expected any more.
const LONGEST: Duration = Duration::from_secs(30 * 60);
/// What is assumed before a session has had pauses: that of three, one ends while the entries are kept.
const ASSUMED: (u64, u64) = (1, 3);

/// How often an idle conversation is kept in the cache.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct KeepWarm {
    /// Lifetime of the entries.
    pub ttl: CacheTtl,
    /// Limit of requests for one pause.
    pub times: u32,
}

impl KeepWarm {
    /// Time between two requests.
    fn interval(self) -> Duration {
        Duration::from_secs(self.ttl.seconds()) - MARGIN
    }

    /// Whether the request of this number in a pause, from 1, costs less than it is expected to save, at this price and after such
    /// pauses. It costs the price of reading; if the pause ends in time, it saves that of writing instead of reading.
    fn pays(self, number: u32, price: Option<Price>, pauses: &Pauses) -> bool {
        let Some(price) = price else {
            return false;
        };
        let write = match self.ttl {
            CacheTtl::FiveMinutes => price.cache_write,
            CacheTtl::Hour => price.cache_write_1h,
        };
        let saved = u128::from(write.saturating_sub(price.cache_read));
        let (ended, all) = pauses.chance(number);
        let is_in_time = self.interval().saturating_mul(number) <= LONGEST;
        let pays = u128::from(price.cache_read) * u128::from(all) < saved * u128::from(ended);
        number <= self.times && is_in_time && pays
    }
}

/// How the pauses of a session have ended.
#[derive(Debug, Default)]
struct Pauses {
    /// For each number of a request: the pauses that ended while the entries lived that it kept, and all that had it.
    ends: Vec<(u64, u64)>,
}

impl Pauses {
    /// Adds a pause with so many requests, the last of which kept the entries until its end or not.
    fn add(&mut self, requests: u32, is_in_time: bool) {
        let requests = requests as usize;
        if self.ends.len() < requests {
            self.ends.resize(requests, (0, 0));
        }
        for (index, (ended, all)) in self.ends[..requests].iter_mut().enumerate() {
            *all += 1;
            *ended += u64::from(is_in_time && index + 1 == requests);
        }
    }

    /// The chance that a pause ends while the entries live that the request of this number keeps.
    fn chance(&self, number: u32) -> (u64, u64) {
        let index = (number as usize).saturating_sub(1);
        let (ended, all) = self.ends.get(index).copied().unwrap_or_default();
        (ended + ASSUMED.0, all + ASSUMED.1)
    }
}

/// The requests of the pause since the last answer.
#[derive(Debug, Default)]
pub struct Warming {
    task: Mutex<Option<AbortHandle>>,
    spent: Mutex<Vec<Usage>>,
    /// How long the entries live that the last request of this pause has kept, and the number of its requests.
    kept: Mutex<Option<(Instant, u32)>>,
    pauses: Mutex<Pauses>,
}

impl Warming {
    /// Ends the pause; returns what its requests have used.
    pub fn end_pause(&self) -> Vec<Usage> {
        self.abort();
        if let Some((until, requests)) = self.kept.lock().take() {
            self.pauses.lock().add(requests, Instant::now() < until);
        }
        self.used()
    }

    /// Returns what the requests have used since the last call.
    pub fn used(&self) -> Vec<Usage> {
        std::mem::take(&mut *self.spent.lock())
    }
}

/// When a request was sent, from which time on its entries live.
#[derive(Debug, Clone, Copy)]
pub struct SentAt {
    instant: Instant,
    /// It goes on while the machine is suspended.
    time: SystemTime,
}

impl SentAt {
    /// Now.
    pub fn now() -> Self {
        Self {
            instant: Instant::now(),
            time: SystemTime::now(),
        }
    }

    /// Whether entries that live so long have expired at `now`.
    fn has_expired(self, lifetime: Duration, now: SystemTime) -> bool {
        let age = now.duration_since(self.time);
        age.is_ok_and(|age| age > lifetime)
    }
}

impl Warming {
    /// Begins a pause after the request of `sent`, in which `ask` sends it again as long as that pays at `price`, and something is
    /// left in the cache.
    pub fn begin(
        self: &Arc<Self>,
        settings: KeepWarm,
        price: Option<Price>,
        mut sent: SentAt,
        ask: impl Fn() -> EventStream + Send + 'static,
    ) {
        let interval = settings.interval();
        let lifetime = Duration::from_secs(settings.ttl.seconds());
        let warming = Arc::downgrade(self);
        let task = tokio::spawn(async move {
            for number in 1.. {
                let pays = |warming: &Self| settings.pays(number, price, &warming.pauses.lock());
                if !warming.upgrade().is_some_and(|warming| pays(&warming)) {
                    return;
                }
                tokio::time::sleep_until(sent.instant + interval).await;
                if sent.has_expired(lifetime, SystemTime::now()) {
                    return;
                }
                sent = SentAt::now();
                let Some(usage) = begun(ask()).await else {
                    return;
                };
                let Some(warming) = warming.upgrade() else {
                    return;
                };
                warming.spent.lock().push(usage);
                if usage.cache_read_input_tokens == 0 {
                    return;
                }
                *warming.kept.lock() = Some((sent.instant + lifetime, number));
            }
        });
        self.abort();
        *self.task.lock() = Some(task.abort_handle());
    }

    fn abort(&self) {
        let task = self.task.lock().take();
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
    use std::sync::atomic::{AtomicU64, Ordering};

    use ah_conversation::{ErrorClass, ProviderError};
    use futures_util::stream;
    use tokio::time::sleep;

    use super::*;

    /// Requests that say how many there were; after `working` of them, all fail.
    fn asking(working: u64) -> (Arc<AtomicU64>, impl Fn() -> EventStream + Send + 'static) {
        let count = Arc::new(AtomicU64::new(0));
        let asked = count.clone();
        let ask = move || -> EventStream {
            let number = asked.fetch_add(1, Ordering::Relaxed);
            let usage = Usage {
                cache_read_input_tokens: number + 1,
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

    /// In millionths of a dollar for a million tokens.
    const OPUS: Price = Price {
        input: 5_000_000,
        output: 25_000_000,
        cache_read: 500_000,
        cache_write: 6_250_000,
        cache_write_1h: 10_000_000,
    };

    #[test]
    fn a_request_is_sent_where_it_is_expected_to_save_more_than_it_costs() {
        let settings = |ttl, times| KeepWarm { ttl, times };
        let short = settings(CacheTtl::FiveMinutes, 9);
        let never = |pauses: u32| {
            let mut all = Pauses::default();
            (0..pauses).for_each(|_| all.add(6, false));
            all
        };
        let as_dear = Price {
            cache_write: 900_000,
            ..OPUS
        };
        for (number, settings, price, pauses, expected) in [
            (1, short, Some(OPUS), never(0), true),
            (6, short, Some(OPUS), never(0), true),
            // After half an hour.
            (7, short, Some(OPUS), never(0), false),
            (1, settings(CacheTtl::Hour, 9), Some(OPUS), never(0), false),
            (
                2,
                settings(CacheTtl::FiveMinutes, 1),
                Some(OPUS),
                never(0),
                false,
            ),
            // What costs how much is not known.
            (1, short, None, never(0), false),
            // One of three times is too seldom, where writing costs little more than reading.
            (1, short, Some(as_dear), never(0), false),
            // It saves 11.5 times what it costs.
            (6, short, Some(OPUS), never(8), true),
            (6, short, Some(OPUS), never(9), false),
        ] {
            let pays = settings.pays(number, price, &pauses);
            assert_eq!(pays, expected, "{number} {settings:?} {pauses:?}");
        }
        let mut pauses = never(9);
        pauses.add(2, true);
        assert!(short.pays(2, Some(OPUS), &pauses));
        assert!(!short.pays(1, Some(OPUS), &pauses));
    }

    /// After pauses that are too long, nothing is sent; a short one is no reason to begin again.
    #[tokio::test(start_paused = true)]
    async fn a_session_learns_how_long_its_pauses_are() {
        let (count, ask) = asking(999);
        let ask = Arc::new(ask);
        let warming = Arc::new(Warming::default());
        let settings = KeepWarm {
            ttl: CacheTtl::FiveMinutes,
            times: 1,
        };
        for _ in 0..20 {
            let ask = ask.clone();
            warming.begin(settings, Some(OPUS), SentAt::now(), move || ask());
            sleep(Duration::from_secs(10_000)).await;
            warming.end_pause();
        }
        assert_eq!(count.load(Ordering::Relaxed), 9);
    }

    /// A pause of so many seconds; returns the requests and those of which the usage is known.
    async fn pause(times: u32, working: u64, seconds: u64) -> (u64, usize) {
        let (count, ask) = asking(working);
        let warming = Arc::new(Warming::default());
        let settings = KeepWarm {
            ttl: CacheTtl::FiveMinutes,
            times,
        };
        warming.begin(settings, Some(OPUS), SentAt::now(), ask);
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
            // Half an hour at most.
            (99, 99, 9_000, (6, 6)),
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
        let ttl = CacheTtl::FiveMinutes;
        warming.begin(KeepWarm { ttl, times: 9 }, Some(OPUS), SentAt::now(), ask);
        drop(warming);
        sleep(Duration::from_secs(100_000)).await;
        assert_eq!(count.load(Ordering::Relaxed), 0);
    }

    /// The requests in a pause of an hour after an answer that took so many seconds and a machine that was suspended for so many,
    /// which read so many tokens.
    async fn asked(answer: u64, suspended: u64, read: u64) -> u64 {
        let count = Arc::new(AtomicU64::new(0));
        let counted = count.clone();
        let ask = move || -> EventStream {
            counted.fetch_add(1, Ordering::Relaxed);
            let usage = Usage {
                cache_read_input_tokens: read,
                ..Usage::default()
            };
            let id = String::new();
            Box::pin(stream::iter([Ok(StreamEvent::Started { id, usage })]))
        };
        let warming = Arc::new(Warming::default());
        let mut sent = SentAt::now();
        sent.time -= Duration::from_secs(suspended);
        sleep(Duration::from_secs(answer)).await;
        let ttl = CacheTtl::FiveMinutes;
        warming.begin(KeepWarm { ttl, times: 3 }, Some(OPUS), sent, ask);
        sleep(Duration::from_secs(250)).await;
        let early = count.load(Ordering::Relaxed);
        sleep(Duration::from_secs(3_350)).await;
        let all = count.load(Ordering::Relaxed);
        assert_eq!(warming.end_pause().len() as u64, all);
        early * 10 + all
    }

    /// Of the two digits, the first says how many were sent 250 seconds after the answer.
    #[tokio::test(start_paused = true)]
    async fn entries_live_from_the_request_on_and_nothing_is_kept_that_is_gone() {
        for (answer, suspended, read, expected) in
            [(0, 0, 9, 3), (60, 0, 9, 13), (0, 3_600, 9, 0), (0, 0, 0, 1)]
        {
            let asked = asked(answer, suspended, read).await;
            assert_eq!(asked, expected, "{answer} {suspended} {read}");
        }
    }
}
