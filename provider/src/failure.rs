//! What a server's refusal means: its class, its words, and how long it asks us to wait. Pure; vendors differ in where
//! they put the words, so all the usual places are looked at. What to do about a failure is decided in [`retry`].
//!
//! [`retry`]: crate::retry

use std::borrow::Cow;
use std::time::{Duration, SystemTime};

use ah_conversation::{ErrorClass, ProviderError};
use serde_json::Value;

/// How much of a server's words is repeated.
const LONGEST_MESSAGE: usize = 500;
/// Length limit, in bytes, of the excerpt of a body or header that an error message repeats.
const LONGEST_EXCERPT: usize = 200;
/// Longer request ids are left out of messages.
const LONGEST_REQUEST_ID: usize = 40;

/// Words by which servers say that the conversation does not fit, all in lower case.
const TOO_LONG: [&str; 14] = [
    "prompt is too long",
    "exceed context limit",
    "context_length_exceeded",
    "contextwindowexceeded",
    "maximum context length",
    "maximum prompt length",
    "max context length",
    "exceeds the context window",
    "exceeds the available context size",
    "exceed_context_size",
    "input token count",
    "reduce the length of the messages",
    "too_many_prompt_tokens",
    "request_too_large",
];

/// The error that an answer with a status other than success stands for.
pub fn in_response<'a>(
    status: u16,
    header: impl Fn(&str) -> Option<&'a str>,
    body: &str,
    now: SystemTime,
) -> ProviderError {
    let json: Option<Value> = serde_json::from_str(body).ok();
    let (kinds, words) = match &json {
        Some(json) => (kinds_of(json.get("error").unwrap_or(json)), words_of(json)),
        None => (Vec::new(), None),
    };
    let mut message = match words {
        Some(words) => excerpt(&words, LONGEST_MESSAGE),
        None if body.trim().is_empty() => "the server gave no reason".to_owned(),
        None => html_title(body).unwrap_or_else(|| excerpt(body, LONGEST_MESSAGE)),
    };
    let request_id = header("request-id").or_else(|| json.as_ref()?.get("request_id")?.as_str());
    if let Some(id) = request_id.filter(|id| id.len() <= LONGEST_REQUEST_ID) {
        message.push_str(&format!(" (request {id})"));
    }
    let class = match status {
        300..=399 => ErrorClass::InvalidRequest,
        _ => class(Some(status), &kinds, body),
    };
    if let (300..=399, Some(target)) = (status, header("location")) {
        message = format!("the server sends us elsewhere: {}", excerpt(target, 200));
    }
    ProviderError {
        status: Some(status),
        retry_after: asked_wait(header, body, now),
        ..ProviderError::new(class, message)
    }
}

/// The error of an answer that violates the protocol of its API.
pub fn protocol(message: impl Into<String>) -> ProviderError {
    ProviderError::new(ErrorClass::Protocol, message)
}

/// The error of an event or body that cannot be parsed; the message repeats the start of `json`.
pub fn unparsable(error: &serde_json::Error, json: &str) -> ProviderError {
    let excerpt = excerpt(json, LONGEST_EXCERPT);
    protocol(format!(
        "cannot parse an event of the answer ({error}): {excerpt}"
    ))
}

/// The error that an `error` event inside an answer stands for.
pub fn in_stream(error: Option<&Value>) -> ProviderError {
    let kinds = error.map(kinds_of).unwrap_or_default();
    let words = error.and_then(words_of);
    let words = words.unwrap_or_else(|| "the server broke the answer off without a reason".into());
    let mut message = excerpt(&words, LONGEST_MESSAGE);
    if let Some(kind) = error.and_then(|error| text(error, "type")) {
        message.push_str(&format!(" ({kind})"));
    }
    // The status that the server would have answered with, had it not begun to answer already.
    let mut statuses = kinds.iter().filter_map(|kind| kind.parse().ok());
    let status = statuses.find(|status| (400..600).contains(status));
    ProviderError {
        retry_after: wait_in_words(&words),
        ..ProviderError::new(class(status, &kinds, &words), message)
    }
}

