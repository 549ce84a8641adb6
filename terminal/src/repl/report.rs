//! Reports on a session: cost, use of the context window, permissions, tools, servers, skills.

use std::path::{Path, PathBuf};

use ah_agent::Session;
use ah_agent::agents::Agents;
use ah_agent::hooks::HookSetting;
use ah_agent::prompt::PromptPart;
use ah_agent::skills::Skills;
use ah_config::Sourced;
use ah_conversation::ModelUsage;
use ah_conversation::neutralise;
use ah_conversation::{
    ContentBlock, Environment, Role, ToolName, estimate_block, estimate_text, title_of,
};

use super::effect::About;
use super::facts::Totals;
use crate::print::count;
use crate::print::wrap::width;

/// Parts of the prompt that come with the program.
const BUILT_IN: [&str; 2] = ["system.md", "claude.md"];

/// Returns the file that a session with this id is exported to: the wanted one, or one in `folder` that is not there yet.
pub fn export_path(wanted: &str, id: &str, folder: &Path, home: Option<PathBuf>) -> PathBuf {
    if let (Some(below), Some(home)) = (wanted.strip_prefix("~/"), home) {
        return home.join(below);
    }
    if !wanted.is_empty() {
        return folder.join(wanted);
    }
    let numbered = (2..).map(|number| format!("session-{id}-{number}.md"));
    let names = std::iter::once(format!("session-{id}.md")).chain(numbered);
    let mut paths = names.map(|name| folder.join(name));
    let free = paths.find(|path| !path.exists());
    free.unwrap_or_else(|| folder.join(id))
}

/// Returns a report as lines of at most `columns`, if it is a list.
pub fn text(
    about: About,
    session: &Session,
    prompt: &[Vec<PromptPart>],
    skills: &Skills,
    totals: &Totals,
    columns: usize,
) -> String {
    let lines = match about {
        About::Cost => cost(totals),
        About::Context => context(session, prompt),
        About::Tools => {
            let specs = session.tools().specs().iter();
            list(specs.map(|spec| (&*spec.name, &*spec.description)), columns)
        }
        About::Servers => servers(session),
        About::Status | About::Permissions | About::Hooks | About::Agents => Vec::new(),
        About::Memory => memory(prompt),
        About::Skills => {
            // The others are a part of something else, such as the phases of `ah work`.
            let usable = { skills.iter() }.filter(|skill| skill.is_listed || skill.is_command);
            list(
                usable.map(|skill| (&*skill.name, &*skill.description)),
                columns,
            )
        }
    };
    let mut text = String::new();
    for line in &lines {
        text.push_str(&format!("  {}\n", neutralise(line)));
    }
    if lines.is_empty() {
        text.push_str(&format!("  {}\n", none(about)));
    }
    text + "\n"
}

/// Returns the text of an empty report.
fn none(about: About) -> &'static str {
    match about {
        About::Cost => "No requests yet.",
        About::Context => "The context window is empty.",
        About::Permissions | About::Hooks => "Nothing.",
        About::Tools => "No tools.",
        About::Servers => "No MCP servers configured.",
        About::Skills => "No skills found.",
        About::Agents => "No subagents found.",
        About::Status => "No status.",
        About::Memory => "No instruction files; `/init` writes one.",
    }
}

/// Widest column of names in a list.
const NAMES: usize = 24;

/// Returns names with what each is for, in a line of at most `columns`: of descriptions for the model, a person needs the
/// first sentence.
fn list<'a>(entries: impl Iterator<Item = (&'a str, &'a str)>, columns: usize) -> Vec<String> {
    let entries: Vec<_> = entries.collect();
    let names = entries.iter().map(|(name, _)| width(name).min(NAMES));
    let wide = names.max().unwrap_or(0);
    let line = |(name, about): &(&str, &str)| {
        let name = format!("{name}{}  ", " ".repeat(wide.saturating_sub(width(name))));
        // Behind the indentation.
        let room = columns.saturating_sub(2 + width(&name));
        format!("{name}{}", title_of(about, room))
    };
    entries.iter().map(line).collect()
}

