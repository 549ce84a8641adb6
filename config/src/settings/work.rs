//! Settings of `ah work`: the phases of the work on an issue, and their limits: time, tokens, and open pull requests.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

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
    /// Longest wait for a limit of the hub, in seconds. Default: 3600.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hub_wait: Option<u64>,
    /// The hub, if the address of the remote does not say which one it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hub: Option<HubSettings>,
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
    /// Command that must pass on what an agent has changed, in the phases do and fix. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<String>,
    /// How the agents' repository is prepared. Default: as the project says of itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub setup: Option<SetupSettings>,
    /// Overrides by phase.
    pub phases: BTreeMap<Phase, PhaseSettings>,
}

/// Kind of a hub, by its API.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum HubKind {
    /// GitHub, or GitHub Enterprise.
    GitHub,
    /// GitLab.
    GitLab,
    /// Forgejo, or Gitea.
    Forgejo,
}

/// Where issues and pull requests are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct HubSettings {
    /// Kind.
    pub kind: HubKind,
    /// URL of its API. Default: the usual place on the host of the remote.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api: Option<String>,
}

/// Preparation of the agents' repository, before the first phase.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct SetupSettings {
    /// Commands, which run in the sandbox, in this order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub commands: Vec<String>,
    /// Files that their result depends on. As long as these are the same, it is used again for other issues. Default: all
    /// files.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<String>,
    /// Hosts that they may reach through a tunnel, as `HOST:PORT`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allow_hosts: Vec<String>,
    /// The same for plain HTTP.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allow_http: Vec<String>,
    /// Whether submodules are filled in, with the user's access.
    #[serde(skip_serializing_if = "is_false")]
    pub submodules: bool,
    /// Whether files of Git LFS are filled in, with the user's access.
    #[serde(skip_serializing_if = "is_false")]
    pub lfs: bool,
    /// Time limit of each command in seconds. Default: 600.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<u64>,
}

impl SetupSettings {
    /// Returns whether there is nothing to do.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Returns the time limit of each command, in seconds.
    pub fn timeout(&self) -> u64 {
        self.timeout.unwrap_or(600)
    }
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
fn is_false(value: &bool) -> bool {
    !value
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

    /// Returns the longest wait for a limit of the hub, in seconds.
    pub fn hub_wait(&self) -> u64 {
        self.hub_wait.unwrap_or(3600)
    }

    /// Returns the response to a review that asks for more.
    pub fn rework(&self) -> Rework {
        self.converge.map_or_else(Rework::default, Rework::Converge)
    }

    /// Returns the model configured for a phase.
    pub fn model(&self, phase: Phase) -> Option<&str> {
        self.phases.get(&phase)?.model.as_deref()
    }

    /// Returns the command that must pass on what the agent of a phase has changed.
    pub fn until(&self, phase: Phase) -> Option<&str> {
        let changes = matches!(phase, Phase::Do | Phase::Fix);
        self.until.as_deref().filter(|_| changes)
    }

    /// Returns the budget of a phase.
    pub fn budget(&self, phase: Phase) -> Budget {
        let (timeout, tokens) = match phase {
            Phase::Check => (180, 50_000),
            Phase::Do | Phase::Fix | Phase::Merge => (300, 100_000),
            Phase::Plan | Phase::Push | Phase::Act => (180, 100_000),
        };
        let own = self.phases.get(&phase);
        Budget {
            timeout: own.and_then(|own| own.timeout).unwrap_or(timeout),
            max_context_tokens: own.and_then(|own| own.max_context_tokens).unwrap_or(tokens),
        }
    }
}

/// Phase of the work on an issue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    /// An agent reads the issue and the source code, and writes a plan.
    Plan,
    /// An agent carries out the plan, in commits.
    Do,
    /// The commits are pushed.
    Push,
    /// An agent reviews the commits against the plan, and gives a verdict.
    Check,
    /// An agent merges the base into the branch, which conflicts with it.
    Merge,
    /// An agent fixes what the review found.
    Fix,
    /// The actions requested by the review are performed: pull request, comments, labels.
    Act,
}

impl Phase {
    /// All phases, in order.
    pub const ALL: [Self; 7] = [
        Self::Plan,
        Self::Do,
        Self::Push,
        Self::Merge,
        Self::Check,
        Self::Fix,
        Self::Act,
    ];

    /// Returns the name, used for the phase's directory, subcommand and skill.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Plan => "plan",
            Self::Do => "do",
            Self::Push => "push",
            Self::Merge => "merge",
            Self::Check => "check",
            Self::Fix => "fix",
            Self::Act => "act",
        }
    }

    /// Returns whether the phase is done by an agent.
    pub fn has_agent(self) -> bool {
        !matches!(self, Self::Push | Self::Act)
    }

    /// Returns the earlier phases whose files are visible, read-only, in this phase.
    pub fn earlier(self) -> &'static [Self] {
        match self {
            Self::Plan => &[],
            Self::Do => &[Self::Plan],
            Self::Push | Self::Check => &[Self::Plan, Self::Do, Self::Fix, Self::Merge],
            Self::Merge => &[Self::Plan, Self::Do, Self::Fix],
            Self::Fix => &[Self::Plan, Self::Do, Self::Check],
            Self::Act => &[Self::Plan, Self::Do, Self::Check, Self::Fix, Self::Merge],
        }
    }

    /// Returns the files that the agent may leave in its directory. The first is required.
    pub fn leaves(self) -> &'static [&'static str] {
        match self {
            Self::Plan => &["plan.md", "update.md"],
            Self::Do | Self::Fix => &["do.md", "update.md"],
            Self::Merge => &["merge.md"],
            Self::Check => &["actions.json", "check.md", "update.md"],
            Self::Push | Self::Act => &[],
        }
    }
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Response to a review that asks for more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Rework {
    /// Run the phase fix, at most this many times.
    Fix(usize),
    /// Run the phase do again with the review as feedback, at most this many times in all.
    Converge(usize),
}

impl Default for Rework {
    fn default() -> Self {
        Self::Fix(2)
    }
}
