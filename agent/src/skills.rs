//! Skills: texts that tell the model how something is done, found by their description and read when they are needed.
//!
//! What they say and how they are shown is decided here; files are read elsewhere, and come in as text.

mod tool;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ah_conversation::Layer;
use ah_conversation::front_matter::{self, FrontMatterError, WordList};
use serde::Deserialize;

pub use tool::SkillTool;

/// The file of a skill that has a folder of its own.
pub const FILE: &str = "SKILL.md";
const MAX_NAME: usize = 64;
const MAX_DESCRIPTION: usize = 1_024;

/// A skill.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skill {
    /// What it is called by.
    pub name: String,
    /// What it is for.
    pub description: String,
    /// Its file.
    pub location: PathBuf,
    /// The text below the front matter.
    pub body: String,
    /// Where it comes from.
    pub layer: Layer,
    /// Calls that it may make without asking, as rules.
    pub allowed_tools: Vec<String>,
    /// Whether the model is told of it; else only a person calls it.
    pub is_listed: bool,
    /// Whether a person can call it by name.
    pub is_command: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
struct Front {
    name: Option<String>,
    description: Option<String>,
    allowed_tools: WordList,
    disable_model_invocation: bool,
    user_invocable: Option<bool>,
}

impl Skill {
    /// Reads the skill in the file `location`. Without a name in its front matter it has that of its file, or of its
    /// folder.
    ///
    /// # Errors
    ///
    /// Where the text is no skill.
    pub fn parse(text: &str, location: &Path, layer: Layer) -> Result<Self, FrontMatterError> {
        let (front, body) = front_matter::read::<Front>(text)?;
        let fault = |message: String| FrontMatterError { line: 1, message };
        let name = front.name.unwrap_or_else(|| name_of(location));
        if !is_name(&name) {
            return Err(fault(format!(
                "`{name}` is no name for a skill: up to {MAX_NAME} lower-case letters, digits and `-` are"
            )));
        }
        let description = front.description.unwrap_or_default();
        if description.trim().is_empty() {
            return Err(fault(
                "a skill needs a `description` in its front matter".to_owned(),
            ));
        }
        Ok(Self {
            name,
            description: cut(description.trim(), MAX_DESCRIPTION).to_owned(),
            location: location.to_owned(),
            body: body.trim().to_owned(),
            layer,
            allowed_tools: front.allowed_tools.0,
            is_listed: !front.disable_model_invocation,
            is_command: front.user_invocable.unwrap_or(true),
        })
    }

    /// The folder that relative paths in it begin at.
    pub fn base(&self) -> &Path {
        self.location.parent().unwrap_or(Path::new(""))
    }

    /// The folder that is its own, where it has one: what it brings along lies there.
    pub fn folder(&self) -> Option<&Path> {
        let is_own = self.location.file_name().is_some_and(|name| name == FILE);
        is_own.then(|| self.base())
    }

    /// The prompt that uses the skill for what `arguments` say.
    pub fn prompt(&self, arguments: &str) -> String {
        let arguments = match arguments.trim() {
            "" => String::new(),
            arguments => format!("\n\n{arguments}"),
        };
        format!(
            "<skill name=\"{}\" location=\"{}\">\nPaths in this skill are relative to {}.\n\n{}\n</skill>{arguments}",
            self.name,
            escaped(&self.location.to_string_lossy()),
            self.base().display(),
            self.body
        )
    }
}

/// All skills, each under its name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Skills {
    skills: BTreeMap<String, Arc<Skill>>,
}

impl Skills {
    /// Adds a skill in the place of one that had its name.
    pub fn add(&mut self, skill: Skill) {
        self.skills.insert(skill.name.clone(), Arc::new(skill));
    }

    /// Leaves those that `keeps` says.
    pub fn retain(&mut self, keeps: impl Fn(&Skill) -> bool) {
        self.skills.retain(|_, skill| keeps(skill));
    }

    /// The skill of this name.
    pub fn get(&self, name: &str) -> Option<&Arc<Skill>> {
        self.skills.get(name)
    }

    /// All of them, by name.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Skill>> {
        self.skills.values()
    }

    /// What the system prompt says of them; nothing, if there is none.
    pub fn layer(&self) -> String {
        let mut listed = self.iter().filter(|skill| skill.is_listed).peekable();
        if listed.peek().is_none() {
            return String::new();
        }
        let mut layer = "# Skills\n\n\
            Instructions for special tasks. When a task is what a description speaks of, read the file at its location \
            before you begin. Paths in it are relative to its folder.\n\n<available_skills>\n"
            .to_owned();
        for skill in listed {
            layer.push_str(&format!(
                "<skill>\n<name>{}</name>\n<description>{}</description>\n<location>{}</location>\n</skill>\n",
                skill.name,
                escaped(&skill.description),
                escaped(&skill.location.to_string_lossy())
            ));
        }
        layer.push_str("</available_skills>");
        layer
    }
}

/// The name that a file gives to a skill without one.
fn name_of(location: &Path) -> String {
    let is_in_folder = location.file_name().is_some_and(|name| name == FILE);
    let name = match is_in_folder {
        true => location.parent().and_then(Path::file_name),
        false => location.file_stem(),
    };
    name.unwrap_or_default().to_string_lossy().into_owned()
}

fn is_name(name: &str) -> bool {
    let is_known = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    (1..=MAX_NAME).contains(&name.len()) && name.chars().all(is_known)
}

fn cut(text: &str, characters: usize) -> &str {
    match text.char_indices().nth(characters) {
        Some((end, _)) => &text[..end],
        None => text,
    }
}

/// Text that cannot end the element that it stands in, nor the attribute.
pub fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

#[cfg(test)]
mod tests;
