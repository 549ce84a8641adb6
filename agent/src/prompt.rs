//! What a model is told before a conversation, layer by layer. Pure: the contents of files are arguments.
//!
//! [`SystemPrompt`] says which parts are the system prompt, and which are told before the first message.

mod present;

use ah_conversation::ToolSpec;

pub use present::{Fact, PromptSource, SystemPrompt};

/// Built-in base prompt.
pub const SYSTEM: &str = include_str!("prompt/system.md");
/// Built-in prompt for small models, in the place of both.
pub const SMALL: &str = include_str!("prompt/small.md");
/// Built-in instructions for working in a project.
pub const CONDUCT: &str = include_str!("prompt/claude.md");

/// Parts of a system prompt.
#[derive(Debug, Clone, Default)]
pub struct Prompt<'a> {
    /// Base: [`SYSTEM`], or its replacement.
    pub base: &'a str,
    /// Instructions for working in a project: [`CONDUCT`], or their replacement.
    pub conduct: &'a str,
    /// Text of the output style.
    pub style: &'a str,
    /// The tools of the session, for the guidance that some bring.
    pub tools: &'a [ToolSpec],
    /// Instruction files of the project, the most general first.
    pub project: &'a [ProjectFile],
    /// Date and environment of the session.
    pub context: PromptContext<'a>,
    /// Section on skills.
    pub skills: &'a str,
    /// File that must exist at the end.
    pub must_produce: Option<&'a str>,
    /// Command line that has to pass before the run ends.
    pub check: Option<&'a str>,
    /// Time limit of the run in seconds.
    pub timeout_seconds: Option<u64>,
    /// Text that the user wants appended.
    pub append: Option<&'a str>,
}

/// An instruction file for agents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProjectFile {
    /// Its path, as shown in the heading.
    pub label: String,
    /// Its text.
    pub text: String,
}

/// Date and environment of the session.
#[derive(Debug, Clone, Default)]
pub struct PromptContext<'a> {
    /// Date, `YYYY-MM-DD`; a time of day would spoil the prompt cache.
    pub date: &'a str,
    /// The working directory.
    pub cwd: &'a str,
    /// Current branch.
    pub branch: Option<&'a str>,
    /// Current commit, abbreviated.
    pub commit: Option<&'a str>,
    /// URL of the repository, without credentials.
    pub remote: Option<&'a str>,
    /// Limits of commands and tools; empty if unknown.
    pub sandbox: &'a str,
}

/// A part of a system prompt with its source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PromptPart {
    /// Source: a file, an option, or a word for built-in text.
    pub source: String,
    /// The text.
    pub text: String,
}

impl Prompt<'_> {
    /// Assembles the prompt as two blocks: what the program and the project say, and what the session and its options say.
    /// Empty layers are left out.
    pub fn assemble(&self) -> Vec<Vec<PromptPart>> {
        [self.lasting(), self.varying()]
            .into_iter()
            .filter(|block| !block.is_empty())
            .collect()
    }

    fn lasting(&self) -> Vec<PromptPart> {
        let mut parts = present([
            ("system.md", self.base),
            ("claude.md", self.conduct),
            ("output style", self.style),
        ]);
        for tool in self.tools {
            let guidance = tool.guidance.as_deref().unwrap_or_default().trim();
            if !guidance.is_empty() {
                let text = format!("# Tool {}\n\n{guidance}", tool.name);
                parts.extend(present([(&*format!("tool {}", tool.name), &*text)]));
            }
        }
        for file in self.project {
            let text = format!("# {}\n\n{}", file.label, file.text.trim());
            parts.extend(present([(file.label.as_str(), text.as_str())]));
        }
        parts
    }

    fn varying(&self) -> Vec<PromptPart> {
        let must_produce = self.must_produce.map(|file| {
            format!(
                "Before you finish, the file `{file}` must exist: producing it is part of the task."
            )
        });
        let check = self.check.map(about_check);
        let timeout = self
            .timeout_seconds
            .map(|seconds| format!("You have {seconds} seconds for the whole task."));
        present([
            ("environment", self.context.layer().as_str()),
            ("skills", self.skills),
            (
                "--must-produce",
                must_produce.as_deref().unwrap_or_default(),
            ),
            ("--until", check.as_deref().unwrap_or_default()),
            ("--timeout", timeout.as_deref().unwrap_or_default()),
            ("--append-system-prompt", self.append.unwrap_or_default()),
        ])
    }
}

