//! Takes a command line apart into the simple commands that it would run, for the permission rules.
//!
//! A wrong part would let a command past a rule, so this knows the plain grammar of POSIX shells and bash and refuses
//! the rest: `None` means *not understood*, and what is not understood is asked. Substitutions, compound commands and
//! redirections are looked into; functions, `case`, `[[`, arithmetic and aliases are not understood.

mod word;
mod wrapper;

use std::path::PathBuf;

use ah_conversation::{CommandLine, Effect, SimpleCommand};

use super::command::is_harmless;
use word::Word;

/// How deeply lines may stand within lines.
const MAX_DEPTH: usize = 12;
/// Programs whose first argument says what they do, so that a rule may stand for it with any further words.
const WITH_SUBCOMMANDS: [&str; 18] = [
    "git", "cargo", "npm", "pnpm", "yarn", "bun", "go", "docker", "podman", "kubectl", "pip", "uv",
    "gh", "make", "just", "rustup", "apt", "brew",
];

/// What a line would do.
pub(super) struct Parsed {
    /// The line and its commands.
    pub line: CommandLine,
    /// Files that redirections read.
    pub reads: Vec<PathBuf>,
    /// Files that redirections write.
    pub writes: Vec<PathBuf>,
}

/// Takes `line` apart; `resolve` says which file a word means.
pub(super) fn parse(line: &str, resolve: &dyn Fn(&str) -> PathBuf) -> Parsed {
    let mut found = Found::default();
    let is_understood = Parser::new(line, 0, &mut found).lines().is_some();
    let has_moved = !found.folders.is_empty();
    // Where the working directory changes on the way, nobody knows which file a redirection means.
    let is_placed = !has_moved || found.redirected.iter().all(|(_, name)| is_rooted(name));
    let files = |written: bool| -> Vec<PathBuf> {
        let redirected = found.redirected.iter();
        redirected
            .filter(|(is_written, _)| *is_written == written)
            .map(|(_, name)| resolve(name))
            .collect()
    };
    let (reads, writes) = (files(false), files(true));
    let commands = (is_understood && is_placed).then(|| {
        let folders: Vec<&str> = found.folders.iter().flatten().map(String::as_str).collect();
        let finish = Finish {
            resolve,
            folders,
            has_moved,
        };
        let mut commands: Vec<_> = { found.commands }
            .into_iter()
            .map(|raw| finish.command(raw))
            .collect();
        if !commands.iter().all(changes_nothing) {
            // A program that is named by a relative path, or looks around itself, is another one elsewhere.
            commands.iter_mut().for_each(weigh_moves);
        }
        commands
    });
    Parsed {
        line: CommandLine {
            line: line.to_owned(),
            harmless: is_harmless(line),
            commands,
        },
        reads,
        writes,
    }
}

/// What was found so far.
#[derive(Default)]
struct Found {
    commands: Vec<Raw>,
    /// Files that redirections touch, and whether they are written.
    redirected: Vec<(bool, String)>,
    /// Where `cd` leads, as far as it is known.
    folders: Vec<Option<String>>,
}

/// A simple command before its paths are known.
struct Raw {
    words: Vec<Word>,
    /// How many of the words are assignments before the program.
    assignments: usize,
    inner: Vec<Raw>,
    /// How many words, assignments too, end with the last program that is started.
    reach: usize,
    transparent: bool,
}

fn is_move(words: &[Option<String>]) -> bool {
    matches!(words.first(), Some(Some(name)) if matches!(name.as_str(), "cd" | "pushd" | "popd"))
}

fn is_rooted(name: &str) -> bool {
    name.starts_with(['/', '~'])
}

fn changes_nothing(command: &SimpleCommand) -> bool {
    command.effect == Effect::None && command.inner.iter().all(changes_nothing)
}

fn weigh_moves(command: &mut SimpleCommand) {
    if is_move(&command.words) {
        command.effect = Effect::Any;
    }
    command.inner.iter_mut().for_each(weigh_moves);
}

/// Where paths are resolved.
struct Finish<'a> {
    resolve: &'a dyn Fn(&str) -> PathBuf,
    folders: Vec<&'a str>,
    has_moved: bool,
}