/// The class of a failure with this status, the server's own words for its kind, and all that it said.
fn class(status: Option<u16>, kinds: &[String], text: &str) -> ErrorClass {
    let text = text.to_ascii_lowercase();
    let says = |words: &str| text.contains(words);
    let is = |words: &[&str]| kinds.iter().any(|kind| words.contains(&kind.as_str()));
    match status {
        _ if is(&["billing_error", "insufficient_quota"]) => ErrorClass::Billing,
        Some(402) => ErrorClass::Billing,
        _ if says("credit balance is too low") => ErrorClass::Billing,
        Some(401 | 403) => ErrorClass::Authentication,
        _ if is(&[
            "authentication_error",
            "permission_error",
            "invalid_api_key",
        ]) =>
        {
            ErrorClass::Authentication
        }
        _ if says("incorrect api key") => ErrorClass::Authentication,
        Some(429) => ErrorClass::RateLimit,
        _ if is(&["rate_limit_error", "rate_limit_exceeded"]) => ErrorClass::RateLimit,
        _ if is(&["model_not_found"]) => ErrorClass::ModelNotFound,
        _ if says("no healthy deployments for this model") => ErrorClass::ModelNotFound,
        Some(404) if says("model") => ErrorClass::ModelNotFound,
        None if is(&["not_found_error"]) && says("model") => ErrorClass::ModelNotFound,
        Some(413) => ErrorClass::ContextTooLong,
        _ if TOO_LONG.iter().any(|words| says(words)) => ErrorClass::ContextTooLong,
        Some(529) => ErrorClass::Overloaded,
        _ if is(&["overloaded_error"]) || says("overloaded") => ErrorClass::Overloaded,
        _ if says("rate limit") || says("rate_limit") => ErrorClass::RateLimit,
        // The model did not call a tool as it should have: another time it may.
        _ if is(&["tool_use_failed"]) => ErrorClass::Protocol,
        Some(408 | 409 | 500..) => ErrorClass::Server,
        None if is(&["invalid_request_error", "not_found_error"]) => ErrorClass::InvalidRequest,
        // Inside an answer nothing else can be meant: the request was accepted.
        None => ErrorClass::Server,
        Some(400..=499) => ErrorClass::InvalidRequest,
        Some(_) => ErrorClass::Unknown,
    }
}

/// How long the server asks us to wait, where it says so.
fn asked_wait<'a>(
    header: impl Fn(&str) -> Option<&'a str>,
    body: &str,
    now: SystemTime,
) -> Option<Duration> {
    // LiteLLM passes on what the server behind it said under names of its own.
    let header = |name: &str| header(name).or_else(|| header(&format!("llm_provider-{name}")));
    let in_header = |name: &str, unit: f64| seconds(header(name)?.trim().parse().ok()?, unit);
    let date = || {
        let date = httpdate::parse_http_date(header("retry-after")?).ok()?;
        Some(date.duration_since(now).unwrap_or_default())
    };
    in_header("retry-after-ms", 0.001)
        .or_else(|| in_header("retry-after", 1.0))
        .or_else(date)
        .or_else(|| in_header("x-ratelimit-reset-after", 1.0))
        .or_else(|| wait_in_words(body))
}

/// A wait in the midst of a sentence: `retry in 20s`, `reset after 300ms`.
fn wait_in_words(text: &str) -> Option<Duration> {
    let text = text.to_ascii_lowercase();
    ["retry in ", "try again in ", "reset after "]
        .into_iter()
        .find_map(|words| {
            let (_, rest) = text.split_once(words)?;
            let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
            let (number, unit) = rest.split_at(end);
            let unit = unit.trim_start();
            let number = number.parse().ok()?;
            if unit.starts_with("ms") || unit.starts_with("milli") {
                seconds(number, 0.001)
            } else if unit.starts_with('s') {
                seconds(number, 1.0)
            } else if unit.starts_with('m') {
                seconds(number, 60.0)
            } else {
                None
            }
        })
}

