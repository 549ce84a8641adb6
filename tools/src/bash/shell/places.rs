//! Where the names in a line lead: relative ones start in the working directory, or in one that the line changes to.

use std::path::{Component, Path, PathBuf};

use super::parser::{Move, ParsedCommand, ParsedLine};
use super::word::{Spelling, Word};

/// Limit for the working directories that a line may have, one after the other.
const MAX_DIRECTORIES: usize = 64;
/// Limit for the names that a line has, each in all working directories that it may have: each is looked up.
const MOST_PLACES: usize = 10_000;
/// Limit for the names of one path: the system takes none of more, and each of them may be a link.
const MOST_NAMES: usize = 2_048;
/// Variables that decide where `cd` and `~` lead.
const STEERING: [&str; 5] = ["CDPATH", "HOME", "OLDPWD", "PWD", "DIRSTACK"];

/// The working directories that the commands of a line may have.
pub(super) struct Directories {
    /// Known ones, as a line names them; the first is empty, for the directory in which the line starts.
    known: Vec<String>,
    /// Whether `known` are all.
    pub is_known: bool,
    /// Whether the line changes the working directory.
    pub has_moved: bool,
}

impl Directories {
    /// Returns whether the line of which they are names more than is looked up.
    pub fn name_too_much(&self, line: &str, parsed: &ParsedLine) -> bool {
        let is_long = |word: &str| word.matches('/').count() > MOST_NAMES;
        let places = self.number() * parsed.number_of_words();
        places > MOST_PLACES || line.split_whitespace().any(is_long)
    }

    /// Returns the directories of a parsed line, in whatever order its commands run.
    pub fn of(parsed: &ParsedLine) -> Self {
        let mut directories = Self {
            known: vec![String::new()],
            is_known: !(parsed.set.iter()).any(|name| STEERING.contains(&name.as_str()))
                && !parsed.commands.iter().any(sets_variable),
            has_moved: !parsed.moves.is_empty(),
        };
        for step in &parsed.moves {
            match step {
                Move::To(name) => directories.add(name),
                Move::Home => directories.add("~"),
                Move::Back => {}
                Move::Unknown => directories.is_known = false,
            }
        }
        directories
    }

    /// Returns how many there may be.
    pub fn number(&self) -> usize {
        self.known.len()
    }

    /// Adds a directory that the line may change to from each of the others.
    fn add(&mut self, name: &str) {
        for at in 0..self.known.len() {
            if self.known.len() > MAX_DIRECTORIES {
                self.is_known = false;
                return;
            }
            let physical = joined(&self.known[at], name);
            // Behind a link, shells take `..` for the folder that the name suggests.
            let logical = without_parents(&physical);
            for directory in [Some(physical), logical].into_iter().flatten() {
                if !self.known.contains(&directory) {
                    self.known.push(directory);
                }
            }
        }
    }

    /// Returns the directories with another one, in which a single command may look as well.
    pub fn with(&self, name: Option<&str>) -> Self {
        let mut all = Self {
            known: self.known.clone(),
            ..*self
        };
        if let Some(name) = name {
            all.add(name);
        }
        all
    }

    /// Returns the paths that a name may mean, relative ones to the directory in which the line starts.
    pub fn places(&self, name: &str) -> Vec<String> {
        if is_rooted(name) {
            return vec![name.to_owned()];
        }
        self.known
            .iter()
            .map(|folder| joined(folder, name))
            .collect()
    }

    /// Whether all meanings of a name are known.
    pub fn knows(&self, name: &str) -> bool {
        self.is_known || name.starts_with('/')
    }
}

/// Whether the command, or one that it starts, sets a variable that decides where names lead.
fn sets_variable(command: &ParsedCommand) -> bool {
    let sets = |word: &Word| {
        let name = word.raw.split(['=', '+', '[']).next().unwrap_or_default();
        word.raw.contains('=') && STEERING.contains(&name)
    };
    command.words.iter().any(sets) || command.inner.iter().any(sets_variable)
}

pub(super) fn is_rooted(name: &str) -> bool {
    name.starts_with(['/', '~'])
}

fn joined(folder: &str, name: &str) -> String {
    if folder.is_empty() || is_rooted(name) {
        name.to_owned()
    } else {
        format!("{folder}/{name}")
    }
}

