//! User input that a tool call may need beyond permission: answers to questions, approval of a plan.

use serde::{Deserialize, Serialize};

/// User input that a call needs beyond permission. Allowing the call also answers it: the choice is in the input that
/// the answer returns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Interaction {
    /// Multiple-choice questions. The answers are in the argument `answers`, an object with the chosen or typed text
    /// for each question.
    Choices(Vec<Choice>),
    /// Approval of a plan, if the call contains one; it ends mode `plan`.
    Plan(Option<String>),
    /// Consent to enter mode `plan`.
    ToPlan,
}

/// A multiple-choice question; the person may type another answer instead.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Choice {
    /// The question.
    pub question: String,
    /// Short header, a word or two.
    pub header: String,
    /// Options to choose from.
    pub options: Vec<ChoiceOption>,
    /// Whether more than one option may be chosen.
    pub is_multiple: bool,
}

/// An option of a multiple-choice question.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChoiceOption {
    /// Label, and the answer if it is chosen.
    pub label: String,
    /// Explanation of the option.
    pub description: String,
}
