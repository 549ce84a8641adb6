//! Expansion of a typed prompt: skills, commands and their templates.

mod ruled;

use std::borrow::Cow;
use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use ah_agent::commands::{Numbering, Piece, SlashCommand, call, pieces};
use ah_agent::hooks::{LineHooks, TextLine};
use ah_agent::skills::{Skill, Skills, escaped};
use ah_conversation::{
    Content, Embedded, EmbeddedEntry, Interface, Layer, Rule, ToolUse, split_words,
};
use ah_process::{Behind, Ending, Keep, ShellLine};
use ah_tools::Shell;
use serde_json::json;

use ah_config::{Config, Error, Origin, Plugin, Sourced, extensions, untrusted};

use crate::assemble::agents::is_another_model;
use crate::confinement::SandboxProbe;
pub(crate) use ruled::Ruled;

/// Timeout of a template's command.
const PATIENCE: Duration = Duration::from_secs(120);
/// Maximum number of bytes of its output, or of a file, in the prompt.
const MAX_BYTES: usize = 100_000;

/// A prompt with its skill or command expanded.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Expanded {
    /// The text for the model.
    pub text: String,
    /// Whether it is what was typed, neither a skill nor a command.
    pub is_as_typed: bool,
    /// The command as it was typed, of a person's conversation.
    pub called: Option<String>,
    /// The skill in use.
    pub skill: Option<Arc<Skill>>,
    /// Permission rules for calls without a question, each with the file it is from.
    pub allowed_tools: Vec<(String, PathBuf)>,
    /// The model to use, with the file that names it.
    pub model: Option<(String, PathBuf)>,
    /// Warnings for the user.
    pub warnings: Vec<String>,
}

impl Expanded {
    /// Returns the configuration for this prompt, and warnings about invalid rules. The command line takes precedence
    /// over a file, but for hosts, which set a model for all prompts.
    pub fn applied_to<'a>(&self, config: &'a Config) -> (Cow<'a, Config>, Vec<String>) {
        let mut warnings = Vec::new();
        let mut applied = Cow::Borrowed(config);
        if let Some((model, location)) = &self.model
            && (config.model.origin != Origin::CommandLine
                || config.interface == Interface::AgentSdk)
            && is_another_model(model, &config.model.value)
        {
            applied.to_mut().model = Sourced {
                value: model.clone(),
                origin: Origin::File(location.clone()),
            };
        }
        for (rule, location) in &self.allowed_tools {
            match rule.parse() {
                Ok(value) => applied.to_mut().allow.push(Sourced {
                    value,
                    origin: Origin::File(location.clone()),
                }),
                Err(error) => warnings.push(format!("{}: {error}", location.display())),
            }
        }
        (applied, warnings)
    }

    /// Allows what the front matter of the file at `location` says. For a host, `*` allows nothing, as in settings.
    fn allow(&mut self, rules: &[String], location: &Path, interface: Interface) {
        for rule in rules {
            let is_wildcard = rule.parse::<Rule>().is_ok_and(|rule| rule.tool == "*");
            if is_wildcard && !interface.may_allow_all() {
                let location = location.display();
                self.warnings.push(format!(
                    "{location}: `{rule}` in `allowed-tools` allows nothing"
                ));
                continue;
            }
            self.allowed_tools.push((rule.clone(), location.to_owned()));
        }
    }
}

