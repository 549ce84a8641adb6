//! The system prompt as it is now: texts that last as long as the conversation, and facts that may change.
//!
//! What differs between the sessions of a machine is told before the first message: what is of the project, then what is of
//! the session alone. So the system prompt is the same for all of them, and a server that has read it, or what a project
//! says, need not read it again.

use std::fmt;
use std::sync::Arc;

use ah_conversation::Known;

use super::{PromptPart, text};

/// Names of the parts whose lines are told one by one, as `NAME: VALUE`.
const LISTS: [&str; 2] = ["environment", "skills"];
/// Names of the parts that the user's options set.
const OPTIONS: [&str; 3] = ["--system-prompt", "--append-system-prompt", "--agent"];
/// Names of the parts that are of a session alone.
const SESSION: [&str; 4] = ["environment", "--must-produce", "--until", "--timeout"];
/// Marks the opening, which no user has typed.
const MARKER: &str = "[CONTEXT]";
/// Names of the other parts that last as long as the conversation.
const LASTING: [&str; 4] = ["system.md", "claude.md", "tools", "built in"];

/// A system prompt, and which parts of it may change.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SystemPrompt {
    /// Its blocks, in order.
    pub system: Arc<[String]>,
    /// What is told before the first message, text by text.
    pub opening: Vec<String>,
    /// The parts that may change while the conversation lasts.
    pub facts: Vec<Fact>,
    /// Digest of the texts that the user's options set; `None` if there are none.
    pub options: Option<String>,
}

/// A part of the system prompt that may change while the conversation lasts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fact {
    /// Its source, as shown by `ah prompt`.
    pub name: String,
    /// Its text.
    pub text: String,
    /// Whether the beginning does not say it, so that a message has to.
    pub is_apart: bool,
}

/// Source of a session's system prompt, asked at the beginning of each run.
#[derive(Clone)]
pub struct PromptSource(Arc<dyn Fn() -> SystemPrompt + Send + Sync>);

impl PromptSource {
    /// Returns a source that calls `prompt`.
    pub fn new(prompt: impl Fn() -> SystemPrompt + Send + Sync + 'static) -> Self {
        Self(Arc::new(prompt))
    }

    /// Returns the prompt as it is now.
    pub fn now(&self) -> SystemPrompt {
        (self.0)()
    }
}

impl fmt::Debug for PromptSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PromptSource")
    }
}

impl Default for PromptSource {
    fn default() -> Self {
        Self::from(SystemPrompt::default())
    }
}

impl From<SystemPrompt> for PromptSource {
    /// Returns a source whose prompt never changes.
    fn from(prompt: SystemPrompt) -> Self {
        Self::new(move || prompt.clone())
    }
}

impl From<Vec<String>> for PromptSource {
    /// Returns a source of these blocks, without facts.
    fn from(blocks: Vec<String>) -> Self {
        Self::from(SystemPrompt {
            system: blocks.into(),
            ..SystemPrompt::default()
        })
    }
}

impl SystemPrompt {
    /// Returns the prompt of these blocks, without the parts that are told before the first message.
    pub fn of(blocks: &[Vec<PromptPart>]) -> Self {
        let parts = || blocks.iter().flatten();
        let system = blocks.iter().map(|block| {
            let parts = block.iter().filter(|part| !part.is_of_opening()).cloned();
            text(&parts.collect::<Vec<_>>())
        });
        let opening = [false, true].map(|is_of_session| {
            let parts = parts().filter(|part| {
                part.is_of_opening() && SESSION.contains(&part.source.as_str()) == is_of_session
            });
            text(&parts.cloned().collect::<Vec<_>>())
        });
        let options: Vec<_> = parts()
            .filter(|part| OPTIONS.contains(&part.source.as_str()))
            .map(|part| part.text.as_str())
            .collect();
        Self {
            system: system.filter(|text| !text.is_empty()).collect(),
            opening: { opening.iter() }
                .filter(|text| !text.is_empty())
                .map(|text| format!("{MARKER}\n{text}"))
                .collect(),
            facts: parts()
                .filter(|part| !part.is_lasting())
                .map(|part| Fact {
                    name: part.source.clone(),
                    text: part.text.clone(),
                    is_apart: false,
                })
                .collect(),
            options: (!options.is_empty()).then(|| digest(&options.join("\n\n"))),
        }
    }
}

