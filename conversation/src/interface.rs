//! Native or Agent-SDK interface: for people, or for programs that speak the Agent SDKs' protocol.
//!
//! It selects names (of tools and their arguments), defaults and exit codes. Decisions within a run do not depend on
//! it.

/// The interface under which the program presents itself.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Interface {
    /// The program's own: `read`, `edit` with the argument `path`; for people at a terminal.
    #[default]
    Native,
    /// That of the official Agent SDKs: `Read`, `Edit` with the argument `file_path`; for `-p`, JSON formats and hosts.
    AgentSdk,
}

impl Interface {
    /// Returns the value that belongs to this interface.
    pub fn pick<T>(self, native: T, agent_sdk: T) -> T {
        match self {
            Self::Native => native,
            Self::AgentSdk => agent_sdk,
        }
    }
}
