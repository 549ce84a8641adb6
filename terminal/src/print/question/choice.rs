//! Asks the user on the terminal to choose between a model's options.

use std::io;

use ah_conversation::{Choice, Input, PermissionAnswer, ToolUse};
use serde_json::{Map, Value};

use super::form::{Form, answer, refused};
use super::sheet::{Answer, Said, Sheet};

/// Asks one question after the other; a number selects an option, other text is the answer itself.
pub fn ask(
    call: &ToolUse,
    choices: &[Choice],
    form: &mut impl Form,
) -> io::Result<PermissionAnswer> {
    let mut answers = Map::new();
    for (at, choice) in choices.iter().enumerate() {
        let sheet = counted(sheet(choice), at, choices.len());
        let answer = match answer(&sheet, form)? {
            None => return Ok(refused("nobody answered")),
            Some(Said::Words(words)) => words,
            Some(Said::Chosen(chosen, _)) => {
                let labels = chosen.iter().map(|at| choice.options[*at].label.as_str());
                labels.collect::<Vec<_>>().join(", ")
            }
        };
        answers.insert(choice.question.clone(), answer.into());
    }
    let mut arguments = match &call.input {
        Input::Object(arguments) => arguments.clone(),
        Input::Malformed(_) => Map::new(),
    };
    arguments.insert("answers".to_owned(), Value::Object(answers));
    Ok(PermissionAnswer::Allow {
        input: Some(Input::Object(arguments)),
        updates: Vec::new(),
    })
}

/// Returns one of several questions, by its index, with its number.
pub fn counted(sheet: Sheet, at: usize, count: usize) -> Sheet {
    match count {
        0 | 1 => sheet,
        count => Sheet {
            head: format!("{} ({} of {count})", sheet.head, at + 1),
            ..sheet
        },
    }
}

/// Returns the question about a choice.
pub fn sheet(choice: &Choice) -> Sheet {
    let header = match choice.header.trim() {
        "" => String::new(),
        header => format!("[{header}] "),
    };
    let answer = |(at, option): (usize, &ah_conversation::ChoiceOption)| Answer {
        key: (at + 1).to_string(),
        word: option.label.clone(),
        label: option.label.clone(),
        short: option.label.clone(),
        detail: option.description.clone(),
        takes_reason: false,
    };
    let prompt = if choice.is_multiple {
        "Numbers, or your own words: "
    } else {
        "A number, or your own words: "
    };
    Sheet {
        head: format!("{header}{}", choice.question),
        answers: choice.options.iter().enumerate().map(answer).collect(),
        prompt: prompt.to_owned(),
        takes_words: true,
        is_multiple: choice.is_multiple,
        ..Sheet::default()
    }
}
