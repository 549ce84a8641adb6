//! The settings of a request that a model supports: output limit, thinking, effort, sampling. They are decided here once
//! for all protocols, so that the encoders only write them. A setting that a model or its server is known to refuse is
//! left out, since the whole request would fail.

use std::sync::{Arc, OnceLock};

use ah_conversation::{Effort, Message, Request, Role};
use serde::Deserialize;

use crate::openai::ThinkingField;

/// Default output limit in tokens, for models that can write at least as much.
pub const USUAL_OUTPUT: u64 = 16_384;
/// Smallest thinking budget of the Messages API, and the room that is left for the answer beside the thinking.
const MIN_BUDGET: u64 = 1_024;
/// Effort levels of a model for which the catalogue lists none.
const USUAL_EFFORTS: [Effort; 3] = [Effort::Low, Effort::Medium, Effort::High];

/// Known limits and supported settings of a model.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Abilities {
    /// Limit of tokens in one response.
    pub max_output: Option<u64>,
    /// Form of the thinking setting.
    pub thinking: ThinkingForm,
    /// Supported effort levels in ascending order; empty for a model that does not think.
    pub efforts: Option<Vec<Effort>>,
    /// Settings that it refuses.
    pub unsupported: Vec<Unsupported>,
    /// Names of fields of a request that its server has refused.
    pub refused_fields: Vec<String>,
    /// Whether it takes sound.
    pub hears: bool,
    /// What its chat template can do.
    pub template: Template,
}

/// What the chat template can do by which a server writes conversations for its model; `None` where that is not known.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Template {
    /// Whether it writes tools. A server leaves them out otherwise, without a word.
    pub tools: Option<bool>,
    /// Whether it writes calls, whose form its server knows then. They stay in the text of answers otherwise.
    pub calls: Option<bool>,
    /// Whether it writes several calls in one answer. A server refuses the conversation otherwise.
    pub parallel_calls: Option<bool>,
}

/// What the server has said of the chat template since, for all that ask the model.
pub type LearnedTemplate = Arc<OnceLock<Template>>;

/// Returns what the user is told if a server leaves out all tools, since the chat template of the model `name` shows none: the
/// model knows nothing of them, and nobody else says it.
pub fn shows_no_tools(name: &str) -> String {
    format!(
        "the chat template of {name} shows no tools, so the server leaves them out; start it with one that does \
         (llama-server: `--chat-template-file FILE`)"
    )
}

/// Ways to set the amount of thinking.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ThinkingForm {
    /// A budget in tokens.
    #[default]
    Budget,
    /// The model decides and accepts no budget.
    Adaptive,
}

/// A setting that a model refuses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unsupported {
    /// `temperature`.
    Temperature,
    /// `top_p`.
    TopP,
    /// `top_p` together with `temperature`.
    TopPBesideTemperature,
    /// Stop sequences.
    Stop,
    /// Thinking switched off.
    NoThinking,
}

/// The settings of a request, reduced to those that the model supports.
#[derive(Debug, Clone, PartialEq)]
pub struct EffectiveSettings<'a> {
    /// Output limit in tokens, thinking included.
    pub max_output: u64,
    /// Thinking, or `None` for the model's default.
    pub thinking: Option<ThinkingSetting>,
    /// Effort, at a level that the model supports.
    pub effort: Option<Effort>,
    /// Sampling temperature.
    pub temperature: Option<f64>,
    /// Nucleus sampling: cumulative probability of the tokens that are considered.
    pub top_p: Option<f64>,
    /// Stop sequences.
    pub stop: &'a [String],
}

/// Amount of thinking that a request asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ThinkingSetting {
    /// None.
    Off,
    /// At most this many tokens.
    Budget(u64),
    /// As much as the model decides; the number is an estimate in tokens.
    Adaptive(u64),
}

impl Abilities {
    /// Returns the limit of tokens in one response, or the default if it is unknown.
    pub fn output_limit(&self) -> u64 {
        self.max_output.unwrap_or(USUAL_OUTPUT)
    }

