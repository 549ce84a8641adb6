//! The beginning of a branch's requests, and what was told since.
//!
//! Models bind their thinking, and servers their caches, to the exact bytes before it. So the system prompt and the tools
//! are stored when a branch makes its first request and sent unchanged from then on; whatever changes later is told in
//! a message at the end ([`Update`](crate::Update)).

use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize};

use crate::{Known, PermissionMode, Thinking, ToolDefinition, ToolSpec, Truncation};

/// System prompt, tools and opening of a branch, as sent with its first request.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(from = "StoredPrefix", into = "StoredPrefix")]
pub struct Prefix {
    /// Parts of the system prompt, in order.
    pub system: Arc<[String]>,
    /// The tools, in order.
    pub tools: Arc<[ToolSpec]>,
    /// What is told before the first message, text by text: first what all sessions of the project share.
    pub opening: Vec<String>,
    /// The parts of the system prompt and of the opening that may change, as they say them.
    pub facts: Vec<Known>,
    /// Digest of the texts that the user's options put into the system prompt, if there are any.
    pub options: Option<String>,
    /// Permission mode at the time.
    pub mode: PermissionMode,
    /// Thinking setting at the time.
    pub thinking: Thinking,
    /// Why it does not continue the earlier requests of the branch; `None` if there were none.
    pub broken: Option<PrefixBreak>,
}

/// Reason why a request does not continue the earlier ones of its branch, so that the cache and earlier thinking are lost. The
/// last four are a server's own: it has left out earlier thinking although the request sent it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum PrefixBreak {
    /// A summary replaced older messages.
    Summary,
    /// Another model answers.
    Model,
    /// The options for the system prompt are others.
    Options,
    /// The session goes on with the other interface, whose tools have other names.
    Interface,
    /// There are new tools, and the model accepts them only at the beginning of a request.
    Tools,
    /// A program has removed or disabled the server of a tool.
    Withdrawn,
    /// `maxConversationMessages` left out older messages.
    Trimmed,
    /// The earlier requests were made by a version that did not store their beginning.
    Unrecorded,
    /// What stands before the thinking is not what it was written behind.
    PrefixMismatch,
    /// The model may not read the thinking of the one before.
    ModelMismatch,
    /// The thinking was written for another user.
    EndUserMismatch,
    /// The thinking was written for another organization.
    OrganizationMismatch,
}

impl PrefixBreak {
    /// Returns the reason in words.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Summary => "the conversation was compacted",
            Self::Model => "the model changed",
            Self::Options => "the options for the system prompt changed",
            Self::Interface => "the session was continued through the other interface",
            Self::Tools => "there are new tools, which this model accepts only at the beginning",
            Self::Withdrawn => "tools are no longer offered",
            Self::Trimmed => "maxConversationMessages left out older messages",
            Self::Unrecorded => "the beginning of the earlier requests was not recorded",
            Self::PrefixMismatch => "messages before earlier thinking have changed",
            Self::ModelMismatch => "this model may not read the earlier thinking",
            Self::EndUserMismatch => "earlier thinking was written for another user",
            Self::OrganizationMismatch => "earlier thinking was written for another organization",
        }
    }

    /// Whether a server found it, and not this program.
    pub fn is_of_server(self) -> bool {
        match self {
            Self::PrefixMismatch
            | Self::ModelMismatch
            | Self::EndUserMismatch
            | Self::OrganizationMismatch => true,
            Self::Summary
            | Self::Model
            | Self::Options
            | Self::Interface
            | Self::Tools
            | Self::Withdrawn
            | Self::Trimmed
            | Self::Unrecorded => false,
        }
    }
}

impl From<&ToolSpec> for ToolDefinition {
    fn from(spec: &ToolSpec) -> Self {
        Self {
            name: spec.name.clone(),
            description: spec.description.clone(),
            input_schema: spec.input_schema.clone(),
        }
    }
}

impl From<ToolDefinition> for ToolSpec {
    fn from(tool: ToolDefinition) -> Self {
        Self {
            name: tool.name,
            description: tool.description,
            input_schema: tool.input_schema,
            guidance: None,
            truncation: Truncation::DEFAULT,
            key: None,
        }
    }
}

/// A prefix as it is stored.
#[derive(Serialize, Deserialize)]
struct StoredPrefix {
    system: Vec<String>,
    tools: Vec<ToolDefinition>,
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "texts"
    )]
    opening: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    facts: Vec<Known>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    options: Option<String>,
    mode: PermissionMode,
    #[serde(default, skip_serializing_if = "Thinking::is_unset")]
    thinking: Thinking,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    broken: Option<PrefixBreak>,
}

/// Reads the texts of an opening, which was a single one at first.
fn texts<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Texts {
        One(String),
        All(Vec<String>),
    }
    Ok(match Texts::deserialize(deserializer)? {
        Texts::One(text) => vec![text],
        Texts::All(texts) => texts,
    })
}

impl From<StoredPrefix> for Prefix {
    fn from(stored: StoredPrefix) -> Self {
        Self {
            system: stored.system.into(),
            tools: stored.tools.into_iter().map(ToolSpec::from).collect(),
            opening: stored.opening,
            facts: stored.facts,
            options: stored.options,
            mode: stored.mode,
            thinking: stored.thinking,
            broken: stored.broken,
        }
    }
}

impl From<Prefix> for StoredPrefix {
    fn from(prefix: Prefix) -> Self {
        Self {
            system: prefix.system.to_vec(),
            tools: prefix.tools.iter().map(ToolDefinition::from).collect(),
            opening: prefix.opening,
            facts: prefix.facts,
            options: prefix.options,
            mode: prefix.mode,
            thinking: prefix.thinking,
            broken: prefix.broken,
        }
    }
}
