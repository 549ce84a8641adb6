//! Errors of the model's server in the words of the original. Pure.
//!
//! Programs decide by these words whether to try again, and what to tell the person whose key or credit it is. The table in
//! the tests has what the original says to each response.

use ah_conversation::{ErrorClass, ProviderError};

/// An error as hosts are told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ApiError {
    /// Text of the message in the model's place, and of the result.
    pub(crate) text: String,
    /// Value of `error` of that message.
    pub(crate) kind: &'static str,
    /// Value of `terminal_reason` of the result.
    pub(crate) terminal_reason: &'static str,
}

/// Refusals by words of the server in lower case: the text that is told, and the kind.
const REFUSALS: [(&str, &str, &str); 5] = [
    (
        "x-api-key",
        "Invalid API key · Fix external API key",
        "authentication_failed",
    ),
    (
        "credit balance is too low",
        "Credit balance is too low",
        "billing_error",
    ),
    (
        "organization has been disabled",
        "Your ANTHROPIC_API_KEY belongs to a disabled organization · Update or unset the environment variable",
        "invalid_request",
    ),
    (
        "oauth token has been revoked",
        "Failed to authenticate: OAuth token revoked. Please log in again or contact your administrator.",
        "authentication_failed",
    ),
    (
        "oauth authentication is currently not allowed",
        "Your organization does not allow this sign-in · Use an Anthropic API key instead",
        "oauth_org_not_allowed",
    ),
];

/// Refusals of a picture or document by words of the server in lower case, with the text that is told.
const ATTACHMENTS: [(&str, &str); 5] = [
    (
        "image dimensions exceed",
        "An image in the conversation has too many pixels for a request with many images",
    ),
    (
        "image exceeds",
        "Image was too large. Try resizing the image",
    ),
    (
        "pdf pages",
        "PDF too large. Try reading the file a different way",
    ),
    ("password protected", "PDF is password protected"),
    ("pdf specified was not valid", "The PDF file was not valid"),
];

impl ApiError {
    /// Returns what is told of `error` of `model`.
    pub(crate) fn of(error: &ProviderError, model: &str) -> Self {
        let told = |text: &str, kind| Self {
            text: text.to_owned(),
            kind,
            terminal_reason: "api_error",
        };
        let words = error.server_words();
        let lower = words.to_lowercase();
        let status = error.status.unwrap_or_default();
        let is_refusal = (400..500).contains(&status) && status != 429;
        // Only an old token of a person is refused with 403.
        let refusal = REFUSALS.iter().find(|(needle, ..)| {
            lower.contains(needle) && !(*needle == "oauth token has been revoked" && status == 401)
        });
        if let (true, Some((_, text, kind))) = (is_refusal, refusal) {
            return told(text, kind);
        }
        if status == 400
            && let Some((_, text)) = ATTACHMENTS
                .iter()
                .find(|(needle, _)| lower.contains(needle))
        {
            return Self {
                terminal_reason: "image_error",
                ..told(text, "invalid_request")
            };
        }
        match (status, error.class) {
            (413, ErrorClass::ContextTooLong) => Self {
                terminal_reason: "image_error",
                ..told(&format!("Request too large · {words}"), "invalid_request")
            },
            (_, ErrorClass::ContextTooLong) => Self {
                terminal_reason: "prompt_too_long",
                ..told(&format!("Prompt is too long · {words}"), "invalid_request")
            },
            (401 | 403, _) => told(
                &format!("Failed to authenticate. API Error: {status} {words}"),
                "authentication_failed",
            ),
            (404, _) => told(
                &format!(
                    "There's an issue with the selected model ({model}). It may not exist or you may not have access to it. Run --model to pick a different model."
                ),
                "model_not_found",
            ),
            (429, _) => told(
                &format!("API Error: Request rejected (429) · {words}"),
                "rate_limit",
            ),
            (500.., _) => {
                let end = if words.ends_with(['.', '!', '?']) {
                    ""
                } else {
                    "."
                };
                let advice =
                    "This is a server-side issue, usually temporary — try again in a moment.";
                told(
                    &format!("API Error: {status} {words}{end} {advice}"),
                    "server_error",
                )
            }
            (1.., _) => told(&format!("API Error: {status} {words}"), "unknown"),
            // Nothing was sent: there is no key, or the command that knows it failed.
            (0, ErrorClass::Authentication) => {
                told("Not logged in · Please run /login", "authentication_failed")
            }
            (0, ErrorClass::Network | ErrorClass::Overloaded) => {
                told(&format!("API Error: {words}"), "server_error")
            }
            (0, class) => told(&format!("API Error: {words}"), class.as_str()),
        }
    }
}

/// Returns the text of an error of `model` in the words of the original.
pub fn error_text(error: &ProviderError, model: &str) -> String {
    ApiError::of(error, model).text
}

