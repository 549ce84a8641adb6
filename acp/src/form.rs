//! Questions of the model as one form: each with its options, and a field for words of the user's own. Pure.

use ah_conversation::{Choice, neutralise};
use serde_json::{Map, Value, json};

/// Returns the form, in the protocol's form but for the session.
pub(crate) fn of(choices: &[Choice]) -> Value {
    let mut fields = Map::new();
    for (at, choice) in choices.iter().enumerate() {
        let options = choice.options.iter().map(|option| {
            let title = match option.description.as_str() {
                "" => option.label.clone(),
                description => format!("{}: {description}", option.label),
            };
            json!({"const": option.label, "title": neutralise(&title)})
        });
        let options: Vec<_> = options.collect();
        let question = neutralise(&choice.question);
        let field = match choice.is_multiple {
            true => json!({"type": "array", "title": question, "items": {"anyOf": options}}),
            false => json!({"type": "string", "title": question, "oneOf": options}),
        };
        fields.insert(name(at), field);
        let header = neutralise(&choice.header);
        let own = json!({"type": "string", "title": format!("{header}: other"),
            "description": "Your own words, instead of an option"});
        fields.insert(own_name(at), own);
    }
    json!({
        "mode": "form",
        "message": "The agent asks",
        "requestedSchema": {"type": "object", "properties": fields},
    })
}

/// Returns the answers by question; `None` if one has none.
pub(crate) fn answers(choices: &[Choice], content: &Value) -> Option<Map<String, Value>> {
    let mut answers = Map::new();
    for (at, choice) in choices.iter().enumerate() {
        let own = content[own_name(at)].as_str().map(str::trim);
        let chosen = match &content[name(at)] {
            Value::String(label) => vec![label.as_str()],
            Value::Array(labels) => labels.iter().filter_map(Value::as_str).collect(),
            _ => Vec::new(),
        };
        let offered = |label: &&str| choice.options.iter().any(|option| option.label == **label);
        let answer = match own.filter(|words| !words.is_empty()) {
            Some(words) => words.to_owned(),
            None => chosen
                .into_iter()
                .filter(offered)
                .collect::<Vec<_>>()
                .join(", "),
        };
        if answer.is_empty() {
            return None;
        }
        answers.insert(choice.question.clone(), answer.into());
    }
    Some(answers)
}

fn name(at: usize) -> String {
    format!("question{}", at + 1)
}

fn own_name(at: usize) -> String {
    format!("question{}_other", at + 1)
}

#[cfg(test)]
mod tests {
    use ah_conversation::ChoiceOption;

    use super::*;

    #[test]
    fn options_and_own_words_are_answers() {
        let option = |label: &str| ChoiceOption {
            label: label.to_owned(),
            description: String::new(),
        };
        let choice = |question: &str, is_multiple| Choice {
            question: question.to_owned(),
            header: "Pick".to_owned(),
            options: vec![option("red"), option("blue")],
            is_multiple,
        };
        let choices = [choice("One?", false), choice("Many?", true)];
        let fields = &of(&choices)["requestedSchema"]["properties"];
        assert_eq!(fields["question1"]["oneOf"][1]["const"], "blue");
        assert_eq!(fields["question2"]["items"]["anyOf"][0]["const"], "red");
        let found = |content: Value| answers(&choices, &content).map(Value::Object);
        assert_eq!(
            found(json!({"question1": "red", "question2": ["red", "blue", "green"]})),
            Some(json!({"One?": "red", "Many?": "red, blue"}))
        );
        assert_eq!(
            found(json!({"question1": "red", "question1_other": " mauve ", "question2": ["blue"]})),
            Some(json!({"One?": "mauve", "Many?": "blue"}))
        );
        assert_eq!(
            found(json!({"question1": "green", "question2": ["red"]})),
            None
        );
        assert_eq!(found(Value::Null), None);
    }
}
