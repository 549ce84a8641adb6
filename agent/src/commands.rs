//! Commands: prompts in files, called by `/name`, with places for what stands behind the name.
//!
//! A template is taken apart before anything is put into it, so that what a user, or a program, writes behind a name is
//! never itself a place. Commands and files that a template asks for are run and read elsewhere.

mod template;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ah_conversation::Layer;
use ah_conversation::front_matter::{self, FrontMatterError, WordList};
use serde::Deserialize;

pub use template::{Piece, pieces};

/// A command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlashCommand {
    /// What it is called by, without the `/`; folders stand before it, with `:` between.
    pub name: String,
    /// What it does, for lists.
    pub description: String,
    /// What may stand behind it, for lists.
    pub argument_hint: Option<String>,
    /// Calls that it may make without asking, as rules.
    pub allowed_tools: Vec<String>,
    /// The model that is asked.
    pub model: Option<String>,
    /// The text below the front matter.
    pub body: String,
    /// Its file.
    pub location: PathBuf,
    /// Where it comes from.
    pub layer: Layer,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
struct Front {
    description: Option<String>,
    argument_hint: Option<Hint>,
    allowed_tools: WordList,
    model: Option<String>,
}

/// People write `[issue]`, which is a list.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Hint {
    Text(String),
    List(Vec<String>),
}

impl SlashCommand {
    /// Reads the command in the file `location`, which lies at `path` below a folder of commands.
    ///
    /// # Errors
    ///
    /// Where the text or its name is no command.
    pub fn parse(
        text: &str,
        path: &Path,
        location: &Path,
        layer: Layer,
    ) -> Result<Self, FrontMatterError> {
        let (front, body) = front_matter::read::<Front>(text)?;
        let parts = path.with_extension("");
        let parts = parts.iter().map(|part| part.to_string_lossy());
        let name = parts.collect::<Vec<_>>().join(":");
        if !is_name(&name) {
            return Err(FrontMatterError {
                line: 1,
                message: format!(
                    "`{name}` is no name for a command: letters, digits, `-` and `_` are"
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

/// All commands, each under its name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SlashCommands {
    commands: BTreeMap<String, Arc<SlashCommand>>,
}

impl SlashCommands {
    /// Adds a command in the place of one that had its name.
    pub fn add(&mut self, command: SlashCommand) {
        let command = Arc::new(command);
        self.commands.insert(command.name.clone(), command);
    }

    /// The command of this name; its folders may be left out where only one ends so.
    pub fn get(&self, name: &str) -> Option<&Arc<SlashCommand>> {
        let ending = format!(":{name}");
        let is_meant = |command: &&Arc<SlashCommand>| command.name.ends_with(&ending);
        self.commands.get(name).or_else(|| {
            let mut meant = self.commands.values().filter(is_meant);
            meant.next().filter(|_| meant.next().is_none())
        })
    }

    /// All of them, by name.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<SlashCommand>> {
        self.commands.values()
    }
}

/// A prompt that calls something by name: the name, and what stands behind it.
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
