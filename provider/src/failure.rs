//! Errors from servers: their class, their message, and the delay that the server asks for. Pure. Vendors put the message
//! in different fields, so all the usual ones are tried. Whether to retry is decided in [`retry`].
//!
//! [`retry`]: crate::retry

use std::borrow::Cow;
use std::time::{Duration, SystemTime};

use ah_conversation::{ErrorClass, ProviderError, json};
use serde_json::Value;

use crate::too_long::{says_account, says_too_long};
use crate::upstream;

/// Length limit, in bytes, of the server's message.
const LONGEST_MESSAGE: usize = 500;
/// Length limit, in bytes, of the excerpt of a body or header that an error message repeats.
const LONGEST_EXCERPT: usize = 200;
/// Most places in a request that an error message repeats.
const MOST_PLACES: usize = 20;
/// Longer request ids are left out of messages.
pub(crate) const LONGEST_REQUEST_ID: usize = 40;

/// Error types and codes about money. Anthropic's have other types and statuses than `billing_error`, such as
/// `rate_limit_error` (`@anthropic-ai/sdk` 1.14.0, 24 November 2026): waiting does not help.
const BILLING: [&str; 8] = [
    "billing_error",
    "insufficient_quota",
    "contract_spend_limit_reached",
    "enforced_spend_limit_reached",
    "linked_organization_spend_limit_reached",
    "linked_organization_billing_unavailable",
    "user_profile_billing_not_authorized",
    "user_profile_not_billable",
];

/// Error types within an answer that are about the request, besides those about pictures and policies: what the Responses API lists
/// (npm `openai` 7.59.0, 17 November 2026), and what other servers say as they say it before an answer.
const REQUEST: [&str; 9] = [
    "content_filter",
    "data_residency_mismatch",
    "invalid_prompt",
    "invalid_request_error",
    "invalid_value",
    "not_found_error",
    "unknown_parameter",
    "unsupported_parameter",
    "unsupported_value",
];

/// Returns the error of a response with an error status.
pub fn in_response<'a>(
    status: u16,
    header: impl Fn(&str) -> Option<&'a str>,
    body: &str,
    now: SystemTime,
) -> ProviderError {
    let json = json::from_str(body).ok().map(unwrapped);
    let (kinds, words) = match &json {
        Some(json) => (
            kinds_of(json.get("error").unwrap_or(json)),
            message_in(json),
        ),
        None => (Vec::new(), None),
    };
    let own = json.as_ref().and_then(own_message_in);
    let mut message = match words {
        Some(words) => excerpt(&words, LONGEST_MESSAGE),
        None if body.trim().is_empty() => "the server gave no reason".to_owned(),
        None => html_title(body).unwrap_or_else(|| excerpt(body, LONGEST_MESSAGE)),
    };
    if let Some(json) = &json {
        add_places(json, &mut message);
    }
    let request_id = header("request-id").or_else(|| json.as_ref()?.get("request_id")?.as_str());
    let request_id = request_id.filter(|id| id.len() <= LONGEST_REQUEST_ID);
    let class = match status {
        300..=399 => ErrorClass::InvalidRequest,
        _ => class(Some(status), &kinds, own.as_deref().unwrap_or(body), body),
    };
    if let (300..=399, Some(target)) = (status, header("location")) {
        message = format!(
            "the server redirects to {}, which is not followed",
            excerpt(target, 200)
        );
    }
    let is_of_upstream = own.is_some_and(|own| own.contains("Exception - "));
    let refuses_gateway = class == ErrorClass::Authentication && is_of_upstream;
    let error = ProviderError::new(class, message);
    ProviderError {
        status: Some(status),
        retry_after: requested_delay(&header, body, now),
        kind: json.as_ref().and_then(kind_in),
        hint: refuses_gateway.then(|| {
            "the server behind the gateway refuses the gateway's own key; tell its operator"
                .to_owned()
        }),
        ..match request_id {
            Some(id) if !(300..=399).contains(&status) => error.of_request(id),
            _ => error,
        }
    }
}