/// Returns the subagents that the model may start, in a line each.
pub fn agents(agents: &Agents, columns: usize) -> String {
    let entries = { agents.iter() }.map(|agent| (&*agent.name, &*agent.description));
    told(&list(entries, columns))
}

/// Returns the files that the prompt was made from, with their estimated tokens.
fn memory(prompt: &[Vec<PromptPart>]) -> Vec<String> {
    let parts = prompt.iter().flatten();
    let is_file = |part: &&PromptPart| {
        part.source.ends_with(".md") && !BUILT_IN.contains(&part.source.as_str())
    };
    let files = parts.filter(is_file);
    files
        .map(|part| {
            let tokens = count(estimate_text(&part.text));
            format!("{tokens:>8} tokens  {}", part.source)
        })
        .collect()
}

/// Returns the tokens and the cost of each model, and of all: of a model for which not all prices are known, only the total has
/// what is known.
pub fn cost(totals: &Totals) -> Vec<String> {
    let shares = &totals.models;
    let mut lines: Vec<_> = shares.iter().map(share).collect();
    let is_unpriced = shares.iter().any(|share| share.cost.is_none());
    if shares.len() > 1 || is_unpriced {
        let tokens = count(ModelUsage::total(shares).total());
        let cost = match (is_unpriced, totals.cost.usd() > 0.0) {
            (true, false) => "price unknown".to_owned(),
            (true, true) => format!("{}, plus usage of unknown price", totals.cost),
            (false, _) => totals.cost.to_string(),
        };
        lines.push(format!("{:<30} {tokens} tokens, {cost}", "total"));
    }
    lines
}

fn share(share: &ModelUsage) -> String {
    let usage = &share.usage;
    let cost = share
        .cost
        .map_or_else(|| "price unknown".to_owned(), |cost| cost.to_string());
    format!(
        "{:<30} {} in ({} cached) / {} out, {cost}",
        share.model,
        count(usage.effective_input()),
        count(usage.cache_read_input_tokens),
        count(usage.output_tokens)
    )
}

/// Reports the use of the context window by source, estimated; the tokens counted by the model come last.
fn context(session: &Session, prompt: &[Vec<PromptPart>]) -> Vec<String> {
    let mut rows: Vec<(String, u64)> = Vec::new();
    let mut add = |what: String, tokens: u64| match rows.iter_mut().find(|(row, _)| *row == what) {
        Some((_, sum)) => *sum += tokens,
        None => rows.push((what, tokens)),
    };
    for part in prompt.iter().flatten() {
        add(
            match BUILT_IN.contains(&part.source.as_str()) {
                true => "built-in prompt".to_owned(),
                false => format!("prompt: {}", part.source),
            },
            estimate_text(&part.text),
        );
    }
    for tool in session.tools().specs().iter() {
        let what = match ToolName(&tool.name).parts() {
            Some((server, _)) => format!("tools of {server}"),
            None => "tools".to_owned(),
        };
        let schema = tool.input_schema.to_string();
        add(
            what,
            estimate_text(&tool.description) + estimate_text(&schema),
        );
    }
    for message in session.transcript().view() {
        for block in &message.content {
            let what = match (block, message.role) {
                _ if message.is_summary() => "summary of earlier messages",
                (ContentBlock::ToolUse(_), _) => "tool calls",
                (ContentBlock::ToolResult(_), _) => "tool results",
                (ContentBlock::Thinking { .. } | ContentBlock::RedactedThinking { .. }, _) => {
                    "thinking"
                }
                (ContentBlock::Image(_), _) => "pictures",
                (_, Role::User) => "your messages",
                (_, Role::Assistant) => "assistant messages",
            };
            add(what.to_owned(), estimate_block(block));
        }
    }
    let window = session.model().context_window;
    let mut lines: Vec<_> = rows
        .iter()
        .map(|(what, tokens)| row(what, *tokens, window))
        .collect();
    let all = rows.iter().map(|(_, tokens)| tokens).sum();
    lines.push(row("total (estimated)", all, window));
    let counted = session.transcript().context_tokens();
    if counted > 0 {
        lines.push(row(
            "last request (reported by the server)",
            counted,
            window,
        ));
    }
    let reserved = session.settings().limits.reserve();
    lines.push(row("reserved for the answer", reserved, window));
    let used = if counted > 0 { counted } else { all };
    let free = window.saturating_sub(used + reserved);
    lines.push(row("free", free, window));
    lines.push(format!(
        "{:>8}        context window of {}",
        count(window),
        session.model().name
    ));
    lines
}

