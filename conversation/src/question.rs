//! Questions that are answered from elsewhere: by another program, another agent or a person at another terminal.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::interaction::Choice;
use crate::json;

/// A question of a run for a person who is not at its terminal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Question {
    /// What it is about; empty if the choices say it.
    pub about: String,
    /// What can be chosen; each choice has an answer, and its question names it.
    pub choices: Vec<Choice>,
    /// Whether it is about a permission: only a person may answer, and only with one of the options.
    pub is_permission: bool,
    /// The change of a file that it is about, which `about` has as text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proposal: Option<Proposal>,
}

/// A change of a file that needs permission.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Proposal {
    /// What is to be known of the call besides its change.
    pub about: String,
    /// The parts of the change.
    pub hunks: Vec<Hunk>,
}

/// A changed part of a text, with the lines around it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hunk {
    /// Number of its first line in the old text, from 1.
    pub old: usize,
    /// Number of its first line in the new text, from 1.
    pub new: usize,
    /// Lines, each after a space, a minus or a plus.
    pub lines: Vec<String>,
}

/// Arguments that say how a file is changed.
const OLD: &str = "old_string";
const NEW: &str = "new_string";
const CONTENT: &str = "content";

impl Hunk {
    /// Returns the arguments of a call whose texts are read in its change: two texts of which one takes the other's place, or the
    /// content of a file. Of others none is; whoever is asked has to read them.
    pub fn arguments(input: &Map<String, Value>) -> &'static [&'static str] {
        let kind = |name| input.get(name).map(Value::is_string);
        match (kind(OLD), kind(NEW), kind(CONTENT)) {
            (Some(true), Some(true), None) => &[OLD, NEW],
            (None, None, Some(true)) => &[CONTENT],
            _ => &[],
        }
    }

    /// Returns the parts of the change in the details of a result; empty if they have none.
    pub fn of_details(details: &Value) -> Vec<Self> {
        let parts = details.get("structuredPatch").and_then(Value::as_array);
        let number = |part: &Value, name| usize::try_from(part.get(name)?.as_u64()?).ok();
        let hunk = |part: &Value| {
            let lines = part.get("lines")?.as_array()?.iter();
            let lines: Option<_> = lines.map(|line| Some(line.as_str()?.to_owned())).collect();
            Some(Self {
                old: number(part, "oldStart")?,
                new: number(part, "newStart")?,
                lines: lines?,
            })
        };
        // Nobody is shown a part for the whole.
        let hunks: Option<Vec<_>> = parts.into_iter().flatten().map(hunk).collect();
        hunks.unwrap_or_default()
    }
}

/// Answer of a person to a question about a permission.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Yes, once.
    Once,
    /// Yes, and what is like it for the rest of the session.
    Session,
    /// Yes, and what is like it in this project.
    Project,
    /// Yes, and what is like it in all projects.
    Everywhere,
    /// No. A reason may follow the label.
    No,
}

impl Verdict {
    /// All of them, in the order in which they are offered.
    pub const ALL: [Self; 5] = [
        Self::Once,
        Self::Session,
        Self::Project,
        Self::Everywhere,
        Self::No,
    ];

    /// Returns the label of its option.
    pub fn label(self) -> &'static str {
        match self {
            Self::Once => "Allow",
            Self::Session => "Allow for this session",
            Self::Project => "Always allow in this project",
            Self::Everywhere => "Always allow in all projects",
            Self::No => "Deny",
        }
    }

    /// Returns the verdict of an answer, and the reason for it, which may be empty.
    pub fn of(answer: &str) -> Option<(Self, &str)> {
        if let Some(verdict) = Self::ALL.into_iter().find(|it| it.label() == answer) {
            return Some((verdict, ""));
        }
        let reason = answer.strip_prefix(Self::No.label())?.strip_prefix(':')?;
        Some((Self::No, reason.trim()))
    }
}

