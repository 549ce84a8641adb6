//! Asks the user on the terminal to choose between a model's options.

use std::collections::BTreeMap;
use std::io;

use ah_conversation::{Choice, Input, PermissionAnswer, ToolUse};
use serde_json::{Map, Value};

use super::form::{Form, answer, refused};
use super::sheet::{Answer, BACK, Part, Said, Sheet};

/// Asks the questions of a call.
pub fn ask(
    call: &ToolUse,
    choices: &[Choice],
    form: &mut impl Form,
) -> io::Result<PermissionAnswer> {
    let Some(answers) = answers(choices, form)? else {
        return Ok(refused("nobody answered"));
    };
    let mut arguments = match &call.input {
        Input::Object(arguments) => arguments.clone(),
        Input::Malformed(_) => Map::new(),
    };
    let answers = answers
        .into_iter()
        .map(|(question, text)| (question, text.into()));
    arguments.insert("answers".to_owned(), Value::Object(answers.collect()));
    Ok(PermissionAnswer::Allow {
        input: Some(Input::Object(arguments)),
        updates: Vec::new(),
    })
}

/// Asks one question after the other; a number selects an option, other text is the answer itself. Of several, each has a way back,
/// and all answers are shown before they count. `None` if nobody answers.
pub fn answers(
    choices: &[Choice],
    form: &mut impl Form,
) -> io::Result<Option<BTreeMap<String, String>>> {
    let mut texts: Vec<String> = Vec::new();
    loop {
        let choice = choices.get(texts.len());
        let sheet = match choice {
            Some(choice) => counted(sheet(choice), texts.len(), choices.len()),
            None if choices.len() > 1 => review(choices, &texts),
            None => break,
        };
        match (answer(&sheet, form)?, choice) {
            (None, _) => return Ok(None),
            (Some(Said::Chosen(chosen, _)), _)
                if chosen.iter().any(|at| sheet.answers[*at].key == BACK) =>
            {
                texts.pop();
            }
            (_, None) => break,
            (Some(Said::Words(words)), _) => texts.push(words),
            (Some(Said::Chosen(chosen, _)), Some(choice)) => {
                let labels = chosen.iter().map(|at| choice.options[*at].label.as_str());
                texts.push(labels.collect::<Vec<_>>().join(", "));
            }
        }
    }
    let questions = choices.iter().map(|choice| choice.question.clone());
    Ok(Some(questions.zip(texts).collect()))
}

/// Returns one of several questions, by its index, with its number and the way back.
fn counted(mut sheet: Sheet, at: usize, count: usize) -> Sheet {
    if count > 1 {
        sheet.head = format!("{} ({} of {count})", sheet.head, at + 1);
    }
    if at > 0 {
        sheet.answers.push(Answer::of(BACK, BACK, "back"));
    }
    sheet
}

/// Returns the question whether these answers are to be sent.
fn review(choices: &[Choice], texts: &[String]) -> Sheet {
    let given = choices.iter().zip(texts);
    let lines =
        given.map(|(choice, text)| format!("{} {text}", choice.question).replace('\n', " "));
    Sheet {
        head: "Send these answers?".to_owned(),
        body: Part::lines(&lines.collect::<Vec<_>>().join("\n")),
        answers: vec![
            Answer::of("y", "yes", "yes"),
            Answer::of(BACK, BACK, "back"),
        ],
        prompt: "Send? ".to_owned(),
        ..Sheet::default()
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
