//! Errors of requests, worded for the model: whether the server refused the call, whether it has answered what cannot be used, or
//! whether nobody knows.

use std::error::Error;
use std::time::Duration;

use rmcp::service::ServiceError;
use rmcp::transport::streamable_http_client::StreamableHttpError;

use crate::remote::name::{clean, clean_line};

/// Longest time after which a refused call is tried again.
const LONGEST_WAIT: Duration = Duration::from_secs(10);
const UNKNOWN: &str = "it is unknown whether the call had any effect";

/// Returns the error of a request, worded for the model. `fault` is what a transport could not read.
pub(crate) fn explain(error: &ServiceError, fault: Option<&str>) -> String {
    match error {
        ServiceError::McpError(error) => clean(&error.message, 4_000),
        ServiceError::Timeout { timeout } => {
            format!(
                "no response and no progress for {} s, so the call was cancelled; {UNKNOWN}",
                timeout.as_secs_f64()
            )
        }
        ServiceError::TransportSend(failed) => match over_http(&*failed.error) {
            Some(failed) => of_http(failed),
            None => lost(None),
        },
        ServiceError::TransportClosed => match fault {
            Some(fault) => format!(
                "the server's response cannot be read, so the connection was ended: {}; {UNKNOWN}",
                clean_line(fault, 500)
            ),
            None => lost(None),
        },
        other => clean(&other.to_string(), 1_000),
    }
}

/// Returns the time after which a refused request may be sent again: if the server names one, and it is short.
pub(crate) fn wait(error: &ServiceError) -> Option<Duration> {
    let ServiceError::TransportSend(failed) = error else {
        return None;
    };
    let StreamableHttpError::HttpStatus(refused) = over_http(&*failed.error)? else {
        return None;
    };
    let seconds = refused.retry_after.as_deref()?.trim().parse().ok()?;
    let wait = Duration::from_secs(seconds);
    (matches!(refused.status, 429 | 503) && wait <= LONGEST_WAIT).then_some(wait)
}

/// Finds the error of the transport over HTTP in a chain of causes.
fn over_http<'a>(
    error: &'a (dyn Error + Send + Sync + 'static),
) -> Option<&'a StreamableHttpError<reqwest::Error>> {
    let mut next: Option<&'a (dyn Error + 'static)> = Some(error);
    while let Some(error) = next {
        if let Some(found) = error.downcast_ref() {
            return Some(found);
        }
        next = error.source();
    }
    None
}

fn of_http(error: &StreamableHttpError<reqwest::Error>) -> String {
    match error {
        StreamableHttpError::HttpStatus(refused) => {
            let status = refused.status;
            let words = reqwest::StatusCode::from_u16(status);
            let words = words.ok().and_then(|status| status.canonical_reason());
            let said = format!("HTTP {status} {}", words.unwrap_or_default());
            match (status, &refused.retry_after) {
                (429 | 503, Some(after)) => {
                    let after = clean_line(after, 100);
                    format!(
                        "the server refused the call: {said}; it says to try again after {after}{}",
                        if after.parse::<u64>().is_ok() {
                            " s"
                        } else {
                            ""
                        }
                    )
                }
                (429 | 503, None) => format!("the server refused the call: {said}"),
                _ => format!("the server failed: {said}; {UNKNOWN}"),
            }
        }
        StreamableHttpError::UnexpectedServerResponse(said) => {
            let line = said.trim().lines().next().unwrap_or_default();
            let is_refusal = line.starts_with("HTTP 4");
            unclear(line, (!is_refusal).then_some(UNKNOWN))
        }
        StreamableHttpError::ResponseBodyTooLarge { max_size } => format!(
            "the call was carried out, but its result is too large: a response may have {} MiB at most",
            max_size >> 20
        ),
        StreamableHttpError::UnexpectedContentType(kind) => {
            let kind = kind.as_deref().unwrap_or("none");
            unclear(
                &format!("the response has the content type `{kind}`"),
                Some(UNKNOWN),
            )
        }
        StreamableHttpError::Deserialize(error) => unclear(&error.to_string(), Some(UNKNOWN)),
        StreamableHttpError::Client(error) if error.is_connect() => {
            "the server cannot be reached; it did not get the call".to_owned()
        }
        StreamableHttpError::Sse(error) => lost(Some(&chain(error))),
        StreamableHttpError::Client(error) => lost(Some(&chain(error))),
        other => lost(Some(&other.to_string())),
    }
}

