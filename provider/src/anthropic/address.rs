//! Addresses of the Messages API.

/// Returns the address of the API below `base`. A version within the path is kept, since it may belong to a gateway.
pub fn address(base: &str) -> String {
    let base = base.trim().trim_end_matches('/');
    let base = base.strip_suffix("/messages").unwrap_or(base);
    let base = base.strip_suffix("/v1").unwrap_or(base);
    format!("{base}/v1/messages")
}

/// Returns the address of a model below `base`, where the path has its name.
pub fn address_of_model(base: &str, model: &str) -> String {
    let base = base.trim().trim_end_matches('/');
    let base = base.strip_suffix("/models").unwrap_or(base);
    format!("{base}/models/{model}:streamRawPredict")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        for (base, expected) in [
            ("http://h:4000", "http://h:4000/v1/messages"),
            (" http://h/v1/ ", "http://h/v1/messages"),
            ("http://h/v1/messages", "http://h/v1/messages"),
            ("https://h/api", "https://h/api/v1/messages"),
            ("https://h/v1/a/vendor", "https://h/v1/a/vendor/v1/messages"),
        ] {
            assert_eq!(address(base), expected);
        }
        for base in [
            "http://h/v1/publishers/a",
            "http://h/v1/publishers/a/models/",
        ] {
            let expected = "http://h/v1/publishers/a/models/m@1:streamRawPredict";
            assert_eq!(address_of_model(base, "m@1"), expected);
        }
    }
}
