//! Asks a person on the terminal whether a tool call may happen.

use std::io::{self, BufRead, Write};

use ah_conversation::{Answer, Destination, PermissionUpdate, Question, Rule, RuleValue};

use super::neutralise;

/// Where an answer that is meant for good is kept, and how that place is called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Keeping {
    /// Where: the project's own file counts only in a trusted folder.
    pub destination: Destination,
    /// Its path, as it is shown.
    pub shown: String,
}

/// Asks on a terminal; the rules that each answer would save are shown before it is given.
///
/// # Errors
///
/// Where the terminal cannot be read or written.
pub fn ask(
    question: &Question,
    keeping: &Keeping,
    input: &mut impl BufRead,
    output: &mut impl Write,
) -> io::Result<Answer> {
    let rules: Vec<_> = { question.inquiry.suggestions.iter() }
        .filter(|update| matches!(update, PermissionUpdate::AddRules { .. }))
        .collect();
    let for_session = match rules.is_empty() {
        true => question.inquiry.suggestions.iter().collect(),
        false => rules.clone(),
    };
    let keeping = (!rules.is_empty()).then_some(keeping);
    describe(question, &for_session, keeping, output)?;
    loop {
        write!(output, "Allow? ")?;
        output.flush()?;
        let mut line = String::new();
        if input.read_line(&mut line)? == 0 {
            return Ok(refused("nobody answered"));
        }
        let line = line.trim();
        let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        let updates = match word.to_ascii_lowercase().as_str() {
            "y" | "yes" => Vec::new(),
            "s" | "session" if !for_session.is_empty() => {
                lasting(&for_session, Destination::Session)
            }
            "a" | "always" => match keeping {
                Some(keeping) => lasting(&rules, keeping.destination),
                None => continue,
            },
            "n" | "no" => return Ok(refused(rest.trim())),
            _ => continue,
        };
        let input = None;
        return Ok(Answer::Allow { input, updates });
    }
}

fn describe(
    question: &Question,
    for_session: &[&PermissionUpdate],
    keeping: Option<&Keeping>,
    output: &mut impl Write,
) -> io::Result<()> {
    let call = &question.call;
    writeln!(output, "\n{} wants to run:", neutralise(&call.name))?;
    let input = call.input.to_value();
    for (name, value) in input.as_object().into_iter().flatten() {
        let text = value
            .as_str()
            .map_or_else(|| value.to_string(), str::to_owned);
        let text = neutralise(&text).replace('\n', "\n    ");
        writeln!(output, "  {}: {text}", neutralise(name))?;
    }
    if let Some(reason) = &question.inquiry.reason {
        writeln!(output, "It is asked since {}.", neutralise(reason))?;
    }
    writeln!(output, "  y            yes, once")?;
    let shown: Vec<String> = for_session.iter().flat_map(|update| told(update)).collect();
    if let [first, others @ ..] = shown.as_slice() {
        writeln!(
            output,
            "  s            yes, for this session: {}",
            neutralise(first)
        )?;
        for other in others {
            writeln!(output, "                 and {}", neutralise(other))?;
        }
    }
    if let Some(keeping) = keeping {
        writeln!(
            output,
            "  a            yes, always: the same, kept in {}",
            neutralise(&keeping.shown)
        )?;
    }
    writeln!(output, "  n [reason]   no; the model is told the reason")
}

/// A change in words: a rule as it would stand in the settings.
fn told(update: &PermissionUpdate) -> Vec<String> {
    let rule = |rule: &RuleValue| {
        let rule = Rule {
            tool: rule.tool_name.clone(),
            content: rule.rule_content.clone(),
        };
        rule.to_string()
    };
    match update {
        PermissionUpdate::AddRules { rules, .. } => rules.iter().map(rule).collect(),
        PermissionUpdate::SetMode { mode, .. } => vec![format!("mode {}", mode.as_str())],
        PermissionUpdate::AddDirectories { directories, .. } => directories
            .iter()
            .map(|folder| format!("files in {}", folder.display()))
            .collect(),
        PermissionUpdate::ReplaceRules { .. }
        | PermissionUpdate::RemoveRules { .. }
        | PermissionUpdate::RemoveDirectories { .. } => Vec::new(),
    }
}

fn lasting(updates: &[&PermissionUpdate], destination: Destination) -> Vec<PermissionUpdate> {
    let updates = updates.iter();
    updates
        .map(|update| (*update).clone().lasting(destination))
        .collect()
}

fn refused(reason: &str) -> Answer {
    let message = match reason {
        "" => "The user does not want this call to happen. Ask what they want instead, or go on without it."
            .to_owned(),
        reason => format!("The user does not want this call to happen: {reason}"),
    };
    Answer::Deny {
        message,
        interrupt: false,
    }
}

#[cfg(test)]
mod tests {
    use ah_conversation::{Behavior, Inquiry, PermissionMode, ToolUse};
    use serde_json::json;

    use super::*;

    fn question() -> Question {
        let rule = |content: &str| RuleValue {
            tool_name: "bash".into(),
            rule_content: Some(content.into()),
        };
        Question {
            call: ToolUse {
                id: "t".into(),
                name: "bash".into(),
                input: json!({"command": "git push\nmake \u{1b}[2K", "timeout": 5}).into(),
            },
            inquiry: Inquiry {
                suggestions: vec![
                    PermissionUpdate::AddRules {
                        rules: vec![rule("git push:*"), rule("make *")],
                        behavior: Behavior::Allow,
                        destination: Destination::LocalSettings,
                    },
                    PermissionUpdate::SetMode {
                        mode: PermissionMode::AcceptEdits,
                        destination: Destination::Session,
                    },
                ],
                ..Inquiry::default()
            },
        }
    }

    fn answer(question: &Question, typed: &str) -> (Answer, String) {
        let keeping = Keeping {
            destination: Destination::LocalSettings,
            shown: ".ah/settings.local.json".into(),
        };
        let mut output = Vec::new();
        let answer = ask(question, &keeping, &mut typed.as_bytes(), &mut output).unwrap();
        (answer, String::from_utf8(output).unwrap())
    }

    #[test]
    fn the_rules_that_an_answer_saves_are_shown_first() {
        let (_, shown) = answer(&question(), "y\n");
        insta::assert_snapshot!(shown, @r"

        bash wants to run:
          command: git push
            make ␛[2K
          timeout: 5
          y            yes, once
          s            yes, for this session: bash(git push:*)
                         and bash(make *)
          a            yes, always: the same, kept in .ah/settings.local.json
          n [reason]   no; the model is told the reason
        Allow? 
        ");
    }

    #[test]
    fn an_answer_allows_once_for_the_session_or_for_good() {
        for (typed, expected) in [
            ("y\n", "allow"),
            ("what?\nyes\n", "allow"),
            ("s\n", "allow Session"),
            ("always\n", "allow LocalSettings"),
            (
                "n\n",
                "deny The user does not want this call to happen. Ask what they want instead, or go on without it.",
            ),
            (
                "n use make check\n",
                "deny The user does not want this call to happen: use make check",
            ),
            (
                "",
                "deny The user does not want this call to happen: nobody answered",
            ),
        ] {
            let told = match answer(&question(), typed).0 {
                Answer::Allow { updates, .. } => {
                    let lasting = updates
                        .iter()
                        .map(|update| format!(" {:?}", update.destination()));
                    format!("allow{}", lasting.collect::<String>())
                }
                Answer::Deny { message, .. } => format!("deny {message}"),
            };
            assert_eq!(told, expected, "{typed:?}");
        }
    }
}
