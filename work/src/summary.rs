//! Final report: `summary.json` for programs, a comment for people.

use ah_conversation::json;
use serde_json::{Value, json};

use crate::artifact::Artifacts;
use crate::journal::{Journal, PhaseUsage};
use crate::phase::{Phase, WorkStatus};
use crate::setup::proposal::Proposal;

/// Longest comment, in characters.
const LONGEST: usize = 4_000;

/// Returns the content of `summary.json`.
pub fn to_json(
    status: WorkStatus,
    repository: &str,
    journal: Option<&Journal>,
    artifacts: &Artifacts,
    started_at: &str,
    ended_at: &str,
) -> Value {
    let runs = journal
        .map(|journal| journal.runs.as_slice())
        .unwrap_or_default();
    let total = PhaseUsage::total(runs);
    let pull_request = journal.and_then(|journal| pull_request(journal, artifacts));
    let setup = journal.and_then(|_| Proposal::done(artifacts));
    let phases: Vec<_> = runs
        .iter()
        .map(|run| {
            json!({
                "phase": run.phase,
                "outcome": run.outcome.to_string(),
                "note": run.note,
                "verification": run.verification,
                "tokens": run.usage.map(|usage| usage.tokens),
                "cost_usd": run.usage.and_then(|usage| usage.cost_usd),
                "started_at": run.started_at,
                "ended_at": run.ended_at,
            })
        })
        .collect();
    json!({
        "status": status.as_str(),
        "repo": repository,
        "issue": journal.map(|journal| journal.issue.number),
        "branch": journal.map(|journal| &journal.branch),
        "pull_request": pull_request,
        "setup": setup.map(|plan| plan.to_json()),
        "phases": phases,
        "tokens": total.map(|usage| usage.tokens),
        "cost_usd": total.and_then(|usage| usage.cost_usd),
        "started_at": journal.map_or(started_at, |journal| &journal.started_at),
        "ended_at": ended_at,
    })
}

/// Returns the final comment: status, branch, phases, and the sections of the phases' files that explain the result.
pub fn comment(
    status: WorkStatus,
    journal: &Journal,
    artifacts: &Artifacts,
    log: Option<&str>,
    note: Option<&str>,
) -> String {
    let chain: Vec<_> = journal
        .runs
        .iter()
        .map(|run| format!("{} {}", run.phase, run.outcome))
        .collect();
    let mut lines = vec![
        format!("**ah work: {}**", status.as_str()),
        String::new(),
        format!("- Branch: `{}`", journal.branch),
        format!("- Phases: {}", chain.join(" → ")),
    ];
    let total = PhaseUsage::total(&journal.runs);
    lines.extend(total.map(|usage| format!("- Cost: {}", usage.words())));
    let pull = pull_request(journal, artifacts);
    lines.extend(pull.map(|url| format!("- Pull request: {url}")));
    lines.extend(log.map(|url| format!("- Log: {url}")));
    lines.extend(note.map(|note| format!("- Note: {note}")));
    let notes = journal.runs.iter().filter(|run| !run.note.is_empty());
    lines.extend(notes.map(|run| format!("- {}: {}", run.phase, cut(&run.note, 300))));
    let check = journal.check().map(|check| cut(&check, 300));
    lines.extend(check.map(|check| format!("- Check: {check}")));
    let text = |name: &str| artifacts.read(name).unwrap_or_default();
    let parts: &[(&str, String, usize)] = match status {
        WorkStatus::Success => &[("Verdict", section(&text("check/check.md"), "Verdict"), 200)],
        _ => &[
            ("Goal", section(&text("plan/plan.md"), "Goal"), 500),
            ("Plan", of_failed_plan(status, &text("plan/update.md")), 500),
            ("Changes", section(&text("do/do.md"), "Changes"), 500),
            ("Status", section(&text("do/do.md"), "Status"), 200),
            ("Verdict", section(&text("check/check.md"), "Verdict"), 500),
        ],
    };
    let has = |phase| journal.last(phase).is_some();
    for (title, text, longest) in parts {
        let is_of_this_work = match *title {
            "Changes" | "Status" => has(Phase::Do),
            "Verdict" => has(Phase::Check),
            _ => true,
        };
        if is_of_this_work && !text.is_empty() {
            lines.push(format!("\n### {title}\n\n{}", cut(text, *longest)));
        }
    }
    cut(&lines.join("\n"), LONGEST)
}

/// Returns the address of the pull request, if this work has opened it.
pub fn pull_request(journal: &Journal, artifacts: &Artifacts) -> Option<String> {
    journal.last(Phase::Act)?;
    let results: Value = json::from_str(&artifacts.read("act/results.json")?).ok()?;
    let mut actions = results["actions"].as_array()?.iter();
    let opened = actions.find(|done| done["action"] == "create_pr" && done["success"] == true)?;
    let url = opened["note"].as_str()?;
    (url.starts_with("http") || url.starts_with('/')).then(|| url.to_owned())
}

fn of_failed_plan(status: WorkStatus, update: &str) -> String {
    match status {
        WorkStatus::PlanFailed => update.trim().to_owned(),
        _ => String::new(),
    }
}

/// Returns the text below the heading `title`, up to the next heading of the same or a higher level.
pub fn section(text: &str, title: &str) -> String {
    let level = |line: &str| {
        let marks = line.len() - line.trim_start_matches('#').len();
        (marks > 0 && line[marks..].starts_with(' ')).then_some(marks)
    };
    let is_title = |line: &&str| {
        level(line).is_some_and(|marks| line[marks..].trim().eq_ignore_ascii_case(title))
    };
    let mut lines = text.lines().skip_while(|line| !is_title(line));
    let Some(depth) = lines.next().and_then(level) else {
        return String::new();
    };
    let below: Vec<_> = lines
        .take_while(|line| level(line).is_none_or(|marks| marks > depth))
        .collect();
    below.join("\n").trim().to_owned()
}

/// Returns `text`, truncated to `longest` characters.
pub fn cut(text: &str, longest: usize) -> String {
    match text.char_indices().nth(longest) {
        Some(_) => text.chars().take(longest - 1).chain(['…']).collect(),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_section_ends_at_the_next_heading_of_its_level() {
        let text = "# Check\n\n## Issues\n### Critical\nnone\n\n## Verdict\n\npass: all is well\n";
        for (title, expected) in [
            ("Verdict", "pass: all is well"),
            ("issues", "### Critical\nnone"),
            ("Critical", "none"),
            ("Goal", ""),
        ] {
            assert_eq!(section(text, title), expected, "{title}");
        }
    }

    #[test]
    fn long_text_is_cut_between_characters() {
        assert_eq!(cut("äöü", 3), "äöü");
        assert_eq!(cut("äöüß", 3), "äö…");
    }
}
