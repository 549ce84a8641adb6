//! Errors of the protocol.

use agent_client_protocol::{Error, ErrorCode};
use ah_desk::{Refusal, RefusalKind};

/// Returns the error for a request that cannot be carried out, with a text that editors show.
pub(crate) fn failed(text: impl Into<String>) -> Error {
    Error::new(Error::internal_error().code, text)
}

/// Returns the error for a request that makes no sense.
pub(crate) fn invalid(text: impl Into<String>) -> Error {
    Error::new(Error::invalid_params().code, text)
}

/// Returns the error for a session that is not open.
pub(crate) fn not_open(session: &str) -> Error {
    missing(format!("there is no open session `{session}`"))
}

/// Returns the error for what is not there.
fn missing(text: impl Into<String>) -> Error {
    Error::new(ErrorCode::RESOURCE_NOT_FOUND, text)
}

/// Returns the error for what the desk refuses.
pub(crate) fn refused(refusal: Refusal) -> Error {
    let code: ErrorCode = match refusal.kind {
        RefusalKind::Model(_) => Error::auth_required().code,
        RefusalKind::Missing => return missing(refusal.text),
        RefusalKind::Busy | RefusalKind::Failed => Error::internal_error().code,
    };
    Error::new(code, refusal.text)
}
