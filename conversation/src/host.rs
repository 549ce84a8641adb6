//! Ports: whoever can be asked while a run goes on, a person at a terminal or the program that started this one; and
//! where what they have said is kept.

use async_trait::async_trait;

use crate::{Input, Inquiry, PermissionUpdate, ToolUse};

/// Somebody who can be asked. To withdraw a question, drop the future.
#[async_trait]
pub trait Host: Send + Sync {
    /// Asks whether a call may happen. Without anybody to ask, it may not.
    async fn permission(&self, question: &Question) -> Answer {
        Answer::nobody(question)
    }
}

/// Whether a call may happen.
#[derive(Debug, Clone, PartialEq)]
pub struct Question {
    /// The call.
    pub call: ToolUse,
    /// What there is to know of it.
    pub inquiry: Inquiry,
}

/// What the host says.
#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
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

impl Answer {
    /// What is said where nobody can be asked.
    pub fn nobody(question: &Question) -> Self {
        let name = &question.call.name;
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
