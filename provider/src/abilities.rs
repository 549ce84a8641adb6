//! What a model takes of what it is asked for beside the conversation: how much it may write and think, how hard it
//! tries, how it chooses its words. Decided here once for all protocols, whose encoders only spell it; what a model or
//! its server is known to refuse is left out rather than sent in vain.

use std::sync::Arc;

use ah_conversation::{Effort, Message, Request, Role};
use serde::Deserialize;

use crate::openai::ThinkingField;

/// How much a model is let write at once, unless it can only write less.
pub const USUAL_OUTPUT: u64 = 16_384;
/// The Messages API takes no smaller thinking budget, and an answer is left as much beside it, if it may have that much.
const LEAST_TOKENS: u64 = 1_024;
/// What a model that takes words for its effort takes, unless others are known.
const USUAL_EFFORTS: [Effort; 3] = [Effort::Low, Effort::Medium, Effort::High];

/// What a model can do and takes, as far as that is known.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Abilities {
    /// How many tokens it can write in one response.
    pub max_output: Option<u64>,
    /// How it is told to think.
    pub thinking: ThinkingForm,
    /// The words for effort that it takes, from the least on; none, if it does not think at all.
    pub efforts: Option<Vec<Effort>>,
    /// What it refuses.
    pub refuses: Vec<Refusal>,
}

/// How a model is told how much to think.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ThinkingForm {
    /// By a number of tokens.
    #[default]
    Budget,
    /// It decides by itself and takes no number.
    Adaptive,
}

/// What a model does not take.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Refusal {
    /// A temperature.
    Temperature,
    /// `top_p`.
    TopP,
    /// `top_p` where there is a temperature.
    TopPBesideTemperature,
    /// Words to stop at.
    Stop,
    /// Not to think.
    NoThinking,
}

/// What is asked for in the end.
#[derive(Debug, Clone, PartialEq)]
pub struct Asked<'a> {
    /// How many tokens may be written, those of thought among them.
    pub max_output: u64,
    /// How much may be thought.
    pub thinking: Option<Thought>,
    /// How hard to try, in a word that the model takes.
    pub effort: Option<Effort>,
    /// The temperature.
    pub temperature: Option<f64>,
    /// The share of the likeliest words.
    pub top_p: Option<f64>,
    /// Words to stop at.
    pub stop: &'a [String],
}

/// How much is thought.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Thought {
    /// Not at all.
    Off,
    /// At most so many tokens.
    Budget(u64),
    /// As the model decides, which is taken to be about so many.
    Adaptive(u64),
}

impl Abilities {
    /// How much the model can write in one response, or is taken to.
    pub fn output_limit(&self) -> u64 {
        self.max_output.unwrap_or(USUAL_OUTPUT)
    }

    /// What `request` asks of the model, where the server is told to think by `field`.
    pub fn asked<'a>(&self, request: &'a Request, field: ThinkingField) -> Asked<'a> {
        let (max_output, thinking) = match field {
            ThinkingField::None => (request.max_output, None),
            _ if !self.thinks() => (request.max_output, None),
            _ => self.output(request),
        };
        let takes_words = match field {
            ThinkingField::None | ThinkingField::EnableThinking => false,
            // Without knowing better, a model that is told by numbers is not told by words.
            ThinkingField::Thinking => self.efforts.is_some(),
            ThinkingField::ReasoningEffort | ThinkingField::Reasoning => true,
        };
        let wanted = request.thinking.effort.filter(|_| takes_words);
        let thinks = !matches!(thinking, None | Some(Thought::Off));
        let refuses = |refusal| self.refuses.contains(&refusal);
        let sampling = &request.sampling;
        // While it thinks, hardly a model takes either.
        let temperature = sampling
            .temperature
            .filter(|_| !thinks && !refuses(Refusal::Temperature));
        let is_alone = temperature.is_none() || !refuses(Refusal::TopPBesideTemperature);
        Asked {
            max_output,
            thinking,
            effort: wanted.and_then(|wanted| self.effort(wanted)),
            temperature,
            top_p: sampling
                .top_p
                .filter(|_| !thinks && is_alone && !refuses(Refusal::TopP)),
            stop: match refuses(Refusal::Stop) {
                true => &[],
                false => &sampling.stop,
            },
        }
    }

    /// The same, where the messages may end with results of calls. A model that is given a budget of thought takes none
    /// of calls that, as they are sent, do not begin with a thought of its own: it goes on without.
    pub fn asked_in_turn<'a>(
        &self,
        request: &'a Request,
        field: ThinkingField,
        begins_with_thought: impl FnOnce(&Message) -> bool,
    ) -> Asked<'a> {
        let asked = self.asked(request, field);
        let has_budget =
            field == ThinkingField::Thinking && matches!(asked.thinking, Some(Thought::Budget(_)));
        match has_budget
            && calling(&request.messages).is_some_and(|call| !begins_with_thought(call))
        {
            true => self.asked(request, ThinkingField::None),
            false => asked,
        }
    }

    /// The word that the model takes for `wanted`: the most that is not more, or the least that it takes.
    pub fn effort(&self, wanted: Effort) -> Option<Effort> {
        let known = self.efforts.as_deref().unwrap_or(&USUAL_EFFORTS);
        let fitting = known.iter().rev().find(|known| **known <= wanted);
        fitting.or(known.first()).copied()
    }

    fn thinks(&self) -> bool {
        self.efforts
            .as_ref()
            .is_none_or(|efforts| !efforts.is_empty())
    }

    /// How much may be written, and how much of it thought. What is thought counts as written, so room for the answer
    /// is added to the budget as far as the model goes.
    fn output(&self, request: &Request) -> (u64, Option<Thought>) {
        let wanted = request.max_output;
        let asked = request.thinking;
        let budget = match (asked.budget, asked.effort) {
            (None, None) => return (wanted, None),
            (Some(0), _) if self.refuses.contains(&Refusal::NoThinking) => return (wanted, None),
            (Some(0), _) => return (wanted, Some(Thought::Off)),
            (Some(budget), _) => u64::from(budget).max(LEAST_TOKENS),
            (None, Some(effort)) => tokens(effort),
        };
        let max_output = (wanted + budget).min(self.output_limit().max(wanted));
        let takes_words = asked.budget.is_none() && self.efforts.is_some();
        if self.thinking == ThinkingForm::Adaptive || takes_words {
            return (max_output, Some(Thought::Adaptive(budget)));
        }
        let room = wanted.min(LEAST_TOKENS);
        let budget = budget.min(max_output.saturating_sub(room));
        match budget < LEAST_TOKENS {
            true => (wanted, None),
            false => (max_output, Some(Thought::Budget(budget))),
        }
    }
}

