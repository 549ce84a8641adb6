//! What a model of OpenAI takes by its generation. A name of a later generation than the vendor documents takes what the
//! latest does. Names of other vendors, and those that users give to their deployments, have none of it: they are asked as
//! every server of this API understands.

/// Features of the Responses API that only newer models have.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Generation {
    /// Whether requests with the same key are sent to the same machine, whose cache is then read more often.
    pub takes_cache_key: bool,
    /// Whether it takes `prompt_cache_options`: npm `openai` 7.59.0 (17 November 2026), "`gpt-5.6` and later models".
    pub takes_cache_options: bool,
    /// Whether developer messages and `additional_tools` may stand in the conversation: the same models, by the measurements
    /// in npm `@earendil-works/pi-ai` 1.6.0 (20 November 2026).
    pub takes_updates: bool,
    /// Whether it takes `configuration_update`: GPT-6 and later, but none with `pro` (OpenRouter's guide of GPT-6 Astra, and
    /// npm `@ai-sdk/openai` 4.0.118, November 2026).
    pub takes_effort: bool,
    /// Whether its reasoning is dropped behind anything but what it was written behind: "starting with GPT-6.2" (OpenAI's
    /// guide of GPT-6.2, 17 November 2026).
    pub binds_thinking: bool,
}

impl Generation {
    /// Returns the features of the model `name`, which may stand behind the names of gateways.
    pub fn of(name: &str) -> Self {
        let name = name.rsplit('/').next().unwrap_or_default();
        let name = name.strip_prefix("openai.").unwrap_or(name);
        let Some(version) = version(name) else {
            return Self::default();
        };
        let has = |first: (u32, u32)| version >= first;
        Self {
            takes_cache_key: has((5, 0)),
            takes_cache_options: has((5, 6)),
            takes_updates: has((5, 6)),
            takes_effort: has((6, 0)) && !name.split('-').any(|part| part == "pro"),
            binds_thinking: has((6, 2)),
        }
    }
}

/// Returns the version in `gpt-MAJOR[.MINOR][-…]`.
fn version(name: &str) -> Option<(u32, u32)> {
    let version = name.strip_prefix("gpt-")?.split('-').next()?;
    let (major, minor) = version.split_once('.').unwrap_or((version, "0"));
    Some((major.parse().ok()?, minor.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn features_follow_from_the_version() {
        for (name, expected) in [
            ("gpt-4.1", "-----"),
            ("gpt-4o", "-----"),
            ("gpt-oss-120b", "-----"),
            ("o3", "-----"),
            ("grok-4", "-----"),
            ("my-deployment", "-----"),
            ("gpt-5", "k----"),
            ("gpt-5.3-codex", "k----"),
            ("gpt-5.6-sol", "kou--"),
            ("gpt-6-astra", "koue-"),
            ("gpt-6-astra-pro", "kou--"),
            ("openai/gpt-6.1-sol", "koue-"),
            ("openai.gpt-6.2-sol-v1", "koueb"),
            ("gpt-6.2-sol", "koueb"),
            ("gpt-6.2-astra-2026-11-17", "koueb"),
            ("gpt-6.10-sol", "koueb"),
            ("gpt-7", "koueb"),
        ] {
            let Generation {
                takes_cache_key,
                takes_cache_options,
                takes_updates,
                takes_effort,
                binds_thinking,
            } = Generation::of(name);
            let features = [
                (takes_cache_key, 'k'),
                (takes_cache_options, 'o'),
                (takes_updates, 'u'),
                (takes_effort, 'e'),
                (binds_thinking, 'b'),
            ];
            let shown: String = features
                .into_iter()
                .map(|(has, sign)| if has { sign } else { '-' })
                .collect();
            assert_eq!(shown, expected, "{name}");
        }
    }
}