impl PromptPart {
    /// Whether it is told before the first message, and not in the system prompt.
    pub fn is_of_opening(&self) -> bool {
        !self.is_lasting() || SESSION.contains(&self.source.as_str())
    }

    /// Whether it stays as it is while the conversation lasts. All other parts are facts.
    fn is_lasting(&self) -> bool {
        let source = self.source.as_str();
        LASTING.contains(&source) || OPTIONS.contains(&source) || source.starts_with("tool ")
    }
}

impl Fact {
    /// Returns the state of the part once it is told.
    pub(crate) fn known(&self) -> Known {
        let value = if LISTS.contains(&self.name.as_str()) {
            self.text.clone()
        } else {
            digest(&self.text)
        };
        Known {
            name: self.name.clone(),
            value,
        }
    }

    /// Returns the words that tell the part, of which the model knows the state `told`; empty if none.
    pub(crate) fn change(&self, told: &str) -> String {
        if !LISTS.contains(&self.name.as_str()) || told.is_empty() {
            return self.text.clone();
        }
        let key = |line: &str| line.split(": ").next().unwrap_or_default().to_owned();
        let keys: Vec<_> = self.text.lines().map(key).collect();
        let changed = self
            .text
            .lines()
            .filter(|line| !told.lines().any(|known| known == *line));
        let gone = told.lines().map(key).filter(|known| !keys.contains(known));
        let changed = changed.map(str::to_owned);
        changed
            .chain(gone.map(|name| format!("{name}: none")))
            .filter(|line| !line.is_empty())
            .collect::<Vec<_>>()
            .join("\n")
    }
}

/// Returns a short text that differs for different texts (FNV-1a and the length). It is stored, so it must not depend on
/// the version of the compiler as the standard hasher may.
fn digest(text: &str) -> String {
    let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("{hash:016x}-{}", text.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_lines_of_the_environment_that_differ_are_told() {
        let fact = |name: &str, text: &str| Fact {
            name: name.to_owned(),
            text: text.to_owned(),
            is_apart: false,
        };
        let before = "# Environment\n\nDate: 2026-03-01\nGit branch: main\nGit commit: a";
        for (now, expected) in [
            (
                "# Environment\n\nDate: 2026-03-01\nGit branch: main\nGit commit: b",
                "Git commit: b",
            ),
            (
                "# Environment\n\nDate: 2026-03-02\nGit commit: a",
                "Date: 2026-03-02\nGit branch: none",
            ),
            (before, ""),
        ] {
            assert_eq!(fact("environment", now).change(before), expected);
        }
        assert_eq!(fact("AGENTS.md", "Use tabs.").change("1-2"), "Use tabs.");
    }

    #[test]
    fn options_last_and_everything_unknown_may_change() {
        let part = |source: &str| PromptPart {
            source: source.to_owned(),
            text: format!("text of {source}"),
        };
        let blocks = [
            vec![part("system.md"), part("tool bash"), part("AGENTS.md")],
            vec![
                part("environment"),
                part("skills"),
                part("--append-system-prompt"),
            ],
        ];
        let prompt = SystemPrompt::of(&blocks);
        let names: Vec<_> = prompt.facts.iter().map(|fact| fact.name.as_str()).collect();
        assert_eq!(names, ["AGENTS.md", "environment", "skills"]);
        assert!(prompt.options.is_some());
        assert_eq!(SystemPrompt::of(&blocks[..1]).options, None);
        let system = [
            "text of system.md\n\ntext of tool bash",
            "text of --append-system-prompt",
        ];
        assert_eq!(*prompt.system, system);
        let opening = [
            "[CONTEXT]\ntext of AGENTS.md\n\ntext of skills",
            "[CONTEXT]\ntext of environment",
        ];
        assert_eq!(prompt.opening, opening);
    }
}
