//! Separation of options and words before parsing.
//!
//! Three rules are beyond the parser: options may stand before, between and after the words of a prompt, of which only
//! the first may name a subcommand; lists of tools take further words as long as they name tools; and `-r` takes a word
//! only if it names a session. So options are collected here, each joined with its value, and the parser interprets
//! them. In the interface of the other agent, its rules apply: `-n` and `-d` are its options, the word after `-r` is the
//! session, and lists take all further words.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use ah_config::Error;
use ah_conversation::{Effort, Interface, ToolName};
use ah_engine::sessions::plan::is_uuid;
use ah_engine::sessions::worktrees::is_name;
use clap::{Arg, Command};

/// Words that the other agent takes for the value of a switch.
const IS_ON: [&str; 8] = ["true", "false", "1", "0", "yes", "no", "on", "off"];
/// Fewest characters by which a word is the beginning of a session's id: 11 are shown in lists.
const SHORTEST_BEGINNING: usize = 8;

/// Lookups of names that exist outside of the command line.
pub struct KnownNames<'a> {
    /// Returns whether a word is the name of a tool.
    pub is_tool: &'a dyn Fn(&str) -> bool,
    /// Returns whether a word is the name of a session.
    pub is_session: &'a dyn Fn(&str) -> bool,
}

/// A command line split into options and words.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Sorted {
    /// The options, one item each: `--model=opus`, `-n`.
    pub options: Vec<OsString>,
    /// The subcommand, and all following arguments unchanged.
    pub subcommand: Option<(String, Vec<OsString>)>,
    /// The words of the prompt.
    pub words: Vec<OsString>,
    /// Whether `--` says that the words are a prompt.
    pub is_prompt: bool,
    /// The word behind `-r`, if that is not its value, since it names no session.
    pub behind_resume: Option<OsString>,
}

impl Sorted {
    /// Turns `help` and `help SUBCOMMAND`, if that is all, into the option: nobody means a prompt.
    pub fn turn_help_to_option(&mut self, is_subcommand: impl Fn(&str) -> bool) {
        let words: Vec<_> = self.words.iter().map(|word| word.to_str()).collect();
        self.subcommand = match words[..] {
            _ if self.is_prompt => return,
            [Some("help")] => None,
            [Some("help"), Some(name)] if is_subcommand(name) => {
                Some((name.to_owned(), vec!["--help".into()]))
            }
            _ => return,
        };
        self.words.clear();
        if self.subcommand.is_none() {
            self.options.push("--help".into());
        }
    }

    /// Leaves out what the other agent takes for nothing: a limit of no turns, and an unknown level of effort. Returns a
    /// warning for the latter.
    pub fn drop_foreign_nothing(&mut self) -> Option<String> {
        let mut warning = None;
        self.options.retain(|option| {
            let parts = option.to_str().and_then(|text| text.split_once('='));
            match parts {
                Some(("--max-turns", turns)) => !turns.parse::<i64>().is_ok_and(|turns| turns <= 0),
                Some(("--effort", level)) => {
                    let is_known = Effort::ALL.iter().any(|effort| effort.as_str() == level);
                    if !is_known {
                        warning = Some(format!(
                            "`{level}` is not a level of effort, so the default is used"
                        ));
                    }
                    is_known
                }
                _ => true,
            }
        });
        warning
    }

    /// Fails if the word behind `-r` must be meant for a session and names none: it is not a whole prompt in quotes.
    pub fn check_session(&self) -> Result<(), Error> {
        let (Some(word), Some(first)) = (&self.behind_resume, self.words.first()) else {
            return Ok(());
        };
        let word = word.to_string_lossy();
        let is_prompt = self.words.len() == 1 && word.contains(char::is_whitespace);
        if self.subcommand.is_some() || *word != *first.to_string_lossy() || is_prompt {
            return Ok(());
        }
        let error = Error::usage(format!("no session has the id or name `{word}`"));
        let is_file = word.contains('/') || Path::new(&*word).is_file();
        let options = self.options.iter().filter(|option| *option != NO_SESSION);
        let quoted = |words: Vec<&OsString>| {
            let words = words.into_iter().map(|word| in_shell(word) + " ");
            words.collect::<String>()
        };
        let options = quoted(options.collect());
        let file = match is_file {
            true => format!(
                "a database is named by --db: ah {options}--db {}; ",
                in_shell(first)
            ),
            false => String::new(),
        };
        let prompt = quoted(self.words.iter().collect());
        Err(error.hint(format!(
            "{file}`ah sessions` lists them; to send it as a prompt: ah {options}-r -- {}",
            prompt.trim_end()
        )))
    }

    /// Returns the command line in an order that the parser accepts.
    pub fn line(&self) -> Vec<OsString> {
        let (first, rest) = match &self.subcommand {
            Some((name, rest)) => (name.as_str(), rest),
            None => ("--", &self.words),
        };
        let mut line = vec![OsString::from("ah")];
        line.extend(self.options.iter().cloned());
        line.push(first.into());
        line.extend(rest.iter().cloned());
        line
    }
}

