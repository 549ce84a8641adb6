//! The conversation tree: shown by `scan`, `show`, `tree`, `branches`, `diff`; changed by `checkout`, `branch rm`,
//! `rmm`.

mod edit;

use std::io::{IsTerminal, Write, stdout};

use ah_agent::without_agent_id;
use ah_conversation::{ContentBlock, Head, Message, MessageId, is_note, lines_between};
use ah_store::Tree;
use serde_json::{Value, json};

use super::place::tree;
use crate::args::json::Json;
use crate::commands::output::{print, print_json};
use ah_config::{Config, Error};
use ah_engine::sessions::plan::SessionPlan;
use ah_terminal::exit::output_error;
use ah_terminal::message::{Keys, is_only_results, letter, role, summary, to_json};
use ah_terminal::print::shown;

pub use edit::{checkout, remove, remove_branch};

/// Maximum number of shown lines of a tool's output.
const OUTPUT_LINES: usize = 5;

/// Lists the messages of the current branch.
pub fn scan(config: &Config, plan: &SessionPlan, form: Json) -> Result<u8, Error> {
    let tree = tree(plan, config)?;
    let heads = match tree.current()? {
        Some(current) => tree.ancestry(&current)?,
        None => Vec::new(),
    };
    if form.json {
        return print_json(&heads.iter().map(to_json).collect());
    }
    let keys = Keys::of(&config.environment)?;
    let mut lines = String::new();
    for (at, head) in heads.iter().enumerate() {
        if is_only_results(head) {
            continue;
        }
        let mark = if at + 1 == heads.len() { '>' } else { ' ' };
        let text = ah_terminal::line::preview(&head.preview, 60);
        let line = format!(
            "{mark} {:>3} {} {text}",
            head.message.seq,
            letter(head.message.role)
        );
        lines.push_str(line.trim_end());
        lines.push('\n');
        for call in &head.tool_uses {
            lines.push_str(&format!("        → {}\n", keys.show(call, 40)));
        }
    }
    print(&lines)
}

/// Prints one message.
pub fn show(
    config: &Config,
    plan: &SessionPlan,
    number: Option<u32>,
    form: Json,
) -> Result<u8, Error> {
    let message = message(&tree(plan, config)?, number)?;
    if form.json {
        return print_json(&json!(message));
    }
    print(&page(&message, &Keys::of(&config.environment)?))
}

/// Prints the complete outputs of the calls that a message requests or answers, byte for byte; on a terminal without
/// control characters.
pub fn output(config: &Config, plan: &SessionPlan, number: Option<u32>) -> Result<u8, Error> {
    let tree = tree(plan, config)?;
    let message = message(&tree, number)?;
    let asked = message.tool_uses().map(|call| &call.id);
    let answered = message.tool_results().map(|result| &result.tool_use_id);
    let calls: Vec<_> = asked.chain(answered).collect();
    if calls.is_empty() {
        let message = format!("message @{} has no tool calls", message.seq);
        return Err(Error::failure(message).hint("`ah scan` lists the messages"));
    }
    let mut stdout = stdout().lock();
    for call in calls {
        if stdout.is_terminal() {
            let mut bytes = Vec::new();
            tree.copy_output(call, &mut bytes)?;
            let text = String::from_utf8_lossy(&bytes);
            write!(stdout, "{}", shown(&text)).map_err(|error| output_error(&error))?;
        } else {
            tree.copy_output(call, &mut stdout)?;
        }
    }
    Ok(0)
}

/// Returns the message with that number on the branch, or the last one.
fn message(tree: &Tree, number: Option<u32>) -> Result<Message, Error> {
    let id = match number {
        Some(number) => numbered(tree, number)?,
        None => tree
            .current()?
            .ok_or_else(|| Error::failure("the session is empty"))?,
    };
    tree.message(&id)?
        .ok_or_else(|| Error::failure(format!("message not found: {id}")))
}

