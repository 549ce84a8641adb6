//! Finds and reads the files of skills, commands and subagents in all layers. `ah-agent` interprets them.

mod agent_servers;
mod agents;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::config::Config;
use crate::found_file;
use crate::layers::Sources;
use crate::places::LayerFolder;
use crate::plugin::Plugin;
use crate::trust::Trust;
pub use agent_servers::{granted_agent_servers, open_agent_servers};
pub use agents::agents;
use ah_agent::commands::{SlashCommand, SlashCommands};
use ah_agent::skills::{self, Skill, Skills};
use ah_agent::styles::OutputStyle;
use ah_conversation::{Embedded, Interface, Layer};

/// The folders of a layer or skill whose programs are tools; later ones take precedence.
pub const TOOL_FOLDERS: [&str; 2] = ["tools", "bin"];

/// Maximum depth of nested command folders.
const MAX_DEPTH: usize = 4;

/// A text file of a layer.
struct TextFile {
    layer: Layer,
    /// The plugin that it is from; prefix of its name.
    plugin: Option<String>,
    location: PathBuf,
    /// Path relative to the folder that was searched.
    path: PathBuf,
    text: String,
}

/// Returns the skills of all layers, and one-line warnings about invalid ones.
pub fn skills(config: &Config) -> (Skills, Vec<String>) {
    let mut skills = Skills::default();
    let mut warnings = Vec::new();
    for file in texts(config, "skills", 2, &mut warnings) {
        // A folder is a skill; all other files in it belong to it.
        let is_in_folder = file.path.iter().count() > 1;
        if is_in_folder && !file.path.ends_with(skills::FILE) {
            continue;
        }
        match Skill::parse(&file.text, &file.location, file.layer) {
            Ok(skill) => {
                let plugin = config.plugin_with(&file.location);
                skills.add(Skill {
                    name: file.named(&skill.name),
                    body: Plugin::placed(skill.body, plugin),
                    ..skill
                });
            }
            Err(error) => warnings.push(format!("{}:{error}", file.location.display())),
        }
    }
    (skills, warnings)
}

/// Returns the commands of all layers, and one-line warnings about invalid ones. A host that chooses the setting
/// sources gets no others, because it does not know the built-in commands.
pub fn commands(config: &Config) -> (SlashCommands, Vec<String>) {
    let mut commands = SlashCommands::default();
    let mut warnings = Vec::new();
    let has_built_in = config.interface == Interface::Native || config.sources == Sources::ALL;
    for file in texts(config, "commands", MAX_DEPTH, &mut warnings) {
        if file.layer == Layer::BuiltIn && !has_built_in {
            continue;
        }
        let path = Path::new(file.plugin.as_deref().unwrap_or_default()).join(&file.path);
        match SlashCommand::parse(&file.text, &path, &file.location, file.layer) {
            Ok(command) => commands.add(command),
            Err(error) => warnings.push(format!("{}:{error}", file.location.display())),
        }
    }
    (commands, warnings)
}

/// Returns the output styles of all layers, lowest precedence first, and one-line warnings about invalid ones.
pub fn output_styles(config: &Config) -> (Vec<OutputStyle>, Vec<String>) {
    let mut styles: Vec<OutputStyle> = Vec::new();
    let mut warnings = Vec::new();
    for file in texts(config, "output-styles", 1, &mut warnings) {
        // A style is a part of the system prompt.
        if is_of_untrusted_project(file.layer, &config.trust) {
            continue;
        }
        match OutputStyle::parse(&file.text, &file.location) {
            Ok(style) => {
                let name = file.named(&style.name);
                styles.retain(|known| known.name != name);
                styles.push(OutputStyle { name, ..style });
            }
            Err(error) => warnings.push(format!("{}:{error}", file.location.display())),
        }
    }
    (styles, warnings)
}

/// Returns the output style in force; `None` if it is the default or is not known.
pub fn output_style(config: &Config) -> Option<OutputStyle> {
    let wanted = &config.requests.output_style.as_ref()?.value;
    let (styles, _) = output_styles(config);
    let named = |style: &OutputStyle| style.name.eq_ignore_ascii_case(wanted);
    styles.into_iter().rfind(named)
}