impl Finish<'_> {
    fn command(&self, raw: Raw) -> SimpleCommand {
        let joined = |words: &[Word]| {
            let texts: Vec<&str> = words.iter().map(|word| word.raw.as_str()).collect();
            texts.join(" ")
        };
        let text = joined(&raw.words);
        let reach = joined(&raw.words[..raw.reach]).len();
        let words: Vec<Option<String>> = raw.words[raw.assignments..]
            .iter()
            .map(|word| word.text.clone())
            .collect();
        let names = words
            .iter()
            .skip(1)
            .flatten()
            .filter_map(|word| named(word));
        let operands = names.flat_map(|name| self.places(name)).collect();
        let effect = if raw.assignments > 0 || words.is_empty() {
            Effect::Any
        } else if is_harmless(&text) {
            Effect::None
        } else if !self.has_moved && is_file_work(&words) && !self.removes_here(&words) {
            Effect::Files
        } else {
            Effect::Any
        };
        SimpleCommand {
            proposal: proposal(&raw, &text, &words),
            text,
            words,
            operands,
            effect,
            inner: raw
                .inner
                .into_iter()
                .map(|inner| self.command(inner))
                .collect(),
            reach,
            transparent: raw.transparent,
        }
    }

    /// Whether the command would remove the working directory itself.
    fn removes_here(&self, words: &[Option<String>]) -> bool {
        let here = (self.resolve)(".");
        let removes = matches!(words.first(), Some(Some(program)) if program == "rm");
        let mut names = words.iter().skip(1).flatten();
        removes && names.any(|name| here.starts_with((self.resolve)(name)))
    }

    /// The files that a word may mean: in the working directory, and wherever the line goes.
    fn places(&self, name: &str) -> Vec<PathBuf> {
        let elsewhere = self.folders.iter().map(|folder| format!("{folder}/{name}"));
        let mut places = vec![(self.resolve)(name)];
        if !is_rooted(name) {
            places.extend(elsewhere.map(|name| (self.resolve)(&name)));
        }
        places
    }
}

/// The file that an argument may name: an operand, or what stands behind `=`.
fn named(word: &str) -> Option<&str> {
    let name = match word.split_once('=') {
        Some((_, value)) => value,
        None if word.starts_with('-') => return None,
        None => word,
    };
    (!name.is_empty()).then_some(name)
}

/// Whether the command creates, copies, moves or removes just the files that its operands name.
fn is_file_work(words: &[Option<String>]) -> bool {
    let Some((Some(program), arguments)) = words.split_first() else {
        return false;
    };
    let letters = match program.as_str() {
        "mkdir" => "pv",
        "touch" => "acm",
        "rm" => "rRfiv",
        "rmdir" => "pv",
        "cp" => "rRfpvaun",
        "mv" => "fvun",
        _ => return false,
    };
    let is_known = |argument: &Option<String>| {
        argument
            .as_deref()
            .is_some_and(|argument| match argument.strip_prefix('-') {
                Some(flags) => {
                    !flags.is_empty() && flags.chars().all(|flag| letters.contains(flag))
                }
                None => !argument.contains('='),
            })
    };
    let is_operand = |argument: &Option<String>| {
        argument
            .as_deref()
            .is_some_and(|argument| !argument.starts_with('-'))
    };
    arguments.iter().all(is_known) && arguments.iter().any(is_operand)
}

/// What a rule would say: the program and its subcommand with any further words, or just this.
fn proposal(raw: &Raw, text: &str, words: &[Option<String>]) -> String {
    let is_plain = |word: &str| {
        word.bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte == b'-')
    };
    match words {
        [Some(program), Some(subcommand), ..]
            if raw.assignments == 0
                && WITH_SUBCOMMANDS.contains(&program.as_str())
                && raw.words[0].raw == *program
                && raw.words[1].raw == *subcommand
                && is_plain(subcommand)
                && !subcommand.starts_with('-') =>
        {
            format!("{program} {subcommand}:*")
        }
        _ => text.replace('\\', "\\\\").replace('*', "\\*"),
    }
}

/// Reads one line, which may have several lines.
struct Parser<'a, 'f> {
    rest: &'a str,
    depth: usize,
    found: &'f mut Found,
    /// Here-documents whose text begins on the next line.
    pending: Vec<HereDocument>,
}

struct HereDocument {
    end: String,
    is_quoted: bool,
    strips_tabs: bool,
}

/// Words with which a command may begin and after which another one does.
const OPENING: [&str; 9] = [
    "if", "then", "elif", "else", "while", "until", "do", "!", "{",
];
/// Words that end one.
const CLOSING: [&str; 3] = ["fi", "done", "}"];
/// What is not understood where a command begins.
const UNKNOWN: [&str; 8] = [
    "case", "esac", "function", "select", "coproc", "[[", "in", "]]",
];

impl<'a, 'f> Parser<'a, 'f> {
    fn new(line: &'a str, depth: usize, found: &'f mut Found) -> Self {
        Self {
            rest: line,
            depth,
            found,
            pending: Vec::new(),
        }
    }

