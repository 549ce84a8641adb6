//! Error responses to invalid requests.

/// Error response to an invalid request.
#[derive(Debug, Clone)]
pub struct Refusal {
    /// Status.
    pub status: u16,
    /// Type, as the Messages API calls it.
    pub kind: &'static str,
    /// Text.
    pub message: String,
    /// Code among the details, if it has one.
    pub code: Option<&'static str>,
}

impl Refusal {
    /// Returns the error for a path that does not exist.
    pub fn unknown_path() -> Self {
        Self {
            status: 404,
            kind: "not_found_error",
            message: "Not found".to_owned(),
            code: None,
        }
    }

    /// Returns the error for an invalid body or header.
    pub fn invalid(message: String) -> Self {
        Self {
            status: 400,
            kind: "invalid_request_error",
            message,
            code: None,
        }
    }
}
