//! How much a model is to think before it answers. Requests ask for it, and the record of a prefix remembers what was asked.

use serde::{Deserialize, Serialize};

/// Thinking budget of a model. Unset fields are left to the server.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Thinking {
    /// Maximum number of thinking tokens; 0 disables thinking.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<u32>,
    /// Reasoning effort.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effort: Option<Effort>,
}

impl Thinking {
    /// Whether all of it is left to the server.
    pub fn is_unset(&self) -> bool {
        *self == Self::default()
    }

    /// Returns a budget of at most `tokens` thinking tokens.
    pub fn at_most(tokens: u32) -> Self {
        Self {
            budget: Some(tokens),
            effort: None,
        }
    }
}

/// Reasoning effort.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Effort {
    /// Fast and cheap.
    Low,
    /// Between low and high.
    Medium,
    /// For difficult tasks.
    High,
    /// For very difficult tasks.
    #[serde(rename = "xhigh")]
    ExtraHigh,
    /// The maximum.
    Max,
}

impl Effort {
    /// All values, in ascending order.
    pub const ALL: [Self; 5] = [
        Self::Low,
        Self::Medium,
        Self::High,
        Self::ExtraHigh,
        Self::Max,
    ];

    /// Returns the effort's name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
            Self::ExtraHigh => "xhigh",
            Self::Max => "max",
        }
    }
}
