//! Asks the user on the terminal to approve a plan, or to let the model make one.

use std::io;

use ah_conversation::{Destination, PermissionAnswer, PermissionMode, PermissionUpdate};

use super::form::{Form, answer, refused};
use super::sheet::{Answer, Part, Said, Sheet};
use crate::print::mode;

/// Shows a plan and asks for approval. Without a plan in the call, it is the text of the last answer. `after` is in force again
/// once it is approved.
pub fn approve(
    plan: Option<&str>,
    after: PermissionMode,
    form: &mut impl Form,
) -> io::Result<PermissionAnswer> {
    answered(&plan_sheet(plan, after), form)
}

/// Asks whether the model may plan first.
pub fn agree(form: &mut impl Form) -> io::Result<PermissionAnswer> {
    answered(&agreement(), form)
}

/// Returns the question about a plan. To accept edits is offered where that asks less than the mode before the plan.
pub fn plan_sheet(plan: Option<&str>, after: PermissionMode) -> Sheet {
    let plan = plan.map(str::trim).filter(|plan| !plan.is_empty());
    let body = match plan {
        Some(plan) => vec![Part::Markdown(plan.to_owned())],
        None => Part::lines("The plan is in the answer above."),
    };
    let mut edits = Answer::of("e", "edits", "yes, and accept edits without asking");
    edits.short = "accept edits".to_owned();
    let edits = (!after.spares_edits()).then_some(edits);
    let back = format!("yes, back to `{}`", mode(after));
    let yes = [Answer::of("y", "yes", &back)].into_iter().chain(edits);
    let no = no("no, keep planning; your words are sent to the model");
    Sheet {
        head: "The plan:".to_owned(),
        body,
        answers: yes.chain([no]).collect(),
        prompt: "Approve? ".to_owned(),
        ..Sheet::default()
    }
}

/// Returns the question whether the model may plan first.
pub fn agreement() -> Sheet {
    Sheet {
        head: "Enter plan mode?".to_owned(),
        body: Part::lines("Nothing will be changed until you approve a plan."),
        answers: vec![
            Answer::of("y", "yes", "yes"),
            no("no; your words are sent to the model"),
        ],
        prompt: "Allow? ".to_owned(),
        ..Sheet::default()
    }
}

fn no(label: &str) -> Answer {
    Answer {
        takes_reason: true,
        ..Answer::of("n", "no", label)
    }
}

fn answered(sheet: &Sheet, form: &mut impl Form) -> io::Result<PermissionAnswer> {
    let Some(Said::Chosen(chosen, rest)) = answer(sheet, form)? else {
        return Ok(refused("nobody answered"));
    };
    let key = chosen.first().map(|at| sheet.answers[*at].key.as_str());
    let updates = match key {
        Some("y") => Vec::new(),
        Some("e") => vec![PermissionUpdate::SetMode {
            mode: PermissionMode::AcceptEdits,
            destination: Destination::Session,
        }],
        _ => return Ok(refused(&rest)),
    };
    let input = None;
    Ok(PermissionAnswer::Allow { input, updates })
}
