//! Asks the user on the terminal to choose between a model's options.

use std::io::{self, BufRead, Write};

use ah_conversation::{Choice, Input, PermissionAnswer, ToolUse};
use serde_json::{Map, Value};

use super::prompt::{line, refused};
use ah_conversation::neutralise;

/// Asks one question after the other; a number selects an option, other text is the answer itself.
pub fn ask(
    call: &ToolUse,
    choices: &[Choice],
    input: &mut impl BufRead,
    output: &mut impl Write,
) -> io::Result<PermissionAnswer> {
    let mut answers = Map::new();
    for choice in choices {
        describe(choice, output)?;
        let Some(answer) = answer(choice, input, output)? else {
            return Ok(refused("nobody answered"));
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

fn describe(choice: &Choice, output: &mut impl Write) -> io::Result<()> {
    let header = match choice.header.trim() {
        "" => String::new(),
        header => format!("[{}] ", neutralise(header)),
    };
    writeln!(output, "\n{header}{}", neutralise(&choice.question))?;
    let widths = choice.options.iter().map(|it| it.label.chars().count());
    let width = widths.max().unwrap_or_default();
    for (at, option) in choice.options.iter().enumerate() {
        let label = neutralise(&option.label).replace('\n', " ");
        let description = neutralise(&option.description).replace('\n', " ");
        let row = format!("  {}  {label:width$}  {description}", at + 1);
        writeln!(output, "{}", row.trim_end())?;
    }
    Ok(())
}

/// Returns the answer; `None` at the end of the input.
fn answer(
    choice: &Choice,
    input: &mut impl BufRead,
    output: &mut impl Write,
) -> io::Result<Option<String>> {
    let prompt = if choice.is_multiple {
        "Numbers, or your own words: "
    } else {
        "A number, or your own words: "
    };
    while let Some(said) = line(prompt, input, output)? {
        if let Some(answer) = chosen(choice, &said) {
            return Ok(Some(answer));
        }
    }
    Ok(None)
}

/// Returns the answer that a line gives; `None` if its numbers fit no option.
fn chosen(choice: &Choice, said: &str) -> Option<String> {
    let words: Vec<_> = said
        .split([',', ' '])
        .filter(|word| !word.is_empty())
        .collect();
    let numbers: Option<Vec<usize>> = words.iter().map(|word| word.parse().ok()).collect();
    let Some(numbers) = numbers else {
        return Some(said.to_owned());
    };
    let is_count = numbers.len() == 1 || choice.is_multiple && !numbers.is_empty();
    let labels: Option<Vec<_>> = numbers
        .iter()
        .map(|number| choice.options.get(number.checked_sub(1)?))
        .map(|option| Some(option?.label.as_str()))
        .collect();
    labels.filter(|_| is_count).map(|labels| labels.join(", "))
}
