//! Lists to choose from: sessions of the folder, messages of the session.

use ah_config::places::short;
use ah_conversation::{Head, Message, MessageId, Origin, Time};
use ah_engine::sessions::folders::{STRANGE, directory, everywhere};
use ah_git::repository;
use ah_store::SessionHead;

use super::picker::{Entry, Picker, Subject};
use crate::print::count;
use crate::tree;
use ah_config::Config;
use ah_config::Error;

/// Length of a preview, in characters.
const PREVIEW: usize = 120;

/// Returns the sessions of the folder, or of all folders, the last written first.
///
/// # Errors
///
/// If they cannot be listed.
pub fn sessions(config: &Config, subject: Subject, now: Time) -> Result<Picker, Error> {
    let is_anywhere = subject == Subject::SessionAnywhere;
    let mut heads = if is_anywhere {
        everywhere(config)?.heads
    } else {
        ah_engine::sessions::place::sessions(config).list()?
    };
    heads.retain(|head| head.problem.is_none() && head.messages > 0);
    heads.sort_by_key(|head| std::cmp::Reverse(head.last_written));
    let home = config.environment.home();
    let entries = heads.iter().map(|head| {
        let folder = directory(head).filter(|_| is_anywhere);
        session(
            head,
            folder.map(|folder| short(&folder, home.as_deref())),
            now,
        )
    });
    let branch = repository(config.environment.cwd()).and_then(|repository| repository.branch);
    let of_branch = heads
        .iter()
        .map(|head| branch.is_some() && head.branch == branch);
    let of_branch = of_branch.collect();
    Ok(Picker::new(subject, entries.collect()).with_branch(of_branch))
}

/// `[name] the first words`, and below `2h ago · ~/folder · branch · 31.5k tokens · 12 messages`.
fn session(head: &SessionHead, folder: Option<String>, now: Time) -> Entry {
    let name = head
        .name
        .as_ref()
        .map_or_else(String::new, |name| format!("[{name}] "));
    let mut facts = vec![age(now.since(head.last_written))];
    facts.extend(folder);
    facts.extend(head.branch.clone());
    facts.extend((!head.is_known).then(|| STRANGE.to_owned()));
    facts.push(format!("{} tokens", count(head.tokens)));
    facts.push(match head.messages {
        1 => "1 message".to_owned(),
        messages => format!("{messages} messages"),
    });
    let facts = facts.join(" · ").replace('\n', " ");
    Entry {
        label: format!("{name}{}\n{facts}", preview(&head.first_text)),
        value: head.id.to_string(),
    }
}

/// Formats an age, given in milliseconds.
fn age(milliseconds: u64) -> String {
    match milliseconds / 60_000 {
        0 => "now".to_owned(),
        minutes @ 1..60 => format!("{minutes}min ago"),
        minutes @ 60..1_440 => format!("{}h ago", minutes / 60),
        minutes => format!("{}d ago", minutes / 1_440),
    }
}

/// Returns the messages of all branches as `ah tree` draws them, without those of subagents; the current one is marked.
pub fn messages(heads: &[Head], current: Option<&MessageId>) -> Picker {
    let heads: Vec<Head> = { heads.iter() }
        .filter(|head| head.agent_id.is_none())
        .cloned()
        .collect();
    let text = |head: &Head| match &head.message.origin {
        Origin::Summary { .. } => "(summary of what was said before)".to_owned(),
        _ => preview(&head.preview),
    };
    let rows = tree::draw(&heads, current, &text);
    let is_current = |head: &Head| Some(&head.message.id) == current;
    let rows = rows.into_iter();
    let rows: Vec<_> = rows
        .filter(|(head, _)| is_current(head) || !head.preview.trim().is_empty())
        .collect();
    let at = rows.iter().position(|(head, _)| is_current(head));
    let entries = rows.into_iter().map(|(head, label)| Entry {
        label,
        value: head.message.id.to_string(),
    });
    Picker::new(Subject::Message, entries.collect()).starting_at(at.unwrap_or(0))
}

/// Returns what the user has said on a branch, the newest first. `heads` are its messages.
pub fn prompts(heads: &[Head]) -> Picker {
    let said = heads.iter().rev().filter(|head| is_prompt(&head.message));
    let entries = said.map(|head| Entry {
        label: format!(
            "{:>5}  {}",
            format!("@{}", head.message.seq),
            preview(&head.preview)
        ),
        value: head.message.id.to_string(),
    });
    Picker::new(Subject::Prompt, entries.collect())
}

/// Returns whether a message is what the user has said between two runs, so that it can be said in other words.
pub fn is_prompt(message: &Message) -> bool {
    matches!(message.origin, Origin::Prompt | Origin::FollowUp)
}

fn preview(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(PREVIEW) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_told_in_the_largest_unit() {
        for (minutes, expected) in [
            (0, "now"),
            (59, "59min ago"),
            (60, "1h ago"),
            (1_439, "23h ago"),
            (3_000, "2d ago"),
        ] {
            assert_eq!(age(minutes * 60_000), expected);
        }
    }
}
