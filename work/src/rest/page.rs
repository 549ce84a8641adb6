//! Pages, errors and escapes of REST responses and addresses.

use ah_conversation::json;
use serde_json::Value;

/// Returns the URL with `rel="next"` in a `Link` header.
pub(super) fn next_page(link: &str) -> Option<&str> {
    let mut links = link.split(',');
    let address = links.find_map(|link| {
        let (address, parameters) = link.split_once(';')?;
        let is_next = parameters
            .split(';')
            .any(|parameter| matches!(parameter.trim(), "rel=\"next\"" | "rel=next"));
        is_next.then_some(address)
    })?;
    address.trim().strip_prefix('<')?.strip_suffix('>')
}

/// Returns the reason in an error response, in one line.
pub(super) fn reason(text: &str) -> String {
    let Ok(value) = json::from_str::<Value>(text) else {
        return text.chars().take(200).collect();
    };
    let said = |value: &Value| match value {
        Value::String(text) => Some(text.clone()),
        Value::Array(_) | Value::Object(_) => Some(value.to_string()),
        _ => None,
    };
    // GitLab's message can be an object by field, or be called `error`.
    let named = ["message", "error", "error_description"];
    let mut parts: Vec<_> = named.iter().filter_map(|name| said(&value[name])).collect();
    let errors = value["errors"].as_array().into_iter().flatten();
    parts.extend(errors.filter_map(|error| {
        let text = error["message"].as_str().or(error.as_str());
        text.or(error["code"].as_str()).map(str::to_owned)
    }));
    parts.join(": ").chars().take(500).collect()
}

/// Percent-encodes `text` for a URL.
pub(crate) fn escaped(text: &str) -> String {
    let escape = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
            char::from(byte).to_string()
        }
        byte => format!("%{byte:02X}"),
    };
    text.bytes().map(escape).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_page_is_found_in_a_link_header() {
        for (link, expected) in [
            (
                r#"<https://a/b?page=2>; rel="next", <https://a/b?page=9>; rel="last""#,
                Some("https://a/b?page=2"),
            ),
            (
                r#"<https://a/b?page=1>; rel="prev", <https://a/b?page=3>; rel="next""#,
                Some("https://a/b?page=3"),
            ),
            (r#"<https://a/b?page=1>; rel="last""#, None),
            ("", None),
            ("nonsense; rel=next", None),
        ] {
            assert_eq!(next_page(link), expected, "{link}");
        }
    }

    #[test]
    fn the_reason_is_read_from_an_error_response() {
        let whole = r#"{"message": "Validation Failed", "errors": [{"code": "invalid", "field": "head"}, {"message": "m"}]}"#;
        for (text, expected) in [
            (whole, "Validation Failed: invalid: m"),
            (r#"{"message": "Not Found"}"#, "Not Found"),
            ("<html>", "<html>"),
            (
                r#"{"message": {"title": ["is too long"]}}"#,
                r#"{"title":["is too long"]}"#,
            ),
            (
                r#"{"error": "invalid_token", "error_description": "revoked"}"#,
                "invalid_token: revoked",
            ),
        ] {
            assert_eq!(reason(text), expected);
        }
        assert_eq!(escaped("good first/issue"), "good%20first%2Fissue");
    }
}
