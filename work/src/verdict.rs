//! Parses a review, `actions.json`. Its content is untrusted, because its agent read untrusted text. Pure.

use ah_conversation::json;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::issue::LABELS;

const MOST_ACTIONS: usize = 10;
const LONGEST_TITLE: usize = 256;
/// GitHub's limit, in characters.
const LONGEST_BODY: usize = 65_536;

/// Verdict of a review.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Ready for a pull request.
    Pass,
    /// Nearly ready; needs fixes.
    NeedsFixes,
    /// Does not meet the goal.
    Fail,
    /// Missing or unknown.
    Unknown,
}

impl Verdict {
    /// Parses a verdict.
    pub fn of(word: &str) -> Self {
        match word {
            "pass" => Self::Pass,
            "needs-fixes" => Self::NeedsFixes,
            "fail" => Self::Fail,
            _ => Self::Unknown,
        }
    }

    /// Returns the name used in `actions.json`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::NeedsFixes => "needs-fixes",
            Self::Fail => "fail",
            Self::Unknown => "unknown",
        }
    }
}

/// Action on the hub.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Open a pull request.
    CreatePr {
        /// Branch; must be that of the issue.
        branch: String,
        /// Title.
        title: String,
        /// Description.
        body: String,
    },
    /// Comment on the issue.
    CommentIssue {
        /// Text.
        body: String,
    },
    /// Close the issue.
    CloseIssue,
    /// Add labels to the issue.
    LabelIssue {
        /// Names; labels that track the state of the work are not allowed.
        labels: Vec<String>,
    },
    /// Unknown action, which is skipped.
    Other(String),
}

impl Action {
    /// Returns the name used in `actions.json`.
    pub fn as_str(&self) -> &str {
        match self {
            Self::CreatePr { .. } => "create_pr",
            Self::CommentIssue { .. } => "comment_issue",
            Self::CloseIssue => "close_issue",
            Self::LabelIssue { .. } => "label_issue",
            Self::Other(word) => word,
        }
    }
}

/// Review of the commits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Review {
    /// Verdict.
    pub verdict: Verdict,
    /// Requested actions.
    pub actions: Vec<Action>,
    /// Obstacles to the work, one line each.
    pub friction: Vec<String>,
}

/// Parses `actions.json`.
///
/// # Errors
///
/// If the content is invalid, with the position and the reason.
pub fn read(text: &str) -> Result<Review, String> {
    let value: Value = json::from_str(text).map_err(|error| format!("not JSON: {error}"))?;
    let Value::Object(top) = value else {
        return Err("expected an object".to_owned());
    };
    let verdict = match top.get("verdict") {
        None => Verdict::Unknown,
        Some(Value::String(word)) => Verdict::of(word),
        Some(_) => return Err("verdict: expected a string".to_owned()),
    };
    let list = |key: &str| match top.get(key) {
        None | Some(Value::Null) => Ok(&[] as &[Value]),
        Some(Value::Array(items)) => Ok(items.as_slice()),
        Some(_) => Err(format!("{key}: expected a list")),
    };
    let actions = list("actions")?;
    if actions.len() > MOST_ACTIONS {
        return Err(format!("actions: more than {MOST_ACTIONS}"));
    }
    let actions = (0..).zip(actions).map(|(at, item)| {
        let action = action(item);
        action.map_err(|reason| format!("actions[{at}]{reason}"))
    });
    let friction = list("friction")?.iter().filter_map(Value::as_str);
    Ok(Review {
        verdict,
        actions: actions.collect::<Result<_, _>>()?,
        friction: friction.take(MOST_ACTIONS).map(str::to_owned).collect(),
    })
}

fn action(item: &Value) -> Result<Action, String> {
    let Value::Object(fields) = item else {
        return Err(": expected an object".to_owned());
    };
    let word = text(fields, "action", 64)?;
    Ok(match word.as_str() {
        "create_pr" => Action::CreatePr {
            branch: text(fields, "branch", LONGEST_TITLE)?,
            title: text(fields, "title", LONGEST_TITLE)?,
            body: text(fields, "body", LONGEST_BODY)?,
        },
        "comment_issue" => Action::CommentIssue {
            body: text(fields, "body", LONGEST_BODY)?,
        },
        "close_issue" => Action::CloseIssue,
        "label_issue" => Action::LabelIssue {
            labels: labels(fields)?,
        },
        _ => Action::Other(word),
    })
}

