//! Asks the user on the terminal what an MCP server wants to know: a form, field by field, or a visit to a page.

use std::io;

use ah_conversation::{Elicitation, ElicitationAnswer, Wanted};
use serde_json::{Map, Number, Value, json};

use super::form::{Form, answer};
use super::sheet::{Answer, Part, Said, Sheet};

/// Typed for a field that is left out.
const NOTHING: &str = "-";
/// Most fields that are asked about.
const MOST_FIELDS: usize = 32;

/// Asks on a terminal.
///
/// # Errors
///
/// If the terminal cannot be read or written.
pub fn ask(question: &Elicitation, form: &mut impl Form) -> io::Result<ElicitationAnswer> {
    match answer(&sheet(question), form)? {
        None => return Ok(ElicitationAnswer::Cancel),
        Some(Said::Chosen(chosen, _)) if chosen == [0] => {}
        Some(_) => return Ok(ElicitationAnswer::Decline),
    }
    let Wanted::Form(schema) = &question.wanted else {
        return Ok(ElicitationAnswer::Accept(None));
    };
    let mut values = Map::new();
    for (name, field) in fields(schema) {
        match value(
            &field_sheet(&question.server, name, field, schema),
            field,
            form,
        )? {
            Some(Value::Null) => {}
            Some(value) => drop(values.insert(name.clone(), value)),
            None => return Ok(ElicitationAnswer::Cancel),
        }
    }
    Ok(ElicitationAnswer::Accept(Some(values.into())))
}

/// Returns the first question: whether the user wants to answer at all.
pub fn sheet(question: &Elicitation) -> Sheet {
    let mut body = question.message.clone();
    let (yes, note) = match &question.wanted {
        Wanted::Form(schema) => {
            let names: Vec<_> = fields(schema).map(|(name, _)| name.as_str()).collect();
            if !names.is_empty() {
                body.push_str(&format!("\nIt asks for: {}", names.join(", ")));
            }
            (
                "yes, answer",
                "Do not enter passwords or keys: the server sees what you type.",
            )
        }
        Wanted::Visit { url, .. } => {
            body.push_str(&format!("\nIt asks you to open: {url}"));
            ("yes, I will open it", "Open it only if you know the site.")
        }
    };
    Sheet {
        head: format!("MCP server {}", question.server),
        body: Part::lines(&body),
        notes: vec![note.to_owned()],
        answers: vec![Answer::of("y", "yes", yes), Answer::of("n", "no", "no")],
        prompt: "Answer? ".to_owned(),
        ..Sheet::default()
    }
}

fn fields(schema: &Value) -> impl Iterator<Item = (&String, &Value)> {
    let fields = schema["properties"].as_object().into_iter().flatten();
    fields.take(MOST_FIELDS)
}

/// Returns the question about a field.
fn field_sheet(server: &str, name: &str, field: &Value, schema: &Value) -> Sheet {
    let text = |key: &str| field[key].as_str().unwrap_or_default();
    let title = Some(text("title"))
        .filter(|it| !it.is_empty())
        .unwrap_or(name);
    let mut required = schema["required"].as_array().into_iter().flatten();
    let without = match (&field["default"], required.any(|it| it == name)) {
        (Value::Null, true) => String::new(),
        (Value::Null, false) => format!(", {NOTHING} for none"),
        (default, _) => format!(", {NOTHING} for {}", shown(default)),
    };
    let answers: Vec<_> = options(field)
        .into_iter()
        .enumerate()
        .map(|(at, (_, label))| Answer {
            label: label.clone(),
            short: label,
            ..Answer::of(&(at + 1).to_string(), "", "")
        })
        .collect();
    let kind = match (answers.is_empty(), text("type")) {
        (false, "array") => "Numbers",
        (false, _) => "A number",
        (true, "integer") => "A whole number",
        (true, "number") => "A number",
        _ => "A text",
    };
    Sheet {
        head: format!("MCP server {server}: {title}"),
        body: Part::lines(text("description")),
        prompt: format!("{kind}{without}: "),
        takes_words: true,
        is_multiple: text("type") == "array",
        answers,
        ..Sheet::default()
    }
}

/// Returns the values that a field may have, each with its label; none if it is free.
fn options(field: &Value) -> Vec<(Value, String)> {
    if field["type"] == "boolean" {
        return vec![
            (json!(true), "yes".to_owned()),
            (json!(false), "no".to_owned()),
        ];
    }
    let of = match field["type"] == "array" {
        true => &field["items"],
        false => field,
    };
    let titled = ["oneOf", "anyOf"]
        .iter()
        .find_map(|key| of[*key].as_array());
    if let Some(titled) = titled {
        let option = |it: &Value| {
            (
                it["const"].clone(),
                shown(it.get("title").unwrap_or(&it["const"])),
            )
        };
        return titled.iter().map(option).collect();
    }
    let names = field["enumNames"].as_array();
    let values = of["enum"].as_array().into_iter().flatten().enumerate();
    let label = |at: usize, value| shown(names.and_then(|names| names.get(at)).unwrap_or(value));
    values
        .map(|(at, value)| (value.clone(), label(at, value)))
        .collect()
}

