//! Stories: what happens in a session, made from a number and the same in every run.

use std::fmt;

use ah_conversation::Usage;
use ah_testkit::provider::script::format::ScriptedCall;
use ah_testkit::script::{Turn, hangs, says};
use serde_json::json;

use super::routes::Route;

/// Answers of the models after which a story ends.
const ANSWERS: usize = 50;
/// Tools that a session has from its beginning, by what their results are.
pub const TOOLS: [&str; 4] = ["read", "look", "fail", "steer"];
/// Text at which a run is interrupted.
pub const CUE: &str = "Interrupt me.";

/// What happens in a session.
pub struct Story {
    /// The models in the order of their numbers: those of the vendor, and one elsewhere.
    pub models: Vec<(&'static Route, &'static str)>,
    pub acts: Vec<Act>,
    /// Answers of the servers of the vendor and elsewhere, in order.
    pub answers: [Vec<Turn>; 2],
}

/// A thing that happens.
#[derive(Debug, Clone)]
pub enum Act {
    /// The user asks something, perhaps with a picture.
    Ask { text: String, picture: bool },
    /// A server offers one tool more.
    NewTool,
    /// The model of this number answers from now on.
    Model(usize),
    /// The process ends, and another goes on.
    Resume,
    /// The session goes on behind an earlier message: this part of a thousand of the way.
    Back(usize),
    /// A copy of the session goes on.
    Copy,
    /// The user wants a summary.
    Summary,
}

impl Story {
    pub fn new(number: u64, [route, elsewhere]: [&'static Route; 2]) -> Self {
        let mut models: Vec<_> = route.models.iter().map(|model| (route, *model)).collect();
        models.push((elsewhere, elsewhere.models[0]));
        let mut author = Author {
            random: Random(number),
            model: 0,
            elsewhere: models.len() - 1,
            tools: 0,
            story: Self {
                models,
                acts: Vec::new(),
                answers: Default::default(),
            },
        };
        while author.story.answers.iter().map(Vec::len).sum::<usize>() < ANSWERS {
            author.write();
        }
        author.story
    }
}

impl fmt::Display for Story {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (route, model) in &self.models {
            writeln!(f, "  model {}/{model}", route.preset.name)?;
        }
        self.acts
            .iter()
            .try_for_each(|act| writeln!(f, "  {act:?}"))
    }
}

/// Writes a story.
struct Author {
    random: Random,
    model: usize,
    /// Number of the model elsewhere.
    elsewhere: usize,
    /// Number of tools that were added.
    tools: usize,
    story: Story,
}

impl Author {
    /// Adds something that may happen between two questions, and a question.
    fn write(&mut self) {
        match self.random.below(12) {
            0 | 1 => {
                self.tools += 1;
                self.story.acts.push(Act::NewTool);
            }
            2 | 3 => {
                self.model = self.random.below(self.elsewhere + 1);
                self.story.acts.push(Act::Model(self.model));
            }
            4 => self.story.acts.push(Act::Resume),
            5 => self.story.acts.push(Act::Back(self.random.below(1_000))),
            6 => self.story.acts.push(Act::Copy),
            7 if matches!(self.story.acts.last(), Some(Act::Ask { .. })) => {
                self.story.acts.push(Act::Summary);
                self.answer(|number| says(&format!("Summary {number}.")));
            }
            _ => {}
        }
        let number = self.story.acts.len();
        self.story.acts.push(Act::Ask {
            text: format!("Question {number}."),
            picture: self.random.below(6) == 0,
        });
        for _ in 0..self.random.below(4) {
            let turn = self.calls();
            self.answer(|number| Turn {
                text: turn
                    .text
                    .as_ref()
                    .map(|_| format!("Looking {number}.").as_str().into()),
                thinking: { turn.thinking.as_ref() }
                    .map(|_| format!("Thought {number}.").as_str().into()),
                ..turn
            });
        }
        let is_cut = self.random.below(12) == 0;
        let thinks = self.random.below(2) == 0;
        self.answer(|number| match is_cut {
            true => hangs(&format!("{CUE} {number}")),
            false => Turn {
                thinking: thinks.then(|| format!("Thought {number}.").as_str().into()),
                ..says(&format!("Answer {number}."))
            },
        });
    }

    /// Adds an answer of the current model, made of its number.
    fn answer(&mut self, turn: impl FnOnce(usize) -> Turn) {
        let number = self.story.answers.iter().map(Vec::len).sum();
        let server = usize::from(self.model == self.elsewhere);
        self.story.answers[server].push(Turn {
            usage: Some(Usage {
                input_tokens: 1_000,
                output_tokens: 10,
                ..Usage::default()
            }),
            ..turn(number)
        });
    }

    /// Returns an answer with one to four calls.
    fn calls(&mut self) -> Turn {
        let calls = (0..=self.random.below(4)).map(|_| self.call());
        Turn {
            tools: calls.collect(),
            thinking: (self.random.below(3) > 0).then(|| "".into()),
            text: (self.random.below(2) == 0).then(|| "".into()),
            ..Turn::default()
        }
    }

    fn call(&mut self) -> ScriptedCall {
        let tool = self.random.below(TOOLS.len() + self.tools);
        let name = match TOOLS.get(tool) {
            Some(name) => (*name).to_owned(),
            None => served(tool - TOOLS.len()),
        };
        let path = json!({"path": format!("file {}", self.random.below(100))});
        let (name, input_json) = match self.random.below(20) {
            // Invented by the model.
            0 => ("not a tool".to_owned(), path.to_string()),
            // Broken off.
            1 => (name, r#"{"path": "#.to_owned()),
            2 => (name, String::new()),
            _ => (name, path.to_string()),
        };
        ScriptedCall {
            name,
            input_json: Some(input_json),
            ..ScriptedCall::default()
        }
    }
}

/// Returns the name of the tool that a server adds as number `number`.
pub fn served(number: usize) -> String {
    format!("mcp__late__tool_{number}")
}

/// Random numbers that follow from the first (`SplitMix64`).
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let limit = u64::try_from(limit).expect("small");
        usize::try_from((mixed ^ (mixed >> 31)) % limit).expect("below the limit")
    }
}