    /// Returns the settings of `request` that the model supports, for a server that takes thinking in `field`.
    pub fn effective<'a>(
        &self,
        request: &'a Request,
        field: ThinkingField,
    ) -> EffectiveSettings<'a> {
        let (max_output, thinking) = match field {
            ThinkingField::None => (self.allowed(request), None),
            _ if !self.thinks() => (self.allowed(request), None),
            _ => self.output(request),
        };
        let takes_effort = match field {
            ThinkingField::None
            | ThinkingField::EnableThinking
            | ThinkingField::ReasoningBudget => false,
            // A model that takes a budget takes effort only if the catalogue says so.
            ThinkingField::Thinking => self.efforts.is_some(),
            ThinkingField::ReasoningEffort | ThinkingField::Reasoning => true,
        };
        let wanted = request.thinking.effort.filter(|_| takes_effort);
        let thinks = !matches!(thinking, None | Some(ThinkingSetting::Off));
        let unsupported = |setting| self.unsupported.contains(&setting);
        let sampling = &request.sampling;
        // Almost no model takes `temperature` or `top_p` while it thinks.
        let temperature = sampling
            .temperature
            .filter(|_| !thinks && !unsupported(Unsupported::Temperature));
        let is_alone = temperature.is_none() || !unsupported(Unsupported::TopPBesideTemperature);
        EffectiveSettings {
            max_output,
            thinking,
            effort: wanted.and_then(|wanted| self.effort(wanted)),
            temperature,
            top_p: sampling
                .top_p
                .filter(|_| !thinks && is_alone && !unsupported(Unsupported::TopP)),
            stop: if unsupported(Unsupported::Stop) {
                &[]
            } else {
                &sampling.stop
            },
        }
    }

    /// Like [`Self::effective`], for a request that may end with tool results. With a thinking budget, the Messages API
    /// refuses an answer with tool calls that does not begin with a thinking block of the model's own; thinking is left
    /// out then.
    pub fn effective_in_turn<'a>(
        &self,
        request: &'a Request,
        field: ThinkingField,
        begins_with_thought: impl FnOnce(&Message) -> bool,
    ) -> EffectiveSettings<'a> {
        let settings = self.effective(request, field);
        let has_budget = field == ThinkingField::Thinking
            && matches!(settings.thinking, Some(ThinkingSetting::Budget(_)));
        if has_budget
            && calling_message(&request.messages).is_some_and(|call| !begins_with_thought(call))
        {
            self.effective(request, ThinkingField::None)
        } else {
            settings
        }
    }

    /// Returns the supported effort for `wanted`: the highest one not above it, or else the lowest one.
    pub fn effort(&self, wanted: Effort) -> Option<Effort> {
        let known = self.efforts.as_deref().unwrap_or(&USUAL_EFFORTS);
        let fitting = known.iter().rev().find(|known| **known <= wanted);
        fitting.or(known.first()).copied()
    }

    /// Returns the output that `request` asks for, as far as the model allows.
    fn allowed(&self, request: &Request) -> u64 {
        request.max_output.min(self.max_output.unwrap_or(u64::MAX))
    }

    fn thinks(&self) -> bool {
        self.efforts
            .as_ref()
            .is_none_or(|efforts| !efforts.is_empty())
    }

    /// Returns the output limit and the thinking. Thinking counts as output, so the budget is added to the limit, up to
    /// the model's own limit.
    fn output(&self, request: &Request) -> (u64, Option<ThinkingSetting>) {
        let wanted = self.allowed(request);
        let settings = request.thinking;
        let budget = match (settings.budget, settings.effort) {
            (None, None) => return (wanted, None),
            (Some(0), _) if self.unsupported.contains(&Unsupported::NoThinking) => {
                return (wanted, None);
            }
            (Some(0), _) => return (wanted, Some(ThinkingSetting::Off)),
            (Some(budget), _) => u64::from(budget).max(MIN_BUDGET),
            (None, Some(effort)) => tokens(effort),
        };
        let max_output = (wanted + budget).min(self.output_limit().max(wanted));
        let by_effort = settings.budget.is_none() && self.efforts.is_some();
        if self.thinking == ThinkingForm::Adaptive || by_effort {
            return (max_output, Some(ThinkingSetting::Adaptive(budget)));
        }
        let room = wanted.min(MIN_BUDGET);
        let budget = budget.min(max_output.saturating_sub(room));
        if budget < MIN_BUDGET {
            (wanted, None)
        } else {
            (max_output, Some(ThinkingSetting::Budget(budget)))
        }
    }
}