/// Returns the Markdown files in the folder `kind` of each layer, lowest precedence first.
fn texts(config: &Config, kind: &str, depth: usize, warnings: &mut Vec<String>) -> Vec<TextFile> {
    let mut texts = Vec::new();
    for (layer, below) in [(Layer::BuiltIn, Embedded::BUILT_IN), (Layer::Embedded, "")] {
        let folder = Path::new(Embedded::ROOT).join(below).join(kind);
        for (location, file) in config.embedded.files(&folder) {
            let path = location
                .strip_prefix(&folder)
                .unwrap_or(&location)
                .to_owned();
            if is_markdown(&path) && path.iter().count() <= depth {
                texts.push(TextFile {
                    layer,
                    plugin: None,
                    text: String::from_utf8_lossy(&file.content).into_owned(),
                    path,
                    location: unpacked(config.unpacked.as_deref(), &location).unwrap_or(location),
                });
            }
        }
    }
    for LayerFolder { layer, path } in config.layer_folders() {
        let mut found = found(&path.join(kind), depth, (layer, None), warnings);
        if is_of_untrusted_project(layer, &config.trust) {
            found.retain(|file| leads_into_project(file, &config.project_root, warnings));
        }
        texts.extend(found);
    }
    for plugin in &config.plugins {
        let usual = plugin.root.join(kind);
        let more = plugin.more.get(kind).into_iter().flatten();
        let usual = Some(&usual).filter(|_| plugin.has_usual_folders);
        for folder in usual.into_iter().chain(more) {
            let of = (plugin.layer, Some(plugin.name.as_str()));
            texts.extend(found(folder, depth, of, warnings));
        }
    }
    texts
}

fn is_of_untrusted_project(layer: Layer, trust: &Trust) -> bool {
    matches!(layer, Layer::ForeignProject | Layer::Project) && !trust.is_given()
}

/// Returns whether a file is in the project: a link of one that is not trusted would show the model any file of the user.
fn leads_into_project(file: &TextFile, project_root: &Path, warnings: &mut Vec<String>) -> bool {
    let real = [&file.location, project_root].map(fs::canonicalize);
    let is_within = matches!(&real, [Ok(file), Ok(project)] if file.starts_with(project));
    if !is_within {
        let location = file.location.display();
        warnings.push(format!(
            "`{location}` is a link out of a project that is not trusted, and is ignored"
        ));
    }
    is_within
}

/// Returns the texts in a folder, or the one in a file.
fn found(
    place: &Path,
    depth: usize,
    (layer, plugin): (Layer, Option<&str>),
    warnings: &mut Vec<String>,
) -> Vec<TextFile> {
    let mut locations = Vec::new();
    // A manifest may name the folder of a single skill, whose other files belong to it.
    let skill = place.join(skills::FILE);
    let folder = if skill.is_file() {
        locations.push(skill);
        place.parent().unwrap_or(place)
    } else if place.is_file() {
        locations.push(place.to_owned());
        place.parent().unwrap_or(place)
    } else {
        walk(place, depth, &mut locations, warnings);
        place
    };
    locations.sort();
    let mut texts = Vec::new();
    for location in locations {
        let path = location
            .strip_prefix(folder)
            .unwrap_or(&location)
            .to_owned();
        match found_file::instructions(&location) {
            Ok(text) => texts.push(TextFile {
                layer,
                plugin: plugin.map(str::to_owned),
                location,
                path,
                text,
            }),
            Err(error) => {
                warnings.push(format!("cannot read `{}`: {error}", location.display()));
            }
        }
    }
    texts
}

impl TextFile {
    /// Returns the name of the file for an entry called `name`.
    fn named(&self, name: &str) -> String {
        match &self.plugin {
            Some(plugin) => format!("{plugin}:{name}"),
            None => name.to_owned(),
        }
    }
}

/// Returns the path of an embedded file's copy on disk, if it has one: programs of a skill can run only from there.
fn unpacked(folder: Option<&Path>, location: &Path) -> Option<PathBuf> {
    let below = location.strip_prefix(Embedded::ROOT).ok()?;
    let unpacked = folder?.join(below);
    unpacked.exists().then_some(unpacked)
}

/// Collects the Markdown files at most `depth` levels below `folder`.
fn walk(folder: &Path, depth: usize, found: &mut Vec<PathBuf>, warnings: &mut Vec<String>) {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
            ) =>
        {
            return;
        }
        Err(error) => {
            warnings.push(format!("cannot read `{}`: {error}", folder.display()));
            return;
        }
    };
    for path in entries.flatten().map(|entry| entry.path()) {
        if path.is_dir() {
            if depth > 1 {
                walk(&path, depth - 1, found, warnings);
            }
        } else if is_markdown(&path) {
            found.push(path);
        }
    }
}

fn is_markdown(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name.ends_with(".md") && !name.starts_with('.') && name != "README.md"
}