    /// All of the text.
    fn lines(mut self) -> Option<()> {
        if self.depth > MAX_DEPTH || self.rest.chars().any(is_strange) {
            return None;
        }
        self.list(None)?;
        (self.rest.is_empty() && self.pending.is_empty()).then_some(())
    }

    /// Commands up to `end`, which is taken too, or to the end of the text.
    fn list(&mut self, end: Option<char>) -> Option<()> {
        loop {
            self.skip_blanks();
            match self.peek() {
                None => return end.is_none().then_some(()),
                Some(c) if Some(c) == end => {
                    self.rest = &self.rest[1..];
                    return Some(());
                }
                Some('\n') => self.end_line()?,
                Some(';') if !self.rest.starts_with(";;") => self.rest = &self.rest[1..],
                Some('&') => {
                    let behind = self.rest.trim_start_matches('&');
                    // `&>` is a redirection, and belongs to a command.
                    if behind.starts_with('>') || self.rest.len() - behind.len() > 2 {
                        return None;
                    }
                    self.rest = behind;
                }
                Some('|') => {
                    let behind = self.rest.trim_start_matches('|');
                    if self.rest.len() - behind.len() > 2 {
                        return None;
                    }
                    self.rest = behind.strip_prefix('&').unwrap_or(behind);
                }
                Some(_) => {
                    let before = self.rest.len();
                    self.command()?;
                    if self.rest.len() == before {
                        // A bracket or a sign that belongs to nothing.
                        return None;
                    }
                }
            }
        }
    }

    fn command(&mut self) -> Option<()> {
        if let Some(rest) = self.rest.strip_prefix('(') {
            if rest.starts_with('(') {
                return None;
            }
            self.rest = rest;
            self.nested(')')?;
            return self.redirections();
        }
        let mut words: Vec<Word> = Vec::new();
        loop {
            self.skip_blanks();
            if self.redirection()? {
                continue;
            }
            match self.peek() {
                None | Some('\n' | ';' | '&' | '|' | ')') => break,
                Some('(') => return None,
                Some(_) => {}
            }
            let word = self.word()?;
            if words.is_empty() && word.is_bare() {
                match word.raw.as_str() {
                    keyword if OPENING.contains(&keyword) => return Some(()),
                    keyword if CLOSING.contains(&keyword) => return self.redirections(),
                    keyword if UNKNOWN.contains(&keyword) => return None,
                    "for" => return self.names_of_loop(),
                    _ => {}
                }
            }
            words.push(word);
        }
        self.simple(words)
    }

