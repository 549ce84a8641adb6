//! Slash commands: prompts in files, called by `/name`, with placeholders for arguments.
//!
//! A template is parsed before arguments are inserted, so that text from a user or a program is never taken for a
//! placeholder. Commands and files that a template refers to are run and read elsewhere.

mod template;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ah_conversation::Layer;
use ah_conversation::front_matter::{self, FrontMatterError, WordList};
use serde::Deserialize;

pub(crate) use template::filled;
pub use template::{Numbering, Piece, pieces};

/// A slash command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlashCommand {
    /// Name without the `/`; folders are joined to it with `:`.
    pub name: String,
    /// Description for lists.
    pub description: String,
    /// Hint on its arguments for lists.
    pub argument_hint: Option<String>,
    /// Calls allowed without asking, as rules.
    pub allowed_tools: Vec<String>,
    /// Model to use.
    pub model: Option<String>,
    /// Text below the front matter.
    pub body: String,
    /// Its file.
    pub location: PathBuf,
    /// Source of the command.
    pub layer: Layer,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
struct CommandFields {
    description: Option<String>,
    argument_hint: Option<Hint>,
    allowed_tools: WordList,
    model: Option<String>,
}

/// `[issue]`, as people write it, is a YAML list.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Hint {
    Text(String),
    List(Vec<String>),
}

impl SlashCommand {
    /// Parses the command in the file `location`, which is at `path` below a folder of commands.
    ///
    /// # Errors
    ///
    /// If the front matter or the name is not valid.
    pub fn parse(
        text: &str,
        path: &Path,
        location: &Path,
        layer: Layer,
    ) -> Result<Self, FrontMatterError> {
        let (front, body) = front_matter::read::<CommandFields>(text)?;
        let name = path
            .with_extension("")
            .iter()
            .map(|part| part.to_string_lossy())
            .collect::<Vec<_>>()
            .join(":");
        if !is_name(&name) {
            return Err(FrontMatterError {
                line: 1,
                message: format!(
                    "invalid command name `{name}`: only letters, digits, `-` and `_` are allowed"
                ),
            });
        }
        let mut lines = body.lines().map(str::trim);
        let first = lines.find(|line| !line.is_empty()).unwrap_or_default();
        let hint = |hint| match hint {
            Hint::Text(text) => text,
            Hint::List(words) => format!("[{}]", words.join(", ")),
        };
        Ok(Self {
            name,
            description: front
                .description
                .unwrap_or_else(|| first.trim_start_matches('#').trim().to_owned()),
            argument_hint: front.argument_hint.map(hint),
            allowed_tools: front.allowed_tools.0,
            model: front.model.filter(|model| model != "inherit"),
            body: body.trim().to_owned(),
            location: location.to_owned(),
            layer,
        })
    }
}

/// All slash commands, by name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SlashCommands {
    commands: BTreeMap<String, Arc<SlashCommand>>,
}

impl SlashCommands {
    /// Adds a command; replaces one of the same name.
    pub fn add(&mut self, command: SlashCommand) {
        let command = Arc::new(command);
        self.commands.insert(command.name.clone(), command);
    }

    /// Returns the command of this name; its folders may be left out if the rest is unambiguous.
    pub fn get(&self, name: &str) -> Option<&Arc<SlashCommand>> {
        let ending = format!(":{name}");
        let is_meant = |command: &&Arc<SlashCommand>| command.name.ends_with(&ending);
        self.commands.get(name).or_else(|| {
            let mut meant = self.commands.values().filter(is_meant);
            meant.next().filter(|_| meant.next().is_none())
        })
    }

    /// Returns all commands, sorted by name.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<SlashCommand>> {
        self.commands.values()
    }
}

/// Splits a prompt that calls something by name into the name and the arguments.
pub fn call(prompt: &str) -> Option<(&str, &str)> {
    let rest = prompt.trim_start().strip_prefix('/')?;
    let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
    let (name, arguments) = rest.split_at(end);
    is_name(name).then_some((name, arguments.trim()))
}

fn is_name(name: &str) -> bool {
    let is_known = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    name.split(':')
        .all(|part| !part.is_empty() && part.chars().all(is_known))
}

#[cfg(test)]
mod tests;
