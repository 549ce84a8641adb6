//! A question of a run as a form for the client's user, as a result for the calling agent, and the answers back. Pure.

use std::collections::BTreeMap;

use ah_conversation::{Choice, Question, neutralise};
use rmcp::model::{ElicitRequestParams, ElicitResult, ElicitationAction};
use serde_json::{Map, Value, json};

/// Field of a form in which the user may write another answer than those offered, to the choice with this number.
fn other(number: usize) -> String {
    format!("other{number}")
}

fn field(number: usize) -> String {
    format!("choice{number}")
}

/// Returns the form for a question; `None` if it cannot be one.
pub(crate) fn form(question: &Question) -> Option<ElicitRequestParams> {
    let mut fields = Map::new();
    let mut required = Vec::new();
    for (number, choice) in question.choices.iter().enumerate() {
        let title = neutralise(&choice.header);
        let about = neutralise(&choice.question);
        let options = choice.options.iter().map(|option| {
            let shown = match option.description.as_str() {
                "" => option.label.clone(),
                description => format!("{}: {description}", option.label),
            };
            json!({"const": option.label, "title": neutralise(&shown)})
        });
        let options: Vec<_> = options.collect();
        let schema = match choice.is_multiple {
            true => {
                json!({"type": "array", "title": title, "description": about, "items": {"anyOf": options}})
            }
            false => {
                json!({"type": "string", "title": title, "description": about, "oneOf": options})
            }
        };
        fields.insert(field(number), schema);
        if question.is_permission {
            required.push(field(number));
        } else {
            let schema = json!({"type": "string", "title": "Another answer", "description": "In your own words"});
            fields.insert(other(number), schema);
        }
    }
    let about = match question.about.as_str() {
        "" => question
            .choices
            .iter()
            .map(|choice| choice.question.as_str())
            .collect::<Vec<_>>()
            .join("\n"),
        about => about.to_owned(),
    };
    let params = json!({
        "mode": "form",
        "message": neutralise(&about),
        "requestedSchema": {"type": "object", "properties": fields, "required": required},
    });
    serde_json::from_value(params).ok()
}

/// Returns the answers in what the client's user has filled in; `None` if there are none.
pub(crate) fn filled_in(
    question: &Question,
    result: &ElicitResult,
) -> Option<BTreeMap<String, String>> {
    let content = result.content.as_ref()?;
    if result.action != ElicitationAction::Accept {
        return None;
    }
    let mut answers = BTreeMap::new();
    for (number, choice) in question.choices.iter().enumerate() {
        let own = content[other(number)]
            .as_str()
            .map(str::trim)
            .filter(|_| !question.is_permission);
        let chosen = match &content[field(number)] {
            Value::String(label) => known(choice, label).then(|| label.clone()),
            Value::Array(labels) => {
                let labels = labels.iter().filter_map(Value::as_str);
                let labels: Vec<_> = labels.filter(|label| known(choice, label)).collect();
                (!labels.is_empty()).then(|| labels.join(", "))
            }
            _ => None,
        };
        let answer = own
            .filter(|own| !own.is_empty())
            .map(str::to_owned)
            .or(chosen)?;
        answers.insert(choice.question.clone(), answer);
    }
    Some(answers)
}

fn known(choice: &Choice, label: &str) -> bool {
    choice.options.iter().any(|option| option.label == label)
}

/// Returns the answers that the calling agent gives.
///
/// # Errors
///
/// If one is missing; the text is for it.
pub(crate) fn answers(
    question: &Question,
    given: &Value,
) -> Result<BTreeMap<String, String>, String> {
    let mut answers = BTreeMap::new();
    for choice in &question.choices {
        let answer = match question.choices.len() {
            // With one question there is no doubt which is meant, however it is named.
            1 => given.as_object().and_then(|given| given.values().next()),
            _ => given.get(&choice.question),
        };
        let answer = answer
            .and_then(Value::as_str)
            .map(str::trim)
            .filter(|answer| !answer.is_empty());
        let answer =
            answer.ok_or_else(|| format!("there is no answer to `{}`", choice.question))?;
        answers.insert(choice.question.clone(), answer.to_owned());
    }
    Ok(answers)
}

/// Returns the choices as the result of a run that waits has them.
pub(crate) fn listed(question: &Question) -> Value {
    let choices = question.choices.iter().map(|choice| {
        let options = choice.options.iter();
        let options = options.map(|it| json!({"label": it.label, "description": it.description}));
        json!({
            "question": choice.question,
            "options": options.collect::<Vec<_>>(),
            "multiple": choice.is_multiple,
        })
    });
    Value::Array(choices.collect())
}

#[cfg(test)]
mod tests {
    use ah_conversation::ChoiceOption;

    use super::*;

    fn question(is_permission: bool, is_multiple: bool) -> Question {
        let option = |label: &str| ChoiceOption {
            label: label.to_owned(),
            description: String::new(),
        };
        Question {
            about: String::new(),
            choices: vec![Choice {
                question: "Which?".to_owned(),
                header: "Colour".to_owned(),
                options: vec![option("red"), option("blue")],
                is_multiple,
            }],
            is_permission,
            proposal: None,
        }
    }

    fn filled(question: &Question, content: Value) -> Option<String> {
        let result = ElicitResult::new(ElicitationAction::Accept).with_content(content);
        filled_in(question, &result)?.remove("Which?")
    }

    #[test]
    fn a_question_becomes_a_form_that_clients_understand() {
        for is_multiple in [false, true] {
            let form = form(&question(false, is_multiple)).expect("a form");
            let form = serde_json::to_value(form).expect("JSON");
            assert_eq!(form["message"], "Which?");
            let field = &form["requestedSchema"]["properties"]["choice0"];
            assert_eq!(field["title"], "Colour", "{form}");
            let list = if is_multiple {
                &field["items"]["anyOf"]
            } else {
                &field["oneOf"]
            };
            assert_eq!(list[1]["const"], "blue", "{form}");
        }
    }

    #[test]
    fn only_what_was_offered_or_written_is_an_answer() {
        let (free, strict) = (question(false, false), question(true, false));
        for (question, content, expected) in [
            (&free, json!({"choice0": "red"}), Some("red")),
            (
                &free,
                json!({"choice0": "red", "other0": " green "}),
                Some("green"),
            ),
            (&free, json!({"choice0": "green"}), None),
            (&free, json!({}), None),
            (&strict, json!({"choice0": "blue"}), Some("blue")),
            (&strict, json!({"other0": "anything"}), None),
            (
                &question(false, true),
                json!({"choice0": ["red", "x", "blue"]}),
                Some("red, blue"),
            ),
            (&question(false, true), json!({"choice0": []}), None),
        ] {
            let answer = filled(question, content.clone());
            assert_eq!(answer.as_deref(), expected, "{content}");
        }
        let declined =
            ElicitResult::new(ElicitationAction::Decline).with_content(json!({"choice0": "red"}));
        assert_eq!(filled_in(&free, &declined), None);
    }

    #[test]
    fn the_calling_agent_answers_by_question() {
        let one = question(false, false);
        let given = answers(&one, &json!({"any name": "red"})).expect("an answer");
        assert_eq!(given["Which?"], "red");
        assert!(answers(&one, &json!({"Which?": " "})).is_err());
        assert!(answers(&one, &json!("red")).is_err());
        let mut two = question(false, false);
        two.choices.push(Choice {
            question: "How many?".to_owned(),
            ..two.choices[0].clone()
        });
        assert_eq!(
            answers(&two, &json!({"Which?": "red"})),
            Err("there is no answer to `How many?`".to_owned())
        );
    }
}
