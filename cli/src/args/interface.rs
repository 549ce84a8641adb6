//! Which interface a command line asks for.
//!
//! It is known before anything is parsed, because it decides what the words mean: with `-p` every word is a prompt, which
//! programs pass on from people. Nobody who writes "undo" to such a program means our subcommand.

use std::ffi::OsString;

use ah_conversation::Interface;

use super::words::kebab_case;

/// Short options without a value, between which `-p` may stand: `-cp`.
const FLAGS: &str = "cdhnpvV";

/// Returns the interface, also for an invalid command line, so that the exit code fits it.
pub fn interface_of(arguments: &[OsString]) -> Interface {
    let mut arguments = options(arguments).peekable();
    while let Some(argument) = arguments.next() {
        let (name, value) = match argument.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (argument, arguments.peek().copied()),
        };
        let is_drop_in = match kebab_case(name).as_str() {
            "--output-format" => matches!(value, Some("json" | "stream-json")),
            "--input-format" => true,
            _ => prints(argument),
        };
        if is_drop_in {
            return Interface::AgentSdk;
        }
    }
    Interface::Native
}

/// Returns whether a command line has `-p`, with which nothing is a subcommand.
pub fn is_print(arguments: &[OsString]) -> bool {
    options(arguments).any(prints)
}

/// Returns whether `-p` in what is behind the word `work` is its own option, which has a value, while nothing else asks
/// for the other agent's interface.
pub fn is_option_of_work(before: &[OsString], behind: &[OsString]) -> bool {
    let mut own = Vec::with_capacity(behind.len());
    let mut behind = behind.iter().peekable();
    while let Some(argument) = behind.next() {
        let is_value = |next: &&OsString| !next.to_string_lossy().starts_with('-');
        if argument == "-p" && behind.next_if(is_value).is_some() {
            continue;
        }
        own.push(argument.clone());
    }
    [before, &own]
        .iter()
        .all(|arguments| interface_of(arguments) == Interface::Native)
}

fn options(arguments: &[OsString]) -> impl Iterator<Item = &str> {
    let arguments = arguments.iter().filter_map(|argument| argument.to_str());
    arguments.take_while(|argument| *argument != "--")
}

fn prints(argument: &str) -> bool {
    let letters = argument.strip_prefix('-').unwrap_or_default();
    argument == "--print"
        || (letters.contains('p') && letters.chars().all(|letter| FLAGS.contains(letter)))
}
