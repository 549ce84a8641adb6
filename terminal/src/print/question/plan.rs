//! Asks the user on the terminal to approve a plan, or to let the model make one.

use std::io;

use ah_conversation::{Destination, PermissionAnswer, PermissionMode, PermissionUpdate};

use super::form::{Form, answer, refused};
use super::sheet::{Answer, Part, Said, Sheet};

/// Shows a plan and asks for approval. Without a plan in the call, it is the text of the last answer.
pub fn approve(plan: Option<&str>, form: &mut impl Form) -> io::Result<PermissionAnswer> {
    answered(&plan_sheet(plan), form)
}

/// Asks whether the model may plan first.
pub fn agree(form: &mut impl Form) -> io::Result<PermissionAnswer> {
    answered(&agreement(), form)
}

/// Returns the question about a plan.
pub fn plan_sheet(plan: Option<&str>) -> Sheet {
    let plan = plan.map(str::trim).filter(|plan| !plan.is_empty());
    let body = match plan {
        Some(plan) => vec![Part::Markdown(plan.to_owned())],
        None => Part::lines("The plan is in the answer above."),
    };
    let mut edits = Answer::of("e", "edits", "yes, and accept edits without asking");
    edits.short = "accept edits".to_owned();
    Sheet {
        head: "The plan:".to_owned(),
        body,
        answers: vec![
            Answer::of(
                "y",
                "yes",
                "yes, back to the permission mode from before the plan",
            ),
            edits,
            no("no, keep planning; your words are sent to the model"),
        ],
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
