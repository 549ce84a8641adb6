//! The system prompt of a run, from options, files and working directory.

use std::borrow::Cow;
use std::path::Path;
use std::time::Duration;

use ah_agent::project;
use ah_agent::project::InstructionSources;
use ah_agent::prompt::{CONDUCT, ProjectFile, Prompt, PromptContext, PromptPart, SMALL, SYSTEM};
use ah_agent::skills::{SkillTool, Skills};
use ah_config::overrides::{PromptOptions, SystemPromptSource};
use ah_config::{Config, Error, extensions, found_file};
use ah_conversation::{Embedded, Environment, Interface, ToolSpec};

use crate::model::small;
use crate::prompt::today::today;

/// System prompt for a host that passes an empty one.
const SHORTEST: &str = "You are an agent that works with the tools it is given.";

/// Returns the blocks of the system prompt with their parts, and warnings about the files used. A prompt given on the
/// command line replaces all of it; for programs that speak the Agent SDKs' protocol, only what is built in, and the rest
/// follows. Otherwise appended text comes last. `sandbox` is the [summary] of the sandbox.
///
/// [summary]: crate::confinement::SandboxStatus::summary
///
/// # Errors
///
/// If the file that is to replace it cannot be read.
pub fn system_prompt(
    config: &Config,
    tools: &[ToolSpec],
    skills: &Skills,
    sandbox: &str,
) -> Result<(Vec<Vec<PromptPart>>, Vec<String>), Error> {
    let options = &config.run.prompt;
    let append = appended(options)?;
    let append = append.as_deref();
    if let Some(SystemPromptSource::Agent(parts)) = &options.system_prompt {
        let mut blocks = of_agent(parts, config, sandbox);
        blocks.extend(append.map(|text| vec![part("--append-system-prompt", text)]));
        return Ok((blocks, Vec::new()));
    }
    let replaced = given(options)?.map(|text| replaced(&text, append, config.interface));
    if let (Some(blocks), Interface::Native) = (&replaced, config.interface) {
        return Ok((blocks.clone(), Vec::new()));
    }
    let (files, warnings) = project_files(config);
    let context = RunContext::of(&config.environment, sandbox);
    // Without a tool none can be read, and a small model has no room for them.
    let listed = match tools {
        [] => String::new(),
        _ if small::is_on(&config.tools) => String::new(),
        _ => skills.layer(SkillTool::name_among(tools)),
    };
    let must_produce = options
        .must_produce
        .as_ref()
        .map(|file| file.to_string_lossy());
    let base = embedded(&config.embedded, "system.md");
    let style = extensions::output_style(config);
    let conduct = match &style {
        Some(style) if !style.keeps_conduct => Some(Cow::Borrowed("")),
        _ => embedded(&config.embedded, "claude.md"),
    };
    let own = (
        base.as_deref().unwrap_or(SYSTEM),
        conduct.as_deref().unwrap_or(CONDUCT),
    );
    let (base, conduct) = match own {
        (SYSTEM, CONDUCT) if small::is_on(&config.tools) => (SMALL, ""),
        own => own,
    };
    let style = style.map(|style| format!("# Output style: {}\n\n{}", style.name, style.text));
    let prompt = Prompt {
        base,
        conduct,
        style: style.as_deref().unwrap_or_default(),
        tools,
        project: &files,
        context: context.context(),
        skills: &listed,
        must_produce: must_produce.as_deref(),
        check: config.check.command(),
        timeout_seconds: { config.run.limits.timeout }
            .map(|timeout| milliseconds(timeout).div_ceil(1_000)),
        append,
    };
    let Some(mut blocks) = replaced else {
        return Ok((prompt.assemble(), warnings));
    };
    let rest = Prompt {
        base: "",
        conduct: "",
        tools: &[],
        append: None,
        ..prompt
    };
    blocks.extend(rest.assemble());
    Ok((blocks, warnings))
}

/// Returns the blocks of a prompt given by an option, unchanged, and of the text appended to it.
fn replaced(given: &str, append: Option<&str>, interface: Interface) -> Vec<Vec<PromptPart>> {
    let parts = [
        ("--system-prompt", given),
        ("--append-system-prompt", append.unwrap_or_default()),
    ];
    let mut parts: Vec<_> = parts
        .into_iter()
        .filter(|(_, text)| !text.trim().is_empty())
        .collect();
    // Hosts pass an empty prompt if their user has set none.
    if parts.is_empty() && interface == Interface::AgentSdk {
        parts.push(("built in", SHORTEST));
    }
    let blocks = parts.into_iter();
    blocks
        .map(|(source, text)| vec![part(source, text)])
        .collect()
}

