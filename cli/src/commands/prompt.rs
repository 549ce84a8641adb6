//! `ah prompt`: prints the system prompt, or the size of each part of a request.

use ah_agent::prompt::PromptPart;
use ah_agent::tool_search::sent;
use ah_config::Config;
use ah_config::Error;
use ah_config::extensions;
use ah_conversation::{ToolSpec, neutralise};
use ah_engine::confinement::SandboxProbe;
use ah_engine::model::small::suited;
use ah_engine::prompt::instructions::system_prompt;
use ah_terminal::print::table::{Align, table};
use serde_json::json;

use super::tools;
use crate::args::json::Json;
use crate::commands::output::{print, print_exact, print_json};

/// Prints the system prompt part by part with sources.
pub fn run(config: &Config, has_person: bool, form: Json) -> Result<u8, Error> {
    let config = &*suited(config);
    let parts = parts(config, &own_tools(config, has_person)?)?;
    if form.json {
        let parts = parts.iter();
        let parts = parts.map(|part| json!({ "source": part.source, "text": part.text }));
        return print_json(&parts.collect());
    }
    let parts = parts.iter().map(|part| {
        format!(
            "=== {} ===\n\n{}\n",
            neutralise(&part.source),
            neutralise(&part.text)
        )
    });
    print_exact(&parts.collect::<Vec<_>>().join("\n"))
}

/// Prints how many bytes, and about how many tokens, each part of the system prompt and each tool, those of MCP servers
/// included, take in a request.
pub fn bytes(config: &Config, has_person: bool, form: Json) -> Result<u8, Error> {
    let config = &*suited(config);
    let mut tools = own_tools(config, has_person)?;
    let of_servers = tools::of_servers(config)?.into_iter();
    tools.extend(of_servers.map(|known| known.spec));
    let tools = sent(config.tool_search(), config.interface, tools);
    let parts = parts(config, &tools)?;
    let parts = parts.iter().map(|part| {
        let kind = match part.is_of_opening() {
            true => "message",
            false => "system",
        };
        (kind, part.source.as_str(), json_size(&json!(part.text)))
    });
    let tools = tools
        .iter()
        .map(|spec| ("tool", spec.name.as_str(), tool_size(spec)));
    let all: Vec<_> = parts.chain(tools).collect();
    if form.json {
        let all = all.iter();
        let all = all.map(|(kind, name, bytes)| {
            json!({ "kind": kind, "name": name, "bytes": bytes, "tokens": tokens(*bytes) })
        });
        return print_json(&all.collect());
    }
    let sum: usize = all.iter().map(|(.., bytes)| bytes).sum();
    let row = |kind: &str, name: &str, bytes: usize| {
        let tokens = format!("~{}", tokens(bytes));
        [
            bytes.to_string(),
            tokens,
            kind.to_owned(),
            neutralise(name).into(),
        ]
    };
    let rows: Vec<_> = std::iter::once(["bytes", "tokens", "part", ""].map(str::to_owned))
        .chain({ all.iter() }.map(|(kind, name, bytes)| row(kind, name, *bytes)))
        .chain([row("total", "", sum)])
        .collect();
    let right = Align::Right;
    print(&table([right, right, Align::Left, Align::Left], &rows))
}

/// Returns about how many tokens so many bytes of a request are: tokenizers differ, and descriptions of tools have 3.2 bytes a
/// token.
fn tokens(bytes: usize) -> usize {
    (bytes * 10).div_ceil(32)
}

fn own_tools(config: &Config, has_person: bool) -> Result<Vec<ToolSpec>, Error> {
    let tools = tools::layered(config, has_person)?;
    Ok({ tools.iter() }
        .map(|known| known.tool.spec().clone())
        .collect())
}

/// Returns the parts of the system prompt, and prints warnings about them.
fn parts(config: &Config, tools: &[ToolSpec]) -> Result<Vec<PromptPart>, Error> {
    let (skills, _) = extensions::skills(config);
    let mut warnings = Vec::new();
    let sandbox = SandboxProbe::begin(config, &mut warnings)?
        .status()
        .summary();
    let (blocks, more) = system_prompt(config, tools, &skills, &sandbox)?;
    warnings
        .iter()
        .chain(&more)
        .for_each(|warning| ah_terminal::warn(warning));
    Ok(blocks.into_iter().flatten().collect())
}

/// Returns the size of a tool's description on the wire.
fn tool_size(spec: &ToolSpec) -> usize {
    json_size(&json!({
        "name": spec.name,
        "description": spec.description,
        "input_schema": *spec.input_schema,
    }))
}

fn json_size(value: &serde_json::Value) -> usize {
    value.to_string().len()
}
