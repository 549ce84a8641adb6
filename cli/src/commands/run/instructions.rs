//! The system prompt of a run, from options, files and the place it runs in.

use std::borrow::Cow;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use ah_agent::prompt::{CONDUCT, Context, Prompt, SYSTEM};
use ah_agent::{git, project};
use ah_conversation::{Embedded, ToolSpec};

use crate::args::options::PromptOptions;
use crate::config::Config;
use crate::error::CliError;

/// The system prompt, part by part, and what the user should know of the files that it is made from. A prompt given
/// on the command line replaces all of it; what is to be appended still comes last.
pub fn system_prompt(
    config: &Config,
    options: &PromptOptions,
    timeout_seconds: Option<u64>,
    tools: &[ToolSpec],
) -> Result<(Arc<[String]>, Vec<String>), CliError> {
    let append = options.append_system_prompt.as_deref();
    if let Some(given) = given(options)? {
        let parts = [Some(given), append.map(str::to_owned)];
        let parts = parts
            .into_iter()
            .flatten()
            .filter(|part| !part.trim().is_empty());
        return Ok((parts.collect(), Vec::new()));
    }
    let environment = &config.environment;
    let user_folders = if config.sources.user {
        config.user_folders()
    } else {
        Vec::new()
    };
    let (files, warnings) = if config.sources.project {
        project::instructions(&user_folders, &config.project_root, environment.cwd())
    } else {
        project::instructions(&user_folders, environment.cwd(), Path::new(""))
    };
    let repository = git::repository(environment.cwd()).unwrap_or_default();
    let cwd = environment.cwd().to_string_lossy();
    let date = jiff::Zoned::now().date().to_string();
    let must_produce = options
        .must_produce
        .as_ref()
        .map(|file| file.to_string_lossy());
    let base = embedded(config, "system.md");
    let prompt = Prompt {
        base: base.as_deref().unwrap_or(SYSTEM),
        conduct: CONDUCT,
        tools,
        project: &files,
        context: Context {
            date: &date,
            cwd: &cwd,
            branch: repository.branch.as_deref(),
            commit: repository.commit.as_deref(),
            remote: repository.remote.as_deref(),
        },
        must_produce: must_produce.as_deref(),
        timeout_seconds,
        append,
    };
    Ok((prompt.assemble().into(), warnings))
}

/// The text of an embedded file.
fn embedded<'a>(config: &'a Config, name: &str) -> Option<Cow<'a, str>> {
    let file = config
        .embedded
        .file(&Path::new(Embedded::ROOT).join(name))?;
    Some(String::from_utf8_lossy(&file.content))
}

fn given(options: &PromptOptions) -> Result<Option<String>, CliError> {
    let Some(path) = &options.system_prompt_file else {
        return Ok(options.system_prompt.clone());
    };
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) => Err(CliError::failure(format!(
            "cannot read the system prompt `{}`: {error}",
            path.display()
        ))),
    }
}