/// Returns the SDKs' name for an HTTP status of an attempt that is repeated; 0 means that there was no response.
pub(crate) fn retried_kind(status: u16) -> &'static str {
    match status {
        401 | 403 => "authentication_failed",
        404 => "model_not_found",
        429 => "rate_limit",
        529 => "overloaded",
        500.. => "server_error",
        _ => "unknown",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the original (2.1.332) said to each response, with `CLAUDE_CODE_MAX_RETRIES=0`. Sentences after the first are
    /// its own where they advise what is not here.
    #[test]
    fn every_error_is_told_in_the_words_of_the_original() {
        use ErrorClass as E;
        let cases = [
            (401, E::Authentication, "invalid x-api-key"),
            (401, E::Authentication, "It is refused."),
            (401, E::Authentication, "OAuth token has been revoked"),
            (403, E::Authentication, "OAuth token has been revoked"),
            (403, E::Authentication, "Not for your account."),
            (
                403,
                E::Authentication,
                "OAuth authentication is currently not allowed for this organization.",
            ),
            (
                400,
                E::Billing,
                "Your credit balance is too low to access the Anthropic API. Please go to Plans & Billing.",
            ),
            (400, E::InvalidRequest, "It is refused."),
            (
                400,
                E::InvalidRequest,
                "This organization has been disabled.",
            ),
            (
                400,
                E::ContextTooLong,
                "prompt is too long: 250000 tokens > 200000 maximum",
            ),
            (
                400,
                E::InvalidRequest,
                "messages.0.content.0.pdf.source.base64.data: A maximum of 100 PDF pages may be provided.",
            ),
            (400, E::InvalidRequest, "image exceeds 5 MB maximum"),
            (402, E::Billing, "Your payment failed."),
            (404, E::ModelNotFound, "model: m"),
            (404, E::InvalidRequest, "Not Found"),
            (408, E::Server, "Timed out"),
            (413, E::ContextTooLong, "Request exceeds the maximum size"),
            (422, E::InvalidRequest, "Unprocessable"),
            (429, E::RateLimit, "Too many."),
            (500, E::Server, "Internal server error"),
            (503, E::Server, "Unavailable."),
            (529, E::Overloaded, "Overloaded"),
            (0, E::Authentication, "no API key for the Messages API"),
            (0, E::Network, "cannot reach 127.0.0.1:9"),
            (0, E::Protocol, "the answer ended early"),
        ];
        let lines = cases.map(|(status, class, words)| {
            let error = ProviderError {
                status: (status > 0).then_some(status),
                request_id: Some("req_1".to_owned()),
                ..ProviderError::new(class, format!("{words} (request req_1)"))
            };
            let ApiError {
                text,
                kind,
                terminal_reason,
            } = ApiError::of(&error, "m");
            format!("{status} {kind} {terminal_reason} {text}")
        });
        insta::assert_snapshot!(lines.join("\n"), @"
        401 authentication_failed api_error Invalid API key · Fix external API key
        401 authentication_failed api_error Failed to authenticate. API Error: 401 It is refused.
        401 authentication_failed api_error Failed to authenticate. API Error: 401 OAuth token has been revoked
        403 authentication_failed api_error Failed to authenticate: OAuth token revoked. Please log in again or contact your administrator.
        403 authentication_failed api_error Failed to authenticate. API Error: 403 Not for your account.
        403 oauth_org_not_allowed api_error Your organization does not allow this sign-in · Use an Anthropic API key instead
        400 billing_error api_error Credit balance is too low
        400 unknown api_error API Error: 400 It is refused.
        400 invalid_request api_error Your ANTHROPIC_API_KEY belongs to a disabled organization · Update or unset the environment variable
        400 invalid_request prompt_too_long Prompt is too long · prompt is too long: 250000 tokens > 200000 maximum
        400 invalid_request image_error PDF too large. Try reading the file a different way
        400 invalid_request image_error Image was too large. Try resizing the image
        402 unknown api_error API Error: 402 Your payment failed.
        404 model_not_found api_error There's an issue with the selected model (m). It may not exist or you may not have access to it. Run --model to pick a different model.
        404 model_not_found api_error There's an issue with the selected model (m). It may not exist or you may not have access to it. Run --model to pick a different model.
        408 unknown api_error API Error: 408 Timed out
        413 invalid_request image_error Request too large · Request exceeds the maximum size
        422 unknown api_error API Error: 422 Unprocessable
        429 rate_limit api_error API Error: Request rejected (429) · Too many.
        500 server_error api_error API Error: 500 Internal server error. This is a server-side issue, usually temporary — try again in a moment.
        503 server_error api_error API Error: 503 Unavailable. This is a server-side issue, usually temporary — try again in a moment.
        529 server_error api_error API Error: 529 Overloaded. This is a server-side issue, usually temporary — try again in a moment.
        0 authentication_failed api_error Not logged in · Please run /login
        0 server_error api_error API Error: cannot reach 127.0.0.1:9
        0 unknown api_error API Error: the answer ended early
        ");
    }
}
