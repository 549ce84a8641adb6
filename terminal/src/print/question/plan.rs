//! Asks the user on the terminal to approve a plan, or to let the model make one.

use std::io::{self, BufRead, Write};

use ah_conversation::{Destination, PermissionAnswer, PermissionMode, PermissionUpdate};

use super::prompt::{line, refused};
use ah_conversation::neutralise;

/// Shows a plan and asks for approval. Without a plan in the call, it is the text of the last answer.
pub fn approve(
    plan: Option<&str>,
    input: &mut impl BufRead,
    output: &mut impl Write,
) -> io::Result<PermissionAnswer> {
    match plan.map(str::trim).filter(|plan| !plan.is_empty()) {
        Some(plan) => writeln!(
            output,
            "\nThe plan:\n\n  {}\n",
            neutralise(plan).replace('\n', "\n  ")
        )?,
        None => writeln!(output, "\nThe plan is in the answer above.")?,
    }
    writeln!(
        output,
        "  y           yes, and restore the permission mode from before the plan"
    )?;
    writeln!(output, "  e           yes, and accept edits without asking")?;
    writeln!(
        output,
        "  n [words]   no, keep planning; your words are sent to the model"
    )?;
    answer("Approve? ", input, output, |word| match word {
        "y" | "yes" => Some(Vec::new()),
        "e" | "edits" => Some(vec![PermissionUpdate::SetMode {
            mode: PermissionMode::AcceptEdits,
            destination: Destination::Session,
        }]),
        _ => None,
    })
}

/// Asks whether the model may plan first.
pub fn agree(input: &mut impl BufRead, output: &mut impl Write) -> io::Result<PermissionAnswer> {
    writeln!(
        output,
        "\nThe model wants to plan first, without changes until you approve the plan."
    )?;
    writeln!(output, "  y           yes")?;
    writeln!(output, "  n [words]   no; your words are sent to the model")?;
    answer("Plan first? ", input, output, |word| {
        matches!(word, "y" | "yes").then(Vec::new)
    })
}

fn answer(
    prompt: &str,
    input: &mut impl BufRead,
    output: &mut impl Write,
    updates: impl Fn(&str) -> Option<Vec<PermissionUpdate>>,
) -> io::Result<PermissionAnswer> {
    while let Some(said) = line(prompt, input, output)? {
        let (word, rest) = said.split_once(char::is_whitespace).unwrap_or((&said, ""));
        let word = word.to_ascii_lowercase();
        if matches!(word.as_str(), "n" | "no") {
            return Ok(refused(rest.trim()));
        }
        if let Some(updates) = updates(&word) {
            let input = None;
            return Ok(PermissionAnswer::Allow { input, updates });
        }
    }
    Ok(refused("nobody answered"))
}
