//! Requests to a server of this user, and why one has no answer.

use std::time::Duration;

use reqwest::{RequestBuilder, Response};
use tokio::time::timeout;

/// Why a server did not answer.
pub enum Unanswered {
    /// Nobody is there.
    Gone,
    /// For this reason.
    Because(String),
}

impl From<reqwest::Error> for Unanswered {
    fn from(error: reqwest::Error) -> Self {
        match error.is_connect() {
            true => Self::Gone,
            // Its address says nothing to people.
            false => Self::Because(error.without_url().to_string()),
        }
    }
}

impl Unanswered {
    /// Returns it in words.
    pub fn reason(self) -> String {
        match self {
            Self::Gone => "its process has ended".to_owned(),
            Self::Because(reason) => reason,
        }
    }
}

/// Sends a request, and waits for the beginning of the answer.
pub async fn answered(request: RequestBuilder, patience: Duration) -> Result<Response, Unanswered> {
    match timeout(patience, request.send()).await {
        Ok(answer) => answer.map_err(Unanswered::from),
        Err(_) => Err(Unanswered::Because(format!(
            "no answer within {} s",
            patience.as_secs()
        ))),
    }
}
