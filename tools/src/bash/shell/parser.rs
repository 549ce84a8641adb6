//! The one grammar of command lines: every judgement about a line is made from what [`parse`] returns.
//!
//! It covers the plain grammar that POSIX shells and bash share: substitutions, compound commands and redirections are
//! parsed; functions, `case`, `[[`, arithmetic and aliases are *not understood*, and a line with any of them may do
//! anything. A whole shell grammar is no better here: brush-parser 0.4 drops commands in here-documents of
//! substitutions, takes exponential time for unclosed parentheses, and overflows the stack, which ends the process,
//! where a few hundred substitutions nest.

mod lexer;

use super::builtins::{self, Sets};
use super::options;
use super::variables::are_harmless_settings;
use super::word::{Influence, SEPARATORS, Spelling, Word, may_be_option, may_steer};
use super::wrapper::{self, Start};

/// Maximum nesting depth of commands: in substitutions, compound commands and `bash -c`.
const MAX_DEPTH: usize = 12;
/// Words with which a command may begin and after which another one does.
const OPENING: [&str; 9] = [
    "if", "then", "elif", "else", "while", "until", "do", "!", "{",
];
/// Words that end a compound command.
const CLOSING: [&str; 3] = ["fi", "done", "}"];
/// Words that are not understood at the beginning of a command.
const UNKNOWN: [&str; 8] = [
    "case", "esac", "function", "select", "coproc", "[[", "in", "]]",
];
/// A line end that is nothing to a shell, where it is neither in single quotes nor in a comment: the line goes on.
const CONTINUED: &str = "\\\n";
/// Redirection operators, each before its prefixes.
const REDIRECTIONS: [&str; 10] = ["<<<", "<<-", "<<", "<&", "<>", "<", ">>", ">|", ">&", ">"];

/// A command line in its parts. If it is not understood, they are those before the first unknown construct.
#[derive(Default)]
pub(super) struct ParsedLine {
    /// Whether all of it is understood.
    pub is_understood: bool,
    /// Every simple command, those in substitutions too.
    pub commands: Vec<ParsedCommand>,
    /// Redirections from and to files.
    pub redirections: Vec<Redirection>,
    /// Changes of the working directory.
    pub moves: Vec<Move>,
    /// Variables that the line sets to something which may become an option.
    pub variables: Vec<String>,
    /// Variables that the line sets for the commands in it, whatever their values.
    pub set: Vec<String>,
    /// Whether there is more than words and the separators `;`, `&&`, `||`, `|` and line end. Substitutions within
    /// words do not count: [`Word::spelling`] shows them.
    pub has_syntax: bool,
}

impl ParsedLine {
    /// Returns how many words all commands have, and how many redirections there are.
    pub fn number_of_words(&self) -> usize {
        fn of_command(command: &ParsedCommand) -> usize {
            let inner = command.inner.iter().map(of_command);
            command.words.len() + inner.sum::<usize>()
        }
        let commands = self.commands.iter().map(of_command);
        self.redirections.len() + commands.sum::<usize>()
    }

    /// Whether it consists of words that mean themselves, and sets no variable.
    pub fn is_plain(&self) -> bool {
        let is_plain = |command: &ParsedCommand| {
            let mut words = command.words.iter();
            command.assignments == 0 && words.all(|word| word.spelling == Spelling::Literal)
        };
        self.is_understood && self.set.is_empty() && self.commands.iter().all(is_plain)
    }
}

/// A change of the working directory by `cd` or its like.
pub(super) enum Move {
    To(String),
    Home,
    /// To a directory in which the line has been before.
    Back,
    /// To one that is known only at run time.
    Unknown,
}

/// A redirection from or to a file.
pub(super) struct Redirection {
    /// Name of the file, as written.
    pub file: String,
    /// Whether it opens the file for writing.
    pub is_write: bool,
}

/// A simple command.
pub(super) struct ParsedCommand {
    /// Its words, without redirections.
    pub words: Vec<Word>,
    /// Number of words that are assignments before the program.
    pub assignments: usize,
    /// The commands that it starts in turn.
    pub inner: Vec<ParsedCommand>,
    /// Number of words, assignments included, up to the end of the last program that is started.
    pub reach: usize,
    /// Whether it is a wrapper without an effect of its own.
    pub transparent: bool,
    /// Whether some of its options are not known.
    pub has_unknown_options: bool,
}

impl ParsedCommand {
    /// The program and its arguments.
    pub fn invocation(&self) -> &[Word] {
        &self.words[self.assignments..]
    }
}

/// Whether the program changes the working directory of the commands after it.
pub(super) fn is_move(program: &str) -> bool {
    matches!(program, "cd" | "pushd" | "popd")
}

