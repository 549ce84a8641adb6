//! Errors of the command-line parser in our format.

use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, ErrorKind};

use ah_config::Error;

use super::grammar::command;

/// Returns the command line that sends a subcommand's words to the model.
fn as_prompt(name: &str, rest: &[OsString]) -> String {
    let mut line = format!("to send it as a prompt: ah -- {name}");
    for word in rest {
        line.push(' ');
        line.push_str(&word.to_string_lossy());
    }
    line
}

/// Returns the subcommand with those below it that its words name: `sandbox exec`.
fn whole_name(name: &str, rest: &[OsString]) -> String {
    let all = command();
    let (mut whole, mut found) = (name.to_owned(), all.find_subcommand(name));
    for word in rest {
        found = found.and_then(|command| command.find_subcommand(word));
        let Some(below) = found else { break };
        whole.push(' ');
        whole.push_str(below.get_name());
    }
    whole
}

/// Converts an error of the parser.
pub fn explain(error: &clap::Error, subcommand: Option<&(String, Vec<OsString>)>) -> Error {
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.clone()),
        Some(ContextValue::Strings(texts)) => texts.first().cloned(),
        _ => None,
    };
    let argument = text(ContextKind::InvalidArg).unwrap_or_default();
    let words = subcommand.filter(|(_, rest)| {
        rest.iter()
            .any(|word| !word.to_string_lossy().starts_with('-'))
    });
    let words_as_prompt = words
        .filter(|_| !argument.starts_with('-'))
        .map(|(name, rest)| as_prompt(name, rest));
    let message = match error.kind() {
        ErrorKind::UnknownArgument if argument.starts_with('-') => {
            let option = argument.split('=').next().unwrap_or_default();
            format!("unknown option `{option}`")
        }
        ErrorKind::UnknownArgument => format!("unexpected `{argument}`"),
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand | ErrorKind::MissingSubcommand => {
            let name = subcommand.map_or("", |(name, _)| name.as_str());
            return Error::usage(format!("`ah {name}` needs a command"))
                .hint(format!("`ah {name} --help` lists them"));
        }
        _ => first_paragraph(error),
    };
    let hint = match (error.kind(), text(ContextKind::SuggestedArg)) {
        (ErrorKind::MissingRequiredArgument, _) => None,
        (ErrorKind::UnknownArgument, Some(known)) if argument.starts_with('-') => {
            Some(format!("did you mean `{known}`?"))
        }
        (ErrorKind::InvalidSubcommand, _) => subcommand.map(|(name, rest)| {
            let (whole, as_prompt) = (whole_name(name, rest), as_prompt(name, rest));
            format!("`ah {whole} --help` lists its commands; {as_prompt}")
        }),
        _ => words_as_prompt.or_else(|| {
            text(ContextKind::SuggestedValue).map(|known| format!("did you mean `{known}`?"))
        }),
    };
    let help = || match subcommand {
        Some((name, rest)) => {
            let name = whole_name(name, rest);
            format!("`ah {name} --help` shows its options")
        }
        None => "`ah --help` lists all options and commands".to_owned(),
    };
    Error::usage(message).hint(hint.unwrap_or_else(help))
}

/// Returns the first paragraph of the parser's message.
fn first_paragraph(error: &clap::Error) -> String {
    let text = error.render().to_string();
    let text = text.strip_prefix("error: ").unwrap_or(&text);
    let paragraph = text.split("\n\n").next().unwrap_or_default();
    let lines: Vec<_> = paragraph.lines().map(str::trim).collect();
    lines.join(" ").replace('\'', "`")
}
