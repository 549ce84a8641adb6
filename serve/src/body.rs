//! The body of a request: all of it, within limits of size and time.

use std::time::Duration;

use axum::body::Bytes;
use axum::extract::{FromRequest, Request};
use axum::http::StatusCode;
use axum::response::IntoResponse as _;

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
                let reason = "the request did not come in time";
                Err(Failure::new(StatusCode::REQUEST_TIMEOUT, reason).into_response())
            }
        }
    }
}