/// Returns the type of the error in a body.
fn kind_in(body: &Value) -> Option<String> {
    Some(text(body.get("error").unwrap_or(body), "type")?.to_owned())
}

/// Returns an error out of the list in which Google's servers wrap it.
fn unwrapped(error: Value) -> Value {
    match error {
        Value::Array(mut errors) if !errors.is_empty() => errors.swap_remove(0),
        error => error,
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

/// Returns the error of an `error` event within an answer.
pub fn in_stream(error: Option<&Value>) -> ProviderError {
    let kinds = error.map(kinds_of).unwrap_or_default();
    let reason = error
        .and_then(message_in)
        .unwrap_or_else(|| "the server ended the answer with an error and gave no reason".into());
    let mut message = excerpt(&reason, LONGEST_MESSAGE);
    if let Some(error) = error {
        add_places(error, &mut message);
    }
    if let Some(kind) = error.and_then(|error| text(error, "type")) {
        message.push_str(&format!(" ({kind})"));
    }
    // Some servers put the HTTP status that they could no longer send into the event.
    let mut statuses = kinds.iter().filter_map(|kind| kind.parse().ok());
    let status = statuses.find(|status| (400..600).contains(status));
    ProviderError {
        retry_after: delay_in_text(&reason),
        ..ProviderError::new(class(status, &kinds, &reason, &reason), message)
    }
}

/// The class of an error, by its HTTP status, the server's error types, its words and the text of the whole response.
fn class(status: Option<u16>, kinds: &[String], words: &str, text: &str) -> ErrorClass {
    let text = text.to_ascii_lowercase();
    let says = |words: &str| text.contains(words);
    let is = |words: &[&str]| kinds.iter().any(|kind| words.contains(&kind.as_str()));
    match status {
        _ if is(&BILLING) => ErrorClass::Billing,
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
        Some(413) if says_account(&text) => ErrorClass::RateLimit,
        Some(413) => ErrorClass::ContextTooLong,
        _ if says_too_long(kinds, words) => ErrorClass::ContextTooLong,
        Some(529) => ErrorClass::Overloaded,
        _ if is(&["overloaded_error"]) || says("overloaded") => ErrorClass::Overloaded,
        _ if says("rate limit") || says("rate_limit") => ErrorClass::RateLimit,
        // The model called a tool in a wrong format; a retry may succeed.
        _ if is(&["tool_use_failed"]) => ErrorClass::Protocol,
        Some(408 | 409 | 500..) => ErrorClass::Server,
        None if kinds.iter().any(|kind| is_of_request(kind)) => ErrorClass::InvalidRequest,
        // Within an answer it is an error of the server, since the request was accepted.
        None => ErrorClass::Server,
        Some(400..=499) => ErrorClass::InvalidRequest,
        Some(_) => ErrorClass::Unknown,
    }
}

/// Whether an error type within an answer is about the request, which would be refused again.
fn is_of_request(kind: &str) -> bool {
    REQUEST.contains(&kind)
        || ["_policy", "_policy_violation"]
            .iter()
            .any(|end| kind.ends_with(end))
        || kind.contains("image")
}

/// The delay that the server asks for, if any.
fn requested_delay<'a>(
    header: impl Fn(&str) -> Option<&'a str>,
    body: &str,
    now: SystemTime,
) -> Option<Duration> {
    // LiteLLM passes on the headers of the server behind it with a prefix.
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
        .or_else(|| delay_in_text(body))
}

/// A delay within a sentence: `retry in 20s`, `reset after 300ms`.
fn delay_in_text(text: &str) -> Option<Duration> {
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

/// The error types that the server gives: `type`, and codes, which may be numbers.
fn kinds_of(error: &Value) -> Vec<String> {
    ["/type", "/code", "/error_code", "/details/error_code"]
        .into_iter()
        .filter_map(|field| match error.pointer(field)? {
            Value::String(kind) => Some(kind.clone()),
            Value::Number(code) => Some(code.to_string()),
            _ => None,
        })
        .collect()
}

/// The error message in the body: that of the server behind a gateway, if the gateway quotes it.
fn message_in(body: &Value) -> Option<Cow<'_, str>> {
    let message = own_message_in(body)?;
    let of_upstream = |json: &Value| own_message_in(json).map(Cow::into_owned);
    Some(upstream::quoted(&message, of_upstream).map_or(message, Cow::from))
}

/// The error message in the body, from any of the usual fields.
fn own_message_in(body: &Value) -> Option<Cow<'_, str>> {
    let error = body.get("error").unwrap_or(body);
    let message = text(error, "message")
        .or_else(|| error.as_str())
        .or_else(|| text(body, "message"))
        .or_else(|| text(body, "detail"))
        .or_else(|| text(body, "msg"))
        .or_else(|| text(body, "error_msg"))
        // Cloudflare.
        .or_else(|| body.pointer("/errors/0/message")?.as_str());
    let Some(message) = message else {
        return details(body).map(Cow::from);
    };
    // A gateway may give the error of the server behind it in another field.
    Some(
        match error.pointer("/metadata/raw").and_then(Value::as_str) {
            Some(raw) => format!("{message}: {raw}").into(),
            None => message.into(),
        },
    )
}

