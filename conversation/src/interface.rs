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
    /// Returns the name under which the model calls our tool `own`, which is in lower case: `web_search` or `WebSearch`.
    pub fn tool_name(self, own: &str) -> String {
        let capital = |word: &str| {
            let (first, rest) = word.split_at(word.len().min(1));
            first.to_ascii_uppercase() + rest
        };
        match self {
            Self::Native => own.to_owned(),
            Self::AgentSdk => own.split('_').map(capital).collect(),
        }
    }

    /// Whether a person may be asked where one is at a terminal, and their prompt may wait. A program gets an error.
    pub fn asks_person(self) -> bool {
        matches!(self, Self::Native)
    }

    /// Whether the work is shown as it goes on. Hosts of the Agent SDKs have nobody waiting at a terminal, and read the answer.
    pub fn shows_work(self) -> bool {
        matches!(self, Self::Native)
    }

    /// Whether exit codes say more than success or failure. Hosts of the Agent SDKs know no others, and expect success of an
    /// agent that they interrupt.
    pub fn has_own_exit_codes(self) -> bool {
        matches!(self, Self::Native)
    }

    /// Whether the program stands in for another agent: its variables count, its options are typed in its way, and programs
    /// look for its words.
    pub fn stands_in(self) -> bool {
        matches!(self, Self::AgentSdk)
    }

    /// Whether a permission rule may allow every tool by `*`.
    pub fn may_allow_all(self) -> bool {
        matches!(self, Self::Native)
    }

    /// Returns the value that belongs to this interface.
    pub fn pick<T>(self, native: T, agent_sdk: T) -> T {
        match self {
            Self::Native => native,
            Self::AgentSdk => agent_sdk,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_tools_are_those_of_the_interface() {
        for (own, other) in [
            ("read", "Read"),
            ("web_search", "WebSearch"),
            ("ask_user_question", "AskUserQuestion"),
            ("", ""),
        ] {
            assert_eq!(Interface::Native.tool_name(own), own);
            assert_eq!(Interface::AgentSdk.tool_name(own), other);
        }
    }
}
