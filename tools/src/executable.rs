//! Programs of the user as tools.
//!
//! Beside a program, `NAME.md` describes it for the model and `NAME.json` is the schema of its input. With a schema it
//! reads its input as JSON and may answer in content blocks; without one it has a single argument, `args`, with the words
//! of its command line. It is run as `bash` runs a command.

mod about;
mod help;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use ah_conversation::{
    Access, CommandLine, Content, Context, DisplayKey, Input, Output, SimpleCommand, Tool,
    ToolExtras, ToolSpec, ToolUse, Truncation, json, split_words,
};
use ah_process::{Behind, Command, Keep, ShellLine};
use async_trait::async_trait;
use serde::Deserialize;
use serde_json::json;

use crate::bash::{Shell, to_end};
use crate::blocks::{self, Block};
use crate::withheld;
use crate::workspace::Workspace;
pub(crate) use about::About;
pub use help::HelpCache;

/// A program as a tool.
pub struct Executable {
    spec: ToolSpec,
    /// Shell command, without the arguments.
    line: String,
    takes_json: bool,
    timeout: std::time::Duration,
    shell: Shell,
    workspace: Arc<Workspace>,
}

/// Program and environment of an [`Executable`].
pub(crate) struct ExecutableSource<'a> {
    /// The tool's name.
    pub(crate) name: &'a str,
    /// The program.
    pub(crate) program: &'a Program,
    /// Shell that runs it.
    pub(crate) shell: Shell,
    /// Its workspace.
    pub(crate) workspace: Arc<Workspace>,
}

/// The program of a tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Program {
    /// A file.
    File(PathBuf),
    /// The start of a shell command.
    Line(String),
}

impl Executable {
    pub(crate) fn new(source: ExecutableSource<'_>, about: About) -> Self {
        let (line, shown) = match source.program {
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
                name: source.name.to_owned(),
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
            shell: source.shell,
            workspace: source.workspace,
        }
    }

    /// Returns the words of `args`.
    fn arguments(&self, input: &Input) -> Vec<String> {
        let line = input.text("args").filter(|_| !self.takes_json);
        split_words(line.unwrap_or_default())
    }

    /// Returns the call as permission rules and the log see it: the tool's name with its arguments.
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
            looks: false,
            commands: Some(vec![command]),
        })]
    }

    fn extras(&self) -> ToolExtras<'_> {
        ToolExtras::default()
    }

    async fn run(&self, call: &ToolUse, context: &Context) -> Output {
        // The arguments are no part of the shell command, so that a call cannot run anything else.
        let line = format!("{} \"$@\"", self.line);
        let behind = match self.takes_json {
            true => Behind::Input,
            false => Behind::Nothing,
        };
        let mut line = ShellLine::new(&self.shell.program, &line, behind);
        if self.takes_json {
            let input = call.input.to_value().to_string();
            line.stdin.extend(input.into_bytes());
        }
        let mut keep = Keep::new(context.spool.clone(), self.shell.output_cap);
        // JSON is for the program.
        if !self.takes_json {
            keep = keep.followed_by(context.output.clone());
        }
        let mut child = Command {
            deadline: Some(self.timeout),
            ..self
                .shell
                .command(line, self.workspace.cwd(), keep, &context.variables)
        };
        let words = std::iter::once(self.spec.name.clone()).chain(self.arguments(&call.input));
        child.arguments.extend(words.map(Into::into));
        let child = withheld::kept_from(child, &context.denied);
        let output = to_end(child, &self.command(&call.input).text).await;
        if self.takes_json {
            in_blocks(output)
        } else {
            output
        }
    }
}

/// Output in content blocks, as a program with a schema may write it.
#[derive(Deserialize)]
#[serde(untagged)]
enum BlockOutput {
    Blocks(Vec<Block>),
    Whole {
        content: Vec<Block>,
        #[serde(default)]
        is_error: bool,
    },
}

/// Converts an output that consists of content blocks; any other stays as it is.
fn in_blocks(output: Output) -> Output {
    let answer = match &output.content {
        Content::Bytes(bytes) => json::from_slice(bytes).ok(),
        Content::Spool(_) | Content::Blocks(_) => None,
    };
    let (blocks, says_error) = match answer {
        Some(BlockOutput::Blocks(blocks)) if !blocks.is_empty() => (blocks, false),
        Some(BlockOutput::Whole { content, is_error }) => (content, is_error),
        _ => return output,
    };
    match blocks::shown(blocks) {
        Ok(blocks) => Output {
            content: Content::Blocks(blocks),
            is_error: output.is_error || says_error,
            details: output.details,
        },
        Err(error) => Output::error(error),
    }
}

/// Quotes a path for the shell.
fn quoted(path: &Path) -> String {
    let path = path.to_string_lossy();
    format!("'{}'", path.replace('\'', r"'\''"))
}
