//! The question about a tool call: which tool, on what, and what it would do.

use ah_config::Keeping;
use ah_conversation::{Hunk, PermissionRequest, PermissionUpdate};
use ah_render::{Line, Style, diff};
use serde_json::Value;

use super::sheet::{Answer, Part, Sheet, rule};

/// Longest key argument that is shown in the head alone, in characters.
const SHORT: usize = 200;

/// Returns the question about a call. `for_session` would be allowed for the session, and kept with `keeping`.
pub fn sheet(
    question: &PermissionRequest,
    key: Option<&str>,
    for_session: &[&PermissionUpdate],
    keeping: Option<&Keeping>,
) -> Sheet {
    let call = &question.call;
    let input = call.input.to_value();
    let target = key.and_then(|key| input.get(key)?.as_str());
    let head = match target.and_then(|target| target.lines().next()) {
        Some(first) => format!("{}: {}", call.name, first.trim_end()),
        None => call.name.clone(),
    };
    let head = match &question.agent {
        Some((_, agent)) => format!("subagent {agent} · {head}"),
        None => head,
    };
    let mut body = Vec::new();
    if let Some(target) = target
        && (target.trim_end().contains('\n') || target.chars().count() > SHORT)
    {
        body.extend(Part::lines(target));
    }
    let drawn = input.as_object().map_or(&[][..], Hunk::arguments);
    let changed = changed(question, &input, drawn, target.unwrap_or_default());
    for (name, value) in input.as_object().into_iter().flatten() {
        let is_changed = !changed.is_empty() && drawn.contains(&name.as_str());
        if !is_changed && Some(name.as_str()) != key.filter(|_| target.is_some()) {
            argument(name, value, &mut body);
        }
    }
    body.extend(changed);
    let reason = question.inquiry.reason.iter();
    Sheet {
        head,
        body,
        notes: reason.map(|reason| format!("Reason: {reason}.")).collect(),
        answers: answers(for_session, keeping),
        prompt: "Allow? ".to_owned(),
        ..Sheet::default()
    }
}

/// Adds an argument and its value.
fn argument(name: &str, value: &Value, body: &mut Vec<Part>) {
    let text = value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned);
    let mut lines = text.lines();
    let mut first = Line::of(&format!("{name}: "), Style::DIM);
    let line = lines.next().unwrap_or_default();
    if lines.clone().next().is_none() {
        first.push(line, Style::PLAIN);
        body.push(Part::Line(first));
        return;
    }
    body.push(Part::Line(first));
    for line in std::iter::once(line).chain(lines) {
        body.push(Part::Line(Line::of(line, Style::PLAIN)));
    }
}

/// Returns the diff of a change, which is easier to read than the texts of the call: as it will be shown once it is made, or
/// without numbers, if nobody knows what is in the file.
fn changed(question: &PermissionRequest, input: &Value, drawn: &[&str], path: &str) -> Vec<Part> {
    let ending = diff::ending(path);
    let text = |at: usize| input.get(*drawn.get(at)?)?.as_str();
    match (question.inquiry.change.as_slice(), text(0), text(1)) {
        // What is not drawn must be read.
        (_, None, _) | ([], _, None) => Vec::new(),
        ([], Some(old), Some(new)) => {
            let lines = diff::unnumbered(&diff::between(old, new), ending);
            lines.into_iter().map(Part::Line).collect()
        }
        (change, ..) => vec![Part::Change(change.to_vec(), ending.to_owned())],
    }
}

fn answers(for_session: &[&PermissionUpdate], keeping: Option<&Keeping>) -> Vec<Answer> {
    let rules: Vec<String> = for_session
        .iter()
        .flat_map(|update| update.allows())
        .map(|text| rule(&text))
        .collect();
    let rules = rules.join(", ");
    let mut answers = vec![Answer::of("y", "yes", "yes, once")];
    if !rules.is_empty() {
        answers.push(Answer {
            detail: rules,
            ..Answer::of("s", "session", "yes, for this session")
        });
    }
    if let Some(keeping) = keeping {
        for (key, word, scope, file) in [
            ("a", "always", "in this project", &keeping.for_project),
            ("g", "global", "in ALL projects", &keeping.for_all),
        ] {
            answers.push(Answer {
                detail: format!("same rule, saved to {file}"),
                ..Answer::of(key, word, &format!("yes, always {scope}"))
            });
        }
    }
    answers.push(Answer {
        takes_reason: true,
        ..Answer::of("n", "no", "no; the reason is sent to the model")
    });
    answers
}
