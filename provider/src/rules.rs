//! The settings that models take, by family and version, as their vendors' documentation says (28 November 2026). A
//! model that is newer than all that is written here takes what the newest of its family takes, so it works on the day of
//! its release. Files of the catalogue override this. Pure.

use ah_conversation::Effort::{self, ExtraHigh, High, Low, Max, Medium};

use crate::abilities::ThinkingForm::{self, Adaptive, Budget};
use crate::abilities::Unsupported::{
    self, NoThinking, Stop, Temperature, TopP, TopPBesideTemperature,
};

/// What the models of a family take from a version on.
struct Rule {
    /// Beginning of the names, up to the version.
    family: &'static str,
    /// The first version. Without numbers, names without a version are meant, too.
    from: &'static [u32],
    /// What the name has behind the version.
    variant: &'static str,
    thinking: ThinkingForm,
    /// Levels of effort, if the model takes effort.
    efforts: Option<&'static [Effort]>,
    refuses: &'static [Unsupported],
}

/// What a model takes.
pub type Taken = (
    ThinkingForm,
    Option<&'static [Effort]>,
    &'static [Unsupported],
);

const ALL: Option<&[Effort]> = Some(&[Low, Medium, High, ExtraHigh, Max]);
const TO_EXTRA: Option<&[Effort]> = Some(&[Low, Medium, High, ExtraHigh]);
const TO_HIGH: Option<&[Effort]> = Some(&[Low, Medium, High]);
const NO_EXTRA: Option<&[Effort]> = Some(&[Low, Medium, High, Max]);
const MEDIUM_ON: Option<&[Effort]> = Some(&[Medium, High, ExtraHigh]);
const NEVER: Option<&[Effort]> = Some(&[]);

const SAMPLING: &[Unsupported] = &[Temperature, TopP];
const ALWAYS: &[Unsupported] = &[Temperature, TopP, NoThinking];
const ONE_OF_TWO: &[Unsupported] = &[TopPBesideTemperature];
const STOP: &[Unsupported] = &[Temperature, TopP, Stop];
const STOP_ALWAYS: &[Unsupported] = &[Temperature, TopP, Stop, NoThinking];

/// Claude: pages of each model at platform.claude.com/docs. OpenAI: developers.openai.com/api/docs/models and the guide to
/// GPT-6.2 (`none` and `minimal` are refused by the models with [`NoThinking`]). Gemini: ai.google.dev/gemini-api/docs.
/// The first rule that fits counts.
const RULES: [Rule; 33] = [
    rule("claude-fable-", &[], "", Adaptive, ALL, ALWAYS),
    rule("claude-mythos-", &[], "", Adaptive, ALL, ALWAYS),
    rule("claude-opus-", &[5, 5], "", Adaptive, ALL, ALWAYS),
    rule("claude-opus-", &[4, 7], "", Adaptive, ALL, SAMPLING),
    rule("claude-opus-", &[4, 6], "", Budget, NO_EXTRA, ONE_OF_TWO),
    rule("claude-opus-", &[], "", Budget, None, ONE_OF_TWO),
    rule("claude-sonnet-", &[5, 5], "", Adaptive, ALL, ALWAYS),
    rule("claude-sonnet-", &[5], "", Adaptive, ALL, SAMPLING),
    rule("claude-sonnet-", &[4, 6], "", Budget, NO_EXTRA, ONE_OF_TWO),
    rule("claude-sonnet-", &[], "", Budget, None, ONE_OF_TWO),
    rule("claude-haiku-", &[5, 5], "", Adaptive, ALL, SAMPLING),
    rule("claude-haiku-", &[], "", Budget, None, ONE_OF_TWO),
    rule("gpt-", &[6, 2], "", Budget, ALL, STOP_ALWAYS),
    rule("gpt-", &[6, 1], "sol", Budget, ALL, STOP_ALWAYS),
    rule("gpt-", &[6], "astra", Budget, ALL, STOP_ALWAYS),
    rule("gpt-", &[6], "", Budget, ALL, STOP),
    rule("gpt-", &[5, 5], "pro", Budget, MEDIUM_ON, STOP),
    rule("gpt-", &[5, 6], "cyber", Budget, TO_HIGH, STOP),
    rule("gpt-", &[5, 5], "", Budget, TO_EXTRA, STOP),
    rule("gpt-", &[5], "chat", Budget, Some(&[Medium]), STOP),
    rule("gpt-", &[5, 3], "codex", Budget, TO_EXTRA, STOP),
    rule("gpt-", &[5], "codex", Budget, TO_HIGH, STOP),
    rule("gpt-", &[5, 2], "pro", Budget, TO_EXTRA, STOP),
    // Those take sampling without thinking, which is how they begin.
    rule("gpt-", &[5, 2], "", Budget, TO_EXTRA, &[Stop]),
    rule("gpt-", &[5, 1], "", Budget, TO_HIGH, &[Stop]),
    rule("gpt-", &[5], "pro", Budget, Some(&[High]), STOP),
    rule("gpt-", &[5], "", Budget, TO_HIGH, STOP),
    rule("gpt-", &[1], "", Budget, NEVER, &[]),
    rule("chat-latest", &[], "", Budget, Some(&[Medium]), STOP),
    rule("o", &[1], "", Budget, TO_HIGH, STOP),
    rule("gemini-", &[4], "", Budget, None, &[]),
    rule("gemini-", &[3, 6], "flash", Budget, None, SAMPLING),
    rule("gemini-", &[3, 5], "lite", Budget, None, SAMPLING),
];

const fn rule(
    family: &'static str,
    from: &'static [u32],
    variant: &'static str,
    thinking: ThinkingForm,
    efforts: Option<&'static [Effort]>,
    refuses: &'static [Unsupported],
) -> Rule {
    Rule {
        family,
        from,
        variant,
        thinking,
        efforts,
        refuses,
    }
}