/// Splits the command line (without the program's name) by the options of `command`. `is_subcommand` is asked about the
/// first word, with the options before it and the arguments behind it.
pub fn sort(
    arguments: Vec<OsString>,
    command: &Command,
    is_subcommand: impl Fn(&str, &[OsString], &[OsString]) -> bool,
    names: &KnownNames<'_>,
    interface: Interface,
) -> Sorted {
    let is_foreign = interface.stands_in();
    let mut arguments = arguments.into_iter().peekable();
    let mut sorted = Sorted::default();
    while let Some(argument) = arguments.next() {
        let argument = match is_foreign {
            true => {
                let next = arguments.peek().and_then(|next| next.to_str());
                let is_named = next.is_some_and(|next| !next.starts_with('-'));
                foreign(in_kebab_case(argument, command), is_named)
            }
            false => in_kebab_case(argument, command),
        };
        let text = argument.to_str().unwrap_or_default();
        if text == "--" {
            sorted.is_prompt = true;
            sorted.words.extend(arguments);
            break;
        }
        if !text.starts_with('-') || text == "-" {
            // A run, with all that belongs to one.
            if sorted.words.is_empty()
                && !is_foreign
                && text == "worktree"
                && let Some(name) = arguments.next_if(|next| next.to_str().is_some_and(is_tree))
            {
                sorted.options.push(glue("--worktree", &name));
                continue;
            }
            if sorted.words.is_empty() {
                let behind: Vec<_> = arguments.clone().collect();
                if is_subcommand(text, &sorted.options, &behind) {
                    sorted.subcommand = Some((text.to_owned(), behind));
                    break;
                }
            }
            sorted.words.push(argument);
            continue;
        }
        let mut takes = |accepts: &dyn Fn(&str) -> bool| {
            arguments.next_if(|next| next.to_str().is_none_or(accepts))
        };
        let Some(option) = awaits_value(command, text) else {
            if is_foreign && text == "--prompt-suggestions" {
                let _ = takes(&|word| IS_ON.contains(&word));
            }
            sorted.options.push(argument);
            continue;
        };
        let rules = ValueRules {
            command,
            names,
            is_foreign,
        };
        rules.take(option, &argument, &mut takes, &mut sorted.options);
        if sorted.options.last().is_some_and(|last| last == NO_SESSION) {
            sorted.behind_resume = arguments.peek().filter(|next| *next != "--").cloned();
        }
    }
    sorted
}

/// `-r` without a value.
const NO_SESSION: &str = "--resume=";

/// Takes the next word, if the function accepts it.
type Taker<'a> = dyn FnMut(&dyn Fn(&str) -> bool) -> Option<OsString> + 'a;

/// What decides which words are values of an option.
struct ValueRules<'a> {
    command: &'a Command,
    names: &'a KnownNames<'a>,
    /// Whether the command line is the other agent's.
    is_foreign: bool,
}

impl ValueRules<'_> {
    /// Adds the option, joined with its values, which `takes` takes from the words behind it.
    fn take(
        &self,
        option: &Arg,
        argument: &OsString,
        takes: &mut Taker<'_>,
        options: &mut Vec<OsString>,
    ) {
        let (names, is_foreign) = (self.names, self.is_foreign);
        let text = argument.to_str().unwrap_or_default();
        if option.get_id() == "resume" {
            let names_session =
                |word: &str| is_foreign || is_session_id(word) || (names.is_session)(word);
            let value = takes(&|word| !word.starts_with('-') && names_session(word));
            options.push(glue("--resume", &value.unwrap_or_default()));
        } else if option.get_id() == "worktree" {
            let value = takes(&is_meant_as_name);
            options.push(glue("--worktree", &value.unwrap_or_default()));
        } else if is_foreign && option.get_id() == "debug" {
            // Its categories are not ours.
            let _ = takes(&|word| !word.starts_with('-') && !word.contains(char::is_whitespace));
            options.push(argument.clone());
        } else if option.is_require_equals_set() {
            options.push(argument.clone());
        } else {
            match takes(&|word| !is_known_option(self.command, word)) {
                Some(value) => options.push(glue(text, &value)),
                // The parser reports the missing value.
                None => options.push(argument.clone()),
            }
            if is_foreign && is_list(option) {
                let is_of_list = |word: &str| match option.get_id() == "mcp_config" {
                    true => is_configuration(word),
                    false => !word.starts_with('-') && !word.contains(char::is_whitespace),
                };
                while let Some(more) = takes(&is_of_list) {
                    options.push(glue(text, &more));
                }
            }
            if is_tool_list(option) {
                while let Some(tool) = takes(&|word| is_tool_rule(word, names)) {
                    options.push(glue(text, &tool));
                }
            }
        }
    }
}

/// Returns whether the word after `worktree` is the name of one, and no action.
fn is_tree(word: &str) -> bool {
    let is_action = ["remove", "rm", "list", "ls", "help"].contains(&word);
    is_name(word) && !is_action
}

