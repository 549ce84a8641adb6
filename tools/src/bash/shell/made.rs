//! What the commands of a line make: files, links, and names that lead elsewhere. Behind `ln -s secret a` and `mv secret a`,
//! `a/key` is another file than when the line was judged.

use std::path::{Path, PathBuf};

use super::effect::{self, program};
use super::options;
use super::parser::{ParsedCommand, ParsedLine};

/// Limit for the names that are looked at; behind more, each may lead anywhere.
const MOST_NAMES: usize = 64;

/// Paths of what the commands of a line link and move.
pub(super) struct Renamed {
    /// The paths; `None` if they may be any.
    paths: Option<Vec<PathBuf>>,
}

impl Renamed {
    /// Returns those of all commands of the line. `places` returns the paths that a name may mean.
    pub fn of(parsed: &ParsedLine, places: impl Fn(&str) -> Vec<PathBuf>) -> Self {
        let mut names = Some(Vec::new());
        for command in &parsed.commands {
            add(command, &mut names);
        }
        let names = names.filter(|names| names.len() <= MOST_NAMES);
        let paths = names.map(|names| names.iter().flat_map(|name| places(name)).collect());
        Self { paths }
    }

    /// Whether one of these paths, or a folder in it, may be such a name.
    pub fn lead_to(&self, paths: &[PathBuf]) -> bool {
        let is_made = |path: &PathBuf, made: &Vec<PathBuf>| {
            let mut made = made.iter();
            made.any(|made| path.starts_with(made))
        };
        match &self.paths {
            None => true,
            Some(made) => paths.iter().any(|path| is_made(path, made)),
        }
    }
}

/// Whether the command gives files other names.
pub(super) fn renames(command: &ParsedCommand) -> bool {
    let words = command.invocation();
    let is_git = program(words) == Some("git");
    let mut arguments = words.iter().skip(1).filter_map(|word| word.text.as_deref());
    match program(words) {
        Some("ln" | "mv") => true,
        Some("cp") => arguments
            .any(|text| text.starts_with("--sym") || (is_short(text) && text.contains('s'))),
        _ => is_git && arguments.any(|text| text == "mv"),
    }
}

fn is_short(text: &str) -> bool {
    text.starts_with('-') && !text.starts_with("--")
}

fn add(command: &ParsedCommand, names: &mut Option<Vec<String>>) {
    command.inner.iter().for_each(|inner| add(inner, names));
    if !renames(command) {
        return;
    }
    let Some(found) = names.as_mut().filter(|found| found.len() <= MOST_NAMES) else {
        return;
    };
    let words = command.invocation().iter().skip(1);
    let texts: Option<Vec<&str>> = words.map(|word| word.text.as_deref()).collect();
    let Some(texts) = texts else {
        *names = None;
        return;
    };
    let values = texts
        .iter()
        .filter_map(|text| text.split_once('='))
        .map(|(_, value)| value);
    let operands: Vec<&str> = { texts.iter().copied() }
        .filter(|text| !text.starts_with('-'))
        .chain(values)
        .collect();
    if operands.len() > MOST_NAMES {
        *names = None;
        return;
    }
    // Which of them is the target depends on the options, so each may be.
    for target in operands.iter().copied().chain(["."]) {
        for source in &operands {
            let last = Path::new(source)
                .file_name()
                .map(|name| name.to_string_lossy());
            found.extend(last.map(|last| format!("{target}/{last}")));
        }
    }
    let sources = operands.len().saturating_sub(1).max(1);
    found.extend(
        operands
            .iter()
            .skip(sources)
            .map(|&target| target.to_owned()),
    );
}

/// Returns how many programs that may make symbolic links the command is or starts.
pub(super) fn makers_of_links(command: &ParsedCommand) -> usize {
    match command.inner.as_slice() {
        [] => usize::from(effect::may_make_links(command.invocation())),
        inner => inner.iter().map(makers_of_links).sum(),
    }
}

/// Returns how many commands and redirections of the line may make files.
pub(super) fn makers_of_files(parsed: &ParsedLine) -> usize {
    fn of_command(command: &ParsedCommand) -> usize {
        match command.inner.as_slice() {
            [] => usize::from(effect::may_make_files(command.invocation())),
            inner => {
                let written = options::read(command.invocation()).written;
                written.len() + inner.iter().map(of_command).sum::<usize>()
            }
        }
    }
    let redirections = parsed.redirections.iter();
    let redirections = redirections.filter(|redirection| redirection.is_write);
    redirections.count() + parsed.commands.iter().map(of_command).sum::<usize>()
}