/// The faults that servers in Python list, each with the field that it is about (FastAPI; Mistral has them in `message`).
fn details(body: &Value) -> Option<String> {
    let listed = ["/detail", "/message/detail"];
    let faults = { listed.iter() }.find_map(|place| body.pointer(place)?.as_array())?;
    let faults = faults.iter().filter_map(|fault| {
        let said = text(fault, "msg")?;
        let place = fault.get("loc").and_then(Value::as_array);
        let steps = place.into_iter().flatten().map(|step| match step {
            Value::String(name) => name.clone(),
            step => step.to_string(),
        });
        let steps: Vec<_> = steps.skip_while(|step| step == "body").collect();
        Some(match steps.is_empty() {
            true => said.to_owned(),
            false => format!("{}: {said}", steps.join(".")),
        })
    });
    let faults: Vec<_> = faults.take(MOST_PLACES).collect();
    (!faults.is_empty()).then(|| faults.join("; "))
}

/// Adds the places in the request that an error is about to its message.
fn add_places(body: &Value, message: &mut String) {
    let places = places(body).into_iter();
    let places: Vec<_> = places.filter(|place| !message.contains(place)).collect();
    if !places.is_empty() {
        message.push_str(&format!(" ({})", places.join(", ")));
    }
}

/// The places in the request that an error is about, where its fields name them: of OpenAI, and of the Messages API.
fn places(body: &Value) -> Vec<&str> {
    let error = body.get("error").unwrap_or(body);
    let listed = error.pointer("/details/paths").and_then(Value::as_array);
    let places = listed.into_iter().flatten().chain(error.get("param"));
    let is_within = |place: &&str| place.contains(|c: char| c.is_ascii_digit());
    let places = places.filter_map(Value::as_str).filter(is_within);
    places.take(MOST_PLACES).collect()
}

fn text<'a>(value: &'a Value, field: &str) -> Option<&'a str> {
    value.get(field)?.as_str()
}

/// Returns a message with the title if `body` is a web page in the place of an answer.
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

/// Returns `text` in one line of about `limit` bytes at most.
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

/// Returns a span of time for people: `1 h 30 min`, `90 s`, `0.05 s`.
pub fn span(span: Duration) -> String {
    match span.as_secs() {
        seconds if seconds == 0 || span.subsec_nanos() > 0 => format!("{} s", span.as_secs_f64()),
        seconds if seconds.is_multiple_of(3_600) => format!("{} h", seconds / 3_600),
        seconds if seconds > 3_600 => format!("{} h {} min", seconds / 3_600, seconds % 3_600 / 60),
        seconds if seconds > 60 && seconds.is_multiple_of(60) => format!("{} min", seconds / 60),
        seconds => format!("{seconds} s"),
    }
}

