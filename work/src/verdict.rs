//! What a review says: `actions.json`, read as the words of an agent that has read a stranger's text. Pure.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::issue::LABELS;

const MOST_ACTIONS: usize = 10;
const LONGEST_TITLE: usize = 256;
/// The longest text that GitHub takes.
const LONGEST_BODY: usize = 65_536;

/// The word of a review.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// It may be shown to people.
    Pass,
    /// It would be fit after some mending.
    NeedsFixes,
    /// It is not what was wanted.
    Fail,
    /// None that we know.
    Unknown,
}

impl Verdict {
    /// The verdict of this word.
    pub fn of(word: &str) -> Self {
        match word {
            "pass" => Self::Pass,
            "needs-fixes" => Self::NeedsFixes,
            "fail" => Self::Fail,
            _ => Self::Unknown,
        }
    }

    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::NeedsFixes => "needs-fixes",
            Self::Fail => "fail",
            Self::Unknown => "unknown",
        }
    }
}

/// Something to be done at the hub.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Opens a pull request of the branch.
    CreatePr {
        /// The branch, which has to be that of the issue.
        branch: String,
        /// The title.
        title: String,
        /// The text.
        body: String,
    },
    /// Says something below the issue.
    CommentIssue {
        /// The text.
        body: String,
    },
    /// Closes the issue.
    CloseIssue,
    /// Adds labels to the issue.
    LabelIssue {
        /// Their names; none of those that say how far the work is.
        labels: Vec<String>,
    },
    /// One that we do not know, which is left out.
    Other(String),
}

impl Action {
    /// The word for it.
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

/// A review.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Review {
    /// Its word.
    pub verdict: Verdict,
    /// What it asks for.
    pub actions: Vec<Action>,
    /// What got in the way of the work, in a line each.
    pub friction: Vec<String>,
}

/// Reads `actions.json`.
///
/// # Errors
///
/// Where it is not what it should be; the text says what and where.
pub fn read(text: &str) -> Result<Review, String> {
    let value: Value = serde_json::from_str(text).map_err(|error| format!("not JSON: {error}"))?;
    let Value::Object(top) = value else {
        return Err("expected an object".to_owned());
    };
    let verdict = match top.get("verdict") {
        None => Verdict::Unknown,
        Some(Value::String(word)) => Verdict::of(word),
        Some(_) => return Err("verdict: expected a text".to_owned()),
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
        action.map_err(|fault| format!("actions[{at}]{fault}"))
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
        Some(_) => Err(format!(".{key}: expected a text")),
        None => Err(format!(".{key}: is missing")),
    }
}

fn labels(fields: &Map<String, Value>) -> Result<Vec<String>, String> {
    let Some(Value::Array(items)) = fields.get("labels") else {
        return Err(".labels: expected a list of texts".to_owned());
    };
    let label = |item: &Value| {
        let name = item.as_str().map(str::trim).unwrap_or_default();
        let is_ours = LABELS
            .iter()
            .any(|(own, ..)| own.eq_ignore_ascii_case(name));
        match name {
            "" => Err(".labels: expected a list of texts".to_owned()),
            _ if is_ours => Err(format!(".labels: `{name}` is for the work itself to set")),
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
    fn a_review_is_read_with_what_it_asks_for() {
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
    fn what_is_no_review_is_refused_with_its_place() {
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
            (r#"{"verdict": true}"#, Err("verdict: expected a text")),
            (r#"{"actions": {}}"#, Err("actions: expected a list")),
            (r#"{"actions": [1]}"#, Err("actions[0]: expected an object")),
            (r#"{"actions": [{}]}"#, Err("actions[0].action: is missing")),
            (
                r#"{"actions": [{"action": "close_issue"}, {"action": "comment_issue", "body": " "}]}"#,
                Err("actions[1].body: is empty"),
            ),
            (
                r#"{"actions": [{"action": "create_pr", "branch": 7, "title": "t", "body": "b"}]}"#,
                Err("actions[0].branch: expected a text"),
            ),
            (
                r#"{"actions": [{"action": "label_issue", "labels": ["Todo"]}]}"#,
                Err("actions[0].labels: `Todo` is for the work itself to set"),
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