fn seconds(number: f64, unit: f64) -> Option<Duration> {
    Duration::try_from_secs_f64(number * unit).ok()
}

/// The server's own words for the kind of a failure: its type, and its code, which may be a number.
fn kinds_of(error: &Value) -> Vec<String> {
    let kinds = ["type", "code"].into_iter();
    let kinds = kinds.filter_map(|field| match error.get(field)? {
        Value::String(kind) => Some(kind.clone()),
        Value::Number(code) => Some(code.to_string()),
        _ => None,
    });
    kinds.collect()
}

/// The server's explanation of a failure, from wherever in the body it put it.
fn words_of(body: &Value) -> Option<Cow<'_, str>> {
    let error = body.get("error").unwrap_or(body);
    let words = [
        text(error, "message"),
        error.as_str(),
        text(body, "message"),
        text(body, "detail"),
    ];
    let words = words.into_iter().flatten().next()?;
    // A gateway that only says that it was refused itself has the reason beside it.
    Some(
        match error.pointer("/metadata/raw").and_then(Value::as_str) {
            Some(raw) => format!("{words}: {raw}").into(),
            None => words.into(),
        },
    )
}

fn text<'a>(value: &'a Value, field: &str) -> Option<&'a str> {
    value.get(field)?.as_str()
}

/// What a web page that stands in an answer's place is called.
pub fn html_title(body: &str) -> Option<String> {
    let lower = body.to_ascii_lowercase();
    if !["<html", "<!doctype html"]
        .iter()
        .any(|start| lower.trim_start().starts_with(start))
    {
        return None;
    }
    let title = lower.split_once("<title").and_then(|(before, rest)| {
        let start = before.len() + "<title".len() + rest.find('>')? + 1;
        let end = start + lower[start..].find("</title")?;
        Some(excerpt(&body[start..end], 100))
    });
    Some(match title {
        Some(title) => format!("a web page instead of an answer: {title}"),
        None => "a web page instead of an answer".to_owned(),
    })
}