/// Returns what the model `name` takes, which may stand behind the names of gateways.
pub fn taken(name: &str) -> Option<Taken> {
    let name = name.rsplit('/').next().unwrap_or(name);
    // As Bedrock names the models of others: `us.anthropic.claude-opus-5-5`.
    let vendors = ["anthropic.", "openai."];
    let name = vendors
        .iter()
        .find_map(|vendor| name.split_once(vendor))
        .map_or(name, |(_, name)| name);
    let fits = |rule: &&Rule| {
        name.strip_prefix(rule.family).is_some_and(|rest| {
            let (version, variant) = version(rest);
            version.as_slice() >= rule.from && variant.contains(rule.variant)
        })
    };
    let rule = RULES.iter().find(fits)?;
    Some((rule.thinking, rule.efforts, rule.refuses))
}

/// Splits what follows the family: the numbers of the version, and the rest. Longer numbers are dates.
fn version(rest: &str) -> (Vec<u32>, &str) {
    let mut numbers = Vec::new();
    let mut variant = rest;
    loop {
        let rest = match numbers.is_empty() {
            true => variant,
            false => variant.strip_prefix(['.', '-']).unwrap_or_default(),
        };
        let length = rest.bytes().take_while(u8::is_ascii_digit).count();
        match rest[..length].parse() {
            Ok(number) if length <= 2 => numbers.push(number),
            _ => return (numbers, variant),
        }
        variant = &rest[length..];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_follow_from_family_and_version() {
        for (name, thinking, efforts, refuses) in [
            (
                "claude-opus-4-5-20251101",
                "Budget",
                "-",
                "TopPBesideTemperature",
            ),
            (
                "claude-opus-4-6",
                "Budget",
                "low medium high max",
                "TopPBesideTemperature",
            ),
            (
                "claude-opus-4-7-20260416",
                "Adaptive",
                "low medium high xhigh max",
                "Temperature TopP",
            ),
            (
                "claude-opus-5-20260724",
                "Adaptive",
                "low medium high xhigh max",
                "Temperature TopP",
            ),
            (
                "us.anthropic.claude-opus-5-5",
                "Adaptive",
                "low medium high xhigh max",
                "Temperature TopP NoThinking",
            ),
            (
                "anthropic/claude-haiku-7",
                "Adaptive",
                "low medium high xhigh max",
                "Temperature TopP",
            ),
            (
                "claude-mythos-preview",
                "Adaptive",
                "low medium high xhigh max",
                "Temperature TopP NoThinking",
            ),
            ("gpt-3.5-turbo", "Budget", "", ""),
            ("gpt-4o-2024-05-13", "Budget", "", ""),
            (
                "gpt-5-2025-08-07",
                "Budget",
                "low medium high",
                "Temperature TopP Stop",
            ),
            ("gpt-5-pro", "Budget", "high", "Temperature TopP Stop"),
            ("gpt-5.1", "Budget", "low medium high", "Stop"),
            (
                "gpt-5.2-codex",
                "Budget",
                "low medium high",
                "Temperature TopP Stop",
            ),
            (
                "gpt-5.4-mini-2026-03-17",
                "Budget",
                "low medium high xhigh",
                "Stop",
            ),
            (
                "gpt-5.5-pro",
                "Budget",
                "medium high xhigh",
                "Temperature TopP Stop",
            ),
            (
                "gpt-6-sol",
                "Budget",
                "low medium high xhigh max",
                "Temperature TopP Stop",
            ),
            (
                "gpt-6-astra-law",
                "Budget",
                "low medium high xhigh max",
                "Temperature TopP Stop NoThinking",
            ),
            (
                "gpt-6.1-sol",
                "Budget",
                "low medium high xhigh max",
                "Temperature TopP Stop NoThinking",
            ),
            (
                "gpt-6.1-terra",
                "Budget",
                "low medium high xhigh max",
                "Temperature TopP Stop",
            ),
            (
                "openrouter/openai/gpt-6.2-sol",
                "Budget",
                "low medium high xhigh max",
                "Temperature TopP Stop NoThinking",
            ),
            (
                "gpt-9",
                "Budget",
                "low medium high xhigh max",
                "Temperature TopP Stop NoThinking",
            ),
            ("chat-latest", "Budget", "medium", "Temperature TopP Stop"),
            (
                "o3-mini",
                "Budget",
                "low medium high",
                "Temperature TopP Stop",
            ),
            ("gemini-3.5-flash-lite", "Budget", "-", "Temperature TopP"),
            ("gemini-3.8-flash", "Budget", "-", "Temperature TopP"),
            ("gemini-4-argon", "Budget", "-", ""),
        ] {
            let (form, levels, refused) = taken(name).expect(name);
            let levels = levels.map_or("-".to_owned(), |levels| {
                levels
                    .iter()
                    .map(|it| it.as_str())
                    .collect::<Vec<_>>()
                    .join(" ")
            });
            let refused: Vec<_> = refused.iter().map(|it| format!("{it:?}")).collect();
            let found = (format!("{form:?}"), levels, refused.join(" "));
            assert_eq!(
                found,
                (thinking.to_owned(), efforts.to_owned(), refuses.to_owned()),
                "{name}"
            );
        }
    }

    #[test]
    fn other_names_have_no_rule() {
        for name in [
            "gpt-oss-120b",
            "claude-x",
            "claude-3-5-sonnet",
            "olmo-2",
            "o",
            "gemini-flash-latest",
            "kimi-k3",
            "",
        ] {
            assert!(taken(name).is_none(), "{name}");
        }
    }
}
