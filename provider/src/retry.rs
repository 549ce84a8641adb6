//! Whether, when and how often a failed request is sent again.
//!
//! The decision is a pure function of the failure; the waiting is [`Retrying`], which makes the attempts of any
//! provider look like one answer. Which failures are worth it is [`ErrorClass::is_retryable`]'s to say.
//!
//! [`ErrorClass::is_retryable`]: ah_conversation::ErrorClass::is_retryable

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ah_conversation::{
    ErrorClass, EventStream, Model, Provider, ProviderError, Request, RetryNotice, Searching,
    StreamEvent, WebSearch,
};
use futures_util::{StreamExt, stream};

/// The longest wait, whoever asks for it.
const LONGEST: Duration = Duration::from_secs(60);

/// How often and how soon to try again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Policy {
    /// How many attempts may follow the first.
    pub retries: u32,
    /// The wait after the first failure; it doubles with each further one.
    pub first_delay: Duration,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            retries: 3,
            first_delay: Duration::from_secs(1),
        }
    }
}

impl Policy {
    /// How long to wait after `error`, the failure of the attempt numbered `attempt` from 0, or the error to give up
    /// with. `jitter`, from 0 to 1, spreads clients that failed together; a wait that the server asked for is kept
    /// to exactly.
    pub fn delay(
        &self,
        attempt: u32,
        error: ProviderError,
        jitter: f64,
    ) -> Result<Duration, ProviderError> {
        if !error.class.is_retryable() || attempt >= self.retries {
            return Err(error);
        }
        match error.retry_after {
            Some(asked) if asked > LONGEST => Err(ProviderError {
                message: format!(
                    "{}; the server asks to wait {} s, more than the {} s that are waited",
                    error.message,
                    asked.as_secs(),
                    LONGEST.as_secs()
                ),
                hint: Some("try again later: the session goes on where it stopped".to_owned()),
                ..error
            }),
            Some(asked) => Ok(asked),
            None => {
                let doubled = self.first_delay.saturating_mul(1 << attempt.min(16));
                Ok(doubled
                    .min(LONGEST)
                    .mul_f64(0.5 + jitter.clamp(0.0, 1.0) / 2.0))
            }
        }
    }
}

/// A provider that asks another one again where that may help.
pub struct Retrying<P> {
    inner: Arc<P>,
    policy: Policy,
    jitter: Arc<Jitter>,
}

impl<P: Provider> Retrying<P> {
    /// Wraps `inner`. The waits vary with `seed`.
    pub fn new(inner: P, policy: Policy, seed: u64) -> Self {
        Self {
            inner: Arc::new(inner),
            policy,
            jitter: Arc::new(Jitter(AtomicU64::new(seed))),
        }
    }
}

impl<P: Provider + 'static> Provider for Retrying<P> {
    fn model(&self) -> &Model {
        self.inner.model()
    }

    fn stream(&self, request: Request) -> EventStream {
        let attempts = Attempts {
            inner: self.inner.clone(),
            request,
            policy: self.policy,
            jitter: self.jitter.clone(),
            number: 0,
            next: Next::Ask,
        };
        Box::pin(stream::unfold(attempts, |mut attempts| async move {
            let event = attempts.next().await?;
            Some((event, attempts))
        }))
    }

    /// Asked once: what failed is an answer to whoever wanted to know.
    fn search(&self, search: &WebSearch) -> Option<Searching> {
        self.inner.search(search)
    }
}

struct Attempts<P> {
    inner: Arc<P>,
    request: Request,
    policy: Policy,
    jitter: Arc<Jitter>,
    number: u32,
    next: Next,
}

enum Next {
    Ask,
    Read(EventStream),
    Wait(Duration),
    Stop,
}

