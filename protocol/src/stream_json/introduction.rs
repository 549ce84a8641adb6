//! What we tell of ourselves: the answer to `initialize`, and the `init` message that begins each prompt. Pure.

use serde_json::{Value, json};

use super::wire::Listed;
use crate::{AgentInfo, Engaged, Introduction};

/// Names of tools for which hosts look in the list of tools under an older one.
const OLDER: [(&str, &str); 1] = [("Agent", "Task")];

/// The answer to `initialize`.
pub(crate) fn all(introduction: &Introduction) -> Value {
    json!({
        "commands": commands(introduction),
        "agents": agents(&introduction.agents),
        "output_style": "default",
        "available_output_styles": ["default"],
        "models": models(introduction),
        "account": introduction.account,
        "pid": std::process::id(),
        "claude_code_version": introduction.version,
    })
}

/// The kinds of subagents.
pub(crate) fn agents(agents: &[AgentInfo]) -> Value {
    let agents = agents.iter().map(|agent| {
        let mut told = json!({"name": agent.name, "description": agent.description});
        if let Some(model) = &agent.model {
            told["model"] = json!(model);
        }
        told
    });
    agents.collect()
}

/// A part of it.
pub(crate) fn part(introduction: &Introduction, listed: Listed) -> Value {
    match listed {
        Listed::All => all(introduction),
        Listed::Commands => commands(introduction),
        Listed::Models => models(introduction),
        Listed::Account => introduction.account.clone(),
    }
}

fn commands(introduction: &Introduction) -> Value {
    let commands = introduction.commands.iter();
    let command = |(name, description, hint): &(String, String, String)| json!({"name": name, "description": description, "argumentHint": hint});
    commands.map(command).collect()
}

fn models(introduction: &Introduction) -> Value {
    let models = introduction.models.iter();
    let model = |(value, shown, description): &(String, String, String)| json!({"value": value, "displayName": shown, "description": description});
    models.map(model).collect()
}

/// What a host is told at the start of each prompt.
pub(crate) fn init(engaged: &Engaged, introduction: &Introduction) -> Value {
    let session = &engaged.session;
    let tools: Vec<&str> = { session.tools().specs().iter() }
        .map(|spec| listed(&spec.name))
        .collect();
    let servers: Vec<_> = { engaged.servers.iter() }
        .flat_map(|servers| servers.status())
        .map(|status| json!({"name": status.name, "status": status.state.as_str()}))
        .collect();
    let commands: Vec<&str> = { introduction.commands.iter() }
        .map(|(name, ..)| name.as_str())
        .collect();
    let plugins: Vec<_> = { engaged.plugins.iter() }
        .map(|(name, path)| json!({"name": name, "path": path}))
        .collect();
    let agents: Vec<&str> = { engaged.agents.iter() }
        .map(|agent| agent.name.as_str())
        .collect();
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
        "output_style": "default",
        "agents": agents,
        "skills": engaged.skills,
        "plugins": plugins,
    })
}

fn listed(name: &str) -> &str {
    let mut older = OLDER.iter();
    older
        .find(|(known, _)| *known == name)
        .map_or(name, |(_, older)| older)
}
