//! Options that name a file to write or a program to start: a rule for the program does not cover those.
//!
//! Known options are listed, the harmless ones too. Any other may do anything.

mod git;
mod known;
mod programs;
mod transfers;

use known::{Kind, Known};

use super::tar;
use super::word::Word;

/// What the options and operands of a command name.
#[derive(Default)]
pub(super) struct Options {
    /// Files to write.
    pub written: Vec<String>,
    /// Command lines to run.
    pub started: Vec<String>,
    /// The last word that is, or may become, an option which is not known.
    pub unknown: Option<usize>,
    /// Words that are no options.
    operands: Vec<usize>,
    /// Letters of the short options, and names of the long ones.
    seen: Vec<String>,
    /// Whether a value may be missing at run time, so that another word is the value, and the next one is none.
    is_shifted: bool,
}

/// Returns what the options and operands of the command name.
pub(super) fn read(words: &[Word]) -> Options {
    let mut options = Options::default();
    let program = words.first().and_then(|word| word.text.as_deref());
    let name = program.and_then(|program| program.rsplit('/').next());
    match name.unwrap_or_default() {
        "git" => options.read_git(words),
        "find" => options.read_find(words),
        "tar" | "bsdtar" | "gtar" => options.read_tar(words),
        name => {
            if let Some(known) = programs::known(name) {
                options.read_words(words, 1, name, &known);
                options.read_operands(words, name);
            }
        }
    }
    let is_file = |name: &String| !matches!(&**name, "/dev/null" | "/dev/stdout" | "/dev/stderr");
    options.written.retain(is_file);
    options
}

/// Whether the options of the program are listed.
pub(super) fn are_known_of(words: &[Word]) -> bool {
    let program = words.first().and_then(|word| word.text.as_deref());
    let name = program.and_then(|program| program.rsplit('/').next());
    name.is_some_and(|name| {
        matches!(name, "git" | "find" | "tar" | "bsdtar" | "gtar")
            || programs::known(name).is_some()
    })
}

/// Whether a test or action of `find` surely has a value in the next word.
pub(super) fn has_value_in_find(text: &str) -> bool {
    let mut names = programs::FIND_VALUES.split_whitespace();
    names.any(|name| name == text)
}

/// Whether the value of an option has no effect of its own.
fn is_harmless_value(program: &str, value: &str) -> bool {
    match program {
        // A format, or the file of one, may name files to write.
        "curl" => !value.contains("%output") && !value.starts_with('@'),
        // Behind a dollar sign, more options follow.
        _ => !value.contains('$'),
    }
}

impl Options {
    fn refuse(&mut self, at: usize) {
        self.unknown = self.unknown.max(Some(at));
    }

    /// Reads the words from `at` on.
    fn read_words(&mut self, words: &[Word], mut at: usize, program: &str, known: &Known) {
        while let Some(word) = words.get(at) {
            let index = at;
            at += 1;
            let Some(text) = word.text.as_deref() else {
                if may_be_unknown(word, known) {
                    self.refuse(index);
                }
                // Its value may be nothing, and the next word the value.
                self.is_shifted |= word.may_become_option();
                self.operands.push(index);
                continue;
            };
            if text == "--" {
                self.end(words, index, known);
                return;
            }
            let group = text.strip_prefix('-').filter(|group| !group.is_empty());
            let taken = match (text.strip_prefix("--"), group) {
                (Some(long), _) => {
                    let (name, value) = match long.split_once('=') {
                        Some((name, value)) => (name, Some(value)),
                        None => (long, None),
                    };
                    self.seen.push(name.to_owned());
                    let is_negation = name.starts_with("no-") && value.is_none();
                    let kind = match known.kind_of_name(name) {
                        Kind::Unknown if is_negation => Kind::Optional,
                        kind => kind,
                    };
                    self.take(kind, value, program, words.get(at))
                }
                (None, Some(group)) => self.read_group(group, program, known, words.get(at)),
                (None, None) => {
                    self.operands.push(index);
                    Some(0)
                }
            };
            match taken {
                Some(1) if self.may_be_no_value(words, at, known) => {}
                Some(count) => at += count,
                None => self.refuse(index),
            }
        }
    }

    /// Takes the words behind `--` at `index`: if it may be the value of the option before it, they may be options.
    fn end(&mut self, words: &[Word], index: usize, known: &Known) {
        let rest = index + 1..words.len();
        // Nothing can be the value of `--format=x` or `-1`.
        let is_complete = |text: &str| match text.strip_prefix('-') {
            Some(option) if option.starts_with('-') => option.contains('='),
            Some(count) => !count.is_empty() && count.bytes().all(|byte| byte.is_ascii_digit()),
            None => false,
        };
        let is_doubtful = |word: &Word| {
            let is_short =
                known.has_doubtful_values && word.raw.starts_with(['-', '"', '\'', '\\']);
            let may_want = is_short || word.raw.starts_with("--");
            may_want && !word.text.as_deref().is_some_and(is_complete)
        };
        let before = index.checked_sub(1).map(|at| &words[at]);
        if self.is_shifted || before.is_some_and(is_doubtful) {
            let mut hyphens = rest.clone().filter(|at| words[*at].may_begin_option);
            if let Some(at) = hyphens.next_back() {
                self.refuse(at);
            }
        }
        self.operands.extend(rest);
    }