impl<P: Provider> Attempts<P> {
    async fn next(&mut self) -> Option<Result<StreamEvent, ProviderError>> {
        loop {
            match &mut self.next {
                Next::Ask => self.next = Next::Read(self.inner.stream(self.request.clone())),
                Next::Wait(delay) => {
                    tokio::time::sleep(*delay).await;
                    self.number += 1;
                    self.next = Next::Ask;
                }
                Next::Read(events) => {
                    let error = match events.next().await {
                        Some(Ok(event)) => {
                            if event == StreamEvent::Ended {
                                self.next = Next::Stop;
                            }
                            return Some(Ok(event));
                        }
                        Some(Err(error)) => error,
                        None => ProviderError::new(ErrorClass::Protocol, "the answer ended early"),
                    };
                    return Some(self.failed(error));
                }
                Next::Stop => return None,
            }
        }
    }

    fn failed(&mut self, error: ProviderError) -> Result<StreamEvent, ProviderError> {
        self.next = Next::Stop;
        let (status, message) = (error.status, error.message.clone());
        let delay = self.policy.delay(self.number, error, self.jitter.next())?;
        self.next = Next::Wait(delay);
        Ok(StreamEvent::Retry(RetryNotice {
            attempt: self.number,
            delay,
            status,
            error: message,
        }))
    }
}

/// Numbers from 0 to 1 that look random: SplitMix64, which needs no more state than a counter.
struct Jitter(AtomicU64);

impl Jitter {
    fn next(&self) -> f64 {
        const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
        let mut bits = self.0.fetch_add(STEP, Ordering::Relaxed).wrapping_add(STEP);
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^= bits >> 31;
        f64::from((bits >> 32) as u32) / f64::from(u32::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(class: ErrorClass, retry_after: Option<u64>) -> ProviderError {
        ProviderError {
            retry_after: retry_after.map(Duration::from_secs),
            ..ProviderError::new(class, "no")
        }
    }

    #[test]
    fn delays() {
        use ErrorClass as E;
        let policy = Policy {
            retries: 10,
            ..Policy::default()
        };
        for (attempt, class, retry_after, jitter, expected) in [
            (0, E::Overloaded, None, 1.0, Some(1_000)),
            (0, E::Overloaded, None, 0.0, Some(500)),
            (1, E::Server, None, 1.0, Some(2_000)),
            (2, E::Network, None, 0.5, Some(3_000)),
            (5, E::Stalled, None, 1.0, Some(32_000)),
            (6, E::Protocol, None, 1.0, Some(60_000)),
            (9, E::RateLimit, None, 1.0, Some(60_000)),
            (10, E::RateLimit, None, 1.0, None),
            (0, E::RateLimit, Some(7), 0.1, Some(7_000)),
            (0, E::RateLimit, Some(0), 0.1, Some(0)),
            (0, E::RateLimit, Some(60), 0.1, Some(60_000)),
            (0, E::RateLimit, Some(61), 0.1, None),
            (0, E::Authentication, None, 1.0, None),
            (0, E::ContextTooLong, Some(1), 1.0, None),
        ] {
            let delay = policy.delay(attempt, error(class, retry_after), jitter);
            assert_eq!(
                delay.ok(),
                expected.map(Duration::from_millis),
                "{attempt} {class:?} {retry_after:?}"
            );
        }
        let late = policy.delay(u32::MAX - 1, error(E::Server, None), 1.0);
        assert!(late.is_err());
    }

    #[test]
    fn a_wait_past_the_limit_is_explained() {
        let error = error(ErrorClass::RateLimit, Some(3_600));
        let given_up = Policy::default()
            .delay(0, error, 0.0)
            .expect_err("too long");
        assert_eq!(
            given_up.message,
            "no; the server asks to wait 3600 s, more than the 60 s that are waited"
        );
        assert!(given_up.hint.is_some());
    }

    #[test]
    fn jitter_spreads() {
        let jitter = Jitter(AtomicU64::new(1));
        let numbers: Vec<_> = (0..1_000).map(|_| jitter.next()).collect();
        assert!(numbers.iter().all(|number| (0.0..=1.0).contains(number)));
        let mean = numbers.iter().sum::<f64>() / 1_000.0;
        assert!((0.45..0.55).contains(&mean), "{mean}");
    }
}
