//! What a Claude model takes by its generation, as the vendor's documentation says (November 2026). A model that the
//! documentation does not name yet is newer than all that it names, and takes what they take.

/// Whether a model answers faster, at a higher price, if asked to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum FastMode {
    /// It does not.
    #[default]
    No,
    /// It does, with a beta feature.
    Preview,
    /// It does.
    Yes,
}

impl FastMode {
    /// How much more each token costs then: twice, over the whole window (vendor's page on fast mode, November 2026).
    pub const PRICE: u64 = 2;
}

/// Features of the Messages API that only newer models have.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Generation {
    /// Whether system messages and new tools may stand in the conversation.
    pub takes_updates: bool,
    /// Whether thinking is valid only behind exactly what it was written behind.
    pub binds_thinking: bool,
    /// Whether it thinks without being asked to.
    pub always_thinks: bool,
    /// Whether it shows its thoughts, and what it says between its calls, only if asked to.
    pub hides_thoughts: bool,
    /// Whether the server writes a summary for it on demand.
    pub summarizes: bool,
    /// Whether the server holds its conversations (vendor's page on message threads, 2 November 2026).
    pub holds: bool,
    /// Whether it answers faster on demand.
    pub fast: FastMode,
}

impl Generation {
    /// Returns the features of the model `name`, which may stand behind the names of gateways.
    pub fn of(name: &str) -> Self {
        let name = name.rsplit(['/', '.']).next().unwrap_or_default();
        let Some((family, version)) = crate::family::parse(name) else {
            return Self::default();
        };
        // The first versions with each feature, in the order of the fields.
        let first: [&[u32]; 6] = match family {
            "opus" => [&[4, 8], &[5, 5], &[5], &[4, 7], &[4, 6], &[4, 5]],
            "sonnet" => [&[5, 5], &[5, 5], &[5, 5], &[5], &[4, 6], &[4, 5]],
            "haiku" => [&[5, 5], &[5, 5], &[5, 5], &[5], &[5, 5], &[4, 5]],
            "fable" | "mythos" => [&[5], &[5, 1], &[5], &[5], &[5], &[5]],
            _ => return Self::default(),
        };
        let version = version.numbers.as_slice();
        let has = first.map(|first| version >= first);
        // Opus 4.8 has had it until 30 November 2026.
        let fast = match family {
            "opus" if version >= [5, 5].as_slice() => FastMode::Yes,
            "opus" if version >= [5].as_slice() => FastMode::Preview,
            "fable" | "mythos" if version >= [5, 2].as_slice() => FastMode::Yes,
            _ => FastMode::No,
        };
        let [
            takes_updates,
            binds_thinking,
            always_thinks,
            hides_thoughts,
            summarizes,
            holds,
        ] = has;
        Self {
            takes_updates,
            binds_thinking,
            always_thinks,
            hides_thoughts,
            summarizes,
            holds,
            fast,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn newer_models_have_fast_mode() {
        use FastMode::{No, Preview, Yes};
        for (name, expected) in [
            ("claude-opus-4-8", No),
            ("claude-opus-5", Preview),
            ("claude-opus-5-5-20260922", Yes),
            ("claude-opus-6", Yes),
            ("claude-fable-5-1", No),
            ("claude-fable-5-2", Yes),
            ("claude-mythos-5-2", Yes),
            ("claude-sonnet-5-5", No),
            ("gpt-6", No),
        ] {
            assert_eq!(Generation::of(name).fast, expected, "{name}");
        }
    }

    #[test]
    fn features_follow_from_family_and_version() {
        for (name, expected) in [
            ("claude-opus-4-6", [false, false, false, false, true, true]),
            (
                "claude-opus-4-1",
                [false, false, false, false, false, false],
            ),
            ("claude-opus-4-7", [false, false, false, true, true, true]),
            ("claude-opus-4-8", [true, false, false, true, true, true]),
            ("claude-opus-5", [true, false, true, true, true, true]),
            (
                "claude-opus-5-20260724",
                [true, false, true, true, true, true],
            ),
            ("claude-opus-5-5", [true, true, true, true, true, true]),
            (
                "anthropic/claude-opus-5-5-20260922",
                [true, true, true, true, true, true],
            ),
            (
                "us.anthropic.claude-opus-5-5",
                [true, true, true, true, true, true],
            ),
            ("claude-opus-6", [true, true, true, true, true, true]),
            ("claude-sonnet-5", [false, false, false, true, true, true]),
            (
                "claude-sonnet-4-5-20250929",
                [false, false, false, false, false, true],
            ),
            ("claude-sonnet-5-5", [true, true, true, true, true, true]),
            (
                "claude-haiku-4-5",
                [false, false, false, false, false, true],
            ),
            ("claude-haiku-5-5", [true, true, true, true, true, true]),
            ("claude-fable-5", [true, false, true, true, true, true]),
            ("claude-fable-5-2", [true, true, true, true, true, true]),
            (
                "claude-mythos-preview",
                [false, false, false, false, false, false],
            ),
            ("gpt-6", [false, false, false, false, false, false]),
            (
                "claude-3-5-sonnet",
                [false, false, false, false, false, false],
            ),
        ] {
            let found = Generation::of(name);
            let found = [
                found.takes_updates,
                found.binds_thinking,
                found.always_thinks,
                found.hides_thoughts,
                found.summarizes,
                found.holds,
            ];
            assert_eq!(found, expected, "{name}");
        }
    }
}
