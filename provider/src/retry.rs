//! Retries of failed requests.
//!
//! Whether and when to retry is a pure function of the error; [`Retrying`] waits, and makes the attempts of a provider
//! look like one answer. Which errors are retried is decided by [`ErrorClass::is_retryable`].
//!
//! [`ErrorClass::is_retryable`]: ah_conversation::ErrorClass::is_retryable

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ah_conversation::{
    ErrorClass, EventStream, Model, Provider, ProviderError, ProviderExtras, Request, RetryNotice,
    SkipDelay, StreamEvent,
};
use futures_util::{StreamExt, stream};
use tokio::sync::Notify;

use crate::failure::span;

/// Longest delay, also if the server asks for more.
const LONGEST: Duration = Duration::from_secs(60);

/// Number of retries and the delay before them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Policy {
    /// Limit of attempts after the first.
    pub retries: u32,
    /// Delay after the first failure; it doubles with each further one.
    pub first_delay: Duration,
    /// Whether there is a model to fall back to, so that none has to be advised.
    pub has_fallback: bool,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            retries: 3,
            first_delay: Duration::from_secs(1),
            has_fallback: false,
        }
    }
}

impl Policy {
    /// Returns the delay before the next attempt after `error`, or the error to give up with. `attempt` counts from 0.
    /// `jitter`, from 0 to 1, spreads clients that failed together; a delay that the server asks for is kept exactly.
    pub fn delay(
        &self,
        attempt: u32,
        error: ProviderError,
        jitter: f64,
    ) -> Result<Duration, ProviderError> {
        if !error.class.is_retryable() || attempt >= self.retries {
            return Err(self.with_hint(error));
        }
        match error.retry_after {
            Some(asked) if asked > LONGEST => Err(ProviderError {
                message: format!(
                    "{}; the server asks to retry in {}; ah waits at most {}",
                    error.message,
                    span(asked),
                    span(LONGEST)
                ),
                hint: Some("try again later; the session continues where it stopped".to_owned()),
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

    /// Adds what helps if a server stays busy.
    fn with_hint(&self, error: ProviderError) -> ProviderError {
        let is_busy = matches!(error.class, ErrorClass::Overloaded | ErrorClass::RateLimit);
        if !is_busy || error.hint.is_some() {
            return error;
        }
        let again = "send the next prompt to try again";
        let hint = if self.has_fallback {
            again.to_owned()
        } else {
            format!("{again}; `--fallback-model MODEL` names a model to fall back to")
        };
        ProviderError {
            hint: Some(hint),
            ..error
        }
    }
}

/// A provider that retries the requests of another one.
pub struct Retrying<P> {
    inner: Arc<P>,
    policy: Policy,
    jitter: Arc<Jitter>,
}

impl<P: Provider> Retrying<P> {
    /// Wraps `inner`. `seed` determines the jitter.
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

    /// A failed search is not retried: it is reported to the model, which may search again.
    fn extras(&self) -> ProviderExtras<'_> {
        self.inner.extras()
    }

    fn stream(&self, request: Request) -> EventStream {
        // Boxed, as it is moved with each event.
        let attempts = Box::new(Attempts {
            inner: self.inner.clone(),
            request,
            policy: self.policy,
            jitter: self.jitter.clone(),
            number: 0,
            is_answered: false,
            broken: None,
            next: Next::Ask,
        });
        Box::pin(stream::unfold(attempts, |mut attempts| async move {
            let event = attempts.next().await?;
            Some((event, attempts))
        }))
    }
}

struct Attempts<P> {
    inner: Arc<P>,
    request: Request,
    policy: Policy,
    jitter: Arc<Jitter>,
    number: u32,
    /// Whether the server has begun to answer the attempt.
    is_answered: bool,
    /// How the last stream broke, if the answer is asked for in one piece since.
    broken: Option<ProviderError>,
    next: Next,
}

enum Next {
    Ask,
    Read(EventStream),
    /// For that long, or until it is skipped.
    Wait(Duration, Arc<Notify>),
    Stop,
}

impl<P: Provider> Attempts<P> {
    async fn next(&mut self) -> Option<Result<StreamEvent, ProviderError>> {
        loop {
            match &mut self.next {
                Next::Ask => {
                    self.is_answered = false;
                    self.next = Next::Read(self.inner.stream(self.request.clone()));
                }
                Next::Wait(delay, skipped) => {
                    let _ = tokio::time::timeout(*delay, skipped.notified()).await;
                    self.number += 1;
                    self.next = Next::Ask;
                }
                Next::Read(events) => {
                    let error = match events.next().await {
                        Some(Ok(event)) => {
                            if event == StreamEvent::Ended {
                                self.next = Next::Stop;
                            }
                            self.is_answered |= !matches!(event, StreamEvent::Sent { .. });
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
        if let Some(broken) = self.broken.take() {
            // A server that has only streams refuses the other way.
            let told = if error.class.is_retryable() {
                error
            } else {
                broken
            };
            return Err(self.policy.with_hint(told));
        }
        let (status, message) = (error.status, error.message.clone());
        let is_broken = is_broken_stream(&error, self.is_answered);
        let delay = match self
            .policy
            .delay(self.number, error.clone(), self.jitter.next())
        {
            Ok(delay) => delay,
            Err(_) if is_broken && self.policy.retries > 0 => {
                self.broken = Some(error);
                self.request.whole = true;
                Duration::ZERO
            }
            Err(error) => return Err(error),
        };
        let skipped = Arc::new(Notify::new());
        self.next = Next::Wait(delay, skipped.clone());
        Ok(StreamEvent::Retry(RetryNotice {
            attempt: self.number,
            delay,
            status,
            error: message,
            skip: SkipDelay::new(move || skipped.notify_one()),
        }))
    }
}

/// Returns whether the answer broke off on its way, so that it may arrive in one piece: a proxy between may not bear streams.
fn is_broken_stream(error: &ProviderError, is_answered: bool) -> bool {
    let may_be_a_cut = error.class == ErrorClass::Protocol || error.class.is_retryable();
    is_answered && error.status.is_none() && may_be_a_cut
}

/// Pseudo-random numbers from 0 to 1: SplitMix64, whose only state is a counter.
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
    fn delays_double_up_to_the_limit_unless_the_server_asks_for_one() {
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
    fn a_delay_above_the_limit_is_an_error_that_says_so() {
        let error = error(ErrorClass::RateLimit, Some(3_600));
        let given_up = Policy::default()
            .delay(0, error, 0.0)
            .expect_err("too long");
        assert_eq!(
            given_up.message,
            "no; the server asks to retry in 1 h; ah waits at most 60 s"
        );
        assert!(given_up.hint.is_some());
    }

    #[test]
    fn a_fallback_is_not_advised_where_there_is_one() {
        let hint = |has_fallback| {
            let policy = Policy {
                retries: 0,
                has_fallback,
                ..Policy::default()
            };
            let given_up = policy.delay(0, error(ErrorClass::RateLimit, None), 0.0);
            given_up.expect_err("no retries").hint.unwrap_or_default()
        };
        assert_eq!(hint(true), "send the next prompt to try again");
        assert!(hint(false).contains("--fallback-model"));
    }

    #[test]
    fn jitter_is_spread_over_its_range() {
        let jitter = Jitter(AtomicU64::new(1));
        let numbers: Vec<_> = (0..1_000).map(|_| jitter.next()).collect();
        assert!(numbers.iter().all(|number| (0.0..=1.0).contains(number)));
        let mean = numbers.iter().sum::<f64>() / 1_000.0;
        assert!((0.45..0.55).contains(&mean), "{mean}");
    }
}