/// Returns how the command changes the working directory, if it does.
fn movement(words: &[Word]) -> Option<Move> {
    let mut texts = words.iter().map(|word| word.text.as_deref());
    let program = texts.next().flatten().filter(|name| is_move(name))?;
    let is_option = |text: &Option<&str>| matches!(text, Some("-P" | "-L" | "-e" | "-@" | "--"));
    let of_stack = |text: &str| text.trim_start_matches(['+', '-']).parse::<u32>().is_ok();
    let mut targets = texts.skip_while(is_option);
    let (first, second) = (targets.next(), targets.next());
    let is_of_stack = program != "cd";
    Some(match first {
        None if is_of_stack => Move::Back,
        None => Move::Home,
        Some(Some("-")) => Move::Back,
        Some(Some(name)) if is_of_stack && name.starts_with(['+', '-']) => match of_stack(name) {
            true => Move::Back,
            // What it puts on the stack is come to later.
            false => Move::Unknown,
        },
        Some(Some(_)) if program == "popd" => Move::Back,
        Some(Some(name)) if second.is_none() && !name.starts_with('-') => Move::To(name.to_owned()),
        Some(_) => Move::Unknown,
    })
}

/// Parses a command line, which may span several lines of text.
pub(super) fn parse(line: &str) -> ParsedLine {
    let parsed = parse_with(line, Vec::new());
    if parsed.variables.is_empty() {
        return parsed;
    }
    // In a loop, a variable may be set behind the command that uses it.
    parse_with(line, parsed.variables)
}

/// Parses a command line that sets these variables to something which may become an option.
fn parse_with(line: &str, variables: Vec<String>) -> ParsedLine {
    let mut parsed = ParsedLine {
        variables,
        ..ParsedLine::default()
    };
    parsed.is_understood = Parser::new(line, 0, &mut parsed).lines().is_some();
    parsed
}

/// Parser of one line. Its methods return `None` where something is not understood.
struct Parser<'a, 'p> {
    rest: &'a str,
    depth: usize,
    parsed: &'p mut ParsedLine,
    /// Here-documents whose text begins on the next line.
    pending: Vec<HereDocument>,
}

struct HereDocument {
    end: String,
    is_quoted: bool,
    strips_tabs: bool,
}

impl<'a, 'p> Parser<'a, 'p> {
    fn new(line: &'a str, depth: usize, parsed: &'p mut ParsedLine) -> Self {
        Self {
            rest: line,
            depth,
            parsed,
            pending: Vec::new(),
        }
    }

    /// Takes all of the text.
    fn lines(mut self) -> Option<()> {
        if self.depth > MAX_DEPTH || self.rest.chars().any(is_ambiguous) {
            return None;
        }
        self.list(None)?;
        (self.rest.is_empty() && self.pending.is_empty()).then_some(())
    }

