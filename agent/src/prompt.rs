//! The system prompt, layer by layer. Pure: the contents of files come in.
//!
//! What changes least stands first and what changes most last, so that the prompt cache of one session serves the
//! next.

use std::fmt::Write;

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
    pub context: Context<'a>,
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
pub struct Context<'a> {
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

impl Prompt<'_> {
    /// The prompt in two parts: what is the same in every session of a project, and what varies. Empty layers leave
    /// no trace.
    pub fn assemble(&self) -> Vec<String> {
        let lasting = join([
            self.base.trim().to_owned(),
            self.conduct.trim().to_owned(),
            self.tool_layer(),
            self.project_layer(),
        ]);
        let varying = join([
            self.context.layer(),
            self.demands(),
            self.append.unwrap_or_default().trim().to_owned(),
        ]);
        [lasting, varying]
            .into_iter()
            .filter(|part| !part.is_empty())
            .collect()
    }

    fn tool_layer(&self) -> String {
        if self.tools.is_empty() {
            return String::new();
        }
        let names: Vec<_> = self.tools.iter().map(|tool| tool.name.as_str()).collect();
        let mut layer = format!("# Tools\n\nTools: {}.", names.join(", "));
        for tool in self.tools {
            if let Some(guidance) = &tool.guidance {
                let _ = write!(layer, "\n\n## {}\n\n{}", tool.name, guidance.trim());
            }
        }
        layer
    }

    fn project_layer(&self) -> String {
        let sections = self
            .project
            .iter()
            .map(|file| format!("# {}\n\n{}", file.label, file.text.trim()));
        sections.collect::<Vec<_>>().join("\n\n")
    }

    fn demands(&self) -> String {
        let mut demands = String::new();
        if let Some(file) = self.must_produce {
            let _ = writeln!(
                demands,
                "Before you finish, the file `{file}` must exist: producing it is part of the task."
            );
        }
        if let Some(seconds) = self.timeout_seconds {
            let _ = writeln!(demands, "You have {seconds} seconds for the whole task.");
        }
        demands.trim_end().to_owned()
    }
}

impl Context<'_> {
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

fn join<const N: usize>(layers: [String; N]) -> String {
    layers
        .into_iter()
        .filter(|layer| !layer.is_empty())
        .collect::<Vec<_>>()
        .join("\n\n")
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
            context: Context {
                date: "2026-03-01",
                cwd: "/w",
                branch: Some("main"),
                commit: None,
                remote: None,
            },
            must_produce: Some("plan.md"),
            timeout_seconds: Some(60),
            append: Some("Be brief."),
        };
        insta::assert_snapshot!(prompt.assemble().join("\n=====\n"), @"
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

        Before you finish, the file `plan.md` must exist: producing it is part of the task.
        You have 60 seconds for the whole task.

        Be brief.
        ");
    }

    #[test]
    fn empty_layers_leave_no_trace() {
        assert_eq!(
            Prompt {
                base: "x",
                ..Prompt::default()
            }
            .assemble(),
            ["x"]
        );
        assert!(Prompt::default().assemble().is_empty());
    }
}