/// Returns the text for an answer that is none of the protocol, with what follows from it.
fn unclear(what: &str, follows: Option<&str>) -> String {
    let what = clean_line(what, 500);
    let follows = follows.map(|text| format!("; {text}")).unwrap_or_default();
    format!("the server did not answer as the protocol says: {what}{follows}")
}

/// Returns the text for a connection that was lost, with the cause if one is known.
fn lost(cause: Option<&str>) -> String {
    let cause = cause.map(|cause| format!(" ({})", clean_line(cause, 500)));
    format!(
        "the server disconnected before it responded{}; {UNKNOWN}",
        cause.unwrap_or_default()
    )
}

/// Returns an error with its causes. An address may hold a secret; the errors of requests name it first.
fn chain(error: &dyn Error) -> String {
    let mut causes = Vec::new();
    let mut next = error.source();
    while let Some(cause) = next {
        causes.push(cause.to_string());
        next = cause.source();
    }
    match causes.is_empty() {
        true => error.to_string(),
        false => causes.join(": "),
    }
}

#[cfg(test)]
mod tests {
    use std::any::TypeId;
    use std::borrow::Cow;

    use rmcp::transport::DynamicTransportError;
    use rmcp::transport::streamable_http_client::HttpStatusError;

    use super::*;

    fn sent(error: StreamableHttpError<reqwest::Error>) -> ServiceError {
        let error = DynamicTransportError::from_parts("http", TypeId::of::<()>(), Box::new(error));
        ServiceError::TransportSend(error)
    }

    #[test]
    fn a_refusal_is_told_from_a_loss() {
        let status = |status, after: Option<&str>| {
            sent(HttpStatusError::new(status, after.map(str::to_owned)).into())
        };
        for (error, wait_for, expected) in [
            (
                status(429, Some("2")),
                Some(2),
                "the server refused the call: HTTP 429 Too Many Requests; it says to try again after 2 s",
            ),
            (
                status(429, Some("3600")),
                None,
                "the server refused the call: HTTP 429 Too Many Requests; it says to try again after 3600 s",
            ),
            (
                status(503, None),
                None,
                "the server refused the call: HTTP 503 Service Unavailable",
            ),
            (
                status(502, Some("1")),
                None,
                "the server failed: HTTP 502 Bad Gateway; it is unknown whether the call had any effect",
            ),
            (
                sent(StreamableHttpError::ResponseBodyTooLarge { max_size: 4 << 20 }),
                None,
                "the call was carried out, but its result is too large: a response may have 4 MiB at most",
            ),
            (
                sent(StreamableHttpError::UnexpectedServerResponse(
                    Cow::Borrowed("HTTP 404 Not Found: gone\nfor ever"),
                )),
                None,
                "the server did not answer as the protocol says: HTTP 404 Not Found: gone",
            ),
            (
                sent(StreamableHttpError::UnexpectedEndOfStream),
                None,
                "the server disconnected before it responded (unexpected end of stream); it is unknown whether the call had any effect",
            ),
            (
                ServiceError::TransportClosed,
                None,
                "the server's response cannot be read, so the connection was ended: a fault; \
                 it is unknown whether the call had any effect",
            ),
        ] {
            assert_eq!(explain(&error, Some("a fault")), expected);
            assert_eq!(
                wait(&error),
                wait_for.map(Duration::from_secs),
                "{expected}"
            );
        }
    }
}
