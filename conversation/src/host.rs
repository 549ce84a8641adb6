//! Ports: whoever can be asked while a run goes on, a person at a terminal or the program that started this one; and
//! where what they have said is kept.

use async_trait::async_trait;

use crate::{Input, Inquiry, PermissionUpdate, ToolUse};

/// Somebody who can be asked. To withdraw a question, drop the future.
#[async_trait]
pub trait Host: Send + Sync {
    /// Asks whether a call may happen. Without anybody to ask, it may not.
    async fn permission(&self, question: &PermissionRequest) -> PermissionAnswer {
        PermissionAnswer::nobody(question)
    }

    /// Asks whether what is confined may reach `host`, which is a host and its port. Without anybody to ask, it may not.
    async fn new_host(&self, host: &str) -> HostPermission {
        let _ = host;
        HostPermission::No
    }
}

/// Whether what is confined may reach a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HostPermission {
    /// It may not.
    No,
    /// It may, as long as connections to it are open.
    Once,
    /// It may until the session ends.
    Session,
    /// It may, in other sessions too.
    Always,
}

/// What a call wants of the person at the other end, where it is more than to be allowed. Whoever allows the call has
/// answered it: what was chosen stands in the input that the answer brings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Interaction {
    /// To choose. The answers are the argument `answers`, an object: to each question what was chosen or said.
    Choices(Vec<Choice>),
    /// To approve this plan, where the call has it; mode `plan` is over then.
    Plan(Option<String>),
    /// To agree that the run goes into mode `plan`.
    ToPlan,
}

/// A question with what may be chosen; anybody may say something else instead.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice {
    /// The question.
    pub question: String,
    /// A word or two for it.
    pub header: String,
    /// What may be chosen.
    pub options: Vec<ChoiceOption>,
    /// Whether more than one may be.
    pub is_multiple: bool,
}

/// What may be chosen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChoiceOption {
    /// What it is called, and the answer if it is chosen.
    pub label: String,
    /// What it means.
    pub description: String,
}

/// Whether a call may happen.
#[derive(Debug, Clone, PartialEq)]
pub struct PermissionRequest {
    /// The call.
    pub call: ToolUse,
    /// What there is to know of it.
    pub inquiry: Inquiry,
    /// The subagent that makes it, if one does: its id and the name of its definition.
    pub agent: Option<(String, String)>,
}

/// What the host says.
#[derive(Debug, Clone, PartialEq)]
pub enum PermissionAnswer {
    /// The call may happen.
    Allow {
        /// With this input in the place of its own.
        input: Option<Input>,
        /// What changes of the permissions.
        updates: Vec<PermissionUpdate>,
    },
    /// The call may not happen.
    Deny {
        /// What the model is told.
        message: String,
        /// Whether the run ends.
        interrupt: bool,
    },
}

impl PermissionAnswer {
    /// What is said where nobody can be asked.
    pub fn nobody(question: &PermissionRequest) -> Self {
        let name = &question.call.name;
        if question.inquiry.interaction.is_some() {
            let message = format!(
                "Nobody can be asked here, so {name} has no answer. Go on as you think best, and say what you assumed."
            );
            return Self::Deny {
                message,
                interrupt: false,
            };
        }
        let why = question.inquiry.reason.as_deref();
        let why = why.unwrap_or("it needs to be allowed");
        Self::Deny {
            message: format!(
                "Permission to use {name} was denied: {why}, and nobody can be asked."
            ),
            interrupt: false,
        }
    }
}

/// Where rules are kept from one session to the next.
pub trait Rulebook: Send + Sync {
    /// Makes a change that is to outlive the session.
    ///
    /// # Errors
    /// Where it cannot be kept; the text says why.
    fn save(&self, update: &PermissionUpdate) -> Result<(), String>;
}