fn row(what: &str, tokens: u64, window: u64) -> String {
    let percent = (tokens * 100).checked_div(window).unwrap_or_default();
    format!("{:>8}  {percent:>3}%  {what}", count(tokens))
}

/// Returns what is allowed: mode, rules, folders, hosts and sandbox.
pub fn permissions(session: &Session, confined: &str, environment: &Environment) -> String {
    let permissions = &session.settings().permissions;
    let mut lines = vec![
        format!("mode     {}", permissions.mode.as_str()),
        format!("sandbox  {confined}"),
    ];
    for (word, rules) in [
        ("deny   ", &permissions.deny),
        ("ask    ", &permissions.ask),
        ("allow  ", &permissions.allow),
    ] {
        lines.extend(rules.iter().map(|rule| format!("{word}  {rule}")));
    }
    let folders = std::iter::once(environment.cwd());
    let folders = folders.chain(permissions.directories.iter().map(PathBuf::as_path));
    lines.extend(folders.map(|folder| format!("folder   {}", folder.display())));
    lines.extend(
        permissions
            .hosts
            .iter()
            .map(|host| format!("host     {host}")),
    );
    lines.push(String::new());
    lines.push(
        "/permissions allow|ask|deny|remove RULE changes a rule; Shift+Tab changes the mode"
            .to_owned(),
    );
    told(&lines)
}

/// Returns the hooks, in the order in which they are called, and where each comes from.
pub fn hooks(hooks: &[Sourced<HookSetting>]) -> String {
    let hooks = hooks.iter();
    let lines: Vec<_> = hooks
        .map(|hook| {
            let event = hook.value.event.as_str();
            format!("{event:<18} {}  ({})", hook.value.shown(), hook.origin)
        })
        .collect();
    match lines.is_empty() {
        true => {
            "  No hooks. They are set under `hooks` in the settings: docs/hooks.md\n\n".to_owned()
        }
        false => told(&lines),
    }
}

fn told(lines: &[String]) -> String {
    let lines = lines.iter();
    let lines = lines.map(|line| format!("  {}\n", neutralise(line)).replace("  \n", "\n"));
    lines.collect::<String>() + "\n"
}

fn servers(session: &Session) -> Vec<String> {
    let servers = session.tools().servers();
    let status = servers.map(|servers| servers.status()).unwrap_or_default();
    let line = |server: &ah_conversation::ServerStatus| {
        let error = server
            .error
            .as_deref()
            .map_or_else(String::new, |error| format!(": {error}"));
        format!("{:<20} {}{error}", server.name, server.state.as_str())
    };
    status.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_export_takes_a_name_that_is_free_or_the_wanted_one() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let home = || Some(PathBuf::from("/home/me"));
        let to = |wanted| export_path(wanted, "01", folder, home());
        assert_eq!(to(""), folder.join("session-01.md"));
        std::fs::write(to(""), "").unwrap();
        assert_eq!(to(""), folder.join("session-01-2.md"));
        assert_eq!(to("x.md"), folder.join("x.md"));
        assert_eq!(to("~/x.md"), PathBuf::from("/home/me/x.md"));
        assert_eq!(export_path("~/x", "01", folder, None), folder.join("~/x"));
    }
}
