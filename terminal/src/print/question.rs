//! Asks the user on the terminal to permit a tool call, or to answer the questions of one.

mod choice;
mod plan;
mod prompt;

use ah_config::Keeping;
use std::io::{self, BufRead, Write};

use ah_conversation::{
    Destination, HostPermission, Interaction, PermissionAnswer, PermissionRequest,
    PermissionUpdate, RuleValue, neutralise,
};
use ah_render::diff;
use serde_json::Value;

use self::prompt::{line, refused};

/// Asks on a terminal. The rules that each answer would save are shown first.
///
/// # Errors
///
/// If the terminal cannot be read or written.
pub fn ask(
    question: &PermissionRequest,
    keeping: &Keeping,
    input: &mut impl BufRead,
    output: &mut impl Write,
) -> io::Result<PermissionAnswer> {
    match &question.inquiry.interaction {
        None => permission(question, keeping, input, output),
        Some(Interaction::Choices(choices)) => choice::ask(&question.call, choices, input, output),
        Some(Interaction::Plan(text)) => plan::approve(text.as_deref(), input, output),
        Some(Interaction::ToPlan) => plan::agree(input, output),
    }
}

fn permission(
    question: &PermissionRequest,
    keeping: &Keeping,
    input: &mut impl BufRead,
    output: &mut impl Write,
) -> io::Result<PermissionAnswer> {
    let suggestions = &question.inquiry.suggestions;
    let rules: Vec<_> = suggestions
        .iter()
        .filter(|update| matches!(update, PermissionUpdate::AddRules { .. }))
        .collect();
    let for_session = if rules.is_empty() {
        suggestions.iter().collect()
    } else {
        rules.clone()
    };
    let keeping = (!rules.is_empty()).then_some(keeping);
    describe(question, &for_session, keeping, output)?;
    while let Some(line) = line("Allow? ", input, output)? {
        let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((&line, ""));
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
        return Ok(PermissionAnswer::Allow { input, updates });
    }
    Ok(refused("nobody answered"))
}

/// Asks a yes-or-no question; without an answer it is no.
///
/// # Errors
///
/// If the terminal cannot be read or written.
pub fn confirm(
    prompt: &str,
    input: &mut impl BufRead,
    output: &mut impl Write,
) -> io::Result<bool> {
    while let Some(line) = line(prompt, input, output)? {
        match line.to_ascii_lowercase().as_str() {
            "y" | "yes" => return Ok(true),
            "n" | "no" | "" => return Ok(false),
            _ => {}
        }
    }
    Ok(false)
}

/// Asks on a terminal whether sandboxed commands may reach a host.
///
/// # Errors
///
/// If the terminal cannot be read or written.
pub fn ask_host(
    host: &str,
    input: &mut impl BufRead,
    output: &mut impl Write,
) -> io::Result<HostPermission> {
    writeln!(
        output,
        "\nA command in the sandbox wants to reach {}:",
        neutralise(host)
    )?;
    writeln!(output, "  y            yes, once")?;
    writeln!(output, "  s            yes, for this session")?;
    writeln!(
        output,
        "  a            yes, always in ALL projects (saved to your settings.json)"
    )?;
    writeln!(output, "  n            no")?;
    while let Some(line) = line("Allow? ", input, output)? {
        match line.to_ascii_lowercase().as_str() {
            "y" | "yes" => return Ok(HostPermission::Once),
            "s" | "session" => return Ok(HostPermission::Session),
            "a" | "always" => return Ok(HostPermission::Always),
            "n" | "no" => return Ok(HostPermission::No),
            _ => {}
        }
    }
    Ok(HostPermission::No)
}

fn describe(
    question: &PermissionRequest,
    for_session: &[&PermissionUpdate],
    keeping: Option<&Keeping>,
    output: &mut impl Write,
) -> io::Result<()> {
    let call = &question.call;
    writeln!(output, "\n{} wants to run:", neutralise(&call.name))?;
    let input = call.input.to_value();
    let changed = changed(&input);
    for (name, value) in input.as_object().into_iter().flatten() {
        if changed.is_some() && [OLD, NEW].contains(&name.as_str()) {
            continue;
        }
        let text = value
            .as_str()
            .map_or_else(|| value.to_string(), str::to_owned);
        let text = neutralise(&text).replace('\n', "\n    ");
        writeln!(output, "  {}: {text}", neutralise(name))?;
    }
    for line in changed.iter().flatten() {
        let (sign, text) = line.split_at(1);
        writeln!(output, "  {sign} {}", neutralise(text))?;
    }
    if let Some(reason) = &question.inquiry.reason {
        writeln!(output, "Reason: {}.", neutralise(reason))?;
    }
    writeln!(output, "  y            yes, once")?;
    let shown: Vec<String> = for_session
        .iter()
        .flat_map(|update| texts(update))
        .collect();
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
        let scope = match keeping.destination {
            Destination::UserSettings => "in ALL projects",
            Destination::ProjectSettings | Destination::LocalSettings | Destination::Session => {
                "in this project"
            }
        };
        writeln!(
            output,
            "  a            yes, always {scope}: the same, saved to {}",
            neutralise(&keeping.shown)
        )?;
    }
    writeln!(output, "  n [reason]   no; the reason is sent to the model")
}

