//! Responses: JSON, and errors as JSON with the reason in words.

use ah_desk::{Refusal, RefusalKind};
use axum::body::Body;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::http::{HeaderValue, Response, StatusCode};
use axum::response::IntoResponse;
use serde_json::{Value, json};

use crate::live::Refused;

/// A response.
pub(crate) type Answer = Response<Body>;

/// Returns a JSON response.
pub(crate) fn told(status: StatusCode, value: &Value) -> Answer {
    text(status, value.to_string())
}

/// Returns a response with this JSON.
pub(crate) fn text(status: StatusCode, json: String) -> Answer {
    let mut response = Response::new(Body::from(json));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// Gives a refusal that has not come from a route the same form: of a request that could not be read, or has no handler.
pub(crate) async fn in_words(response: Answer) -> Answer {
    let status = response.status();
    let kind = response.headers().get(CONTENT_TYPE);
    let is_ours = kind.is_some_and(|kind| kind == "application/json");
    if is_ours || !(status.is_client_error() || status.is_server_error()) {
        return response;
    }
    let reason = match status {
        StatusCode::PAYLOAD_TOO_LARGE => "the request is longer than 1 MiB".to_owned(),
        StatusCode::BAD_REQUEST => "the request cannot be read".to_owned(),
        StatusCode::UPGRADE_REQUIRED => "this path is a WebSocket".to_owned(),
        other => other.canonical_reason().unwrap_or("refused").to_lowercase(),
    };
    Failure(status, reason).into_response()
}

/// Runs what blocks.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, String> + Send + 'static,
) -> Result<T, Failure> {
    let ended = tokio::task::spawn_blocking(work).await;
    let ended = ended.unwrap_or_else(|_| Err("it ended unexpectedly".to_owned()));
    ended.map_err(Failure::impossible)
}

/// Why a request is not carried out: the status, and the reason in words.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Failure(pub(crate) StatusCode, pub(crate) String);

impl IntoResponse for Failure {
    fn into_response(self) -> Answer {
        told(self.0, &json!({ "error": self.1 }))
    }
}

impl Failure {
    /// With this reason.
    pub(crate) fn new(status: StatusCode, reason: &str) -> Self {
        Self(status, reason.to_owned())
    }

    /// What was asked for cannot be done, or not be read.
    pub(crate) fn impossible(reason: impl Into<String>) -> Self {
        Self(StatusCode::UNPROCESSABLE_ENTITY, reason.into())
    }

    /// The query cannot be read.
    pub(crate) fn query() -> Self {
        Self::impossible("the query is not as `/openapi.json` describes it")
    }

    /// The session is not there.
    pub(crate) fn missing(session: &str) -> Self {
        let reason = format!("there is no session `{session}`");
        Self(StatusCode::NOT_FOUND, reason)
    }

    /// What was refused; `idle` says why it needs a run or a question.
    pub(crate) fn refused(refused: Refused, idle: &str) -> Self {
        match refused {
            Refused::Busy => Self::new(
                StatusCode::CONFLICT,
                "a run is in progress: steer it, or wait for its end",
            ),
            Refused::Idle => Self::new(StatusCode::CONFLICT, idle),
            Refused::Unfit(reason) => Self::impossible(reason),
            Refused::Run(Refusal { text, kind }) => match kind {
                RefusalKind::Busy => Self(StatusCode::CONFLICT, text),
                RefusalKind::Missing => Self(StatusCode::NOT_FOUND, text),
                RefusalKind::Model(_) | RefusalKind::Failed => Self::impossible(text),
            },
        }
    }
}
