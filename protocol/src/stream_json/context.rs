//! What fills the context window, by source. Token counts of parts are estimates. Pure.

use std::sync::Arc;

use ah_agent::agents::Agents;
use ah_agent::prompt::PromptSource;
use ah_conversation::{Model, ToolName, ToolSpec, estimate_text};
use serde_json::{Value, json};

/// Names of facts of the system prompt that are no files.
const NO_FILES: [&str; 5] = [
    "environment",
    "skills",
    "--must-produce",
    "--until",
    "--timeout",
];
/// Tokens of a skill's line in the list, without its text.
const SKILLS: &str = "skills";
/// Squares per row and rows of the picture that the original program draws.
const GRID: (u64, u64) = (10, 10);

/// Parts of a request, as far as they are known between runs.
pub(crate) struct ContextParts {
    /// The system prompt.
    pub(crate) prompt: PromptSource,
    /// The tools as last sent.
    pub(crate) tools: Arc<[ToolSpec]>,
    /// Subagent types.
    pub(crate) agents: Agents,
    /// Tokens at which the conversation is summarised.
    pub(crate) compact_at: u64,
}

/// Returns the usage of the window of `model`. `used` are the tokens of the last request and its answer, 0 before the
/// first.
pub(crate) fn usage(parts: &ContextParts, used: u64, model: &Model) -> Value {
    let window = model.context_window;
    let prompt = parts.prompt.now();
    let is_file = |name: &str| !NO_FILES.contains(&name) && !name.starts_with("--");
    let files: Vec<(&str, u64)> = { prompt.facts.iter() }
        .filter(|fact| is_file(&fact.name))
        .map(|fact| (fact.name.as_str(), estimate_text(&fact.text)))
        .collect();
    let memory: u64 = files.iter().map(|(_, tokens)| tokens).sum();
    let skills = prompt.facts.iter().filter(|fact| fact.name == SKILLS);
    let skills: u64 = skills.map(|fact| estimate_text(&fact.text)).sum();
    let whole: u64 = prompt.system.iter().map(|text| estimate_text(text)).sum();
    let (served, own): (Vec<&ToolSpec>, Vec<&ToolSpec>) =
        { parts.tools.iter() }.partition(|tool| ToolName(&tool.name).is_of_server());
    let sum = |tools: &[&ToolSpec]| tools.iter().map(|tool| of_tool(tool)).sum::<u64>();
    let agents = parts.agents.iter().map(|agent| {
        let tokens = estimate_text(&agent.name) + estimate_text(&agent.description);
        json!({"agentType": agent.name, "source": "userSettings", "tokens": tokens})
    });
    let known = [
        (
            "system_prompt",
            "System prompt",
            whole.saturating_sub(memory + skills),
        ),
        ("system_tools", "System tools", sum(&own)),
        ("mcp_tools", "MCP tools", sum(&served)),
        ("memory_files", "Memory files", memory),
        ("skills", "Skills", skills),
    ];
    let before: u64 = known.iter().map(|(.., tokens)| tokens).sum();
    let messages = ("messages", "Messages", used.saturating_sub(before));
    let total = before + messages.2;
    let mut categories: Vec<_> = known
        .into_iter()
        .chain([messages])
        .filter(|(.., tokens)| *tokens > 0)
        .map(|(id, name, tokens)| {
            json!({"id": id, "name": name, "tokens": tokens, "color": id, "kind": "used"})
        })
        .collect();
    let free = window.saturating_sub(total);
    categories.push(json!({
        "id": "free_space", "name": "Free space", "tokens": free, "color": "free_space", "kind": "free",
    }));
    let tools = served.iter().map(|tool| {
        let server = tool.name.split("__").nth(1).unwrap_or_default();
        json!({"name": tool.name, "serverName": server, "tokens": of_tool(tool), "isLoaded": true})
    });
    json!({
        "categories": categories,
        "totalTokens": total,
        "maxTokens": window,
        "rawMaxTokens": window,
        "autoCompactThreshold": parts.compact_at,
        "percentage": percent(total, window),
        "gridRows": grid(&categories, window),
        "model": model.name,
        "memoryFiles": files
            .iter()
            .map(|(path, tokens)| json!({"path": path, "type": "Project", "tokens": tokens}))
            .collect::<Vec<_>>(),
        "mcpTools": tools.collect::<Vec<_>>(),
        "agents": agents.collect::<Vec<_>>(),
        "isAutoCompactEnabled": true,
        "apiUsage": null,
    })
}