/// The first message of the answer whose tool calls are answered by the last messages.
fn calling_message(messages: &[Arc<Message>]) -> Option<&Message> {
    let is_user = |message: &&Arc<Message>| message.role == Role::User;
    let latest = messages.iter().rev();
    let mut since = latest.clone().take_while(is_user);
    since.find(|message| message.tool_results().next().is_some())?;
    let answers = latest.skip_while(is_user);
    answers
        .take_while(|message| !is_user(message))
        .last()
        .map(Arc::as_ref)
}

impl EffectiveSettings<'_> {
    /// Returns the names of the settings of `request` that are not sent.
    pub fn left_out(&self, request: &Request) -> Vec<&'static str> {
        let (thinking, sampling) = (&request.thinking, &request.sampling);
        let is_sent = self.effort.is_some() || self.thinking.is_some();
        let settings = [
            ("effort", thinking.effort.is_some() && !is_sent),
            (
                "maxThinkingTokens",
                thinking.budget.is_some() && self.thinking.is_none(),
            ),
            (
                "temperature",
                sampling.temperature.is_some() && self.temperature.is_none(),
            ),
            ("topP", sampling.top_p.is_some() && self.top_p.is_none()),
            ("stop", !sampling.stop.is_empty() && self.stop.is_empty()),
        ];
        let left_out = settings.into_iter().filter(|(_, is_left_out)| *is_left_out);
        left_out.map(|(name, _)| name).collect()
    }
}

impl ThinkingSetting {
    /// Returns the tokens of thinking, estimated for [`Self::Adaptive`].
    pub fn tokens(self) -> u64 {
        match self {
            Self::Off => 0,
            Self::Budget(tokens) | Self::Adaptive(tokens) => tokens,
        }
    }
}

/// The thinking budget for an effort, where the server takes a number.
fn tokens(effort: Effort) -> u64 {
    match effort {
        Effort::Low => 2_048,
        Effort::Medium => 8_192,
        Effort::High => 24_576,
        Effort::ExtraHigh => 32_768,
        Effort::Max => 49_152,
    }
}

/// Returns the effort for a thinking budget, among the three levels that every model with effort supports.
pub fn effort_for(budget: u64) -> Effort {
    match budget {
        0..=4_096 => Effort::Low,
        4_097..=16_384 => Effort::Medium,
        _ => Effort::High,
    }
}

#[cfg(test)]
mod tests {
    use ah_conversation::{Sampling, Thinking};

    use super::*;
    use crate::catalog::Catalog;

    /// A request with all settings.
    fn request(budget: Option<u32>, effort: Option<Effort>) -> Request {
        Request {
            max_output: 10_000,
            thinking: Thinking { budget, effort },
            sampling: Sampling {
                temperature: Some(0.5),
                top_p: Some(0.9),
                stop: vec!["END".to_owned()],
            },
            ..Request::default()
        }
    }

    fn show(server: &str, model: &str, field: ThinkingField, request: &Request) -> String {
        let abilities = Catalog::built_in().entry(server, model).abilities;
        let settings = abilities.effective(request, field);
        let thinking = match settings.thinking {
            None => "-".to_owned(),
            Some(thought) => format!("{thought:?}"),
        };
        let effort = settings.effort.map_or("-", Effort::as_str);
        let left_out = settings.left_out(request).join(" ");
        format!(
            "{} {thinking} {effort} without: {left_out}",
            settings.max_output
        )
    }

