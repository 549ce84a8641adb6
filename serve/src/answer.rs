//! Responses: JSON, and errors as JSON with the reason in words.

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

/// Runs what blocks.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, String> + Send + 'static,
) -> Result<T, Failure> {
    let ended = tokio::task::spawn_blocking(work).await;
    let ended = ended.unwrap_or_else(|_| Err("it broke off".to_owned()));
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
            Refused::Failed(reason) => Self::impossible(reason),
        }
    }
}
