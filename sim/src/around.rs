//! Who and what takes part in a process beside its agent.

use std::fmt;

use crate::chance::Chance;

/// Who and what takes part in a process beside its agent: nobody by default.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Around {
    /// A program is its host: it has the prompt, is asked about calls, and is told what happens.
    pub host: bool,
    /// There are hooks.
    pub hooks: bool,
    /// It may start subagents.
    pub agents: bool,
    /// There is an MCP server.
    pub servers: bool,
    /// Most tokens of a run with all its subagents.
    pub tokens: Option<u64>,
}

impl Around {
    pub(crate) fn new(chance: &mut Chance) -> Self {
        Self {
            host: chance.one_in(4),
            hooks: chance.one_in(4),
            agents: chance.one_in(3),
            servers: chance.one_in(4),
            tokens: chance
                .one_in(4)
                .then(|| 100 * (1 + chance.below(12) as u64)),
        }
    }

    /// Returns the same with one of them less.
    pub(crate) fn simpler(self) -> impl Iterator<Item = Self> {
        let without = [
            Self {
                host: false,
                ..self
            },
            Self {
                hooks: false,
                ..self
            },
            Self {
                agents: false,
                ..self
            },
            Self {
                servers: false,
                ..self
            },
            Self {
                tokens: None,
                ..self
            },
        ];
        without.into_iter().filter(move |other| *other != self)
    }
}

impl fmt::Display for Around {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host {
            f.write_str(", with a host")?;
        }
        if self.hooks {
            f.write_str(", with hooks")?;
        }
        if self.agents {
            f.write_str(", with subagents")?;
        }
        if self.servers {
            f.write_str(", with a server of tools")?;
        }
        match self.tokens {
            Some(tokens) => write!(f, ", with {tokens} tokens"),
            None => Ok(()),
        }
    }
}
