//! Questions of runs, answered from elsewhere.

use ah_conversation::{Choice, SessionId, StoreError, json};
use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// The questions of a fleet. Each has a number of its own, so an answer is never one to another question.
#[async_trait]
pub trait Questions: Send + Sync {
    /// Asks a question in the name of `asker`, which nobody else has. If the session asks the same already (its worker
    /// died), that question and its answer become this asker's.
    async fn ask(
        &self,
        session: &SessionId,
        question: &Question,
        asker: &str,
    ) -> Result<(), StoreError>;

    /// Takes the answer to the question of `asker`, one text for each choice; `None` while there is none. An answer
    /// that was taken is not taken by another asker.
    async fn take_answer(
        &self,
        session: &SessionId,
        asker: &str,
    ) -> Result<Option<Vec<String>>, StoreError>;

    /// Withdraws the question of `asker` unless it was answered.
    async fn withdraw_question(&self, session: &SessionId, asker: &str) -> Result<(), StoreError>;

    /// Answers a question; returns whether it still waited.
    async fn answer(
        &self,
        session: &SessionId,
        number: i64,
        answers: &[String],
    ) -> Result<bool, StoreError>;

    /// Returns the questions of a session that wait for an answer, oldest first.
    async fn questions(&self, session: &SessionId) -> Result<Vec<Waiting>, StoreError>;
}

/// A question of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Question {
    /// What it is about; empty if the choices say it.
    pub about: String,
    /// What can be chosen. Each has an answer.
    pub choices: Vec<Choice>,
    /// Whether only the options are answers, as for a permission.
    pub is_permission: bool,
}

/// A question that waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waiting {
    /// Its number.
    pub number: i64,
    /// The question.
    pub question: Question,
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

    /// Returns what names a question with this body.
    pub fn digest(body: &str) -> String {
        let digest = Sha256::digest(body);
        digest.iter().map(|byte| format!("{byte:02x}")).collect()
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
    use ah_conversation::ChoiceOption;

    use super::*;

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
