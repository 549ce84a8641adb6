//! The body of a request: all of it, within limits of size and time.

use std::time::Duration;

use ah_conversation::json;
use axum::body::Bytes;
use axum::extract::{FromRequest, Request};
use axum::http::StatusCode;
use axum::response::IntoResponse as _;
use serde::de::DeserializeOwned;
use serde_json::error::Category;

use crate::answer::{Answer, Failure};

/// Largest request, in bytes.
pub(crate) const LARGEST: usize = 1024 * 1024;
/// Time in which it has to come.
const PATIENCE: Duration = Duration::from_secs(30);

/// All of it.
pub(crate) struct Whole(pub(crate) Bytes);

impl<S: Send + Sync> FromRequest<S> for Whole {
    type Rejection = Answer;

    async fn from_request(request: Request, state: &S) -> Result<Self, Answer> {
        let read = tokio::time::timeout(PATIENCE, Bytes::from_request(request, state));
        match read.await {
            Ok(Ok(bytes)) => Ok(Self(bytes)),
            Ok(Err(rejection)) => Err(rejection.into_response()),
            Err(_) => {
                let reason = "the request did not arrive in time";
                Err(Failure::new(StatusCode::REQUEST_TIMEOUT, reason).into_response())
            }
        }
    }
}

/// Returns what a body says.
pub(crate) fn read<T: DeserializeOwned>(body: &Bytes) -> Result<T, Failure> {
    json::from_slice(body).map_err(|error| {
        let (line, column) = (error.line(), error.column());
        Failure::impossible(match error.classify() {
            Category::Data => {
                let place = format!(" at line {line} column {column}");
                let text = error.to_string();
                let reason = text.strip_suffix(&place).unwrap_or(&text);
                format!("the body is not as `/openapi.json` describes it: {reason}")
            }
            _ => format!("the body is not JSON: line {line}, column {column}"),
        })
    })
}
