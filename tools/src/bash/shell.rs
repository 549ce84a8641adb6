//! Analyzes a command line for the permission rules: which programs it would run, and which files it touches.
//!
//! An error here would let a command escape a rule, so a line that `parser` does not understand has no known commands.

mod effect;
mod parser;
mod word;
mod wrapper;

use std::path::PathBuf;

use ah_conversation::{CommandLine, Effect, SimpleCommand};

use parser::{ParsedCommand, ParsedLine};
use word::Word;

/// Programs with subcommands: a rule may allow one subcommand with any further words.
const WITH_SUBCOMMANDS: [&str; 18] = [
    "git", "cargo", "npm", "pnpm", "yarn", "bun", "go", "docker", "podman", "kubectl", "pip", "uv",
    "gh", "make", "just", "rustup", "apt", "brew",
];

/// What a command line would do.
pub(super) struct Analysis {
    /// The line and its commands.
    pub line: CommandLine,
    /// Files that redirections read.
    pub reads: Vec<PathBuf>,
    /// Files that redirections write.
    pub writes: Vec<PathBuf>,
}

/// Analyzes `line`; `resolve` returns the path of a file name.
pub(super) fn analyze(line: &str, resolve: &dyn Fn(&str) -> PathBuf) -> Analysis {
    let parsed = parser::parse(line);
    let has_moved = !parsed.directories.is_empty();
    let files = |is_write: bool| -> Vec<PathBuf> {
        let redirections = parsed.redirections.iter();
        redirections
            .filter(|redirection| redirection.is_write == is_write)
            .map(|redirection| resolve(&redirection.file))
            .collect()
    };
    let (reads, writes) = (files(false), files(true));
    // After a change of the working directory, the file of a relative redirection is unknown.
    let mut redirections = parsed.redirections.iter();
    let are_files_known =
        !has_moved || redirections.all(|redirection| is_rooted(&redirection.file));
    let harmless = is_read_only(&parsed);
    let commands = (parsed.is_understood && are_files_known).then(|| {
        let resolver = Resolver {
            resolve,
            directories: parsed.directories.into_iter().flatten().collect(),
            has_moved,
        };
        let commands = parsed.commands.into_iter();
        let mut commands: Vec<_> = commands.map(|command| resolver.command(command)).collect();
        if !commands.iter().all(changes_nothing) {
            // A program with a relative path, or that inspects its working directory, differs in another directory.
            commands.iter_mut().for_each(raise_effect_of_moves);
        }
        commands
    });
    Analysis {
        line: CommandLine {
            line: line.to_owned(),
            harmless,
            commands,
        },
        reads,
        writes,
    }
}

/// Whether the line consists of read-only commands and nothing else: they may run side by side, and again.
fn is_read_only(parsed: &ParsedLine) -> bool {
    let mut commands = parsed.commands.iter();
    parsed.is_understood
        && !parsed.has_syntax
        && !parsed.commands.is_empty()
        && commands.all(|command| command.assignments == 0 && effect::is_read_only(&command.words))
}

fn is_rooted(name: &str) -> bool {
    name.starts_with(['/', '~'])
}

fn changes_nothing(command: &SimpleCommand) -> bool {
    command.effect == Effect::None && command.inner.iter().all(changes_nothing)
}

fn raise_effect_of_moves(command: &mut SimpleCommand) {
    if let Some(Some(program)) = command.words.first()
        && parser::is_move(program)
    {
        command.effect = Effect::Any;
    }
    command.inner.iter_mut().for_each(raise_effect_of_moves);
}

/// Resolves the files of parsed commands.
struct Resolver<'a> {
    resolve: &'a dyn Fn(&str) -> PathBuf,
    /// Known directories that the line changes to.
    directories: Vec<String>,
    has_moved: bool,
}

impl Resolver<'_> {
    fn command(&self, parsed: ParsedCommand) -> SimpleCommand {
        let text = source(&parsed.words);
        let reach = source(&parsed.words[..parsed.reach]).len();
        let invocation = parsed.invocation();
        let words: Vec<Option<String>> = invocation.iter().map(|word| word.text.clone()).collect();
        let arguments = words.iter().skip(1).flatten();
        let names = arguments.filter_map(|argument| named(argument));
        let operands = names.flat_map(|name| self.places(name)).collect();
        let effect = if parsed.assignments > 0 || words.is_empty() {
            Effect::Any
        } else if effect::is_read_only(invocation) {
            Effect::None
        } else if !self.has_moved && effect::is_file_work(invocation) && !self.removes_here(&words)
        {
            Effect::Files
        } else {
            Effect::Any
        };
        let proposal = proposal(&parsed, &text);
        let inner = parsed.inner.into_iter();
        SimpleCommand {
            proposal,
            text,
            words,
            operands,
            effect,
            reach,
            transparent: parsed.transparent,
            inner: inner.map(|inner| self.command(inner)).collect(),
        }
    }

    /// Whether the command would remove the working directory itself.
    fn removes_here(&self, words: &[Option<String>]) -> bool {
        let here = (self.resolve)(".");
        let removes = matches!(words.first(), Some(Some(program)) if program == "rm");
        let mut names = words.iter().skip(1).flatten();
        removes && names.any(|name| here.starts_with((self.resolve)(name)))
    }

    /// Returns the files that a name may refer to: in the working directory, and in each one that the line changes to.
    fn places(&self, name: &str) -> Vec<PathBuf> {
        let mut places = vec![(self.resolve)(name)];
        if !is_rooted(name) {
            let elsewhere = self.directories.iter();
            places
                .extend(elsewhere.map(|directory| (self.resolve)(&format!("{directory}/{name}"))));
        }
        places
    }
}

/// Returns the words as they are written, separated by one blank.
fn source(words: &[Word]) -> String {
    let words: Vec<&str> = words.iter().map(|word| word.raw.as_str()).collect();
    words.join(" ")
}

/// Returns the file that an argument may name: an operand, or the value after `=`.
fn named(argument: &str) -> Option<&str> {
    let name = match argument.split_once('=') {
        Some((_, value)) => value,
        None if argument.starts_with('-') => return None,
        None => argument,
    };
    (!name.is_empty()).then_some(name)
}

/// Returns the content of a rule that would allow the command, or its subcommand with any further words.
fn proposal(parsed: &ParsedCommand, text: &str) -> String {
    let is_plain = |word: &str| {
        word.bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte == b'-')
    };
    match parsed.words.as_slice() {
        [program, subcommand, ..]
            if WITH_SUBCOMMANDS.contains(&program.raw.as_str())
                && program.is_bare()
                && subcommand.is_bare()
                && is_plain(&subcommand.raw)
                && !subcommand.raw.starts_with('-') =>
        {
            format!("{} {}:*", program.raw, subcommand.raw)
        }
        _ => text.replace('\\', "\\\\").replace('*', "\\*"),
    }
}

#[cfg(test)]
mod tests;
