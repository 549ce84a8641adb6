//! The system prompt, layer by layer. Pure: the contents of files come in.
//!
//! What changes least stands first and what changes most last, so that the prompt cache of one session serves the
//! next.

use ah_conversation::ToolSpec;

/// The base of the prompt, as built in.
pub const SYSTEM: &str = include_str!("prompt/system.md");
/// How to work in a project, as built in.
pub const CONDUCT: &str = include_str!("prompt/claude.md");

/// What a system prompt is made of.
#[derive(Debug, Clone, Default)]
pub struct Prompt<'a> {
    /// The base: [`SYSTEM`], or what takes its place.
    pub base: &'a str,
    /// How to work in a project: [`CONDUCT`], or what takes its place.
    pub conduct: &'a str,
    /// The tools of the session.
    pub tools: &'a [ToolSpec],
    /// The project's own instructions, the most general first.
    pub project: &'a [ProjectFile],
    /// Where and when the session runs.
    pub context: PromptContext<'a>,
    /// What there is to be said of skills.
    pub skills: &'a str,
    /// A file that must exist in the end.
    pub must_produce: Option<&'a str>,
    /// Seconds that the run may take.
    pub timeout_seconds: Option<u64>,
    /// Whatever the user wants said last.
    pub append: Option<&'a str>,
}

/// A file with instructions for agents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProjectFile {
    /// Where it was found, as the heading shows it.
    pub label: String,
    /// What it says.
    pub text: String,
}

/// Where and when the session runs.
#[derive(Debug, Clone, Default)]
pub struct PromptContext<'a> {
    /// The day, `YYYY-MM-DD`: no time of day, which would spoil the cache.
    pub date: &'a str,
    /// The working directory.
    pub cwd: &'a str,
    /// The branch that is checked out.
    pub branch: Option<&'a str>,
    /// The commit that is checked out, abbreviated.
    pub commit: Option<&'a str>,
    /// Where the repository comes from, without credentials.
    pub remote: Option<&'a str>,
}

/// A part of a system prompt and where it comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PromptPart {
    /// Where it comes from: a file, an option, or a word for what the program says by itself.
    pub source: String,
    /// What it says.
    pub text: String,
}

impl Prompt<'_> {
    /// The prompt in two blocks: what is the same in every session of a project, and what varies. Empty layers leave
    /// no trace.
    pub fn assemble(&self) -> Vec<Vec<PromptPart>> {
        [self.lasting(), self.varying()]
            .into_iter()
            .filter(|block| !block.is_empty())
            .collect()
    }

    fn lasting(&self) -> Vec<PromptPart> {
        let mut parts = present([("system.md", self.base), ("claude.md", self.conduct)]);
        if !self.tools.is_empty() {
            let names: Vec<_> = self.tools.iter().map(|tool| tool.name.as_str()).collect();
            let text = format!("# Tools\n\nTools: {}.", names.join(", "));
            parts.extend(present([("tools", text.as_str())]));
        }
        for tool in self.tools {
            let guidance = tool.guidance.as_deref().unwrap_or_default().trim();
            if !guidance.is_empty() {
                let text = format!("## {}\n\n{guidance}", tool.name);
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
            ("--timeout", timeout.as_deref().unwrap_or_default()),
            ("--append-system-prompt", self.append.unwrap_or_default()),
        ])
    }
}

/// What a block says.
pub fn text(block: &[PromptPart]) -> String {
    let texts: Vec<_> = block.iter().map(|part| part.text.as_str()).collect();
    texts.join("\n\n")
}

/// Those of the parts that say something.
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
    fn layers_stand_in_order_and_what_varies_comes_last() {
        let prompt = Prompt {
            base: "You are an agent.\n",
            conduct: "Work carefully.\n",
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
            },
            skills: "# Skills\n",
            must_produce: Some("plan.md"),
            timeout_seconds: Some(60),
            append: Some("Be brief."),
        };
        insta::assert_snapshot!(prompt.assemble().iter().map(|block| text(block)).collect::<Vec<_>>().join("\n=====\n"), @"
        You are an agent.

        Work carefully.

        # Tools

        Tools: bash, read.

        ## bash

        Prefer short commands.

        # AGENTS.md

        Use tabs.
        =====
        # Environment

        Date: 2026-03-01
        Working directory: /w
        Git branch: main

        # Skills

        Before you finish, the file `plan.md` must exist: producing it is part of the task.

        You have 60 seconds for the whole task.

        Be brief.
        ");
    }

    #[test]
    fn empty_layers_leave_no_trace() {
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