/// Returns the prompt of a defined agent, with the description of place and time as they are now.
fn of_agent(blocks: &[Vec<PromptPart>], config: &Config, sandbox: &str) -> Vec<Vec<PromptPart>> {
    let (_, environment) = surroundings(config, sandbox);
    let now = |known: &PromptPart| match known.source.as_str() {
        "environment" => part("environment", &environment),
        _ => known.clone(),
    };
    let block = |block: &Vec<PromptPart>| block.iter().map(now).collect();
    blocks.iter().map(block).collect()
}

fn part(source: &str, text: &str) -> PromptPart {
    PromptPart {
        source: source.to_owned(),
        text: text.to_owned(),
    }
}

/// Returns the project's instructions, and the description of place and time: a subagent's context besides its own
/// prompt. In a person's run with its own system prompt there are no project instructions. `sandbox` is the summary of the sandbox.
pub fn surroundings(config: &Config, sandbox: &str) -> (String, String) {
    let is_given =
        config.interface == Interface::Native && config.run.prompt.system_prompt.is_some();
    let files = if is_given {
        Vec::new()
    } else {
        project_files(config).0
    };
    let context = RunContext::of(&config.environment, sandbox);
    let instructions = Prompt {
        project: &files,
        ..Prompt::default()
    };
    let context = Prompt {
        context: context.context(),
        ..Prompt::default()
    };
    let text = |prompt: &Prompt<'_>| {
        let blocks = prompt.assemble();
        blocks
            .first()
            .map_or_else(String::new, |block| ah_agent::prompt::text(block))
    };
    (text(&instructions), text(&context))
}

/// Returns the project's instruction files, and warnings about them.
fn project_files(config: &Config) -> (Vec<ProjectFile>, Vec<String>) {
    let environment = &config.environment;
    let user_folders = if config.sources.user {
        config.user_folders()
    } else {
        Vec::new()
    };
    let project = (config.project_root.as_path(), environment.cwd());
    let home = environment.home();
    project::instructions(&InstructionSources {
        user_folders: &user_folders,
        project: config.sources.project.then_some(project),
        local: config.sources.local,
        home: home.as_deref(),
        is_trusted: config.trust.is_given(),
    })
}

/// Date, folders and repository of a run.
struct RunContext<'a> {
    repository: ah_git::Repository,
    cwd: Cow<'a, str>,
    date: String,
    sandbox: &'a str,
}

impl<'a> RunContext<'a> {
    fn of(environment: &'a Environment, sandbox: &'a str) -> Self {
        let cwd = environment.cwd();
        Self {
            repository: ah_git::repository(cwd).unwrap_or_default(),
            cwd: cwd.to_string_lossy(),
            date: today(environment),
            sandbox,
        }
    }

    fn context(&self) -> PromptContext<'_> {
        PromptContext {
            date: &self.date,
            cwd: &self.cwd,
            branch: self.repository.branch.as_deref(),
            commit: self.repository.commit.as_deref(),
            remote: self.repository.remote.as_deref(),
            sandbox: self.sandbox,
        }
    }
}

/// Returns a duration in whole milliseconds.
pub(crate) fn milliseconds(time: Duration) -> u64 {
    time.as_millis().try_into().unwrap_or(u64::MAX)
}

/// Returns the text of an embedded file.
fn embedded<'a>(files: &'a Embedded, name: &str) -> Option<Cow<'a, str>> {
    let file = files.file(&Path::new(Embedded::ROOT).join(name))?;
    Some(String::from_utf8_lossy(&file.content))
}

/// Returns the text to append, with that of the file behind it.
fn appended(options: &PromptOptions) -> Result<Option<Cow<'_, str>>, Error> {
    let text = options.append_system_prompt.as_deref().map(Cow::Borrowed);
    let Some(path) = &options.append_system_prompt_file else {
        return Ok(text);
    };
    let of_file = read(path)?;
    Ok(Some(Cow::Owned(match text {
        Some(text) => format!("{text}\n\n{of_file}"),
        None => of_file,
    })))
}

fn given(options: &PromptOptions) -> Result<Option<String>, Error> {
    let path = match &options.system_prompt {
        None => return Ok(None),
        Some(SystemPromptSource::Agent(_)) => return Ok(None),
        Some(SystemPromptSource::Text(text)) => return Ok(Some(text.clone())),
        Some(SystemPromptSource::File(path)) => path,
    };
    read(path).map(Some)
}

fn read(path: &Path) -> Result<String, Error> {
    let text = found_file::named(path);
    text.map_err(|error| {
        Error::failure(format!(
            "cannot read the system prompt `{}`: {error}",
            path.display()
        ))
    })
}