/// `text` on one line and no longer than `limit` bytes or so.
pub fn excerpt(text: &str, limit: usize) -> String {
    let mut excerpt = String::new();
    for word in text.split(|c: char| c.is_whitespace() || c.is_control()) {
        if word.is_empty() {
            continue;
        }
        if !excerpt.is_empty() {
            excerpt.push(' ');
        }
        let room = limit.saturating_sub(excerpt.len());
        excerpt.push_str(&word[..word.floor_char_boundary(room)]);
        if word.len() > room {
            excerpt.push('…');
            break;
        }
    }
    excerpt
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure(status: u16, headers: &[(&str, &'static str)], body: &str) -> ProviderError {
        let header = |name: &str| {
            let found = headers.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| *value)
        };
        let now = httpdate::parse_http_date("Fri, 20 Nov 2026 12:00:00 GMT").expect("a date");
        in_response(status, header, body, now)
    }

    /// Check g of the port's part 01: each status has its class, which the words may narrow.
    #[test]
    fn classes() {
        use ErrorClass as E;
        let cut = "input length and `max_tokens` exceed context limit: 190000 + 16384 > 200000";
        for (status, body, expected) in [
            (
                400,
                r#"{"error":{"type":"invalid_request_error","message":"no"}}"#,
                E::InvalidRequest,
            ),
            (
                400,
                r#"{"error":{"message":"prompt is too long: 2 > 1"}}"#,
                E::ContextTooLong,
            ),
            (400, cut, E::ContextTooLong),
            (400, "Your credit balance is too low", E::Billing),
            (402, "", E::Billing),
            (401, "", E::Authentication),
            (
                403,
                r#"{"error":{"type":"permission_error"}}"#,
                E::Authentication,
            ),
            (
                404,
                r#"{"error":{"type":"not_found_error","message":"model: x"}}"#,
                E::ModelNotFound,
            ),
            (404, "<html>nginx</html>", E::InvalidRequest),
            (408, "", E::Server),
            (413, "", E::ContextTooLong),
            (429, "", E::RateLimit),
            (400, "rate limit reached", E::RateLimit),
            (500, "", E::Server),
            (
                500,
                r#"{"error":{"type":"api_error","message":"Overloaded"}}"#,
                E::Overloaded,
            ),
            (502, "", E::Server),
            (503, "<html><title>503</title>", E::Server),
            (504, "", E::Server),
            (529, "", E::Overloaded),
            (
                429,
                r#"{"error":{"code":"insufficient_quota"}}"#,
                E::Billing,
            ),
            (400, r#"{"error":"Incorrect API key"}"#, E::Authentication),
            (
                400,
                r#"{"error":{"code":"model_not_found"}}"#,
                E::ModelNotFound,
            ),
            (400, r#"{"error":{"code":"tool_use_failed"}}"#, E::Protocol),
            (302, "", E::InvalidRequest),
            (102, "", E::Unknown),
        ] {
            assert_eq!(
                failure(status, &[], body).class,
                expected,
                "{status} {body}"
            );
        }
    }

    #[test]
    fn words() {
        let id = ("request-id", "req_1");
        let long = "x".repeat(600);
        let cut = format!("{}…", "x".repeat(500));
        for (headers, body, expected) in [
            (
                vec![id],
                r#"{"error":{"message":"no\nway"}}"#,
                "no way (request req_1)",
            ),
            (
                vec![],
                r#"{"error":{"message":"no"},"request_id":"req_2"}"#,
                "no (request req_2)",
            ),
            (vec![], r#"{"error":"no"}"#, "no"),
            (vec![], r#"{"detail":"no"}"#, "no"),
            (
                vec![],
                r#"{"error":{"message":"refused","metadata":{"raw":"too busy"}}}"#,
                "refused: too busy",
            ),
            (vec![], "Internal Server Error", "Internal Server Error"),
            (vec![], " ", "the server gave no reason"),
            (
                vec![],
                "<!DOCTYPE html>\n<html><head><TITLE lang=en>Bad\n Gateway</TITLE>…",
                "a web page instead of an answer: Bad Gateway",
            ),
            (vec![], "<html>", "a web page instead of an answer"),
            (vec![], &long, &cut),
            (
                vec![("request-id", "0123456789012345678901234567890123456789x")],
                "no",
                "no",
            ),
        ] {
            assert_eq!(failure(500, &headers, body).message, expected);
        }
        let moved = failure(301, &[("location", "https://elsewhere/")], "");
        assert_eq!(
            moved.message,
            "the server sends us elsewhere: https://elsewhere/"
        );
    }

    #[test]
    fn waits() {
        for (headers, body, expected) in [
            (vec![("retry-after", "7")], "", Some(7_000)),
            (vec![("retry-after", "0.5")], "", Some(500)),
            (
                vec![("retry-after-ms", "250"), ("retry-after", "7")],
                "",
                Some(250),
            ),
            (
                vec![("retry-after", "Fri, 20 Nov 2026 12:00:30 GMT")],
                "",
                Some(30_000),
            ),
            (
                vec![("retry-after", "Fri, 20 Nov 2026 11:00:00 GMT")],
                "",
                Some(0),
            ),
            (
                vec![("retry-after", "soon"), ("x-ratelimit-reset-after", "3")],
                "",
                Some(3_000),
            ),
            (vec![("llm_provider-retry-after", "7")], "", Some(7_000)),
            (vec![("retry-after", "-1")], "", None),
            (vec![("retry-after", "1e300")], "", None),
            (vec![], "Please retry in 20s.", Some(20_000)),
            (vec![], "retry in 300ms", Some(300)),
            (vec![], "Please try again in 1.5 seconds", Some(1_500)),
            (vec![], "quota will Reset after 2 min", Some(120_000)),
            (vec![], "retry in a while", None),
            (vec![], "retry in 5", None),
        ] {
            let wait = failure(429, &headers, body).retry_after;
            assert_eq!(
                wait,
                expected.map(Duration::from_millis),
                "{headers:?} {body}"
            );
        }
    }
}
