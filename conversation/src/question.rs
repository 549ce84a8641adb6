//! Questions that are answered from elsewhere: by another program, another agent or a person at another terminal.

use serde::{Deserialize, Serialize};

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
        }
    }

    #[test]
    fn a_permission_takes_its_options_only() {
        let none = "it needs 1 answers, and there are 0";
        let two = "it needs 1 answers, and there are 2";
        for (is_permission, choices, typed, expected) in [
            (true, 1, "allow", Ok("Allow")),
            (true, 1, " DENY ", Ok("Deny")),
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