/// Says that a run goes on until this command passes.
pub fn about_check(command: &str) -> String {
    format!(
        "When you end your turn, `{command}` is run on a copy of the project, and you are told if it does not pass. Do not change \
         what it is made of (tests, their configuration) unless the task says so: it has to pass with these files as they are now, \
         too."
    )
}

/// Returns the text of a block.
pub fn text(block: &[PromptPart]) -> String {
    let texts: Vec<_> = block.iter().map(|part| part.text.as_str()).collect();
    texts.join("\n\n")
}

/// Returns the non-empty parts.
fn present<const N: usize>(parts: [(&str, &str); N]) -> Vec<PromptPart> {
    let parts = parts.into_iter().map(|(source, text)| PromptPart {
        source: source.to_owned(),
        text: text.trim().to_owned(),
    });
    parts.filter(|part| !part.text.is_empty()).collect()
}

impl PromptContext<'_> {
    fn layer(&self) -> String {
        let lines = [
            ("Date", Some(self.date)),
            ("Working directory", Some(self.cwd)),
            ("Git branch", self.branch),
            ("Git commit", self.commit),
            ("Git remote", self.remote),
            ("Sandbox", Some(self.sandbox)),
        ];
        let known = lines
            .iter()
            .filter_map(|(name, value)| Some((name, value.filter(|value| !value.is_empty())?)));
        let lines: Vec<_> = known
            .map(|(name, value)| format!("{name}: {value}"))
            .collect();
        if lines.is_empty() {
            String::new()
        } else {
            format!("# Environment\n\n{}", lines.join("\n"))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use ah_conversation::Truncation;

    use super::*;

    fn tool(name: &str, guidance: Option<&str>) -> ToolSpec {
        ToolSpec {
            name: name.into(),
            description: String::new(),
            input_schema: Arc::default(),
            guidance: guidance.map(str::to_owned),
            truncation: Truncation::DEFAULT,
            key: None,
        }
    }

    #[test]
    fn layers_are_in_order_and_varying_ones_come_last() {
        let prompt = Prompt {
            base: "You are an agent.\n",
            conduct: "Work carefully.\n",
            style: "",
            tools: &[
                tool("bash", Some("Prefer short commands.")),
                tool("read", None),
            ],
            project: &[ProjectFile {
                label: "AGENTS.md".into(),
                text: "Use tabs.\n".into(),
            }],
            context: PromptContext {
                date: "2026-03-01",
                cwd: "/w",
                branch: Some("main"),
                commit: None,
                remote: None,
                sandbox: "none",
            },
            skills: "# Skills\n",
            must_produce: Some("plan.md"),
            check: None,
            timeout_seconds: Some(60),
            append: Some("Be brief."),
        };
        insta::assert_snapshot!(prompt.assemble().iter().map(|block| text(block)).collect::<Vec<_>>().join("\n=====\n"), @"
        You are an agent.

        Work carefully.

        # Tool bash

        Prefer short commands.

        # AGENTS.md

        Use tabs.
        =====
        # Environment

        Date: 2026-03-01
        Working directory: /w
        Git branch: main
        Sandbox: none

        # Skills

        Before you finish, the file `plan.md` must exist: producing it is part of the task.

        You have 60 seconds for the whole task.

        Be brief.
        ");
    }

    #[test]
    fn empty_layers_are_left_out() {
        let prompt = Prompt {
            base: "x",
            ..Prompt::default()
        };
        let part = PromptPart {
            source: "system.md".to_owned(),
            text: "x".to_owned(),
        };
        assert_eq!(prompt.assemble(), [[part]]);
        assert!(Prompt::default().assemble().is_empty());
    }
}
