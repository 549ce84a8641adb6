//! Why a server could not be reached, in words for people: those of the libraries are for programmers.

use ah_conversation::ProviderError;

/// The beginnings of what is said.
const UNKNOWN: &str = "cannot resolve ";
const REFUSED: &str = "the proxy refused the connection to ";
const OTHER: &str = "cannot connect to ";

/// Says why there is no connection; `cause` is what the library says.
pub fn told(host: &str, cause: &str) -> String {
    if cause.contains("failed to lookup address") {
        return format!("{UNKNOWN}{host} (are you online?)");
    }
    if cause.contains("tunnel error: unsuccessful") {
        return format!("{REFUSED}{host}");
    }
    format!("{OTHER}{host}: {cause}")
}

/// Whether the server could not be reached.
pub fn is_unreachable(error: &ProviderError) -> bool {
    let told = |beginning: &&str| error.message.starts_with(*beginning);
    [UNKNOWN, REFUSED, OTHER].iter().any(told)
}

#[cfg(test)]
mod tests {
    use ah_conversation::ErrorClass;

    use super::*;

    #[test]
    fn why_there_is_no_connection_is_told_for_people() {
        for (cause, expected) in [
            (
                "failed to lookup address information: Name or service not known",
                "cannot resolve api.example.com (are you online?)",
            ),
            (
                "tunnel error: unsuccessful",
                "the proxy refused the connection to api.example.com",
            ),
            (
                "Connection refused (os error 111)",
                "cannot connect to api.example.com: Connection refused (os error 111)",
            ),
        ] {
            let message = told("api.example.com", cause);
            assert_eq!(message, expected);
            let error = ProviderError::new(ErrorClass::Network, message);
            assert!(is_unreachable(&error), "{expected}");
        }
    }
}
