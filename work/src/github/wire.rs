//! GitHub's JSON, as far as it is used.

use std::collections::BTreeMap;

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
    body: Option<String>,
    user: Option<User>,
    created_at: Option<String>,
    /// Of a review.
    submitted_at: Option<String>,
    state: Option<String>,
    commit_id: Option<String>,
    /// Of a remark on a line.
    path: Option<String>,
    line: Option<u64>,
}

#[derive(Debug, Deserialize)]
struct User {
    login: String,
}

impl From<Comment> for crate::hub::Comment {
    fn from(comment: Comment) -> Self {
        let line = comment.line.map(|line| format!(":{line}"));
        let place = comment.path.map(|path| path + &line.unwrap_or_default());
        let verdict = comment.state.map(|state| state.to_lowercase());
        Self {
            by: comment.user.map(|user| user.login).unwrap_or_default(),
            body: comment.body.unwrap_or_default(),
            at: comment
                .created_at
                .or(comment.submitted_at)
                .unwrap_or_default(),
            about: place.or(verdict).unwrap_or_default(),
        }
    }
}

#[derive(Debug, Deserialize)]
pub(super) struct Permission {
    pub permission: String,
}

#[derive(Debug, Deserialize)]
pub(super) struct Pull {
    pub number: u64,
    pub html_url: String,
    pub head: Head,
}

#[derive(Debug, Deserialize)]
pub(super) struct Head {
    #[serde(rename = "ref")]
    pub name: String,
    #[serde(default)]
    pub sha: String,
}

/// Returns the users whose last review of this commit asks for changes.
pub(super) fn asking(reviews: &[Comment], commit: &str) -> Vec<String> {
    let mut last: BTreeMap<&str, bool> = BTreeMap::new();
    for review in reviews {
        let is_of_it = review.commit_id.as_deref() == Some(commit);
        let asks = match review.state.as_deref() {
            Some("CHANGES_REQUESTED") => is_of_it,
            Some("APPROVED" | "DISMISSED") => false,
            _ => continue,
        };
        if let Some(user) = &review.user {
            last.insert(&user.login, asks);
        }
    }
    let asking = last.into_iter().filter(|(_, asks)| *asks);
    asking.map(|(user, _)| user.to_owned()).collect()
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
    fn the_last_review_of_a_person_counts_and_only_for_its_commit() {
        let review = |text: &str| {
            let (user, rest) = text.split_once(' ').unwrap();
            let (state, commit) = rest.split_once(' ').unwrap();
            serde_json::json!({"user": {"login": user}, "state": state, "commit_id": commit})
        };
        for (reviews, expected) in [
            (&["a CHANGES_REQUESTED 1"] as &[_], ""),
            (&["a CHANGES_REQUESTED 2"], "a"),
            (&["a CHANGES_REQUESTED 2", "a COMMENTED 2"], "a"),
            (&["a CHANGES_REQUESTED 2", "a APPROVED 2"], ""),
            (&["a APPROVED 2", "b CHANGES_REQUESTED 2"], "b"),
            (&["a CHANGES_REQUESTED 2", "a DISMISSED 2"], ""),
        ] {
            let reviews = reviews
                .iter()
                .map(|text| serde_json::from_value(review(text)).unwrap());
            let reviews: Vec<Comment> = reviews.collect();
            assert_eq!(asking(&reviews, "2").join(" "), expected);
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
