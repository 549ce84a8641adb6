//! `ah prompt`: what the model is told before anything is said.

use serde_json::json;

use super::{print, print_json, tools};
use crate::args::options::Options;
use crate::args::subcommands::Json;
use crate::commands::run::system_prompt;
use crate::config::Config;
use crate::error::CliError;
use crate::extensions;
use crate::print::neutralise;

/// Prints the system prompt part by part, each with where it comes from.
pub fn run(config: &Config, options: &Options, form: Json) -> Result<u8, CliError> {
    let tools = tools::layered(config, options)?;
    let specs: Vec<_> = tools
        .iter()
        .map(|known| known.tool.spec().clone())
        .collect();
    let (skills, _) = extensions::skills(config);
    let (blocks, warnings) = system_prompt(config, options, &specs, &skills)?;
    warnings.iter().for_each(|warning| crate::warn(warning));
    let parts = blocks.iter().flatten();
    if form.json {
        let parts = parts.map(|part| json!({ "source": part.source, "text": part.text }));
        return print_json(&parts.collect());
    }
    let parts = parts.map(|part| {
        format!(
            "=== {} ===\n\n{}\n",
            neutralise(&part.source),
            neutralise(&part.text)
        )
    });
    print(&parts.collect::<Vec<_>>().join("\n"))
}