/// Arguments of an edit.
const OLD: &str = "old_string";
const NEW: &str = "new_string";

/// Returns the diff of an edit as lines with their signs: easier to read than the two texts.
fn changed(input: &Value) -> Option<Vec<String>> {
    let text = |name| input.get(name)?.as_str();
    let hunks = diff::between(text(OLD)?, text(NEW)?);
    Some(hunks.into_iter().flat_map(|hunk| hunk.lines).collect())
}

/// Returns a change as text; rules are written as in the settings.
fn texts(update: &PermissionUpdate) -> Vec<String> {
    match update {
        PermissionUpdate::AddRules { rules, .. } => {
            rules.iter().map(RuleValue::to_string).collect()
        }
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
    updates
        .iter()
        .map(|update| (*update).clone().lasting(destination))
        .collect()
}

#[cfg(test)]
mod tests {
    use ah_conversation::{Behavior, Choice, ChoiceOption, Inquiry, PermissionMode, ToolUse};
    use serde_json::json;

    use super::*;

    fn question() -> PermissionRequest {
        let rule = |content: &str| RuleValue {
            tool_name: "bash".into(),
            rule_content: Some(content.into()),
        };
        PermissionRequest {
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
            agent: None,
        }
    }

    fn answer(question: &PermissionRequest, typed: &str) -> (PermissionAnswer, String) {
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
          a            yes, always in this project: the same, saved to .ah/settings.local.json
          n [reason]   no; the reason is sent to the model
        Allow? 
        ");
    }

    #[test]
    fn an_edit_is_shown_as_what_it_changes() {
        let mut question = question();
        question.call.name = "edit".into();
        question.call.input = json!({
            "path": "greet.py",
            "old_string": "def greet(n):\n    print(\"hi \" + n)\n",
            "new_string": "def greet(n):\n    print(\"hey\u{1b} \" + n)\n    return n\n",
        })
        .into();
        question.inquiry = Inquiry::default();
        let (_, shown) = answer(&question, "y\n");
        insta::assert_snapshot!(shown, @r#"

        edit wants to run:
          path: greet.py
            def greet(n):
          -     print("hi " + n)
          +     print("hey␛ " + n)
          +     return n
          y            yes, once
          n [reason]   no; the reason is sent to the model
        Allow? 
        "#);
    }

    #[test]
    fn a_host_is_asked_about_until_there_is_an_answer() {
        let mut output = Vec::new();
        let typed = &mut "why?\nS\n".as_bytes();
        let leave = ask_host("a.example:443\u{1b}", typed, &mut output).unwrap();
        assert_eq!(leave, HostPermission::Session);
        insta::assert_snapshot!(String::from_utf8(output).unwrap(), @r"

        A command in the sandbox wants to reach a.example:443␛:
          y            yes, once
          s            yes, for this session
          a            yes, always in ALL projects (saved to your settings.json)
          n            no
        Allow? Allow? 
        ");
        for (typed, expected) in [
            ("y\n", HostPermission::Once),
            ("always\n", HostPermission::Always),
            ("n\n", HostPermission::No),
            ("", HostPermission::No),
        ] {
            let answer = ask_host("a.example:443", &mut typed.as_bytes(), &mut Vec::new());
            assert_eq!(answer.unwrap(), expected, "{typed:?}");
        }
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
                PermissionAnswer::Allow { updates, .. } => {
                    let lasting = updates
                        .iter()
                        .map(|update| format!(" {:?}", update.destination()));
                    format!("allow{}", lasting.collect::<String>())
                }
                PermissionAnswer::Deny { message, .. } => format!("deny {message}"),
            };
            assert_eq!(told, expected, "{typed:?}");
        }
    }

    fn asked(asking: Interaction, typed: &str) -> (PermissionAnswer, String) {
        let question = PermissionRequest {
            call: ToolUse {
                id: "t".into(),
                name: "ask_user_question".into(),
                input: json!({"questions": []}).into(),
            },
            inquiry: Inquiry {
                interaction: Some(asking),
                ..Inquiry::default()
            },
            agent: None,
        };
        answer(&question, typed)
    }

    fn choices() -> Interaction {
        let choice = |header: &str, question: &str, labels: &[(&str, &str)], is_multiple| Choice {
            question: question.into(),
            header: header.into(),
            options: labels
                .iter()
                .map(|(label, description)| ChoiceOption {
                    label: (*label).into(),
                    description: (*description).into(),
                })
                .collect(),
            is_multiple,
        };
        Interaction::Choices(vec![
            choice(
                "Dates",
                "Which library?\u{1b}[2K",
                &[("jiff (recommended)", "knows time zones"), ("chrono", "")],
                false,
            ),
            choice(
                "",
                "Which tests?",
                &[("unit", "quick"), ("binary", "slow"), ("fuzz", "slowest")],
                true,
            ),
        ])
    }

    #[test]
    fn choices_are_numbered() {
        let (answer, shown) = asked(choices(), "3\n1\nonly the\u{1b} new ones\n");
        insta::assert_snapshot!(shown, @r"

        [Dates] Which library?␛[2K
          1  jiff (recommended)  knows time zones
          2  chrono
        A number, or your own words: A number, or your own words: 
        Which tests?
          1  unit    quick
          2  binary  slow
          3  fuzz    slowest
        Numbers, or your own words: 
        ");
        let PermissionAnswer::Allow { input, updates } = answer else {
            panic!("{answer:?}");
        };
        assert_eq!(updates, []);
        let expected = json!({"questions": [], "answers": {
            "Which library?\u{1b}[2K": "jiff (recommended)", "Which tests?": "only the\u{1b} new ones",
        }});
        assert_eq!(input.unwrap().to_value(), expected);
    }

    #[test]
    fn an_answer_is_a_number_several_or_words() {
        for (first, second, expected) in [
            ("2", "1,3", ["chrono", "unit, fuzz"]),
            ("0\n3\n\n2", "1 2", ["chrono", "unit, binary"]),
            ("neither 1 nor 2", "2,9\n2", ["neither 1 nor 2", "binary"]),
            ("1 2\n1", "none", ["jiff (recommended)", "none"]),
        ] {
            let typed = format!("{first}\n{second}\n");
            let PermissionAnswer::Allow { input, .. } = asked(choices(), &typed).0 else {
                panic!("{typed:?} is an answer");
            };
            let answers = input.unwrap().to_value()["answers"].clone();
            let answers: Vec<_> = answers.as_object().unwrap().values().cloned().collect();
            assert_eq!(answers, expected, "{typed:?}");
        }
        let left = asked(choices(), "1\n").0;
        assert!(matches!(left, PermissionAnswer::Deny { .. }), "{left:?}");
    }

    #[test]
    fn a_plan_is_shown_and_approved_or_not() {
        let plan = Interaction::Plan(Some("1. Read.\n2. Write \u{1b}[31mit.\n".into()));
        let (_, shown) = asked(plan.clone(), "y\n");
        insta::assert_snapshot!(shown, @r"

        The plan:

          1. Read.
          2. Write ␛[31mit.

          y           yes, and restore the permission mode from before the plan
          e           yes, and accept edits without asking
          n [words]   no, keep planning; your words are sent to the model
        Approve? 
        ");
        let (_, shown) = asked(Interaction::ToPlan, "y\n");
        insta::assert_snapshot!(shown, @r"

        The model wants to plan first, without changes until you approve the plan.
          y           yes
          n [words]   no; your words are sent to the model
        Plan first? 
        ");
        for (asking, typed, expected) in [
            (&plan, "y\n", "allow"),
            (&plan, "\nwhat\ne\n", "allow AcceptEdits"),
            (&plan, "n not the second\n", "deny not the second"),
            (&plan, "", "deny nobody answered"),
            (&Interaction::Plan(None), "yes\n", "allow"),
            (&Interaction::ToPlan, "e\nyes\n", "allow"),
            (&Interaction::ToPlan, "n just do it\n", "deny just do it"),
        ] {
            let told = match asked(asking.clone(), typed).0 {
                PermissionAnswer::Allow { updates, .. } => match updates.as_slice() {
                    [] => "allow".to_owned(),
                    [PermissionUpdate::SetMode { mode, .. }] => format!("allow {mode:?}"),
                    others => panic!("{others:?}"),
                },
                PermissionAnswer::Deny { message, .. } => {
                    let words = message.split_once(": ").map_or("", |(_, words)| words);
                    format!("deny {words}")
                }
            };
            assert_eq!(told, expected, "{typed:?}");
        }
    }
}