/// Returns the usage as Markdown.
pub(crate) fn markdown(usage: &Value) -> String {
    let count = |value: &Value| value.as_u64().unwrap_or_default();
    let window = count(&usage["maxTokens"]);
    let mut lines = vec![
        "## Context Usage".to_owned(),
        String::new(),
        format!(
            "**Model:** {}  ",
            usage["model"].as_str().unwrap_or_default()
        ),
        format!(
            "**Tokens:** {} / {} ({}%)",
            short(count(&usage["totalTokens"])),
            short(window),
            count(&usage["percentage"]),
        ),
        String::new(),
        "### Estimated usage by category".to_owned(),
        String::new(),
        "| Category | Tokens | Percentage |".to_owned(),
        "|----------|--------|------------|".to_owned(),
    ];
    for category in usage["categories"].as_array().into_iter().flatten() {
        let tokens = count(&category["tokens"]);
        let tenths = (tokens * 1000).checked_div(window).unwrap_or_default();
        lines.push(format!(
            "| {} | {} | {}.{}% |",
            category["name"].as_str().unwrap_or_default(),
            short(tokens),
            tenths / 10,
            tenths % 10,
        ));
    }
    lines.join("\n")
}

fn of_tool(tool: &ToolSpec) -> u64 {
    estimate_text(&tool.name)
        + estimate_text(&tool.description)
        + estimate_text(&tool.input_schema.to_string())
}

fn percent(part: u64, whole: u64) -> u64 {
    (part * 100).checked_div(whole).unwrap_or_default()
}

/// Returns a picture of the window: each square is an equal part of it.
fn grid(categories: &[Value], window: u64) -> Value {
    let (columns, rows) = GRID;
    let all = columns * rows;
    let mut squares: Vec<Value> = Vec::new();
    for category in categories {
        let tokens = category["tokens"].as_u64().unwrap_or_default();
        let is_free = category["kind"] == "free";
        let wanted = (tokens * all).div_ceil(window.max(1));
        let left = all.saturating_sub(squares.len() as u64);
        let count = if is_free { left } else { wanted.min(left) };
        let square = json!({
            "color": category["color"],
            "isFilled": !is_free,
            "categoryName": category["name"],
            "tokens": tokens,
            "percentage": percent(tokens, window),
            "squareFullness": if is_free { 0 } else { 1 },
        });
        squares.extend((0..count).map(|_| square.clone()));
    }
    let columns = usize::try_from(columns).unwrap_or(1);
    squares.chunks(columns).map(|row| json!(row)).collect()
}

/// Returns a count in thousands above 1,000.
fn short(tokens: u64) -> String {
    if tokens < 1_000 {
        return tokens.to_string();
    }
    let tenths = tokens / 100;
    match tenths % 10 {
        0 => format!("{}k", tenths / 10),
        rest => format!("{}.{rest}k", tenths / 10),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usage_is_told_by_source() {
        let parts = ContextParts {
            prompt: vec!["x".repeat(4_000)].into(),
            tools: Arc::new([]),
            agents: Agents::default(),
            compact_at: 8_000,
        };
        let model = Model {
            provider: "anthropic".into(),
            name: "claude-x".into(),
            context_window: 10_000,
            max_output: 1_000,
            price: None,
            long_price: None,
        };
        let told = usage(&parts, 3_540, &model);
        assert_eq!(told["gridRows"].as_array().map(Vec::len), Some(10));
        insta::assert_snapshot!(markdown(&told), @"
        ## Context Usage

        **Model:** claude-x  
        **Tokens:** 3.5k / 10k (35%)

        ### Estimated usage by category

        | Category | Tokens | Percentage |
        |----------|--------|------------|
        | System prompt | 1k | 10.0% |
        | Messages | 2.5k | 25.4% |
        | Free space | 6.4k | 64.6% |
        ");
    }
}