/// The beginning of the answer whose calls the end of the messages answers.
fn calling(messages: &[Arc<Message>]) -> Option<&Message> {
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

impl Asked<'_> {
    /// The settings of `request` that are not asked for.
    pub fn left_out(&self, request: &Request) -> Vec<&'static str> {
        let (thinking, sampling) = (&request.thinking, &request.sampling);
        let is_told = self.effort.is_some() || self.thinking.is_some();
        let settings = [
            ("effort", thinking.effort.is_some() && !is_told),
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

impl Thought {
    /// About how many tokens it is.
    pub fn tokens(self) -> u64 {
        match self {
            Self::Off => 0,
            Self::Budget(tokens) | Self::Adaptive(tokens) => tokens,
        }
    }
}

/// How many tokens of thought an effort is worth, where it has to be a number.
fn tokens(effort: Effort) -> u64 {
    match effort {
        Effort::Low => 2_048,
        Effort::Medium => 8_192,
        Effort::High => 24_576,
        Effort::ExtraHigh => 32_768,
        Effort::Max => 49_152,
    }
}

/// The word for a number of tokens, of those that every model takes: there is none for none, nor for the most.
pub fn word(budget: u64) -> Effort {
    match budget {
        0..=4_096 => Effort::Low,
        4_097..=16_384 => Effort::Medium,
        _ => Effort::High,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use ah_conversation::{Sampling, Thinking};

    use super::*;
    use crate::catalog::Catalog;

    /// A question with everything set.
    fn request(budget: Option<u32>, effort: Option<Effort>) -> Request {
        Request {
            system: Arc::default(),
            tools: Arc::default(),
            messages: Arc::default(),
            max_output: 10_000,
            thinking: Thinking { budget, effort },
            sampling: Sampling {
                temperature: Some(0.5),
                top_p: Some(0.9),
                stop: vec!["END".to_owned()],
            },
        }
    }

    fn show(server: &str, model: &str, field: ThinkingField, request: &Request) -> String {
        let abilities = Catalog::built_in().entry(server, model).abilities;
        let asked = abilities.asked(request, field);
        let thinking = match asked.thinking {
            None => "-".to_owned(),
            Some(thought) => format!("{thought:?}"),
        };
        let effort = asked.effort.map_or("-", Effort::as_str);
        let left_out = asked.left_out(request).join(" ");
        format!(
            "{} {thinking} {effort} without: {left_out}",
            asked.max_output
        )
    }

    #[test]
    fn effort_is_told_as_the_model_takes_it() {
        use Effort::{ExtraHigh, High, Low, Max};
        use ThinkingField::{EnableThinking, None as Nothing, ReasoningEffort, Thinking};
        for (model, field, effort, expected) in [
            // In words, and then as much as it likes.
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
            // As a number, as far as the model can write.
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
    fn a_budget_stands_beside_effort_or_alone() {
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
