//! Decides whether and when a failed request is retried, according to the rate limits of the hub. Pure.

use std::time::Duration;

/// Longest wait after a fault, in seconds.
const LONGEST: u64 = 60;

/// Status and rate limit of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RateLimit {
    /// HTTP status; `None` if there was no response.
    pub status: Option<u16>,
    /// Seconds to wait (`Retry-After`).
    pub retry_after: Option<u64>,
    /// Number of remaining requests.
    pub remaining: Option<u64>,
    /// Seconds until the limit is reset.
    pub reset_in: Option<u64>,
}

impl RateLimit {
    /// Returns the value for a request without response.
    pub(super) fn no_response() -> Self {
        Self {
            status: None,
            retry_after: None,
            remaining: None,
            reset_in: None,
        }
    }

    /// Returns whether the request was rejected by a rate limit, so not carried out.
    pub(super) fn is_refused(&self) -> bool {
        let is_limited = self.retry_after.is_some() || self.remaining == Some(0);
        matches!(self.status, Some(429)) || (self.status == Some(403) && is_limited)
    }
}

/// The decision after a failed request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RetryDecision {
    /// Retry after this time.
    Wait(Duration),
    /// The wait of this length would be too long.
    TooLong(Duration),
    /// Do not retry.
    GiveUp,
}

/// Decides about a retry after attempt number `attempt`, counted from 0, with at most `retries` retries. A limit is waited
/// for as long as `patience`, and a fault not so long.
pub(super) fn decide(
    limits: &RateLimit,
    attempt: u32,
    retries: u32,
    patience: Duration,
) -> RetryDecision {
    let is_transient = matches!(limits.status, None | Some(408 | 500 | 502 | 503 | 504));
    if !is_transient && !limits.is_refused() {
        return RetryDecision::GiveUp;
    }
    let backoff = 1 << attempt.min(6);
    let seconds = match (limits.retry_after, limits.remaining, limits.reset_in) {
        (Some(asked), _, _) => asked,
        (None, Some(0), Some(reset)) if limits.is_refused() => reset + 1,
        _ => backoff,
    };
    let time = Duration::from_secs(seconds);
    let longest = if limits.is_refused() {
        patience
    } else {
        Duration::from_secs(LONGEST)
    };
    match (attempt < retries, time <= longest) {
        (true, true) => RetryDecision::Wait(time),
        (_, false) => RetryDecision::TooLong(time),
        (false, true) => RetryDecision::GiveUp,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rate_limits_and_server_errors_are_retried() {
        for (status, retry_after, remaining, reset_in, attempt, expected) in [
            (Some(403), None, None, None, 0, "give up"),
            (Some(403), None, Some(4999), Some(10), 0, "give up"),
            (Some(403), Some(5), None, None, 0, "5"),
            (Some(403), None, Some(0), Some(10), 0, "11"),
            (Some(403), None, Some(0), Some(1800), 0, "1801"),
            (Some(403), None, Some(0), Some(3600), 0, "too long"),
            (Some(429), None, None, None, 0, "1"),
            (Some(429), Some(0), None, None, 2, "0"),
            (Some(429), Some(61), None, None, 0, "61"),
            (Some(429), Some(3601), None, None, 0, "too long"),
            (Some(503), Some(61), None, None, 0, "too long"),
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
            let verdict = match decide(&limits, attempt, 3, Duration::from_secs(3600)) {
                RetryDecision::Wait(time) => time.as_secs().to_string(),
                RetryDecision::TooLong(_) => "too long".to_owned(),
                RetryDecision::GiveUp => "give up".to_owned(),
            };
            assert_eq!(verdict, expected, "{limits:?} {attempt}");
        }
    }
}
