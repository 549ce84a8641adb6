//! Errors of the protocol.

use agent_client_protocol::v1::schema::SessionId;
use agent_client_protocol::{Error, ErrorCode};

use crate::Refusal;

/// Returns the error for a request that cannot be carried out, with a text that editors show.
pub(crate) fn failed(text: impl Into<String>) -> Error {
    Error::new(Error::internal_error().code, text)
}

/// Returns the error for a request that makes no sense.
pub(crate) fn invalid(text: impl Into<String>) -> Error {
    Error::new(Error::invalid_params().code, text)
}

/// Returns the error for a session that is not open.
pub(crate) fn not_open(session: &SessionId) -> Error {
    invalid(format!("there is no open session `{session}`"))
}

impl From<Refusal> for Error {
    fn from(refusal: Refusal) -> Self {
        let code: ErrorCode = match refusal.is_without_key {
            true => Self::auth_required().code,
            false => Self::internal_error().code,
        };
        Self::new(code, refusal.text)
    }
}
