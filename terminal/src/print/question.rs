//! Asks the user on the terminal to permit a tool call, or to answer the questions of one.

mod call;
mod choice;
pub mod elicitation;
mod form;
pub mod layout;
mod plan;
mod sheet;

use std::io;

use ah_config::Keeping;
use ah_conversation::{
    Choice, Destination, HostPermission, Interaction, PermissionAnswer, PermissionRequest,
    PermissionUpdate, Verdict,
};

pub use self::choice::answers;
#[cfg(test)]
pub use self::choice::sheet as choice_sheet;

pub use self::form::{Form, Lines, answer, refused};
#[cfg(test)]
pub use self::plan::{agreement, plan_sheet};
pub use self::sheet::{Answer, Part, Said, Sheet};

/// Asks on a terminal. The rules that each answer would save are shown first. `key` is the name of the argument that
/// stands for the call.
///
/// # Errors
///
/// If the terminal cannot be read or written.
pub fn ask(
    question: &PermissionRequest,
    key: Option<&str>,
    keeping: &Keeping,
    form: &mut impl Form,
) -> io::Result<PermissionAnswer> {
    match &question.inquiry.interaction {
        None => permission(question, key, keeping, form),
        Some(Interaction::Choices(choices)) => choice::ask(&question.call, choices, form),
        Some(Interaction::Plan(text)) => {
            plan::approve(text.as_deref(), question.inquiry.after_plan, form)
        }
        Some(Interaction::ToPlan) => plan::agree(form),
    }
}

fn permission(
    question: &PermissionRequest,
    key: Option<&str>,
    keeping: &Keeping,
    form: &mut impl Form,
) -> io::Result<PermissionAnswer> {
    let sheet = sheet(question, key, Some(keeping));
    let Some(Said::Chosen(chosen, rest)) = answer(&sheet, form)? else {
        return Ok(refused("nobody answered"));
    };
    let chosen = chosen.first().map(|at| sheet.answers[*at].key.as_str());
    let updates = match chosen {
        Some("y") => Vec::new(),
        Some("s") => lasting(&question.inquiry.for_session(), Destination::Session),
        Some("a") => lasting(&question.inquiry.rules(), Destination::LocalSettings),
        Some("g") => lasting(&question.inquiry.rules(), Destination::UserSettings),
        _ => return Ok(refused(&rest)),
    };
    let input = None;
    Ok(PermissionAnswer::Allow { input, updates })
}

/// Returns the question about a call. Rules that allow it can be kept with `keeping`.
pub fn sheet(question: &PermissionRequest, key: Option<&str>, keeping: Option<&Keeping>) -> Sheet {
    let keeping = keeping.filter(|_| !question.inquiry.rules().is_empty());
    call::sheet(question, key, &question.inquiry.for_session(), keeping)
}

/// Returns what a call would do, and why it is asked about, as plain text.
pub fn described(question: &PermissionRequest) -> String {
    const WIDE: usize = 100_000;
    let sheet = sheet(question, None, None);
    let rows = [sheet.body_rows(WIDE), sheet.note_rows(WIDE)].concat();
    let rows = rows.iter().map(|row| row.text().trim_end().to_owned());
    rows.collect::<Vec<_>>().join("\n")
}

/// Asks a yes-or-no question; without an answer it is no.
///
/// # Errors
///
/// If the terminal cannot be read or written.
pub fn confirm(head: &str, body: &str, prompt: &str, form: &mut impl Form) -> io::Result<bool> {
    let sheet = confirmation(head, body, prompt);
    let said = answer(&sheet, form)?;
    Ok(matches!(said, Some(Said::Chosen(chosen, _)) if chosen == [0]))
}

/// Returns a yes-or-no question.
pub fn confirmation(head: &str, body: &str, prompt: &str) -> Sheet {
    Sheet {
        head: head.to_owned(),
        body: Part::lines(body),
        answers: vec![Answer::of("y", "yes", "yes"), Answer::of("n", "no", "no")],
        prompt: prompt.to_owned(),
        ..Sheet::default()
    }
}

/// Asks on a terminal whether sandboxed commands may reach a host.
///
/// # Errors
///
/// If the terminal cannot be read or written.
pub fn ask_host(host: &str, form: &mut impl Form) -> io::Result<HostPermission> {
    let sheet = host_sheet(host);
    let Some(Said::Chosen(chosen, _)) = answer(&sheet, form)? else {
        return Ok(HostPermission::No);
    };
    let chosen = chosen.first().map(|at| sheet.answers[*at].key.as_str());
    Ok(match chosen {
        Some("y") => HostPermission::Once,
        Some("s") => HostPermission::Session,
        Some("a") => HostPermission::Project,
        Some("g") => HostPermission::Always,
        _ => HostPermission::No,
    })
}

/// Returns the question about a host.
pub fn host_sheet(host: &str) -> Sheet {
    Sheet {
        head: format!("network: {host}"),
        body: Part::lines("A command in the sandbox wants to connect to this host."),
        answers: vec![
            Answer::of("y", "yes", "yes, once"),
            Answer::of("s", "session", "yes, for this session"),
            Answer::of("a", "always", "yes, always in this project"),
            Answer::of("g", "global", "yes, always in ALL projects"),
            Answer::of("n", "no", "no"),
        ],
        prompt: "Allow? ".to_owned(),
        ..Sheet::default()
    }
}

/// Returns the question about a permission that another process asks: its answers are those of a question here.
pub fn verdict_sheet(about: &str, choice: &Choice) -> Sheet {
    let (head, body) = about.split_once('\n').unwrap_or((about, ""));
    let offered = choice.options.iter().filter_map(|option| {
        let (verdict, _) = Verdict::of(&option.label)?;
        let (key, word, label) = match verdict {
            Verdict::Once => ("y", "yes", "yes, once"),
            Verdict::Session => ("s", "session", "yes, for this session"),
            Verdict::Project => ("a", "always", "yes, always in this project"),
            Verdict::Everywhere => ("g", "global", "yes, always in ALL projects"),
            Verdict::No => ("n", "no", "no; the reason is sent to the model"),
        };
        Some(Answer {
            detail: option.description.clone(),
            takes_reason: verdict == Verdict::No,
            ..Answer::of(key, word, label)
        })
    });
    Sheet {
        head: head.to_owned(),
        body: Part::lines(body),
        answers: offered.collect(),
        prompt: format!("{} ", choice.question),
        ..Sheet::default()
    }
}

fn lasting(updates: &[&PermissionUpdate], destination: Destination) -> Vec<PermissionUpdate> {
    updates
        .iter()
        .map(|update| (*update).clone().lasting(destination))
        .collect()
}

#[cfg(test)]
mod tests;
