//! `ah prompt`: prints the system prompt.

use serde_json::json;

use super::tools;
use crate::args::json::Json;
use crate::commands::output::{print, print_json};
use ah::instructions::system_prompt;
use ah_config::Config;
use ah_config::Error;
use ah_config::extensions;
use ah_conversation::neutralise;

/// Prints the system prompt part by part with sources.
pub fn run(config: &Config, has_person: bool, form: Json) -> Result<u8, Error> {
    let tools = tools::layered(config, has_person)?;
    let specs: Vec<_> = tools
        .iter()
        .map(|known| known.tool.spec().clone())
        .collect();
    let (skills, _) = extensions::skills(config);
    let (blocks, warnings) = system_prompt(config, &specs, &skills)?;
    warnings
        .iter()
        .for_each(|warning| ah_terminal::warn(warning));
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