/// The error with its causes, joined by colons. Repetitions are dropped, as some libraries say the same at each level.
pub(crate) fn with_causes(error: &dyn std::error::Error) -> String {
    let mut causes: Vec<_> = std::iter::successors(Some(error), |cause| cause.source())
        .map(ToString::to_string)
        .collect();
    causes.dedup();
    causes.join(": ")
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

    #[test]
    fn the_class_follows_from_the_status_and_the_message() {
        use ErrorClass as E;
        let cut = "input length and `max_tokens` exceed context limit: 190000 + 16384 > 200000";
        for (status, body, expected) in [
            (
                400,
                r#"{"error":{"type":"invalid_request_error","message":"no"}}"#,
                E::InvalidRequest,
            ),
            (
                429,
                r#"{"error":{"type":"rate_limit_error","message":"no","details":{"error_code":"contract_spend_limit_reached"}}}"#,
                E::Billing,
            ),
            (
                403,
                r#"{"error":{"type":"permission_error","message":"no","details":{"error_code":"user_profile_billing_not_authorized"}}}"#,
                E::Billing,
            ),
            (
                429,
                r#"{"error":{"type":"rate_limit_error","message":"no","details":{"error_code":"ramp_limit_exceeded"}}}"#,
                E::RateLimit,
            ),
            (
                400,
                r#"{"error":{"type":"invalid_request_error","message":"no","details":{"error_code":"image_dimensions_too_large","max_side_length_pixels":2000,"paths":["messages.0.content.1"]}}}"#,
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
            (
                413,
                "Request too large on tokens per minute (TPM): Limit 6000, Requested 9000",
                E::RateLimit,
            ),
            (
                500,
                r#"{"error":{"code":500,"message":"context shift is disabled"}}"#,
                E::ContextTooLong,
            ),
            (
                400,
                r#"{"error":{"code":"1261","message":"no"}}"#,
                E::ContextTooLong,
            ),
            // What stands beside the message, such as an echo of the request, says nothing.
            (
                400,
                r#"{"error":{"message":"no"},"input":"the prompt is too long"}"#,
                E::InvalidRequest,
            ),
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
    fn the_class_of_an_error_within_an_answer_follows_from_its_type() {
        use ErrorClass as E;
        let of_responses = |code: &str| serde_json::json!({"code": code, "message": "no"});
        let cases = [
            ("server_error", E::Server),
            ("rate_limit_exceeded", E::RateLimit),
            ("invalid_prompt", E::InvalidRequest),
            ("data_residency_mismatch", E::InvalidRequest),
            ("bio_policy", E::InvalidRequest),
            ("misalignment_policy_violation", E::InvalidRequest),
            ("vector_store_timeout", E::Server),
            ("invalid_image", E::InvalidRequest),
            ("invalid_base64_image", E::InvalidRequest),
            ("image_too_large", E::InvalidRequest),
            ("invalid_image_format", E::InvalidRequest),
            ("invalid_image_url", E::InvalidRequest),
            ("invalid_image_mode", E::InvalidRequest),
            ("image_too_small", E::InvalidRequest),
            ("image_parse_error", E::InvalidRequest),
            ("image_file_too_large", E::InvalidRequest),
            ("image_file_not_found", E::InvalidRequest),
            ("image_content_policy_violation", E::InvalidRequest),
            ("unsupported_image_media_type", E::InvalidRequest),
            ("empty_image_file", E::InvalidRequest),
            ("failed_to_download_image", E::InvalidRequest),
            ("insufficient_quota", E::Billing),
            ("context_length_exceeded", E::ContextTooLong),
            ("unknown_error", E::Server),
        ]
        .map(|(code, class)| (of_responses(code), class));
        let typed = |kind: &str| serde_json::json!({"type": kind, "message": "no"});
        let others = [
            // The Messages API.
            (typed("invalid_request_error"), E::InvalidRequest),
            (typed("authentication_error"), E::Authentication),
            (typed("billing_error"), E::Billing),
            (typed("permission_error"), E::Authentication),
            (typed("not_found_error"), E::InvalidRequest),
            (typed("request_too_large"), E::ContextTooLong),
            (typed("rate_limit_error"), E::RateLimit),
            (typed("timeout_error"), E::Server),
            (typed("api_error"), E::Server),
            (typed("overloaded_error"), E::Overloaded),
            // Groq.
            (typed("tool_use_failed"), E::Protocol),
            // llama.cpp and OpenRouter, which give the status.
            (
                serde_json::json!({"code": 400, "message": "no"}),
                E::InvalidRequest,
            ),
            (serde_json::json!({"code": 502, "message": "no"}), E::Server),
            (
                serde_json::json!({"code": "429", "message": "no"}),
                E::RateLimit,
            ),
            (serde_json::json!({"message": "no"}), E::Server),
        ];
        for (error, expected) in cases.into_iter().chain(others) {
            assert_eq!(in_stream(Some(&error)).class, expected, "{error}");
        }
    }

    /// The vendor's words stand alone, and a key that the vendor refuses is the gateway's, not the user's.
    #[test]
    fn a_gateway_that_quotes_its_server_is_unwrapped() {
        let quoted = |error: &str| {
            let message = format!(
                r#"litellm.{error}: AnthropicException - b'{{"error":{{"message":"no such thing"}}}}'. Received Model Group=a"#
            );
            serde_json::json!({"error": {"message": message}}).to_string()
        };
        let error = failure(401, &[], &quoted("AuthenticationError"));
        assert_eq!(
            (error.message.as_str(), error.class),
            ("no such thing", ErrorClass::Authentication)
        );
        let hint = "the server behind the gateway refuses the gateway's own key; tell its operator";
        assert_eq!(error.hint.as_deref(), Some(hint));
        let error = failure(400, &[], &quoted("BadRequestError"));
        assert_eq!(
            (error.message.as_str(), error.hint),
            ("no such thing", None)
        );
        let error = failure(401, &[], r#"{"error": {"message": "bad key"}}"#);
        assert_eq!((error.message.as_str(), error.hint), ("bad key", None));
    }

    #[test]
    fn the_place_that_an_error_is_about_is_told() {
        for (body, expected) in [
            (
                r#"{"error":{"message":"Invalid schema.","param":"tools[19].function.parameters"}}"#,
                "Invalid schema. (tools[19].function.parameters)",
            ),
            (
                r#"{"error":{"message":"Invalid 'input[3].id'.","param":"input[3].id"}}"#,
                "Invalid 'input[3].id'.",
            ),
            (r#"{"error":{"message":"No.","param":"tools"}}"#, "No."),
            (
                r#"{"error":{"message":"too large","details":{"error_code":"image_dimensions_too_large","paths":["messages.0.content.1"]}}}"#,
                "too large (messages.0.content.1)",
            ),
            (r#"[{"error":{"message":"no"}}]"#, "no"),
            (r#"{"detail":[{"loc":["body"],"msg":"no"}]}"#, "no"),
            (
                r#"{"detail":[{"loc":["body","stop"],"msg":"no"},{"loc":["body","messages",0,"x"],"msg":"never"}]}"#,
                "stop: no; messages.0.x: never",
            ),
            (
                r#"{"object":"error","message":{"detail":[{"loc":["body","stop"],"msg":"no"}]}}"#,
                "stop: no",
            ),
            (
                r#"{"success":false,"errors":[{"code":5021,"message":"no"}]}"#,
                "no",
            ),
            (r#"{"code":70000,"msg":"no"}"#, "no"),
        ] {
            assert_eq!(failure(400, &[], body).message, expected);
        }
    }

    #[test]
    fn spans_of_time_are_readable() {
        for (milliseconds, expected) in [
            (50, "0.05 s"),
            (60_000, "60 s"),
            (90_000, "90 s"),
            (120_000, "2 min"),
            (3_600_000, "1 h"),
            (5_405_000, "1 h 30 min"),
        ] {
            assert_eq!(span(Duration::from_millis(milliseconds)), expected);
        }
    }

    #[test]
    fn the_message_is_found_in_any_usual_field() {
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
            (vec![], r#"[{"error":{"code":400,"message":"no"}}]"#, "no"),
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
            "the server redirects to https://elsewhere/, which is not followed"
        );
    }

    #[test]
    fn delays_are_read_from_headers_and_text() {
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