/// Expands the skill or command that `prompt` names (`/name`, `/skill:name`), or the skill `given` by an option. An
/// unknown command stays as it is, and so does an unknown skill in the prompt of a program. `hooks` gives those that a
/// command's lines need the consent of.
///
/// # Errors
///
/// If there is no such skill as the option or a person's prompt names.
pub async fn expand(
    prompt: &str,
    given: Option<&str>,
    skills: &Skills,
    config: &Config,
    probe: &SandboxProbe,
    hooks: &(dyn Fn() -> LineHooks + Sync),
) -> Result<Expanded, Error> {
    if let Some(name) = given {
        let skill = skills.get(name).ok_or_else(|| unknown(name, skills))?;
        return Ok(with_skill(skill, prompt, config));
    }
    let Some((name, arguments)) = call(prompt) else {
        return Ok(plain(prompt));
    };
    let is_native = config.interface == Interface::Native;
    let called = is_native.then(|| prompt.trim().to_owned());
    if let Some(name) = name.strip_prefix("skill:") {
        match skills.get(name) {
            Some(skill) => {
                let expanded = with_skill(skill, arguments, config);
                return Ok(Expanded { called, ..expanded });
            }
            None if is_native => return Err(unknown(name, skills)),
            None => {}
        }
    }
    let (commands, warnings) = extensions::commands(config);
    let mut expanded = match (commands.get(name), skills.get(name)) {
        (Some(command), _) => with_command(command, arguments, config, probe, hooks).await,
        (None, Some(skill)) if skill.is_command => with_skill(skill, arguments, config),
        (None, _) => plain(prompt),
    };
    expanded.warnings.extend(warnings);
    expanded.called = called.filter(|_| !expanded.is_as_typed);
    Ok(expanded)
}

fn plain(prompt: &str) -> Expanded {
    Expanded {
        text: prompt.to_owned(),
        is_as_typed: true,
        ..Expanded::default()
    }
}

fn unknown(name: &str, skills: &Skills) -> Error {
    let known: Vec<_> = skills.iter().map(|skill| skill.name.as_str()).collect();
    Error::usage(format!("there is no skill `{name}`"))
        .hint(format!("the skills are {}", known.join(", ")))
}

fn with_skill(skill: &Arc<Skill>, arguments: &str, config: &Config) -> Expanded {
    let mut expanded = Expanded {
        text: skill.prompt(arguments),
        skill: Some(skill.clone()),
        ..Expanded::default()
    };
    if config.distrust(skill.layer, &skill.location).is_none() {
        expanded.allow(&skill.allowed_tools, &skill.location, config.interface);
    }
    expanded
}

async fn with_command(
    command: &SlashCommand,
    arguments: &str,
    config: &Config,
    probe: &SandboxProbe,
    hooks: &(dyn Fn() -> LineHooks + Sync),
) -> Expanded {
    let distrust = config.distrust(command.layer, &command.location);
    let is_trusted = distrust.is_none();
    let mut expanded = Expanded::default();
    if let Some(model) = &command.model {
        let location = command.location.clone();
        if is_trusted || !untrusted::is_file(model) {
            expanded.model = Some((model.clone(), location));
        } else {
            expanded.warnings.push(format!(
                "{}: the model `{model}` is ignored: {}",
                location.display(),
                distrust.unwrap_or_default()
            ));
        }
    }
    if let Some(why) = distrust.filter(|_| !command.allowed_tools.is_empty()) {
        let location = command.location.display();
        let text = format!("{location}: `allowed-tools` is ignored: {why}");
        expanded.warnings.push(text);
    } else {
        expanded.allow(&command.allowed_tools, &command.location, config.interface);
    }
    let plugin = config.plugin_with(&command.location);
    let rules = expanded.allowed_tools.iter();
    let rules = rules.filter_map(|(rule, _)| rule.parse().ok());
    let filling = Filling {
        command,
        arguments,
        config,
        distrust,
        ruled: match command.layer {
            // Those of the program itself are not anybody's choice.
            Layer::BuiltIn | Layer::Embedded => Ruled::of(config),
            _ => Ruled::of(config).for_lines(config, rules, probe.status()),
        },
        probe,
        plugin,
        make_hooks: hooks,
        hooks: OnceLock::new(),
    };
    let mut files = String::new();
    for piece in pieces(&command.body, arguments, numbering(config.interface)) {
        match piece {
            Piece::Text(text) => expanded.text.push_str(&Plugin::placed(text, plugin)),
            Piece::Shell { line, filled } => {
                let output = filling.run(&line, &filled, &mut expanded.warnings).await;
                expanded.text.push_str(&output);
            }
            Piece::File { path, is_typed } => {
                let path = Plugin::placed(path, plugin);
                expanded.text.push('@');
                expanded.text.push_str(&path);
                if let Some(content) = filling.file(&path, is_typed, &mut expanded.warnings) {
                    let content = content.trim_end();
                    let path = escaped(&path);
                    files.push_str(&format!("\n\n<file path=\"{path}\">\n{content}\n</file>"));
                }
            }
        }
    }
    expanded.text.push_str(&files);
    expanded
}