fn page(message: &Message, keys: &Keys) -> String {
    let mut page = format!("--- {} @{} ---\n", role(message.role), message.seq);
    for block in &message.content {
        match block {
            ContentBlock::Text { text } if is_note(text) => {
                page.extend(shown(text).lines().map(|line| format!("| {line}\n")));
            }
            ContentBlock::Text { text } => page.push_str(&format!("{}\n", shown(text))),
            ContentBlock::Thinking { thinking, .. } => {
                let lines = shown(thinking);
                page.extend(lines.lines().map(|line| format!("| {line}\n")));
            }
            ContentBlock::RedactedThinking { .. } => {
                page.push_str("| (redacted thinking)\n");
            }
            ContentBlock::Image(image) => page.push_str(&format!("({})\n", image.media_type)),
            ContentBlock::ToolUse(call) => page.push_str(&format!("→ {}\n", keys.show(call, 200))),
            ContentBlock::ToolResult(result) => {
                let text = result.text();
                let text = without_agent_id(&text);
                let text = shown(text);
                for (at, line) in text.lines().take(OUTPUT_LINES).enumerate() {
                    let mark = if at == 0 { '←' } else { ' ' };
                    page.push_str(&format!("{mark} {line}\n"));
                }
                match lines_between(&text, result.lines, OUTPUT_LINES, 0) {
                    0 => {}
                    1 => page.push_str("  ... (1 more line)\n"),
                    more => page.push_str(&format!("  ... ({more} more lines)\n")),
                }
            }
            ContentBlock::Other { raw } => {
                page.push_str(&format!("({})\n", shown(&raw.to_string())));
            }
        }
    }
    page
}

/// Draws all branches.
pub fn draw(config: &Config, plan: &SessionPlan, form: Json) -> Result<u8, Error> {
    let tree = tree(plan, config)?;
    let heads = tree.heads()?;
    let current = tree.current()?;
    if form.json {
        return print_json(&json!({
            "current": current,
            "messages": heads.iter().map(to_json).collect::<Vec<_>>(),
        }));
    }
    let keys = Keys::of(&config.environment)?;
    let rows = ah_terminal::tree::draw(&heads, current.as_ref(), &|head| summary(head, &keys, 60));
    print(
        &rows
            .iter()
            .map(|(_, row)| format!("{row}\n"))
            .collect::<String>(),
    )
}

/// Lists the last messages of all branches.
pub fn branches(config: &Config, plan: &SessionPlan, form: Json) -> Result<u8, Error> {
    let tree = tree(plan, config)?;
    let leaves = tree.leaves()?;
    let current = tree.current()?;
    let is_current = |head: &Head| Some(&head.message.id) == current.as_ref();
    if form.json {
        let leaf = |(head, depth): &(Head, usize)| {
            let mut object = to_json(head);
            object["depth"] = json!(depth);
            object["current"] = json!(is_current(head));
            object
        };
        return print_json(&leaves.iter().map(leaf).collect());
    }
    let keys = Keys::of(&config.environment)?;
    let line = |(head, depth): &(Head, usize)| {
        let mark = if is_current(head) { '>' } else { ' ' };
        let Message { seq, role, .. } = head.message;
        format!(
            "{mark} @{seq} {} depth:{depth} {}\n",
            letter(role),
            summary(head, &keys, 40)
        )
    };
    print(&leaves.iter().map(line).collect::<String>())
}

/// Prints the difference between two branches.
pub fn diff(
    config: &Config,
    plan: &SessionPlan,
    left: u32,
    right: u32,
    form: Json,
) -> Result<u8, Error> {
    let tree = tree(plan, config)?;
    for number in [left, right] {
        numbered(&tree, number)?;
    }
    let Some(diff) = tree.diff(left, right)? else {
        return Err(Error::failure(format!("both messages are @{left}"))
            .hint("`ah tree` shows all messages"));
    };
    if form.json {
        let list = |heads: &[Head]| heads.iter().map(to_json).collect::<Value>();
        return print_json(&json!({
            "fork": diff.fork.as_ref().map(to_json),
            "left": list(&diff.left),
            "right": list(&diff.right),
        }));
    }
    if diff.left.is_empty() || diff.right.is_empty() {
        return print("no differences: both are on one branch\n");
    }
    let keys = Keys::of(&config.environment)?;
    let line = |mark: char, head: &Head| {
        let Message { seq, role, .. } = head.message;
        format!(
            "{mark} @{seq} {} {}\n",
            letter(role),
            summary(head, &keys, 60)
        )
    };
    let mut lines = match &diff.fork {
        Some(fork) => line('=', fork),
        None => "= (nothing in common)\n".to_owned(),
    };
    lines.extend(diff.left.iter().map(|head| line('<', head)));
    lines.extend(diff.right.iter().map(|head| line('>', head)));
    print(&lines)
}

fn numbered(tree: &Tree, number: u32) -> Result<MessageId, Error> {
    tree.numbered(number)?.ok_or_else(|| missing(number))
}

fn missing(number: u32) -> Error {
    Error::failure(format!("message not found: @{number}")).hint("`ah tree` shows all messages")
}
