//! Skills: instructions for special tasks, found by their description and read when needed.
//!
//! Parsing and presentation are here; files are read elsewhere and passed in as text.

mod tool;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ah_conversation::Layer;
use ah_conversation::front_matter::{self, FrontMatterError, WordList};
use serde::Deserialize;

use crate::commands::filled;

pub use tool::SkillTool;

/// File name of a skill in a folder of its own.
pub const FILE: &str = "SKILL.md";
/// Stands for the folder of the skill in its text.
const FOLDER: &str = "${CLAUDE_SKILL_DIR}";
/// Ends the text of a skill in a prompt.
const END: &str = "\n</skill>";
const MAX_NAME: usize = 64;
const MAX_DESCRIPTION: usize = 1_024;

/// A skill.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skill {
    /// Name.
    pub name: String,
    /// Description of its purpose.
    pub description: String,
    /// Its file.
    pub location: PathBuf,
    /// Text below the front matter.
    pub body: String,
    /// Source of the skill.
    pub layer: Layer,
    /// Calls allowed without asking, as rules.
    pub allowed_tools: Vec<String>,
    /// Whether it is listed for the model; otherwise only a person can call it.
    pub is_listed: bool,
    /// Whether a person can call it by name.
    pub is_command: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
struct SkillFields {
    name: Option<String>,
    description: Option<String>,
    allowed_tools: WordList,
    disable_model_invocation: bool,
    user_invocable: Option<bool>,
}

impl Skill {
    /// Parses the skill in the file `location`. Without a name in the front matter it is named after its file, or its
    /// folder.
    ///
    /// # Errors
    ///
    /// If the text is not a valid skill.
    pub fn parse(text: &str, location: &Path, layer: Layer) -> Result<Self, FrontMatterError> {
        let (front, body) = front_matter::read::<SkillFields>(text)?;
        let error = |message: String| FrontMatterError { line: 1, message };
        let name = front.name.unwrap_or_else(|| name_of(location));
        if !is_name(&name) {
            return Err(error(format!(
                "invalid skill name `{name}`: at most {MAX_NAME} lower-case letters, digits and `-` are allowed"
            )));
        }
        let description = front.description.unwrap_or_default();
        if description.trim().is_empty() {
            return Err(error(
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

    /// Returns the folder that relative paths refer to.
    pub fn base(&self) -> &Path {
        self.location.parent().unwrap_or(Path::new(""))
    }

    /// Returns the skill's own folder with its accompanying files, if it has one.
    pub fn folder(&self) -> Option<&Path> {
        let is_own = self.location.file_name().is_some_and(|name| name == FILE);
        is_own.then(|| self.base())
    }

    /// Returns the prompt that applies the skill to `arguments`.
    /// They are put into its placeholders, or follow it.
    pub fn prompt(&self, arguments: &str) -> String {
        let base = self.base().display();
        let body = self.body.replace(FOLDER, &base.to_string());
        let text = filled(&format!("{body}{END}"), arguments);
        let location = escaped(&self.location.to_string_lossy());
        format!(
            "<skill name=\"{}\" location=\"{location}\">\nPaths in this skill are relative to {base}.\n\n{text}",
            self.name,
        )
    }
}

/// All skills, by name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Skills {
    skills: BTreeMap<String, Arc<Skill>>,
}

impl Skills {
    /// Adds a skill; replaces one of the same name.
    pub fn add(&mut self, skill: Skill) {
        self.skills.insert(skill.name.clone(), Arc::new(skill));
    }

    /// Keeps only the skills for which `keeps` returns true.
    pub fn retain(&mut self, keeps: impl Fn(&Skill) -> bool) {
        self.skills.retain(|_, skill| keeps(skill));
    }

    /// Returns the skill of this name.
    pub fn get(&self, name: &str) -> Option<&Arc<Skill>> {
        self.skills.get(name)
    }

    /// Returns all skills, sorted by name.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Skill>> {
        self.skills.values()
    }

    /// Returns the section of the system prompt; empty without skills. `tool` is the tool that loads a skill; without
    /// it, the model reads the files.
    pub fn layer(&self, tool: Option<&str>) -> String {
        let mut listed = self.iter().filter(|skill| skill.is_listed).peekable();
        if listed.peek().is_none() {
            return String::new();
        }
        let how = match tool {
            Some(tool) => format!("load it with `{tool}`"),
            None => "read its file; paths in it are relative to its folder".to_owned(),
        };
        let mut layer = format!("# Skills\n\nBefore a task that fits one, {how}.\n");
        for skill in listed {
            let description = one_line(&skill.description);
            layer.push_str(&format!("\n- {}: {description}", skill.name));
            if tool.is_none() {
                layer.push_str(&format!(" ({})", skill.location.display()));
            }
        }
        layer
    }
}

/// Returns the default name for a skill in this file.
fn name_of(location: &Path) -> String {
    let is_in_folder = location.file_name().is_some_and(|name| name == FILE);
    let name = if is_in_folder {
        location.parent().and_then(Path::file_name)
    } else {
        location.file_stem()
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

/// Returns a text without line breaks, so that it cannot pass for another entry of the list.
fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Escapes text for use in an XML element or attribute.
pub fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

#[cfg(test)]
mod tests;