/// Returns the number that templates give to the first argument: in the other agent's interface, that of the other agent.
fn numbering(interface: Interface) -> Numbering {
    match interface {
        Interface::Native => Numbering::FromOne,
        Interface::AgentSdk => Numbering::FromZero,
    }
}

/// Inputs of a command's placeholders.
struct Filling<'a> {
    command: &'a SlashCommand,
    arguments: &'a str,
    config: &'a Config,
    /// Why the command may run nothing.
    distrust: Option<&'static str>,
    ruled: Ruled,
    probe: &'a SandboxProbe,
    /// The plugin that the command is from.
    plugin: Option<&'a Plugin>,
    make_hooks: &'a (dyn Fn() -> LineHooks + Sync),
    /// Made for the first line.
    hooks: OnceLock<LineHooks>,
}

impl Filling<'_> {
    /// Returns the output of a command line. Typed arguments are passed as shell arguments, never as part of the line.
    async fn run(&self, line: &str, filled: &str, warnings: &mut Vec<String>) -> String {
        let location = self.command.location.display();
        if let Some(why) = self.refusal(line, filled).await {
            warnings.push(format!("{location}: `{line}` is not run: {why}"));
            return format!("[`{line}` was not run: {why}]");
        }
        let environment = &self.config.environment;
        let shell = Shell::new(environment);
        let words = split_words(self.arguments);
        let ShellLine {
            mut arguments,
            stdin,
        } = ShellLine::new(&shell.program, line, Behind::Nothing);
        match numbering(self.config.interface) {
            Numbering::FromOne => arguments.push("ah".into()),
            // Otherwise `$0` would be the shell's own name.
            Numbering::FromZero if words.is_empty() => arguments.push("".into()),
            Numbering::FromZero => {}
        }
        arguments.extend(words.into_iter().map(Into::into));
        let confined = self.probe.status().confined();
        let mut variables = match confined {
            Some(confined) => confined.variables.clone(),
            None => shell.environment,
        };
        variables.push(("ARGUMENTS".to_owned(), self.arguments.trim().to_owned()));
        variables.extend(self.plugin.into_iter().flat_map(Plugin::variables));
        // The folder, and a spooled output in it, is deleted afterwards.
        let folder = tempfile::tempdir();
        let spool = folder.as_ref().map(|folder| folder.path().join("output"));
        let child = ah_process::Command {
            program: shell.program,
            arguments,
            cwd: environment.cwd().to_owned(),
            environment: variables,
            stdin,
            deadline: Some(PATIENCE),
            keep: Keep::new(spool.unwrap_or_default(), 0),
            sandbox: confined.map(|confined| confined.sandbox.clone()),
            bounds: None,
            note: |_| None,
        };
        let child = ah_tools::kept_from(child, &self.ruled.denied());
        let outcome = match child.run().await {
            Ok(outcome) => outcome,
            Err(error) => {
                warnings.push(format!("{location}: {error}"));
                return String::new();
            }
        };
        if outcome.ending != Ending::Exited(0) {
            let code = outcome.ending.code();
            warnings.push(format!("{location}: `{line}` failed with exit code {code}"));
        }
        match outcome.output {
            Content::Bytes(bytes) => shown(&bytes, bytes.len() as u64),
            Content::Spool(spool) => shown(&spool.head, spool.len),
            Content::Blocks(_) => String::new(),
        }
    }

    /// Returns the reason to refuse a line. Hooks are asked about what would run without them.
    async fn refusal(&self, line: &str, filled: &str) -> Option<String> {
        if let Some(distrust) = self.distrust {
            return Some(distrust.to_owned());
        }
        let (call, accesses) = self.ruled.line(line);
        if let Some(why) = self.ruled.refusal_of_line(&call, &accesses) {
            return Some(why);
        }
        let line = TextLine {
            command: &self.command.name,
            call: &ToolUse {
                input: json!({ "command": filled }).into(),
                ..call
            },
            accesses: &accesses,
            places: self.ruled.places(),
        };
        let hooks = self.hooks.get_or_init(self.make_hooks);
        hooks.refusal(line).await
    }

    /// Returns the text of the file, or the names in the folder; `None` if neither exists. What came with a project or a
    /// plugin names files of the project and of itself; others only the user does.
    fn file(&self, path: &str, is_typed: bool, warnings: &mut Vec<String>) -> Option<String> {
        let environment = &self.config.environment;
        let location = self.command.location.display();
        if let Some(why) = self.ruled.refusal_of_file(path) {
            warnings.push(format!("{location}: `{path}` is not read: {why}"));
            return None;
        }
        let full = match (path.strip_prefix("~/"), environment.home()) {
            (Some(below), Some(home)) => home.join(below),
            _ => environment.cwd().join(path),
        };
        if Embedded::covers(&full) {
            return match self.config.embedded.at(&full)? {
                EmbeddedEntry::File(file) => Some(shown(&file.content, file.content.len() as u64)),
                EmbeddedEntry::Folder(names) => Some(names.join("\n")),
            };
        }
        let real = fs::canonicalize(&full).ok()?;
        let root = &self.config.project_root;
        let root = fs::canonicalize(root).unwrap_or_else(|_| root.clone());
        let is_within = real.starts_with(root)
            || self
                .plugin
                .is_some_and(|plugin| real.starts_with(&plugin.root));
        let is_the_users = match self.distrust {
            Some(_) => false,
            None => is_typed || self.plugin.is_none() && !self.command.layer.is_of_project(),
        };
        if !is_within && !is_the_users {
            warnings.push(format!(
                "{location}: `{path}` is not read: it is outside of the project"
            ));
            return None;
        }
        match read(&real) {
            Ok(content) => Some(content),
            Err(error) => {
                warnings.push(format!("{location}: cannot read `{path}`: {error}"));
                None
            }
        }
    }
}

/// Returns the beginning of a text file, or the names in a folder, one a line.
pub(crate) fn read(path: &Path) -> std::io::Result<String> {
    if path.is_dir() {
        let entries = fs::read_dir(path)?.flatten();
        let mut names: Vec<_> = entries
            .map(|entry| entry.file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        return Ok(names.join("\n"));
    }
    if !path.is_file() {
        return Err(std::io::Error::other("not a regular file"));
    }
    let file = fs::File::open(path)?;
    let all = file.metadata()?.len();
    let mut bytes = Vec::new();
    file.take(MAX_BYTES as u64 + 1).read_to_end(&mut bytes)?;
    if bytes.contains(&0) {
        return Err(std::io::Error::other("not a text file"));
    }
    Ok(shown(&bytes, all))
}

/// Returns the bytes as text, with a note if they are only the first of `all`.
fn shown(bytes: &[u8], all: u64) -> String {
    let text = String::from_utf8_lossy(bytes);
    if text.len() <= MAX_BYTES {
        text.into_owned()
    } else {
        format!(
            "{}\n[cut after {MAX_BYTES} of {all} bytes]",
            &text[..text.floor_char_boundary(MAX_BYTES)],
        )
    }
}