    /// Takes commands up to and including `end`, or to the end of the text.
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
                Some(';') if !self.rest.starts_with(";;") => {
                    self.rest = &self.rest[1..];
                    self.ends_operator(";&")?;
                }
                Some('&') => {
                    let behind = self.rest.trim_start_matches('&');
                    let count = self.rest.len() - behind.len();
                    // `&>` is a redirection, and belongs to a command.
                    if behind.starts_with('>') || count > 2 {
                        return None;
                    }
                    self.parsed.has_syntax |= count == 1;
                    self.rest = behind;
                    self.ends_operator("&>")?;
                }
                Some('|') => {
                    let behind = self.rest.trim_start_matches('|');
                    if self.rest.len() - behind.len() > 2 {
                        return None;
                    }
                    let with_errors = behind.strip_prefix('&');
                    self.parsed.has_syntax |= with_errors.is_some();
                    self.rest = with_errors.unwrap_or(behind);
                    self.ends_operator("|&")?;
                }
                Some(_) => {
                    let before = self.rest.len();
                    self.command()?;
                    if self.rest.len() == before {
                        // A stray bracket or operator.
                        return None;
                    }
                }
            }
        }
    }

    /// Takes a simple command, a subshell, or a keyword of a compound command.
    fn command(&mut self) -> Option<()> {
        if let Some(rest) = self.rest.strip_prefix('(') {
            if rest.starts_with('(') {
                return None;
            }
            self.parsed.has_syntax = true;
            self.rest = rest;
            self.ends_operator("(")?;
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
            // `{x}>file` sets a variable, and evaluates the place in `{x[y]}>file`.
            if word.names_descriptor() && self.rest.starts_with(['<', '>']) {
                return None;
            }
            if words.is_empty()
                && word.is_bare()
                && let Some(taken) = self.keyword(&word.raw)
            {
                return taken;
            }
            words.push(word);
        }
        self.simple(words)
    }

    /// Takes what belongs to a keyword; `None` if `word` is none, `Some(None)` if it is not understood.
    fn keyword(&mut self, word: &str) -> Option<Option<()>> {
        let taken = if OPENING.contains(&word) {
            Some(())
        } else if CLOSING.contains(&word) {
            self.redirections()
        } else if word == "for" {
            self.names_of_loop()
        } else if UNKNOWN.contains(&word) {
            None
        } else {
            return None;
        };
        self.parsed.has_syntax = true;
        Some(taken)
    }

    /// Takes `NAME in WORD …` after `for`.
    fn names_of_loop(&mut self) -> Option<()> {
        self.skip_blanks();
        let name = self.word()?.text?;
        let is_risky = |word: &Word| match &word.text {
            Some(text) => may_be_option(text) || text.ends_with(SEPARATORS),
            None => word.influence != Influence::None,
        };
        // An upper-case name, such as PATH, may mean something to a program.
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
                    if is_risky(&self.word()?) {
                        self.parsed.variables.push(name.clone());
                    }
                }
            }
        }
    }

    /// Adds a simple command, with what it starts in turn.
    fn simple(&mut self, words: Vec<Word>) -> Option<()> {
        if words.is_empty() {
            // A redirection alone.
            return Some(());
        }
        let command = self.started(words)?;
        self.parsed.commands.push(command);
        Some(())
    }

    /// Returns the command of these words, with what it starts in turn.
    fn started(&mut self, words: Vec<Word>) -> Option<ParsedCommand> {
        self.assigned(&words)?;
        let assignments = words.iter().take_while(|word| word.is_assignment()).count();
        if assignments == words.len() {
            let names = words.iter().filter_map(Word::variable);
            self.parsed.set.extend(names.map(str::to_owned));
        }
        let mut command = ParsedCommand {
            reach: assignments + 1,
            assignments,
            words,
            inner: Vec::new(),
            transparent: false,
            has_unknown_options: false,
        };
        if command.words.len() == assignments {
            command.reach = assignments;
            return Some(command);
        }
        // A program whose name is known only at run time may be any.
        command.words[assignments].text.as_ref()?;
        self.parsed.moves.extend(movement(command.invocation()));
        let Sets {
            names,
            assignments: declared,
        } = builtins::sets(command.invocation())?;
        if names.iter().any(|name| name == "IFS" || may_steer(name)) {
            return None;
        }
        self.assigned(&declared)?;
        let declared = declared.iter().filter_map(Word::variable);
        self.parsed.set.extend(declared.map(str::to_owned));
        self.parsed.set.extend_from_slice(&names);
        self.parsed.variables.extend(names);
        if let Some(at) = options::read(command.invocation()).unknown {
            command.has_unknown_options = true;
            command.reach = command.words.len().min(assignments + at + 1);
        }
        for start in wrapper::starts(command.invocation())? {
            match start {
                Start::Words {
                    from,
                    words,
                    transparent,
                } => {
                    let assigned = &command.words[..assignments];
                    command.transparent = transparent && are_harmless_settings(assigned);
                    let inner = self.deeper(|parser| parser.started(words))?;
                    command.reach = command
                        .reach
                        .max(assignments + from + inner.reach)
                        .min(command.words.len());
                    command.inner.push(inner);
                }
                Start::Line(line) => {
                    command.reach = command.words.len();
                    command.inner.extend(self.line(&line)?);
                }
            }
        }
        Some(command)
    }

    /// Takes what the words assign: options that variables may become, and lines that programs run. `None` if a variable steers
    /// programs.
    fn assigned(&mut self, words: &[Word]) -> Option<()> {
        if words.iter().any(Word::steers_programs) {
            return None;
        }
        let set = words.iter().filter_map(Word::sets_option);
        self.parsed.variables.extend(set.map(str::to_owned));
        for line in words.iter().filter_map(Word::assigned_line) {
            let commands = self.line(line?)?;
            self.parsed.commands.extend(commands);
        }
        Some(())
    }

    /// Returns the commands of a line within this one.
    fn line(&mut self, line: &str) -> Option<Vec<ParsedCommand>> {
        let mut parsed = ParsedLine {
            variables: self.parsed.variables.clone(),
            ..ParsedLine::default()
        };
        Parser::new(line, self.depth + 1, &mut parsed).lines()?;
        self.parsed.variables = parsed.variables;
        self.parsed.set.append(&mut parsed.set);
        self.parsed.redirections.append(&mut parsed.redirections);
        self.parsed.moves.append(&mut parsed.moves);
        Some(parsed.commands)
    }

    fn deeper<T>(&mut self, take: impl FnOnce(&mut Self) -> Option<T>) -> Option<T> {
        self.depth += 1;
        let taken = (self.depth <= MAX_DEPTH).then(|| take(self)).flatten();
        self.depth -= 1;
        taken
    }

    /// Takes commands within brackets, up to and including `end`. A here-document must not reach in or out.
    fn nested(&mut self, end: char) -> Option<()> {
        if !self.pending.is_empty() {
            return None;
        }
        self.deeper(|parser| parser.list(Some(end)))?;
        self.pending.is_empty().then_some(())
    }

    /// Takes what may follow a compound command: redirections, or another keyword.
    fn redirections(&mut self) -> Option<()> {
        loop {
            self.skip_blanks();
            if !self.redirection()? {
                return match self.peek() {
                    None | Some('\n' | ';' | '&' | '|' | ')') => Some(()),
                    Some(_) => self.command(),
                };
            }
        }
    }

    /// Takes a redirection; `Some(false)` if there is none.
    fn redirection(&mut self) -> Option<bool> {
        let behind = self.rest.trim_start_matches(|c: char| c.is_ascii_digit());
        let has_number = behind.len() < self.rest.len();
        let operator = if !has_number && behind.starts_with("&>") {
            &behind[1..]
        } else {
            behind
        };
        if !operator.starts_with(['<', '>'])
            || operator.starts_with("<(")
            || operator.starts_with(">(")
        {
            return Some(false);
        }
        self.parsed.has_syntax = true;
        let kind = REDIRECTIONS
            .into_iter()
            .find(|kind| operator.starts_with(kind))?;
        self.rest = &operator[kind.len()..];
        self.ends_operator("<>|&-(")?;
        self.skip_blanks();
        let word = self.word()?;
        match kind {
            "<<" | "<<-" => {
                let end = word.text.clone()?;
                self.pending.push(HereDocument {
                    is_quoted: word.raw != end,
                    strips_tabs: kind == "<<-",
                    end,
                });
            }
            "<<<" => {}
            "<&" | ">&" if is_descriptor(&word.raw) => {}
            _ => {
                let file = word.text?;
                if is_connection(&file) {
                    return None;
                }
                if file != "/dev/null" && !is_stream(&file) {
                    let kinds: &[bool] = match kind {
                        "<" => &[false],
                        "<>" => &[false, true],
                        _ => &[true],
                    };
                    let opened = kinds.iter().map(|is_write| Redirection {
                        file: file.clone(),
                        is_write: *is_write,
                    });
                    self.parsed.redirections.extend(opened);
                }
            }
        }
        Some(true)
    }

    /// Takes a line end, and the here-documents that begin on the next line.
    fn end_line(&mut self) -> Option<()> {
        self.rest = self.rest.strip_prefix('\n')?;
        for document in std::mem::take(&mut self.pending) {
            loop {
                let (line, behind) = match self.rest.split_once('\n') {
                    Some((line, behind)) => (line, Some(behind)),
                    None => (self.rest, None),
                };
                self.rest = behind.unwrap_or_default();
                let text = if document.strips_tabs {
                    line.trim_start_matches('\t')
                } else {
                    line
                };
                if text == document.end {
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

    /// Returns `None` if one of these characters belongs to the operator before: behind a line end that is nothing.
    fn ends_operator(&self, more: &str) -> Option<()> {
        let behind = self.rest.trim_start_matches(CONTINUED);
        let is_more = behind.starts_with(|c| more.contains(c));
        (behind.len() == self.rest.len() || !is_more).then_some(())
    }

    /// Skips blanks, line ends that are nothing, and a comment up to the end of its line.
    fn skip_blanks(&mut self) {
        loop {
            let rest = self.rest.trim_start_matches([' ', '\t']);
            self.rest = rest.trim_start_matches(CONTINUED);
            if self.rest.len() == rest.len() {
                break;
            }
        }
        if self.rest.starts_with('#') {
            self.parsed.has_syntax = true;
            let end = self.rest.find('\n').unwrap_or(self.rest.len());
            self.rest = &self.rest[end..];
        }
    }
}

/// Whether shells and readers may take the character for different things.
fn is_ambiguous(c: char) -> bool {
    (c.is_control() && !matches!(c, '\n' | '\t')) || (c.is_whitespace() && !c.is_ascii())
}

fn is_descriptor(word: &str) -> bool {
    let number = word.strip_suffix('-').unwrap_or(word);
    !word.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
}

/// Whether shells open a connection instead of a file with this name.
fn is_connection(name: &str) -> bool {
    let mut parts = name.split('/').filter(|part| !matches!(*part, "" | "."));
    name.starts_with('/')
        && parts.next() == Some("dev")
        && matches!(parts.next(), Some("tcp" | "udp" | "sctp"))
        && parts.next().is_some()
}

/// Whether the name is that of a stream which the command has anyway. The terminal is none: what is written to it, nobody reads
/// as output.
fn is_stream(name: &str) -> bool {
    matches!(name, "/dev/stdout" | "/dev/stderr" | "/dev/stdin")
}
