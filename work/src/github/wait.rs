//! Whether and when a request that failed is sent again, by what GitHub says of its limits. Pure.

use std::time::Duration;

/// The longest wait, whoever asks for it.
const LONGEST: u64 = 60;

/// What an answer says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RateLimit {
    /// The status; none, where there was no answer.
    pub status: Option<u16>,
    /// Seconds to wait.
    pub retry_after: Option<u64>,
    /// Requests that are left.
    pub remaining: Option<u64>,
    /// Seconds until there are more.
    pub reset_in: Option<u64>,
}

impl RateLimit {
    /// There was no answer.
    pub(super) fn no_response() -> Self {
        Self {
            status: None,
            retry_after: None,
            remaining: None,
            reset_in: None,
        }
    }

    /// Whether the request was refused for a limit, before anything was done.
    pub(super) fn is_refused(&self) -> bool {
        let is_limited = self.retry_after.is_some() || self.remaining == Some(0);
        matches!(self.status, Some(429)) || (self.status == Some(403) && is_limited)
    }
}

/// What to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RetryDecision {
    /// Ask again after this time.
    Wait(Duration),
    /// It would be so long that it makes no sense.
    TooLong(Duration),
    /// It would not help.
    GiveUp,
}

/// Decides after the attempt numbered `attempt` from 0, of which there may be `retries` more than one.
pub(super) fn decide(limits: &RateLimit, attempt: u32, retries: u32) -> RetryDecision {
    let is_fault = matches!(limits.status, None | Some(408 | 500 | 502 | 503 | 504));
    if !is_fault && !limits.is_refused() {
        return RetryDecision::GiveUp;
    }
    let backoff = 1 << attempt.min(6);
    let seconds = match (limits.retry_after, limits.remaining, limits.reset_in) {
        (Some(asked), _, _) => asked,
        (None, Some(0), Some(reset)) if limits.is_refused() => reset + 1,
        _ => backoff,
    };
    let time = Duration::from_secs(seconds);
    match (attempt < retries, seconds <= LONGEST) {
        (true, true) => RetryDecision::Wait(time),
        (_, false) => RetryDecision::TooLong(time),
        (false, true) => RetryDecision::GiveUp,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_waited_for_and_refusals_are_not() {
        for (status, retry_after, remaining, reset_in, attempt, expected) in [
            (Some(403), None, None, None, 0, "give up"),
            (Some(403), None, Some(4999), Some(10), 0, "give up"),
            (Some(403), Some(5), None, None, 0, "5"),
            (Some(403), None, Some(0), Some(10), 0, "11"),
            (Some(403), None, Some(0), Some(1800), 0, "too long"),
            (Some(429), None, None, None, 0, "1"),
            (Some(429), Some(0), None, None, 2, "0"),
            (Some(429), Some(61), None, None, 0, "too long"),
            (Some(502), None, Some(4999), Some(10), 1, "2"),
            (Some(503), None, None, None, 3, "give up"),
            (None, None, None, None, 2, "4"),
            (Some(404), Some(1), Some(0), Some(1), 0, "give up"),
            (Some(422), None, None, None, 0, "give up"),
        ] {
            let limits = RateLimit {
                status,
                retry_after,
                remaining,
                reset_in,
            };
            let verdict = match decide(&limits, attempt, 3) {
                RetryDecision::Wait(time) => time.as_secs().to_string(),
                RetryDecision::TooLong(_) => "too long".to_owned(),
                RetryDecision::GiveUp => "give up".to_owned(),
            };
            assert_eq!(verdict, expected, "{limits:?} {attempt}");
        }
    }
}
