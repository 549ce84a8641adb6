//! GitHub's JSON, as far as it is used.

use serde::Deserialize;
use serde_json::Value;

/// Issue. Lists of issues contain pull requests too.
#[derive(Debug, Deserialize)]
pub(super) struct Issue {
    number: u64,
    title: String,
    body: Option<String>,
    #[serde(default)]
    labels: Vec<Label>,
    #[serde(default)]
    created_at: String,
    #[serde(default)]
    html_url: String,
    #[serde(default)]
    state: String,
    /// Present for pull requests.
    pub pull_request: Option<Value>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Label {
    Name(String),
    Whole { name: Option<String> },
}

impl From<Issue> for crate::issue::Issue {
    fn from(issue: Issue) -> Self {
        let name = |label| match label {
            Label::Name(name) => Some(name),
            Label::Whole { name } => name,
        };
        Self {
            number: issue.number,
            title: issue.title,
            body: issue.body.unwrap_or_default(),
            labels: issue.labels.into_iter().filter_map(name).collect(),
            created_at: issue.created_at,
            url: issue.html_url,
            is_closed: issue.state == "closed",
        }
    }
}

#[derive(Debug, Deserialize)]
pub(super) struct Comment {
    pub body: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Pull {
    pub html_url: String,
    pub head: Head,
}

#[derive(Debug, Deserialize)]
pub(super) struct Head {
    #[serde(rename = "ref")]
    pub name: String,
}

#[derive(Debug, Deserialize)]
pub(super) struct Repository {
    pub default_branch: String,
}

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
    let Ok(value) = serde_json::from_str::<Value>(text) else {
        return text.chars().take(200).collect();
    };
    let mut parts: Vec<_> = value["message"].as_str().into_iter().collect();
    let errors = value["errors"].as_array().into_iter().flatten();
    parts.extend(errors.filter_map(|error| {
        let said = error["message"].as_str().or(error.as_str());
        said.or(error["code"].as_str())
    }));
    parts.join(": ")
}

/// Percent-encodes `text` for a URL.
pub(super) fn escaped(text: &str) -> String {
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
        ] {
            assert_eq!(reason(text), expected);
        }
        assert_eq!(escaped("good first/issue"), "good%20first%2Fissue");
    }
}
