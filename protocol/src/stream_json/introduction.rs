//! The response to `initialize`, and the `init` message at the start of each prompt. Pure.

use std::path::PathBuf;
use std::sync::Arc;

use ah_agent::agents::{Agent, Agents};
use ah_desk::{Command, Offered};
use serde_json::{Value, json};

use super::local::LISTED;
use super::speaker::lifecycle::CAPABILITIES;
use super::wire::IntroductionPart;
use crate::{Engaged, Introduction};

/// Tools that hosts expect under an older name in the list of tools.
const OLDER: [(&str, &str); 1] = [("Agent", "Task")];

/// Returns the response to `initialize`.
pub(crate) fn all(introduction: &Introduction) -> Value {
    json!({
        "commands": commands(introduction),
        "agents": agents(&introduction.agents),
        "output_style": introduction.style,
        "available_output_styles": introduction.styles,
        "models": models(introduction),
        "account": introduction.account,
        "pid": std::process::id(),
        "claude_code_version": introduction.version,
    })
}

/// Returns the subagent types.
pub(crate) fn agents(agents: &Agents) -> Value {
    let agents = agents.iter().map(|agent| {
        let mut told = json!({"name": agent.name, "description": agent.description});
        if let Some(model) = &agent.model {
            told["model"] = json!(model);
        }
        told
    });
    agents.collect()
}

/// Returns a part of the response to `initialize`.
pub(crate) fn part(introduction: &Introduction, listed: IntroductionPart) -> Value {
    match listed {
        IntroductionPart::All => all(introduction),
        IntroductionPart::Commands => commands(introduction),
        IntroductionPart::Models => models(introduction),
        IntroductionPart::Account => introduction.account.clone(),
        IntroductionPart::ModelList => json!({"models": models(introduction)}),
        IntroductionPart::Plugins => json!({
            "commands": commands(introduction),
            "agents": agents(&introduction.agents),
            "plugins": plugins(&introduction.plugins),
            "mcpServers": [],
            "error_count": 0,
        }),
        IntroductionPart::Skills => json!({"skills": commands(introduction)}),
        IntroductionPart::Styles => json!({"available_output_styles": introduction.styles}),
        IntroductionPart::Version => json!({"version": introduction.version}),
    }
}

/// Returns name, description and hint of the user's commands, then of ours.
fn named(introduction: &Introduction) -> impl Iterator<Item = (&str, &str, &str)> {
    let own = introduction.commands.iter();
    let own = own.map(|command| {
        let Command {
            name,
            description,
            hint,
        } = command;
        (&**name, &**description, hint.as_deref().unwrap_or_default())
    });
    let is_other = |(name, ..): &(&str, &str, &str)| {
        let mut known = introduction.commands.iter();
        known.all(|own| own.name != *name)
    };
    own.chain(LISTED.into_iter().filter(is_other))
}

fn commands(introduction: &Introduction) -> Value {
    let command = |(name, description, hint): (&str, &str, &str)| json!({"name": name, "description": description, "argumentHint": hint});
    named(introduction).map(command).collect()
}

fn plugins(plugins: &[(String, PathBuf)]) -> Value {
    let plugin = |(name, path): &(String, PathBuf)| json!({"name": name, "path": path});
    plugins.iter().map(plugin).collect()
}

fn models(introduction: &Introduction) -> Value {
    let models = introduction.models.iter();
    let model = |model: &Offered| {
        let mut told = json!({
            "value": model.alias,
            "resolvedModel": model.name,
            "displayName": model.title,
            "description": model.description,
        });
        if !model.efforts.is_empty() {
            let levels: Vec<_> = model.efforts.iter().map(|level| level.as_str()).collect();
            told["supportsEffort"] = json!(true);
            told["supportedEffortLevels"] = json!(levels);
        }
        told
    };
    models.map(model).collect()
}

/// Returns the `init` message.
pub(crate) fn init(engaged: &Engaged, introduction: &Introduction) -> Value {
    let session = &engaged.session;
    let tools: Vec<&str> = session.tools().names().map(listed).collect();
    let servers = engaged.servers().into_iter();
    let servers = servers.flat_map(|servers| servers.status());
    let servers: Vec<_> = servers
        .map(|status| json!({"name": status.name, "status": status.state.as_str()}))
        .collect();
    let commands: Vec<&str> = named(introduction).map(|(name, ..)| name).collect();
    let agents = engaged.agents();
    let agents: Vec<&str> = agents.iter().map(|agent| &*agent.name).collect();
    json!({
        "type": "system",
        "subtype": "init",
        "cwd": engaged.cwd,
        "tools": tools,
        "mcp_servers": servers,
        "model": session.model().name,
        "permissionMode": session.settings().permissions.mode.as_str(),
        "slash_commands": commands,
        "apiKeySource": engaged.api_key_source,
        "claude_code_version": introduction.version,
        "output_style": introduction.style,
        "agents": agents,
        "skills": engaged.skills,
        "plugins": plugins(&engaged.plugins),
        "capabilities": CAPABILITIES,
        "fast_mode_state": "off",
    })
}

fn listed(name: &str) -> &str {
    let mut older = OLDER.iter();
    older
        .find(|(known, _)| *known == name)
        .map_or(name, |(_, older)| older)
}

/// Returns the subagents as lines of text.
pub(crate) fn agents_text(agents: &Agents) -> String {
    let line = |agent: &Arc<Agent>| format!("- {}: {}", agent.name, agent.description);
    let lines: Vec<_> = agents.iter().map(line).collect();
    if lines.is_empty() {
        return "There are no subagents.".to_owned();
    }
    format!("Subagents:\n{}", lines.join("\n"))
}

/// Returns the output styles as lines of text.
pub(crate) fn styles_text(introduction: &Introduction) -> String {
    let current = &introduction.style;
    let lines = introduction.styles.iter().map(|style| match style {
        style if style == current => format!("- {style} (current)"),
        style => format!("- {style}"),
    });
    let lines: Vec<_> = lines.collect();
    format!(
        "Output style: {current}\n\nAvailable styles:\n{}\n\nThe setting `outputStyle` chooses one for new sessions.",
        lines.join("\n")
    )
}
