//! Ports: questions to the person at the terminal or to the program that started this one, the editor whose files are
//! worked on, and the storage of permission rules.

use std::path::Path;

use async_trait::async_trait;

use crate::{
    Destination, Elicitation, ElicitationAnswer, Input, Inquiry, PermissionUpdate, ToolUse,
};

/// The party that can be asked during a run: a person, or the program that started this one. To withdraw a question,
/// drop the future.
///
/// Nothing has a default: a host that wraps another one says of each method what becomes of it.
#[async_trait]
pub trait Host: Send + Sync {
    /// Asks for permission to run a tool call.
    async fn permission(&self, request: &PermissionRequest) -> PermissionAnswer;

    /// Asks whether sandboxed commands may connect to `host`, given as `name:port`.
    async fn new_host(&self, host: &str) -> HostPermission;

    /// Answers a question of an MCP server.
    async fn elicitation(&self, question: &Elicitation) -> ElicitationAnswer;

    /// Learns that what `server` asked for under the name `id` is done.
    fn elicitation_complete(&self, server: &str, id: &str);
}

/// The host of a session in which nobody can be asked: it denies and declines everything.
#[derive(Debug, Clone, Copy)]
pub struct Nobody;

#[async_trait]
impl Host for Nobody {
    async fn permission(&self, request: &PermissionRequest) -> PermissionAnswer {
        PermissionAnswer::nobody(request)
    }

    async fn new_host(&self, _: &str) -> HostPermission {
        HostPermission::No
    }

    async fn elicitation(&self, _: &Elicitation) -> ElicitationAnswer {
        ElicitationAnswer::Decline
    }

    fn elicitation_complete(&self, _: &str, _: &str) {}
}

/// The program in which the user edits the files of the session.
#[async_trait]
pub trait Editor: Send + Sync {
    /// Returns the text of a file as its user has changed it without saving it; `None` if it is that on the disk. It is
    /// asked only about the files of calls that are permitted.
    async fn unsaved(&self, path: &Path) -> Option<String>;

    /// Learns that a call has written a file, so that an editor shows what is on the disk now.
    async fn wrote(&self, path: &Path);
}

/// Permission for sandboxed commands to connect to a host, the shortest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum HostPermission {
    /// Denied.
    No,
    /// Allowed while connections to the host are open.
    Once,
    /// Allowed until the session ends.
    Session,
    /// Allowed in all sessions of the project.
    Project,
    /// Allowed in all sessions.
    Always,
}

impl HostPermission {
    /// Returns the permission of an answer that allows it with these updates, whose destinations say for how long.
    pub fn of(updates: &[PermissionUpdate]) -> Self {
        let permission = |update: &PermissionUpdate| match update.destination() {
            Destination::Session => Self::Session,
            Destination::LocalSettings | Destination::ProjectSettings => Self::Project,
            Destination::UserSettings => Self::Always,
        };
        updates.iter().map(permission).max().unwrap_or(Self::Once)
    }
}

/// Request for permission to run a tool call.
#[derive(Debug, Clone, PartialEq)]
pub struct PermissionRequest {
    /// The call.
    pub call: ToolUse,
    /// Reason for asking, and suggestions for rules.
    pub inquiry: Inquiry,
    /// Id and definition name of the subagent that makes the call, if one does.
    pub agent: Option<(String, String)>,
}

/// Answer to a permission request.
#[derive(Debug, Clone, PartialEq)]
pub enum PermissionAnswer {
    /// The call is allowed.
    Allow {
        /// Input that replaces the call's own.
        input: Option<Input>,
        /// Changes of the permissions.
        updates: Vec<PermissionUpdate>,
    },
    /// The call is denied.
    Deny {
        /// Message for the model.
        message: String,
        /// Whether to end the run.
        interrupt: bool,
    },
    /// The call is denied, since nobody can answer any more: the run fails.
    Over {
        /// Message for the model, and for whoever reads why the run failed.
        message: String,
    },
}

impl PermissionAnswer {
    /// Returns the denial used when nobody can be asked.
    pub fn nobody(request: &PermissionRequest) -> Self {
        let name = &request.call.name;
        let message = if request.inquiry.interaction.is_some() {
            format!(
                "Nobody can be asked here, so {name} has no answer. Continue as you think best, and say what you assumed."
            )
        } else {
            let reason = request.inquiry.why();
            let why = reason.unwrap_or("it needs to be allowed");
            format!("Permission to use {name} was denied: {why}, and nobody can be asked.")
        };
        Self::Deny {
            message,
            interrupt: false,
        }
    }
}

/// Storage of permission rules across sessions.
pub trait Rulebook: Send + Sync {
    /// Saves a change that outlives the session.
    ///
    /// # Errors
    ///
    /// If it cannot be saved; the text says why.
    fn save(&self, update: &PermissionUpdate) -> Result<(), String>;
}