/// Converts the camel case in which the official SDKs write some long options.
fn in_kebab_case(argument: OsString, command: &Command) -> OsString {
    let Some(text) = argument.to_str().filter(|text| text.starts_with("--")) else {
        return argument;
    };
    let (name, value) = text.split_at(text.find('=').unwrap_or(text.len()));
    let kebab = kebab_case(name);
    match find_long(command, &kebab) {
        Some(_) => format!("{kebab}{value}").into(),
        None => argument,
    }
}

/// Returns the option that the other agent's short one stands for.
fn foreign(argument: OsString, is_named: bool) -> OsString {
    let long = |text: &str| match (text, text.strip_prefix("-n")) {
        ("-d", _) => Some("--debug".to_owned()),
        // Without a name behind it, it can only be meant as here.
        ("-n", _) if is_named => Some("--name".to_owned()),
        ("-n", _) => None,
        (_, Some(name)) => Some(format!("--name={name}")),
        _ => None,
    };
    argument
        .to_str()
        .and_then(long)
        .map_or(argument, Into::into)
}

/// Returns whether an option of the other agent takes several words. What has blanks is a prompt, which nobody would miss
/// in a list.
fn is_list(option: &Arg) -> bool {
    ["add_dir", "betas", "mcp_config"].contains(&option.get_id().as_str())
}

/// Returns whether a word is JSON, or the path of a file with it.
fn is_configuration(word: &str) -> bool {
    let is_path = word.ends_with(".json") || word.contains('/');
    word.starts_with('{')
        || (is_path && !word.starts_with('-') && !word.contains(char::is_whitespace))
}

/// Returns a word as it is typed in a shell.
fn in_shell(word: &OsStr) -> String {
    let word = word.to_string_lossy();
    let is_plain = |c: char| c.is_alphanumeric() || "-_./=:,@%+".contains(c);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => word.into_owned(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    }
}

/// Converts `maxTurns` to `max-turns`.
pub fn kebab_case(name: &str) -> String {
    let mut kebab = String::with_capacity(name.len() + 4);
    for c in name.chars() {
        if c.is_ascii_uppercase() {
            kebab.push('-');
        }
        kebab.push(c.to_ascii_lowercase());
    }
    kebab
}

/// Returns whether an option takes a list that may continue over several words.
fn is_tool_list(option: &Arg) -> bool {
    ["tools", "allowed_tools", "disallowed_tools"].contains(&option.get_id().as_str())
}

fn is_tool_rule(word: &str, names: &KnownNames<'_>) -> bool {
    let first = word.split(',').next().unwrap_or_default();
    !word.starts_with('-')
        && (ToolName(first).is_of_server()
            || (first.contains('(') && word.ends_with(')'))
            || (names.is_tool)(first))
}

/// Returns whether a word is the id of a session, or begins one as it is shown: in capitals, and too long for a word of a
/// prompt.
fn is_session_id(word: &str) -> bool {
    let is_beginning = word.len() >= SHORTEST_BEGINNING
        && word.starts_with('0')
        && word
            .bytes()
            .all(|byte| byte.is_ascii_digit() || byte.is_ascii_uppercase());
    is_uuid(word) || ulid::Ulid::from_string(word).is_ok() || is_beginning
}

/// Returns whether a word is the name of a worktree, or of a branch (`fix/login`), which is refused later.
fn is_meant_as_name(word: &str) -> bool {
    word.starts_with(|c: char| c.is_ascii_alphanumeric()) && word.split('/').all(is_name)
}

/// Returns the option at the end of `text`, if it takes a value that `text` does not contain.
fn awaits_value<'a>(command: &'a Command, text: &str) -> Option<&'a Arg> {
    if text.starts_with("--") {
        return find_long(command, text).filter(|option| option.get_action().takes_values());
    }
    let mut letters = text[1..].chars();
    while let Some(letter) = letters.next() {
        let option = command
            .get_arguments()
            .find(|option| option.get_short() == Some(letter))?;
        if option.get_action().takes_values() {
            return letters.as_str().is_empty().then_some(option);
        }
    }
    None
}

fn is_known_option(command: &Command, text: &str) -> bool {
    if text.starts_with("--") {
        let name = text.split('=').next().unwrap_or_default();
        return text == "--" || find_long(command, name).is_some();
    }
    let Some(letter) = text.strip_prefix('-').and_then(|rest| rest.chars().next()) else {
        return false;
    };
    text.len() == 2
        && command
            .get_arguments()
            .any(|option| option.get_short() == Some(letter))
}

fn find_long<'a>(command: &'a Command, text: &str) -> Option<&'a Arg> {
    let name = text.strip_prefix("--")?;
    command
        .get_arguments()
        .find(|option| option.get_long() == Some(name))
}

fn glue(option: &str, value: &OsStr) -> OsString {
    let mut glued = OsString::from(option);
    // A short option takes its value without a separator.
    if option.starts_with("--") {
        glued.push("=");
    }
    glued.push(value);
    glued
}
