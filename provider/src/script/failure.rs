//! A scripted failure, classified like an error of a server.

use std::time::{Duration, SystemTime};

use ah_conversation::{ErrorClass, ProviderError};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// A failure of the server or of the connection.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Failure {
    /// The HTTP status.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// The vendor's error type, such as `overloaded_error`.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// Class of the error; by default it follows from the status and the type.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub class: Option<Class>,
    /// Message of the server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Delay that the server asks for, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_after: Option<f64>,
}

/// Class of an error as a scenario writes it: `rate_limit`, `network`, …
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Class(#[serde(with = "ClassWord")] pub ErrorClass);

#[derive(Serialize, Deserialize)]
#[serde(remote = "ErrorClass", rename_all = "snake_case")]
enum ClassWord {
    Authentication,
    Billing,
    RateLimit,
    InvalidRequest,
    ModelNotFound,
    ContextTooLong,
    Overloaded,
    Server,
    Network,
    Protocol,
    Stalled,
    Script,
    Unknown,
}

impl Failure {
    /// Returns the error that a provider reports for it.
    pub fn to_error(&self) -> ProviderError {
        let error = match (self.class, self.status, &self.kind) {
            (Some(Class(class)), ..) => ProviderError::new(class, self.message()),
            (None, Some(status), _) => {
                let body = json!({"error": self.error_object()}).to_string();
                crate::failure::in_response(status, |_| None, &body, SystemTime::UNIX_EPOCH)
            }
            (None, None, Some(_)) => crate::failure::in_stream(Some(&self.error_object())),
            (None, None, None) => ProviderError::new(ErrorClass::Network, self.message()),
        };
        let wait = self
            .retry_after
            .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        ProviderError {
            status: self.status,
            retry_after: wait.or(error.retry_after),
            ..error
        }
    }

    /// Returns the message.
    pub fn message(&self) -> String {
        self.message
            .clone()
            .unwrap_or_else(|| "scripted failure".to_owned())
    }

    /// Returns the error object that a server would send, with type and message.
    pub fn error_object(&self) -> Value {
        json!({"type": self.kind(), "message": self.message()})
    }

    /// The vendor's error type.
    fn kind(&self) -> &str {
        match (&self.kind, self.status) {
            (Some(kind), _) => kind,
            (None, Some(401)) => "authentication_error",
            (None, Some(402)) => "billing_error",
            (None, Some(403)) => "permission_error",
            (None, Some(404)) => "not_found_error",
            (None, Some(413)) => "request_too_large",
            (None, Some(429)) => "rate_limit_error",
            (None, Some(400..=499)) => "invalid_request_error",
            (None, Some(529)) => "overloaded_error",
            (None, _) => "api_error",
        }
    }
}
