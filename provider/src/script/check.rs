//! What a scenario may not say, though its fields are right: two things at once, nothing, or too much.

use super::format::{BlockContent, Scenario, Turn};

/// Most turns of a scenario, repetitions counted.
const MOST_TURNS: u64 = 1_000_000;

impl Scenario {
    /// Reads a scenario, YAML or JSON, and checks it. The error says what is wrong, and where.
    pub fn parse(text: &str) -> Result<Self, String> {
        // JSON is YAML but for a few control characters in its strings, so it has its own reader.
        let scenario: Self = match serde_json::from_str(text) {
            Ok(scenario) => scenario,
            Err(_) => {
                serde_saphyr::from_str(text).map_err(|error| error.without_snippet().to_string())?
            }
        };
        scenario.check()?;
        Ok(scenario)
    }

    /// Finds what the types cannot: turns that say two things at once, or nothing.
    pub fn check(&self) -> Result<(), String> {
        if self.turns.is_empty() {
            return Err("a scenario needs at least one turn".to_owned());
        }
        for (at, turn) in self.turns.iter().enumerate() {
            turn.check()
                .map_err(|fault| format!("turn {}: {fault}", at + 1))?;
        }
        let played: u64 = self.turns.iter().map(|turn| u64::from(turn.times())).sum();
        if played > MOST_TURNS {
            return Err(format!(
                "{played} turns with their repetitions; at most {MOST_TURNS} can be played"
            ));
        }
        Ok(())
    }

    /// The turns in the order in which they are played, by their place in the list.
    pub fn order(&self) -> Vec<usize> {
        let turns = self.turns.iter().enumerate();
        turns
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
                "`content` stands for thinking, text and tools: use one or the other".to_owned(),
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
                "`error` comes before any words; what follows them is a `stream_error`".to_owned(),
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