    /// `NAME in WORD …`, behind `for`.
    fn names_of_loop(&mut self) -> Option<()> {
        self.skip_blanks();
        let name = self.word()?.text?;
        // A name in capitals may mean something to a program, as PATH does.
        let is_plain = name
            .bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte == b'_');
        self.skip_blanks();
        if !is_plain || name.is_empty() || self.word()?.raw != "in" {
            return None;
        }
        loop {
            self.skip_blanks();
            match self.peek()? {
                '\n' | ';' => return Some(()),
                '&' | '|' | '<' | '>' | '(' | ')' => return None,
                _ => {
                    self.word()?;
                }
            }
        }
    }

    /// A command of words, with what it starts in turn.
    fn simple(&mut self, words: Vec<Word>) -> Option<()> {
        if words.is_empty() {
            // A redirection alone.
            return Some(());
        }
        let raw = self.raw(words)?;
        let texts: Vec<_> = raw.words[raw.assignments..]
            .iter()
            .map(|word| word.text.clone())
            .collect();
        if is_move(&texts) {
            let folder = texts.get(1).cloned().flatten();
            self.found
                .folders
                .push(folder.filter(|name| !name.starts_with('-')));
        }
        self.found.commands.push(raw);
        Some(())
    }

    fn raw(&mut self, words: Vec<Word>) -> Option<Raw> {
        let assignments = words.iter().take_while(|word| word.is_assignment()).count();
        let mut raw = Raw {
            reach: assignments + 1,
            assignments,
            words,
            inner: Vec::new(),
            transparent: false,
        };
        if raw.words.len() == assignments {
            raw.reach = assignments;
            return Some(raw);
        }
        // A program whose name is known only when it runs may be any.
        raw.words[assignments].text.as_ref()?;
        for start in wrapper::starts(&raw.words[assignments..])? {
            match start {
                wrapper::Start::Words {
                    from,
                    words,
                    transparent,
                } => {
                    raw.transparent = transparent && assignments == 0;
                    let inner = self.deeper(|parser| parser.raw(words))?;
                    raw.reach = raw
                        .reach
                        .max(assignments + from + inner.reach)
                        .min(raw.words.len());
                    raw.inner.push(inner);
                }
                wrapper::Start::Line(line) => {
                    let mut found = Found::default();
                    Parser::new(&line, self.depth + 1, &mut found).lines()?;
                    raw.reach = raw.words.len();
                    raw.inner.append(&mut found.commands);
                    self.found.redirected.append(&mut found.redirected);
                    self.found.folders.append(&mut found.folders);
                }
            }
        }
        Some(raw)
    }

    fn deeper<T>(&mut self, read: impl FnOnce(&mut Self) -> Option<T>) -> Option<T> {
        self.depth += 1;
        let given = (self.depth <= MAX_DEPTH).then(|| read(self)).flatten();
        self.depth -= 1;
        given
    }

    /// Commands within brackets of any kind, up to `end`. A here-document must not reach in or out.
    fn nested(&mut self, end: char) -> Option<()> {
        if !self.pending.is_empty() {
            return None;
        }
        self.deeper(|parser| parser.list(Some(end)))?;
        self.pending.is_empty().then_some(())
    }

    fn redirections(&mut self) -> Option<()> {
        loop {
            self.skip_blanks();
            if !self.redirection()? {
                return match self.peek() {
                    None | Some('\n' | ';' | '&' | '|' | ')') => Some(()),
                    // Nothing but a redirection may follow a compound command, or another that closes.
                    Some(_) => self.command(),
                };
            }
        }
    }

    /// Takes a redirection, if there is one.
    fn redirection(&mut self) -> Option<bool> {
        let number = self.rest.len()
            - self
                .rest
                .trim_start_matches(|c: char| c.is_ascii_digit())
                .len();
        let behind = &self.rest[number..];
        let both = number == 0 && behind.starts_with("&>");
        let operator = if both { &behind[1..] } else { behind };
        if !operator.starts_with(['<', '>'])
            || operator.starts_with("<(")
            || operator.starts_with(">(")
        {
            return Some(false);
        }
        let operators = ["<<<", "<<-", "<<", "<&", "<>", "<", ">>", ">|", ">&", ">"];
        let kind = operators.iter().find(|kind| operator.starts_with(**kind))?;
        self.rest = &operator[kind.len()..];
        self.skip_blanks();
        let word = self.word()?;
        match *kind {
            "<<" | "<<-" => {
                let end = word.text.clone()?;
                self.pending.push(HereDocument {
                    is_quoted: word.raw != end,
                    strips_tabs: *kind == "<<-",
                    end,
                });
            }
            "<<<" => {}
            "<&" | ">&" if is_descriptor(&word.raw) => {}
            _ => {
                let name = word.text?;
                if name != "/dev/null" && !is_terminal(&name) {
                    let is_written = *kind != "<";
                    self.found.redirected.push((is_written, name));
                }
            }
        }
        Some(true)
    }

    /// The end of a line, and the texts that begin on the next.
    fn end_line(&mut self) -> Option<()> {
        self.rest = self.rest.strip_prefix('\n')?;
        for document in std::mem::take(&mut self.pending) {
            loop {
                let (line, behind) = match self.rest.split_once('\n') {
                    Some((line, behind)) => (line, Some(behind)),
                    None => (self.rest, None),
                };
                self.rest = behind.unwrap_or_default();
                let text = match document.strips_tabs {
                    true => line.trim_start_matches('\t'),
                    false => line,
                };
                if text == document.end {
                    // The end of this text is the end of its line.
                    break;
                }
                let may_run = !document.is_quoted && line.contains(['$', '`', '\\']);
                if may_run || behind.is_none() {
                    return None;
                }
            }
        }
        Some(())
    }

    fn peek(&self) -> Option<char> {
        self.rest.chars().next()
    }

    /// Blanks, and a comment up to the end of its line.
    fn skip_blanks(&mut self) {
        self.rest = self.rest.trim_start_matches([' ', '\t']);
        if self.rest.starts_with('#') {
            let end = self.rest.find('\n').unwrap_or(self.rest.len());
            self.rest = &self.rest[end..];
        }
    }
}

/// Characters that a shell and a reader may take for different things.
fn is_strange(c: char) -> bool {
    (c.is_control() && !matches!(c, '\n' | '\t')) || (c.is_whitespace() && !c.is_ascii())
}

fn is_descriptor(word: &str) -> bool {
    let number = word.strip_suffix('-').unwrap_or(word);
    !word.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
}

fn is_terminal(name: &str) -> bool {
    matches!(
        name,
        "/dev/stdout" | "/dev/stderr" | "/dev/stdin" | "/dev/tty"
    )
}

#[cfg(test)]
mod tests;
