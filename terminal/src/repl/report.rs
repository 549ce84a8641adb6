//! Reports on a session: cost, use of the context window, permissions, tools, servers, skills.

use ah_agent::Session;
use ah_agent::prompt::PromptPart;
use ah_agent::skills::Skills;
use ah_conversation::{ContentBlock, Role, ToolName, estimate_block, estimate_text};
use ah_conversation::{Cost, ModelUsage};

use std::path::{Path, PathBuf};

use super::effect::About;
use crate::print::count;
use ah_conversation::neutralise;

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

/// Returns a report as lines.
pub fn text(
    about: About,
    session: &Session,
    prompt: &[Vec<PromptPart>],
    skills: &Skills,
    models: &[ModelUsage],
) -> String {
    let lines = match about {
        About::Cost => cost(models),
        About::Context => context(session, prompt),
        About::Permissions => permissions(session),
        About::Tools => tools(session),
        About::Servers => servers(session),
        About::Status => Vec::new(),
        About::Memory => memory(prompt),
        About::Skills => skills
            .iter()
            .map(|skill| format!("{:<20} {}", skill.name, first(&skill.description)))
            .collect(),
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
        About::Permissions => "No permission rules.",
        About::Tools => "No tools.",
        About::Servers => "No MCP servers configured.",
        About::Skills => "No skills found.",
        About::Status => "No status.",
        About::Memory => "No instruction files; `/init` writes one.",
    }
}

/// Returns the first line of a text.
fn first(text: &str) -> &str {
    text.trim().lines().next().unwrap_or_default()
}

/// Returns the files that the prompt was made from, with their estimated tokens.
fn memory(prompt: &[Vec<PromptPart>]) -> Vec<String> {
    let parts = prompt.iter().flatten();
    let files = parts.filter(|part| part.source.ends_with(".md"));
    files
        .map(|part| {
            let tokens = count(estimate_text(&part.text));
            format!("{tokens:>8} tokens  {}", part.source)
        })
        .collect()
}

fn cost(shares: &[ModelUsage]) -> Vec<String> {
    let mut lines: Vec<_> = shares.iter().map(share).collect();
    if shares.len() > 1 {
        let tokens = ModelUsage::total(shares).total();
        let known: Cost = shares.iter().filter_map(|share| share.cost).sum();
        lines.push(format!("{:<30} {} tokens, {known}", "total", count(tokens)));
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
            format!("prompt: {}", part.source),
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

fn permissions(session: &Session) -> Vec<String> {
    let permissions = &session.settings().permissions;
    let mut lines = vec![format!("mode   {}", permissions.mode.as_str())];
    for (word, rules) in [
        ("deny ", &permissions.deny),
        ("ask  ", &permissions.ask),
        ("allow", &permissions.allow),
    ] {
        lines.extend(rules.iter().map(|rule| format!("{word}  {rule}")));
    }
    let folders = permissions.directories.iter();
    lines.extend(folders.map(|folder| format!("files  {}", folder.display())));
    lines
}

fn tools(session: &Session) -> Vec<String> {
    let specs = session.tools().specs().iter();
    specs
        .map(|spec| format!("{:<20} {}", spec.name, first(&spec.description)))
        .collect()
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
