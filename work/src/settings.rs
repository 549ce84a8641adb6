//! Limits of phases: time, tokens, and open pull requests.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::phase::{Phase, Rework};

/// Setting `work`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct WorkSettings {
    /// Largest number of open pull requests with which new work is started. Default: 4.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_prs: Option<usize>,
    /// Number of seconds after which no further phase is started. Default: 1200.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadline: Option<u64>,
    /// Rounds of `--converge`. Default: reviews are answered by the phase fix.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub converge: Option<usize>,
    /// Hosts that the agents' commands may reach through a tunnel, as `HOST:PORT`. Default: none, whatever the settings of
    /// the sandbox say.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allow_hosts: Vec<String>,
    /// The same for plain HTTP.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allow_http: Vec<String>,
    /// Overrides by phase.
    pub phases: BTreeMap<Phase, PhaseSettings>,
}

/// Overrides for a phase.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct PhaseSettings {
    /// Model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Time limit in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<u64>,
    /// Token limit of a single request and its response.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_context_tokens: Option<u64>,
}

/// Budget of a phase.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Budget {
    /// Time limit in seconds.
    pub timeout: u64,
    /// Token limit of a single request and its response.
    pub max_context_tokens: u64,
}

impl WorkSettings {
    /// Returns the largest number of open pull requests with which new work is started.
    pub fn max_prs(&self) -> usize {
        self.max_prs.unwrap_or(4)
    }

    /// Returns the number of seconds after which no further phase is started.
    pub fn deadline(&self) -> u64 {
        self.deadline.unwrap_or(1200)
    }

    /// Returns the response to a review that asks for more.
    pub fn rework(&self) -> Rework {
        self.converge.map_or_else(Rework::default, Rework::Converge)
    }

    /// Returns the model configured for a phase.
    pub fn model(&self, phase: Phase) -> Option<&str> {
        self.phases.get(&phase)?.model.as_deref()
    }

    /// Returns the budget of a phase.
    pub fn budget(&self, phase: Phase) -> Budget {
        let (timeout, tokens) = match phase {
            Phase::Check => (180, 50_000),
            Phase::Do | Phase::Fix => (300, 100_000),
            Phase::Plan | Phase::Push | Phase::Act => (180, 100_000),
        };
        let own = self.phases.get(&phase);
        Budget {
            timeout: own.and_then(|own| own.timeout).unwrap_or(timeout),
            max_context_tokens: own.and_then(|own| own.max_context_tokens).unwrap_or(tokens),
        }
    }
}
