//! Errors of requests, worded for the model.

use rmcp::service::ServiceError;

use crate::remote::name::clean;

/// Returns the error of a request, worded for the model.
pub(crate) fn explain(error: &ServiceError) -> String {
    match error {
        ServiceError::McpError(error) => clean(&error.message, 4_000),
        ServiceError::Timeout { timeout } => {
            format!(
                "no response and no progress for {} s; the call was cancelled",
                timeout.as_secs_f64()
            )
        }
        ServiceError::TransportClosed | ServiceError::TransportSend(_) => {
            "the server disconnected before it responded; it is unknown whether the call had any effect".to_owned()
        }
        other => clean(&other.to_string(), 1_000),
    }
}