fn shown(value: &Value) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned)
}

/// Asks about a field until what is typed is a value of it; null if it is left out, `None` if nobody answers.
fn value(sheet: &Sheet, field: &Value, form: &mut impl Form) -> io::Result<Option<Value>> {
    let mut complaint = None;
    loop {
        let Some(line) = form.fill(sheet, complaint.as_deref())? else {
            return Ok(None);
        };
        let line = line.trim();
        if line == NOTHING {
            return Ok(Some(Value::Null));
        }
        let options = options(field);
        let typed = match (options.is_empty(), sheet.read(line)) {
            (false, Some(Said::Chosen(chosen, _))) => {
                let mut chosen = chosen.into_iter().map(|at| options[at].0.clone());
                match sheet.is_multiple {
                    true => Some(chosen.collect()),
                    false => chosen.next(),
                }
            }
            (false, _) => None,
            (true, _) if line.is_empty() => None,
            (true, _) => match field["type"].as_str() {
                Some("integer") => line.parse().ok().map(|it: i64| it.into()),
                Some("number") => { line.parse().ok() }
                    .and_then(Number::from_f64)
                    .map(Value::Number),
                _ => Some(line.into()),
            },
        };
        match typed {
            Some(value) => return Ok(Some(value)),
            None => complaint = Some(format!("`{line}` is not an answer to this question")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Answers what is asked, in turn.
    struct Typed(Vec<&'static str>, Vec<String>);

    impl Form for Typed {
        fn fill(&mut self, sheet: &Sheet, complaint: Option<&str>) -> io::Result<Option<String>> {
            self.1
                .push(complaint.map_or_else(|| sheet.text(), str::to_owned));
            let next = (!self.0.is_empty()).then(|| self.0.remove(0).to_owned());
            Ok(next)
        }
    }

    fn asked(wanted: Wanted, typed: Vec<&'static str>) -> (ElicitationAnswer, String) {
        let (server, message) = ("trip".to_owned(), "Where to?".to_owned());
        let question = Elicitation {
            server,
            message,
            wanted,
        };
        let mut form = Typed(typed, Vec::new());
        let answer = ask(&question, &mut form).unwrap();
        (answer, form.1.concat())
    }

    #[test]
    fn a_form_is_asked_field_by_field() {
        let schema = json!({
            "type": "object",
            "properties": {
                "city": {"type": "string", "title": "City", "description": "Any"},
                "days": {"type": "integer", "default": 3},
                "price": {"type": "number"},
                "class": {"type": "string", "enum": ["a", "b"], "enumNames": ["First", "Second"]},
                "meals": {"type": "array", "items": {"anyOf": [{"const": "m", "title": "Meat"}, {"const": "v", "title": "Fish"}]}},
                "window": {"type": "boolean"},
            },
            "required": ["city"],
        });
        let typed = vec!["y", "", "Rome", "x", "5", "2.5", "2", "1,2", "2"];
        let (answer, shown) = asked(Wanted::Form(schema.clone()), typed);
        let expected = json!({
            "city": "Rome", "days": 5, "price": 2.5, "class": "b", "meals": ["m", "v"], "window": false,
        });
        assert_eq!(answer, ElicitationAnswer::Accept(Some(expected)));
        for part in [
            "It asks for: city, days",
            "`x` is not an answer",
            "Second",
            "Fish",
            "Do not enter passwords",
        ] {
            assert!(shown.contains(part), "{part}: {shown}");
        }
        let typed = vec!["y", "7", "-", "-", "-", "-", "-"];
        let (answer, _) = asked(Wanted::Form(schema.clone()), typed);
        assert_eq!(
            answer,
            ElicitationAnswer::Accept(Some(json!({"city": "7"})))
        );
        for (typed, expected) in [
            (vec!["n"], ElicitationAnswer::Decline),
            (vec![], ElicitationAnswer::Cancel),
            (vec!["y", "Rome"], ElicitationAnswer::Cancel),
        ] {
            assert_eq!(asked(Wanted::Form(schema.clone()), typed).0, expected);
        }
    }

    #[test]
    fn an_address_is_shown_whole_and_not_opened() {
        let url = "https://pay.example/very/long?with=everything".to_owned();
        let visit = || Wanted::Visit {
            url: url.clone(),
            id: String::new(),
        };
        let (answer, shown) = asked(visit(), vec!["y"]);
        assert_eq!(answer, ElicitationAnswer::Accept(None));
        assert!(shown.contains(&url), "{shown}");
        assert_eq!(asked(visit(), vec!["n"]).0, ElicitationAnswer::Decline);
    }
}