fn text(fields: &Map<String, Value>, key: &str, longest: usize) -> Result<String, String> {
    match fields.get(key) {
        Some(Value::String(text)) if text.trim().is_empty() => Err(format!(".{key}: is empty")),
        Some(Value::String(text)) if text.chars().count() > longest => {
            Err(format!(".{key}: longer than {longest} characters"))
        }
        Some(Value::String(text)) => Ok(text.clone()),
        Some(_) => Err(format!(".{key}: expected a string")),
        None => Err(format!(".{key}: is missing")),
    }
}

fn labels(fields: &Map<String, Value>) -> Result<Vec<String>, String> {
    let Some(Value::Array(items)) = fields.get("labels") else {
        return Err(".labels: expected a list of strings".to_owned());
    };
    let label = |item: &Value| {
        let name = item.as_str().map(str::trim).unwrap_or_default();
        let is_reserved = LABELS
            .iter()
            .any(|(own, ..)| own.eq_ignore_ascii_case(name));
        match name {
            "" => Err(".labels: expected a list of strings".to_owned()),
            _ if is_reserved => Err(format!(".labels: `{name}` is reserved")),
            name if name.len() > 50 => Err(".labels: longer than 50 characters".to_owned()),
            name => Ok(name.to_owned()),
        }
    };
    items.iter().take(MOST_ACTIONS).map(label).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_review_is_parsed_with_its_actions() {
        let review = read(
            r#"{"verdict": "pass", "friction": ["no tests run here"], "actions": [
                {"action": "comment_issue", "body": "Fixed."},
                {"action": "create_pr", "branch": "work/7", "title": "Greets", "body": "As planned."},
                {"action": "label_issue", "labels": ["bug"]},
                {"action": "close_issue"},
                {"action": "merge_pr", "body": "no"}
            ]}"#,
        );
        let review = review.unwrap();
        assert_eq!(review.verdict, Verdict::Pass);
        let words: Vec<_> = review.actions.iter().map(Action::as_str).collect();
        assert_eq!(
            words,
            [
                "comment_issue",
                "create_pr",
                "label_issue",
                "close_issue",
                "merge_pr"
            ]
        );
        assert_eq!(review.friction, ["no tests run here"]);
    }

    #[test]
    fn an_invalid_review_is_rejected_with_its_position() {
        let long = format!(
            r#"{{"actions": [{{"action": "create_pr", "branch": "b", "body": "x", "title": "{}"}}]}}"#,
            "t".repeat(257)
        );
        let many = format!(
            r#"{{"actions": [{}]}}"#,
            [r#"{"action": "close_issue"}"#; 11].join(",")
        );
        for (text, expected) in [
            (
                "",
                Err("not JSON: EOF while parsing a value at line 1 column 0"),
            ),
            ("[]", Err("expected an object")),
            ("{}", Ok("unknown")),
            (r#"{"verdict": "PASS"}"#, Ok("unknown")),
            (
                r#"{"verdict": "needs-fixes", "actions": null}"#,
                Ok("needs-fixes"),
            ),
            (r#"{"verdict": true}"#, Err("verdict: expected a string")),
            (r#"{"actions": {}}"#, Err("actions: expected a list")),
            (r#"{"actions": [1]}"#, Err("actions[0]: expected an object")),
            (r#"{"actions": [{}]}"#, Err("actions[0].action: is missing")),
            (
                r#"{"actions": [{"action": "close_issue"}, {"action": "comment_issue", "body": " "}]}"#,
                Err("actions[1].body: is empty"),
            ),
            (
                r#"{"actions": [{"action": "create_pr", "branch": 7, "title": "t", "body": "b"}]}"#,
                Err("actions[0].branch: expected a string"),
            ),
            (
                r#"{"actions": [{"action": "label_issue", "labels": ["Todo"]}]}"#,
                Err("actions[0].labels: `Todo` is reserved"),
            ),
            (&long, Err("actions[0].title: longer than 256 characters")),
            (&many, Err("actions: more than 10")),
        ] {
            let read = read(text).map(|review| review.verdict.as_str());
            assert_eq!(
                read.as_ref().map(|word| *word).map_err(String::as_str),
                expected,
                "{text}"
            );
        }
    }
}