impl Question {
    /// Returns it as it is stored.
    pub fn body(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Returns a stored question; `None` if it is of a newer version.
    pub fn of(body: &str) -> Option<Self> {
        json::from_str(body).ok()
    }

    /// Returns the answers to store for what somebody typed: one for each choice, the labels of options written as
    /// they are.
    ///
    /// # Errors
    ///
    /// If there are too few or too many, or one is no option and must be.
    pub fn answers(&self, typed: &[String]) -> Result<Vec<String>, String> {
        if typed.len() != self.choices.len() {
            let (wanted, given) = (self.choices.len(), typed.len());
            return Err(format!("it needs {wanted} answers, and there are {given}"));
        }
        let answer = |(choice, typed): (&Choice, &String)| {
            let mut labels = choice.options.iter().map(|option| &option.label);
            let typed = typed.trim();
            match labels.find(|label| label.to_lowercase() == typed.to_lowercase()) {
                Some(label) => Ok(label.clone()),
                None if self.is_permission && denies(choice, typed) => {
                    let reason = typed[Verdict::No.label().len()..].trim_start_matches([':', ' ']);
                    Ok(format!("{}: {reason}", Verdict::No.label()))
                }
                None if self.is_permission => {
                    let labels = choice.options.iter().map(|option| &*option.label);
                    let labels: Vec<_> = labels.collect();
                    let labels = labels.join(", ").to_lowercase();
                    Err(format!("the answer is one of: {labels}"))
                }
                None if typed.is_empty() => Err("an answer is empty".to_owned()),
                None => Ok(typed.to_owned()),
            }
        };
        self.choices.iter().zip(typed).map(answer).collect()
    }
}

/// Whether an answer is a refusal with a reason.
fn denies(choice: &Choice, typed: &str) -> bool {
    let label = Verdict::No.label();
    let is_offered = choice.options.iter().any(|option| option.label == label);
    let head = typed.get(..label.len()).unwrap_or_default();
    let rest = typed.get(label.len()..).unwrap_or_default();
    is_offered && head.eq_ignore_ascii_case(label) && rest.starts_with([':', ' '])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interaction::ChoiceOption;

    fn question(is_permission: bool, choices: usize) -> Question {
        let option = |label: &str| ChoiceOption {
            label: label.to_owned(),
            description: String::new(),
        };
        let choice = Choice {
            question: "Allow it?".to_owned(),
            header: String::new(),
            options: vec![option("Allow"), option("Deny")],
            is_multiple: false,
        };
        Question {
            about: String::new(),
            choices: vec![choice; choices],
            is_permission,
            proposal: None,
        }
    }

    #[test]
    fn a_verdict_is_its_label_and_a_refusal_may_have_a_reason() {
        for verdict in Verdict::ALL {
            assert_eq!(Verdict::of(verdict.label()), Some((verdict, "")));
        }
        assert_eq!(
            Verdict::of("Deny: use main"),
            Some((Verdict::No, "use main"))
        );
        assert_eq!(Verdict::of("Allow: use main"), None);
        assert_eq!(Verdict::of("Denying"), None);
    }

    #[test]
    fn a_permission_takes_its_options_only() {
        let none = "it needs 1 answers, and there are 0";
        let two = "it needs 1 answers, and there are 2";
        for (is_permission, choices, typed, expected) in [
            (true, 1, "allow", Ok("Allow")),
            (true, 1, " DENY ", Ok("Deny")),
            (true, 1, "deny use main", Ok("Deny: use main")),
            (true, 1, "Deny: use main", Ok("Deny: use main")),
            (true, 1, "denying", Err("the answer is one of: allow, deny")),
            (true, 1, "all", Err("the answer is one of: allow, deny")),
            (true, 1, "", Err(none)),
            (true, 1, "deny|allow", Err(two)),
            (false, 1, "deny", Ok("Deny")),
            (false, 1, "Something else", Ok("Something else")),
            (false, 2, "deny|other", Ok("Deny|other")),
            (false, 2, "deny| ", Err("an answer is empty")),
        ] {
            let typed = typed.split('|').filter(|it| !it.is_empty());
            let typed: Vec<_> = typed.map(str::to_owned).collect();
            let answers = question(is_permission, choices).answers(&typed);
            let answers = answers.map(|answers| answers.join("|"));
            let expected = expected.map(str::to_owned).map_err(str::to_owned);
            assert_eq!(answers, expected, "{typed:?}");
        }
    }
}
