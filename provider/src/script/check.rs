//! Checks of a scenario beyond the types of its fields: contradictory, empty and overlong turns.

use ah_conversation::json;

use super::format::{BlockContent, Scenario, Turn};

/// Limit of turns in a scenario, with repetitions.
const MAX_TURNS: u64 = 1_000_000;

impl Scenario {
    /// Parses a scenario in YAML or JSON and checks it. The error names the problem and its place.
    pub fn parse(text: &str) -> Result<Self, String> {
        let text = json::whole(text);
        // JSON strings may hold control characters that YAML forbids, so JSON has its own parser.
        let scenario: Self = match text.read() {
            Ok(scenario) => scenario,
            Err(_) => serde_saphyr::from_str(text.as_str())
                .map_err(|error| error.without_snippet().to_string())?,
        };
        scenario.check()?;
        Ok(scenario)
    }

    /// Checks for problems that the types allow, such as contradictory or empty turns.
    pub fn check(&self) -> Result<(), String> {
        if self.turns.is_empty() {
            return Err("a scenario needs at least one turn".to_owned());
        }
        for (at, turn) in self.turns.iter().enumerate() {
            turn.check()
                .map_err(|problem| format!("turn {}: {problem}", at + 1))?;
        }
        let played: u64 = self.turns.iter().map(|turn| u64::from(turn.times())).sum();
        if played > MAX_TURNS {
            return Err(format!(
                "{played} turns with their repetitions; at most {MAX_TURNS} can be played"
            ));
        }
        Ok(())
    }

    /// Returns the indexes of the turns in the order in which they are played, with repetitions.
    pub fn order(&self) -> Vec<usize> {
        self.turns
            .iter()
            .enumerate()
            .flat_map(|(at, turn)| std::iter::repeat_n(at, turn.times() as usize))
            .collect()
    }
}

impl Turn {
    fn check(&self) -> Result<(), String> {
        let spoken = self.thinking.is_some()
            || self.text.is_some()
            || self.tool.is_some()
            || !self.tools.is_empty();
        if spoken && !self.content.is_empty() {
            return Err(
                "`content` replaces `thinking`, `text`, `tool` and `tools`: use one or the other"
                    .to_owned(),
            );
        }
        if self.repeat == Some(0) {
            return Err("`repeat: 0` would never be played".to_owned());
        }
        let says = spoken || !self.content.is_empty();
        let ends = [
            self.error.is_some(),
            self.stream_error.is_some(),
            self.cut,
            self.hang,
        ];
        match ends.into_iter().filter(|is_set| *is_set).count() {
            0 if !says && self.stop_reason.is_none() && self.wire.is_none() => {
                return Err("it says nothing; an empty answer needs a `stop_reason`".to_owned());
            }
            0 | 1 => {}
            _ => {
                return Err(
                    "only one of `error`, `stream_error`, `cut` and `hang` can end it".to_owned(),
                );
            }
        }
        if self.error.is_some() && says {
            return Err(
                "`error` fails before any content; use `stream_error` to fail after it".to_owned(),
            );
        }
        if self.content.iter().any(|block| block.part().is_none()) {
            return Err(
                "a block of `content` is one of `text`, `thinking`, `redacted_thinking`, `tool` and `other`"
                    .to_owned(),
            );
        }
        self.parts().into_iter().try_for_each(check_call)
    }
}

fn check_call(part: BlockContent<'_>) -> Result<(), String> {
    match part {
        BlockContent::Tool(call) if call.name.is_empty() => {
            Err("a tool call needs a `name`".to_owned())
        }
        BlockContent::Tool(call) if call.input_json.is_some() && !call.input.is_empty() => {
            Err(format!(
                "the call of `{}` has both `input` and `input_json`",
                call.name
            ))
        }
        _ => Ok(()),
    }
}