    /// Whether the word at `at`, behind an option with a value, may be an option itself.
    fn may_be_no_value(&mut self, words: &[Word], at: usize, known: &Known) -> bool {
        let Some(word) = words.get(at) else {
            return false;
        };
        let is_option = match word.text.as_deref() {
            Some(text) => text.starts_with('-') && text != "-",
            None => word.may_become_option(),
        };
        let is_doubtful = self.is_shifted || known.has_doubtful_values;
        self.is_shifted |= word.may_be_nothing();
        if is_option && is_doubtful && word.text.as_deref() == Some("--") {
            // More options may follow it.
            self.refuse(at);
            return false;
        }
        is_option && is_doubtful
    }

    /// Reads a group of short options. Returns how many further words belong to it; `None` if one is not known.
    fn read_group(
        &mut self,
        group: &str,
        program: &str,
        known: &Known,
        next: Option<&Word>,
    ) -> Option<usize> {
        for (at, letter) in group.char_indices() {
            self.seen.push(letter.to_string());
            let kind = known.kind_of_letter(letter);
            if kind == Kind::Flag {
                continue;
            }
            let joined = &group[at + letter.len_utf8()..];
            if program == "tree"
                && (!joined.is_empty() || group.contains(['H', 'I', 'L', 'P', 'T']))
            {
                // The file is not the next word.
                return None;
            }
            let joined = Some(joined).filter(|joined| !joined.is_empty());
            return self.take(kind, joined, program, next);
        }
        Some(0)
    }

    /// Takes an option with the value in its own word, if any. Returns how many further words belong to it; `None` if it
    /// is not known, or its value.
    fn take(
        &mut self,
        kind: Kind,
        joined: Option<&str>,
        program: &str,
        next: Option<&Word>,
    ) -> Option<usize> {
        if kind == Kind::Unknown {
            return None;
        }
        let count = usize::from(joined.is_none() && !matches!(kind, Kind::Flag | Kind::Optional));
        if matches!(kind, Kind::Flag | Kind::Optional | Kind::Value) {
            return Some(count);
        }
        let value = match joined {
            Some(value) => value.to_owned(),
            None => next?.text.clone()?,
        };
        match kind {
            Kind::Written if program == "less" && value.contains('$') => return None,
            // In names of files, curl replaces what its patterns stand for.
            Kind::Written if program == "curl" && value.contains('#') => return None,
            Kind::Written if value == "-" && matches!(program, "curl" | "wget") => {}
            Kind::Written => self.written.push(value),
            Kind::Started => self.started.push(value),
            _ if !is_harmless_value(program, &value) => return None,
            _ => {}
        }
        Some(count)
    }

    /// Judges the operands, some of which name files to write or commands.
    fn read_operands(&mut self, words: &[Word], program: &str) {
        let has = |name: &str| self.seen.iter().any(|seen| seen == name);
        let names_files = has("O") || has("remote-name") || has("remote-name-all");
        for (count, at) in self.operands.clone().into_iter().enumerate() {
            let word = &words[at];
            let text = word.text.as_deref();
            match program {
                // The second operand is the file to write, and the first may stand for two.
                "uniq" => match text {
                    Some(text) if count > 0 => self.written.push(text.to_owned()),
                    None if count > 0 || !word.raw.starts_with('"') => self.refuse(at),
                    _ => {}
                },
                // Keys that it presses at the beginning.
                "less"
                    if word
                        .raw
                        .trim_start_matches(['"', '\'', '\\'])
                        .starts_with('+') =>
                {
                    let keys = text.map_or("!", |text| text.trim_start_matches('+'));
                    let is_number = keys.bytes().all(|byte| byte.is_ascii_digit());
                    let is_search = { keys.strip_prefix('/') }
                        .is_some_and(|text| text.chars().all(char::is_alphanumeric));
                    if !is_number && !is_search && !matches!(keys, "F" | "G" | "g") {
                        self.refuse(at);
                    }
                }
                // The file has the name at the end of the address.
                "curl" if names_files => {
                    let address = text.and_then(|text| text.split(['?', '#']).next());
                    let name = address.and_then(|address| address.rsplit('/').next());
                    match name.filter(|name| !name.contains(['{', '['])) {
                        Some(name) if !name.is_empty() => self.written.push(name.to_owned()),
                        _ => self.refuse(at),
                    }
                }
                _ => {}
            }
        }
        match program {
            "curl" => self.read_uploads(words, names_files),
            "wget" => self.read_downloads(words),
            _ => {}
        }
    }

