//! What we tell of ourselves: the answer to `initialize`, and the `init` message that begins each prompt. Pure.

use serde_json::{Value, json};

use super::wire::Listed;
use crate::{Engaged, Introduction};

/// The answer to `initialize`.
pub(crate) fn all(introduction: &Introduction) -> Value {
    let agents: Vec<_> = { introduction.agents.iter() }
        .map(|(name, description)| json!({"name": name, "description": description}))
        .collect();
    json!({
        "commands": commands(introduction),
        "agents": agents,
        "output_style": "default",
        "available_output_styles": ["default"],
        "models": models(introduction),
        "account": introduction.account,
        "pid": std::process::id(),
        "claude_code_version": introduction.version,
    })
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
        .map(|spec| spec.name.as_str())
        .collect();
    let servers: Vec<_> = { engaged.servers.iter() }
        .flat_map(|servers| servers.status())
        .map(|status| json!({"name": status.name, "status": status.state.as_str()}))
        .collect();
    let commands: Vec<&str> = { introduction.commands.iter() }
        .map(|(name, ..)| name.as_str())
        .collect();
    let agents: Vec<&str> = { introduction.agents.iter() }
        .map(|(name, _)| name.as_str())
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
        "plugins": [],
    })
}
