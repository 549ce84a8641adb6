//! The response to `initialize`, and the `init` message at the start of each prompt. Pure.

use serde_json::{Value, json};

use super::wire::IntroductionPart;
use crate::{AgentInfo, Engaged, Introduction};

/// Tools that hosts expect under an older name in the list of tools.
const OLDER: [(&str, &str); 1] = [("Agent", "Task")];

/// Returns the response to `initialize`.
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

/// Returns the subagent types.
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

/// Returns a part of the response to `initialize`.
pub(crate) fn part(introduction: &Introduction, listed: IntroductionPart) -> Value {
    match listed {
        IntroductionPart::All => all(introduction),
        IntroductionPart::Commands => commands(introduction),
        IntroductionPart::Models => models(introduction),
        IntroductionPart::Account => introduction.account.clone(),
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

/// Returns the `init` message.
pub(crate) fn init(engaged: &Engaged, introduction: &Introduction) -> Value {
    let session = &engaged.session;
    let tools: Vec<&str> = session.tools().names().map(listed).collect();
    let servers = engaged.servers.iter().flat_map(|servers| servers.status());
    let servers: Vec<_> = servers
        .map(|status| json!({"name": status.name, "status": status.state.as_str()}))
        .collect();
    let commands = introduction.commands.iter();
    let commands: Vec<&str> = commands.map(|(name, ..)| name.as_str()).collect();
    let plugins = engaged.plugins.iter();
    let plugins: Vec<_> = plugins
        .map(|(name, path)| json!({"name": name, "path": path}))
        .collect();
    let agents: Vec<&str> = engaged.agents.iter().map(|it| it.name.as_str()).collect();
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