    #[test]
    fn effort_is_sent_in_the_form_that_the_model_supports() {
        use Effort::{ExtraHigh, High, Low, Max};
        use ThinkingField::{EnableThinking, None as Nothing, ReasoningEffort, Thinking};
        for (model, field, effort, expected) in [
            // As an effort, with adaptive thinking.
            (
                "claude-opus-4-6",
                Thinking,
                Max,
                "59152 Adaptive(49152) max without: temperature topP",
            ),
            (
                "claude-opus-4-6",
                Thinking,
                ExtraHigh,
                "42768 Adaptive(32768) high without: temperature topP",
            ),
            (
                "claude-opus-4-7",
                Thinking,
                ExtraHigh,
                "42768 Adaptive(32768) xhigh without: temperature topP",
            ),
            // As a budget, up to the output limit.
            (
                "claude-haiku-4-5",
                Thinking,
                Low,
                "12048 Budget(2048) - without: temperature topP",
            ),
            (
                "claude-haiku-4-5",
                Thinking,
                Max,
                "59152 Budget(49152) - without: temperature topP",
            ),
            (
                "unheard-of",
                Thinking,
                Max,
                "16384 Budget(15360) - without: temperature topP",
            ),
            (
                "unheard-of",
                ReasoningEffort,
                Max,
                "16384 Budget(15360) high without: temperature topP",
            ),
            (
                "unheard-of",
                EnableThinking,
                High,
                "16384 Budget(15360) - without: temperature topP",
            ),
            ("unheard-of", Nothing, High, "10000 - - without: effort"),
            (
                "gpt-5",
                ReasoningEffort,
                Max,
                "59152 Adaptive(49152) high without: temperature topP stop",
            ),
            (
                "gpt-5.2",
                ReasoningEffort,
                Max,
                "59152 Adaptive(49152) xhigh without: temperature topP stop",
            ),
            (
                "gpt-5-pro",
                ReasoningEffort,
                Low,
                "12048 Adaptive(2048) high without: temperature topP stop",
            ),
            ("gpt-4o", ReasoningEffort, High, "10000 - - without: effort"),
            ("gpt-4o", Thinking, High, "10000 - - without: effort"),
        ] {
            let shown = show("litellm", model, field, &request(None, Some(effort)));
            assert_eq!(shown, expected, "{model} {field:?} {effort:?}");
        }
    }

    #[test]
    fn a_budget_is_sent_with_effort_or_alone() {
        use ThinkingField::Thinking;
        for (model, budget, effort, expected) in [
            (
                "claude-opus-4-6",
                Some(4_000),
                Some(Effort::High),
                "14000 Budget(4000) high without: temperature topP",
            ),
            (
                "claude-opus-4-6",
                Some(0),
                Some(Effort::High),
                "10000 Off high without: topP",
            ),
            (
                "claude-opus-4-7",
                Some(4_000),
                None,
                "14000 Adaptive(4000) - without: temperature topP",
            ),
            (
                "claude-haiku-4-5",
                Some(0),
                Some(Effort::High),
                "10000 Off - without: topP",
            ),
            (
                "claude-mythos-5",
                Some(0),
                None,
                "10000 - - without: maxThinkingTokens temperature topP",
            ),
            ("claude-haiku-4-5", None, None, "10000 - - without: topP"),
            (
                "claude-opus-4-7",
                None,
                None,
                "10000 - - without: temperature topP",
            ),
            (
                "gpt-5",
                None,
                None,
                "10000 - - without: temperature topP stop",
            ),
            ("gpt-5.2", None, None, "10000 - - without: stop"),
            (
                "gpt-4o",
                Some(4_000),
                None,
                "10000 - - without: maxThinkingTokens",
            ),
        ] {
            let shown = show("litellm", model, Thinking, &request(budget, effort));
            assert_eq!(shown, expected, "{model} {budget:?} {effort:?}");
        }
    }
}
