//! A program of the user's as a tool: whatever runs in a shell can be one, without a line of ours.
//!
//! What it says of itself stands beside it: `NAME.md` for the model, `NAME.json` for its input. With a schema it reads
//! its input as JSON and may answer in content blocks; without one it has a single argument, the words behind its
//! name. It is run as `bash` runs a command.

mod about;
mod help;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use ah_conversation::{
    Access, CommandLine, Content, Context, DisplayKey, Input, Output, SimpleCommand, Tool,
    ToolSpec, ToolUse, Truncation, split_words,
};
use ah_process::{Command, Keep};
use async_trait::async_trait;
use serde::Deserialize;
use serde_json::json;

use crate::bash::{Shell, to_end};
use crate::blocks::{Block, shown};
use crate::workspace::Workspace;
pub(crate) use about::About;
pub use help::HelpCache;

/// The tool.
pub struct Executable {
    spec: ToolSpec,
    /// What the shell is given, before the arguments.
    line: String,
    takes_json: bool,
    timeout: std::time::Duration,
    shell: Shell,
    workspace: Arc<Workspace>,
}

/// What an executable is and where it works.
pub(crate) struct Origin<'a> {
    /// The tool's name.
    pub(crate) name: &'a str,
    /// What is to be run.
    pub(crate) program: &'a Program,
    /// What runs it.
    pub(crate) shell: Shell,
    /// Where.
    pub(crate) workspace: Arc<Workspace>,
}

/// What is to be run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Program {
    /// A file.
    File(PathBuf),
    /// The beginning of a command line.
    Line(String),
}

impl Executable {
    pub(crate) fn new(origin: Origin<'_>, about: About) -> Self {
        let (line, shown) = match origin.program {
            Program::File(path) => (quoted(path), path.display().to_string()),
            Program::Line(line) => (line.clone(), line.clone()),
        };
        let takes_json = about.schema.is_some();
        let schema = about.schema.unwrap_or_else(|| {
            json!({
                "type": "object",
                "properties": {
                    "args": { "type": "string", "description": "Arguments, as on a command line" },
                },
            })
        });
        let description = about
            .description
            .unwrap_or_else(|| format!("Runs `{shown}` with the arguments that it is given."));
        Self {
            spec: ToolSpec {
                name: origin.name.to_owned(),
                description,
                input_schema: Arc::new(schema),
                guidance: about.guidance,
                truncation: Truncation {
                    bytes: 30_000,
                    lines: Some(256),
                },
                key: (!takes_json).then_some(DisplayKey::Text("args".to_owned())),
            },
            line,
            takes_json,
            timeout: about.timeout,
            shell: origin.shell,
            workspace: origin.workspace,
        }
    }

    /// The words behind the tool's name.
    fn arguments(&self, input: &Input) -> Vec<String> {
        let line = input.text("args").filter(|_| !self.takes_json);
        split_words(line.unwrap_or_default())
    }

    /// The call as rules and the log see it: the tool's name, and its arguments behind it.
    fn command(&self, input: &Input) -> SimpleCommand {
        let name = self.spec.name.clone();
        let words: Vec<_> = std::iter::once(name).chain(self.arguments(input)).collect();
        SimpleCommand {
            text: words.join(" "),
            reach: self.spec.name.len(),
            proposal: format!("{}:*", self.spec.name),
            words: words.into_iter().map(Some).collect(),
            ..SimpleCommand::default()
        }
    }
}

#[async_trait]
impl Tool for Executable {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn access(&self, input: &Input) -> Vec<Access> {
        let command = self.command(input);
        vec![Access::Command(CommandLine {
            line: command.text.clone(),
            harmless: false,
            commands: Some(vec![command]),
        })]
    }

    async fn run(&self, call: &ToolUse, context: &Context) -> Output {
        // Arguments are not a part of the line, so that whoever may call the tool may not run anything else.
        let line = format!("{} \"$@\"", self.line);
        let stdin = match self.takes_json {
            true => call.input.to_value().to_string().into_bytes(),
            false => Vec::new(),
        };
        let keep = Keep::new(context.spool.clone(), self.shell.output_cap);
        let mut child = Command {
            stdin,
            deadline: Some(self.timeout),
            ..self.shell.command(&line, self.workspace.cwd(), keep)
        };
        let words = std::iter::once(self.spec.name.clone()).chain(self.arguments(&call.input));
        child.arguments.extend(words.map(Into::into));
        let output = to_end(child, &self.command(&call.input).text).await;
        match self.takes_json {
            true => in_blocks(output),
            false => output,
        }
    }
}

/// An answer in content blocks, as a tool with a schema may write it.
#[derive(Deserialize)]
#[serde(untagged)]
enum Answer {
    Blocks(Vec<Block>),
    Whole {
        content: Vec<Block>,
        #[serde(default)]
        is_error: bool,
    },
}

/// The output with its content blocks, if these are what was written; else as it is.
fn in_blocks(output: Output) -> Output {
    let answer = match &output.content {
        Content::Bytes(bytes) => serde_json::from_slice(bytes).ok(),
        Content::Spool(_) | Content::Blocks(_) => None,
    };
    let (blocks, says_error) = match answer {
        Some(Answer::Blocks(blocks)) if !blocks.is_empty() => (blocks, false),
        Some(Answer::Whole { content, is_error }) => (content, is_error),
        _ => return output,
    };
    match shown(blocks) {
        Ok(blocks) => Output {
            content: Content::Blocks(blocks),
            is_error: output.is_error || says_error,
            details: output.details,
        },
        Err(fault) => Output::error(fault),
    }
}

/// A path as one word of a shell.
fn quoted(path: &Path) -> String {
    let path = path.to_string_lossy();
    format!("'{}'", path.replace('\'', r"'\''"))
}