    fn read_git(&mut self, words: &[Word]) {
        let mut at = 1;
        while text(words, at).starts_with('-') {
            if git::GLOBAL_VALUES.contains(&text(words, at)) {
                let value = words.get(at + 1);
                if value.is_some_and(Word::may_be_nothing) && may_be_subcommand(words, at + 3) {
                    self.refuse(at + 3);
                }
                at += 2;
                continue;
            }
            let mut alone = Self::default();
            alone.read_words(&words[at..=at], 0, "git", &git::global());
            if alone.unknown.is_some() {
                self.refuse(at);
            }
            at += 1;
        }
        let Some(word) = words.get(at) else {
            return;
        };
        let Some(subcommand) = word.text.as_deref() else {
            self.refuse(at);
            return;
        };
        if git::STARTING.contains(&subcommand) {
            self.refuse(at);
        }
        let rest = &words[at + 1..];
        let is_foreach = |word: &Word| word.text.as_deref() == Some("foreach");
        // What follows is another command.
        let end = match subcommand {
            "bisect" if text(rest, 0) == "run" => 0,
            "bisect" if matches!(text(rest, 0), "view" | "visualize") && rest.len() > 1 => {
                self.refuse(words.len() - 1);
                0
            }
            _ if subcommand.starts_with("submodule") => {
                rest.iter().position(is_foreach).unwrap_or(rest.len())
            }
            _ => rest.len(),
        };
        let known = git::known(subcommand);
        self.read_words(&words[..at + 1 + end], at + 1, "git", &known);
    }

    fn read_find(&mut self, words: &[Word]) {
        let is_in = |names: &str, text: &str| names.split_whitespace().any(|name| name == text);
        let mut at = 1;
        while let Some(word) = words.get(at) {
            let index = at;
            at += 1;
            let Some(text) = word.text.as_deref() else {
                if word.may_become_option() {
                    self.refuse(index);
                }
                continue;
            };
            if matches!(text, "-exec" | "-execdir" | "-ok" | "-okdir") {
                let is_end = |word: &Word| matches!(word.text.as_deref(), Some(";" | "+"));
                let length = words[at..].iter().position(is_end);
                at = length.map_or(words.len(), |length| at + length + 1);
            } else if is_in(programs::FIND_WRITES, text) {
                match words.get(at).and_then(|word| word.text.clone()) {
                    Some(name) => self.written.push(name),
                    None => self.refuse(index),
                }
                at += 1;
            } else if is_in(programs::FIND_VALUES, text) || text.starts_with("-newer") {
                let may_be_other = |word: &Word| {
                    word.text.is_none() && (word.may_become_option() || word.may_be_nothing())
                };
                if words.get(at).is_some_and(may_be_other) {
                    self.refuse(at);
                }
                at += 1;
            } else if text.starts_with('-')
                && !is_in(programs::FIND_FLAGS, text)
                && !text.starts_with("-O")
            {
                self.refuse(index);
            }
        }
    }

    fn read_tar(&mut self, words: &[Word]) {
        let tar = tar::read(&words[1..]);
        self.written = tar.written;
        self.started = tar.started;
        if let Some(at) = tar.unknown {
            self.refuse(at + 1);
        }
    }
}

fn text(words: &[Word], at: usize) -> &str {
    let word = words.get(at).and_then(|word| word.text.as_deref());
    word.unwrap_or_default()
}

/// Whether git may take the word for the subcommand, or for an option before it.
fn may_be_subcommand(words: &[Word], at: usize) -> bool {
    let Some(word) = words.get(at) else {
        return false;
    };
    let mut alone = Options::default();
    alone.read_words(&words[at..=at], 0, "git", &git::global());
    let is_other = word.text.as_deref().is_some_and(|text| {
        let is_setting = text.starts_with("-c") || text.starts_with("--config-env");
        text.starts_with('-') && !git::GLOBAL_VALUES.contains(&text) && !is_setting
    });
    !is_other || alone.unknown.is_none()
}

/// Whether a word that is known only at run time may be an option which is not known.
fn may_be_unknown(word: &Word, known: &Known) -> bool {
    let raw = word.raw.trim_start_matches(['"', '\'']);
    let is_literal = |c: char| c == '-' || c.is_ascii_alphanumeric();
    let Some(group) = raw.strip_prefix('-') else {
        return word.may_become_option();
    };
    if word.may_be_several() {
        return true;
    }
    if let Some(long) = group.strip_prefix('-') {
        let name = long.split_once('=').map(|(name, _)| name);
        let kind = name.filter(|name| name.chars().all(is_literal));
        let kind = kind.map_or(Kind::Unknown, |name| known.kind_of_name(name));
        return !matches!(kind, Kind::Optional | Kind::Value);
    }
    let literal = group.chars().take_while(|c| c.is_ascii_alphanumeric());
    let mut kinds = literal.map(|letter| known.kind_of_letter(letter));
    let kind = kinds.find(|kind| *kind != Kind::Flag);
    !matches!(kind, Some(Kind::Value | Kind::Optional))
}
