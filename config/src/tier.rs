//! Tiers of the sandbox.

use ah_sandbox::Tier;
use serde::Deserialize;

/// Required tier of the sandbox.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SandboxTier {
    /// Everything.
    #[default]
    Full,
    /// Everything but Landlock, for kernels that lack it.
    Namespaces,
    /// Files and system calls only, for machines without user namespaces; there is no network at all.
    Landlock,
}

impl From<SandboxTier> for Tier {
    fn from(tier: SandboxTier) -> Self {
        match tier {
            SandboxTier::Full => Self::Full,
            SandboxTier::Namespaces => Self::Namespaces,
            SandboxTier::Landlock => Self::Landlock,
        }
    }
}
