//! Conversion of the work's errors.

use ah_config::{Error, ErrorKind};
use ah_work::run::WorkError;

pub fn failure(error: &WorkError) -> Error {
    let kind = match error {
        WorkError::NoSandbox => ErrorKind::SandboxUnavailable,
        WorkError::Lock(_) | WorkError::Taken { .. } => ErrorKind::SessionBusy,
        _ => ErrorKind::Failure,
    };
    Error::new(kind, error.to_string()).maybe_hint(error.hint())
}
