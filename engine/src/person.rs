//! Questions for a person who is not at a terminal: what is asked, and what an answer means.
//!
//! How a question gets to the person, and the answer back, is left to [`Ask`].

use std::collections::BTreeMap;

use ah_conversation::{
    Choice, ChoiceOption, Destination, Elicitation, ElicitationAnswer, Host, HostPermission, Input,
    Interaction, Nobody, PermissionAnswer, PermissionMode, PermissionRequest, PermissionUpdate,
    Question, ToolUse, neutralise,
};
use async_trait::async_trait;
use serde_json::{Map, Value};

const ALLOW: &str = "Allow";
const DENY: &str = "Deny";
/// Longest input of a call in a question, in characters.
const SHOWN_INPUT: usize = 2_000;

/// Asks somebody.
#[async_trait]
pub trait Ask: Send + Sync {
    /// Returns the answer to each choice by its question; `None` if nobody answers.
    async fn ask(&self, question: Question) -> Option<BTreeMap<String, String>>;
}

/// A host that has every question answered by somebody elsewhere.
pub struct Elsewhere<A> {
    /// The way to them.
    pub ask: A,
    /// Writes what a call would do, as plain text.
    pub described: fn(&PermissionRequest) -> String,
}

#[async_trait]
impl<A: Ask> Host for Elsewhere<A> {
    async fn permission(&self, request: &PermissionRequest) -> PermissionAnswer {
        let call = &request.call;
        let allowed = |updates: Vec<PermissionUpdate>| PermissionAnswer::Allow {
            input: None,
            updates,
        };
        match &request.inquiry.interaction {
            Some(Interaction::Choices(choices)) => {
                let question = Question {
                    about: String::new(),
                    choices: choices.clone(),
                    is_permission: false,
                };
                let Some(answers) = self.ask.ask(question).await else {
                    return unanswered(call);
                };
                let mut input = match &call.input {
                    Input::Object(input) => input.clone(),
                    Input::Malformed(_) => Map::new(),
                };
                let answers = answers.into_iter().map(|(name, text)| (name, text.into()));
                input.insert("answers".to_owned(), Value::Object(answers.collect()));
                PermissionAnswer::Allow {
                    input: Some(Input::Object(input)),
                    updates: Vec::new(),
                }
            }
            Some(Interaction::Plan(plan)) => {
                let plan = plan.as_deref().unwrap_or("(its last answer)");
                let about = format!(
                    "The agent asks to carry out its plan:\n{}",
                    cut(plan, SHOWN_INPUT)
                );
                match self.allow(about).await {
                    Some(true) => allowed(vec![PermissionUpdate::SetMode {
                        mode: PermissionMode::Default,
                        destination: Destination::Session,
                    }]),
                    Some(false) => denied(),
                    None => unanswered(call),
                }
            }
            other => {
                let about = match other {
                    Some(_) => "The agent asks to plan first.".to_owned(),
                    None => format!(
                        "The agent wants to use {}:\n{}",
                        neutralise(&call.name),
                        cut(&(self.described)(request), SHOWN_INPUT)
                    ),
                };
                match self.allow(about).await {
                    Some(true) => allowed(Vec::new()),
                    Some(false) => denied(),
                    None => unanswered(call),
                }
            }
        }
    }

    async fn new_host(&self, host: &str) -> HostPermission {
        let about = format!("The agent wants to connect to {}.", neutralise(host));
        match self.allow(about).await {
            Some(true) => HostPermission::Session,
            Some(false) | None => HostPermission::No,
        }
    }

    async fn elicitation(&self, question: &Elicitation) -> ElicitationAnswer {
        Nobody.elicitation(question).await
    }

    fn elicitation_complete(&self, _: &str, _: &str) {}
}

impl<A: Ask> Elsewhere<A> {
    /// Asks whether something is allowed.
    async fn allow(&self, about: String) -> Option<bool> {
        let option = |label: &str| ChoiceOption {
            label: label.to_owned(),
            description: String::new(),
        };
        let choice = Choice {
            question: "Allow it?".to_owned(),
            header: "Permission".to_owned(),
            options: vec![option(ALLOW), option(DENY)],
            is_multiple: false,
        };
        let question = Question {
            about,
            choices: vec![choice],
            is_permission: true,
        };
        let answers = self.ask.ask(question).await?;
        Some(answers.into_values().all(|answer| answer == ALLOW))
    }
}

/// Returns text without control characters and of limited length.
pub fn cut(text: &str, most: usize) -> String {
    let text = neutralise(text);
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.into_owned(),
    }
}

/// The answer of a person who says no.
fn denied() -> PermissionAnswer {
    refused(
        "The user does not want this call to happen. Continue without it, or say what you need.",
    )
}

/// The answer of a person who says nothing.
fn unanswered(call: &ToolUse) -> PermissionAnswer {
    refused(&format!(
        "Nobody has answered, so {} did not run. Continue as you think best, and say what you assumed.",
        call.name
    ))
}

fn refused(message: &str) -> PermissionAnswer {
    PermissionAnswer::Deny {
        message: message.to_owned(),
        interrupt: false,
    }
}