/// Returns a path with `..` and the name before it taken out; `None` if there is none to take out.
fn without_parents(path: &str) -> Option<String> {
    let mut plain = PathBuf::new();
    for part in Path::new(path).components() {
        match part {
            Component::ParentDir if plain.file_name().is_some_and(|name| name != "~") => {
                plain.pop();
            }
            Component::ParentDir => return None,
            part => plain.push(part),
        }
    }
    let plain = plain.to_string_lossy().into_owned();
    (path.contains("..") && !plain.is_empty()).then_some(plain)
}

/// Returns the name that an argument most likely is: an operand, or the value after `=`. Behind `--`, a name may begin
/// with a hyphen.
pub(super) fn named(argument: &str, is_behind: bool) -> Option<&str> {
    let name = match argument.split_once('=') {
        Some((_, value)) => value,
        None if argument.starts_with('-') && !is_behind => return None,
        None => argument,
    };
    (!name.is_empty()).then_some(name)
}

/// Returns the other names that programs may find in an argument: `-fFILE`, `@FILE`, `<FILE`, `REVISION:FILE`, `a,FILE`.
pub(super) fn further_names(argument: &str) -> Vec<&str> {
    let mut names: Vec<_> = argument
        .match_indices(['=', '@', ':', ',', '<'])
        .map(|(at, _)| &argument[at + 1..])
        .collect();
    if argument.starts_with('-') && !argument.starts_with("--") {
        names.extend(
            argument
                .char_indices()
                .skip(2)
                .map(|(at, _)| &argument[at..])
                .take(3),
        );
        names.extend(argument.find(['/', '~']).map(|at| &argument[at..]));
    }
    names.retain(|name| !name.is_empty());
    names
}

/// Returns the file that a `file:` address in an argument names, as programs read it: without its host, query and
/// fragment, and with `%` signs decoded.
pub(super) fn file_of_address(argument: &str) -> Option<String> {
    let at = argument.to_ascii_lowercase().find("file:")?;
    let address = &argument[at + "file:".len()..];
    let path = match address.strip_prefix("//") {
        Some(behind) => &behind[behind.find('/')?..],
        None => address,
    };
    let path = path.split(['?', '#']).next().unwrap_or_default();
    let mut decoded = Vec::new();
    let mut rest = path.as_bytes();
    while let Some((byte, behind)) = rest.split_first() {
        let digits = behind
            .get(..2)
            .and_then(|digits| str::from_utf8(digits).ok());
        let code = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        (rest, _) = match code.filter(|_| *byte == b'%') {
            Some(code) => (&behind[2..], decoded.push(code)),
            None => (behind, decoded.push(*byte)),
        };
    }
    let decoded = String::from_utf8_lossy(&decoded).into_owned();
    (!decoded.is_empty()).then_some(decoded)
}

/// Whether an argument may be an address in which the program itself replaces `{…}` and `[…]`, and that may so become
/// one of a file.
pub(super) fn is_address_pattern(argument: &str) -> bool {
    const WILD: [char; 4] = ['{', '}', '[', ']'];
    let Some((scheme, behind)) = argument.split_once(':') else {
        return false;
    };
    let scheme = scheme.rsplit('=').next().unwrap_or_default();
    let is_scheme =
        |c: char| c.is_ascii_alphanumeric() || c == ',' || c == '-' || WILD.contains(&c);
    let is_file = scheme.to_ascii_lowercase().ends_with("file");
    scheme.chars().all(is_scheme) && (scheme.contains(WILD) || (is_file && behind.contains(WILD)))
}

/// Returns the shell pattern that a word is, or `None` if it may expand to anything.
pub(super) fn pattern(word: &Word) -> Option<&str> {
    let is_plain = word.spelling == Spelling::Pattern && !word.raw.contains(['\'', '"', '\\']);
    let is_other_home = word.raw.starts_with('~') && !word.raw.starts_with("~/");
    (is_plain && !word.raw.is_empty() && !is_other_home).then_some(word.raw.as_str())
}

/// Whether a path, or one that the pattern stands for, is among the files that the system makes of processes: they
/// hold the environment and the memory of others.
pub(super) fn reaches_processes(path: &Path) -> bool {
    if !path.has_root() {
        return false;
    }
    let first = path.components().find(|part| *part != Component::RootDir);
    let first = first.map(|part| part.as_os_str().to_string_lossy().into_owned());
    first.is_some_and(|name| name == "proc" || name.contains(['*', '?', '[']))
}
