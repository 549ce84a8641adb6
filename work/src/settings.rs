//! How much time and how many tokens a phase may take, and how much may be open at once.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::phase::{Phase, Rework};

/// The limits of the work, as the setting `work` says them.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct WorkSettings {
    /// With more open pull requests than this nothing is begun; 4.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_prs: Option<usize>,
    /// After so many seconds no further phase is begun; 1200.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadline: Option<u64>,
    /// Rounds of `--converge`; without it reviews are answered by the phase fix.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub converge: Option<usize>,
    /// By the name of a phase, what differs there.
    pub phases: BTreeMap<Phase, PhaseSettings>,
}

/// What differs in a phase.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct PhaseSettings {
    /// The model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// How many seconds it may take.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<u64>,
    /// How many tokens its last request and answer may have.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_context_tokens: Option<u64>,
}

/// What a phase may take.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Budget {
    /// Seconds.
    pub timeout: u64,
    /// Tokens of the last request and answer.
    pub max_context_tokens: u64,
}

impl WorkSettings {
    /// With more open pull requests than this nothing is begun.
    pub fn max_prs(&self) -> usize {
        self.max_prs.unwrap_or(4)
    }

    /// After so many seconds no further phase is begun.
    pub fn deadline(&self) -> u64 {
        self.deadline.unwrap_or(1200)
    }

    /// What is done when a review asks for more.
    pub fn rework(&self) -> Rework {
        self.converge.map_or_else(Rework::default, Rework::Converge)
    }

    /// The model of a phase, where the setting names one.
    pub fn model(&self, phase: Phase) -> Option<&str> {
        self.phases.get(&phase)?.model.as_deref()
    }

    /// What a phase may take.
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
