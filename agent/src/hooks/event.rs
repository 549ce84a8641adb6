//! Hook events and their names in the protocol.

use std::str::FromStr;

/// Events at which hooks are called.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the names are those of the protocol")]
#[non_exhaustive]
pub enum HookEvent {
    SessionStart,
    UserPromptSubmit,
    PreToolUse,
    PermissionRequest,
    PostToolUse,
    PostToolUseFailure,
    PostToolBatch,
    Notification,
    PreCompact,
    PostCompact,
    Stop,
    StopFailure,
    SubagentStart,
    SubagentStop,
    SessionEnd,
    Elicitation,
    ElicitationResult,
    Setup,
    TaskCreated,
    TaskCompleted,
    TeammateIdle,
    PreSkillShellCommand,
}

impl HookEvent {
    /// All events.
    pub const ALL: [Self; 22] = [
        Self::SessionStart,
        Self::UserPromptSubmit,
        Self::PreToolUse,
        Self::PermissionRequest,
        Self::PostToolUse,
        Self::PostToolUseFailure,
        Self::PostToolBatch,
        Self::Notification,
        Self::PreCompact,
        Self::PostCompact,
        Self::Stop,
        Self::StopFailure,
        Self::SubagentStart,
        Self::SubagentStop,
        Self::SessionEnd,
        Self::Elicitation,
        Self::ElicitationResult,
        Self::Setup,
        Self::TaskCreated,
        Self::TaskCompleted,
        Self::TeammateIdle,
        Self::PreSkillShellCommand,
    ];

    /// Whether a hook at the event may refuse something that happens if nobody answers. A permission question is not among
    /// them: without a hook, a person answers it.
    pub fn guards(self) -> bool {
        matches!(
            self,
            Self::PreToolUse
                | Self::UserPromptSubmit
                | Self::TaskCreated
                | Self::TaskCompleted
                | Self::ElicitationResult
                | Self::PreSkillShellCommand
        )
    }

    /// Whether a block at the event makes the run go on, and so refuses nothing.
    pub(super) fn continues_if_blocked(self) -> bool {
        matches!(self, Self::Stop | Self::SubagentStop | Self::TeammateIdle)
    }

    /// Whether it is about one call, which a hook's condition may be compared with.
    pub(super) fn is_of_one_call(self) -> bool {
        matches!(
            self,
            Self::PreToolUse
                | Self::PermissionRequest
                | Self::PostToolUse
                | Self::PostToolUseFailure
                | Self::PreSkillShellCommand
        )
    }

    /// Whether it is about tool calls.
    pub(crate) fn is_of_calls(self) -> bool {
        match self {
            Self::PreToolUse
            | Self::PermissionRequest
            | Self::PostToolUse
            | Self::PostToolUseFailure
            | Self::PostToolBatch
            | Self::Notification
            | Self::TaskCreated
            | Self::TaskCompleted => true,
            Self::SessionStart
            | Self::UserPromptSubmit
            | Self::PreCompact
            | Self::PostCompact
            | Self::Stop
            | Self::StopFailure
            | Self::SubagentStart
            | Self::SubagentStop
            | Self::SessionEnd
            | Self::Elicitation
            | Self::ElicitationResult
            | Self::Setup
            | Self::TeammateIdle
            | Self::PreSkillShellCommand => false,
        }
    }

    /// Returns the event's name in settings and payloads.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::SessionStart => "SessionStart",
            Self::UserPromptSubmit => "UserPromptSubmit",
            Self::PreToolUse => "PreToolUse",
            Self::PermissionRequest => "PermissionRequest",
            Self::PostToolUse => "PostToolUse",
            Self::PostToolUseFailure => "PostToolUseFailure",
            Self::PostToolBatch => "PostToolBatch",
            Self::Notification => "Notification",
            Self::PreCompact => "PreCompact",
            Self::PostCompact => "PostCompact",
            Self::Stop => "Stop",
            Self::StopFailure => "StopFailure",
            Self::SubagentStart => "SubagentStart",
            Self::SubagentStop => "SubagentStop",
            Self::SessionEnd => "SessionEnd",
            Self::Elicitation => "Elicitation",
            Self::ElicitationResult => "ElicitationResult",
            Self::Setup => "Setup",
            Self::TaskCreated => "TaskCreated",
            Self::TaskCompleted => "TaskCompleted",
            Self::TeammateIdle => "TeammateIdle",
            Self::PreSkillShellCommand => "PreSkillShellCommand",
        }
    }
}

impl FromStr for HookEvent {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let known = Self::ALL.into_iter().find(|event| event.as_str() == name);
        known.ok_or_else(|| format!("unknown hook event `{name}`"))
    }
}
