//! Placeholders in the template of a slash command, and their expansion.

use ah_conversation::split_words;

/// Part of an expanded template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece {
    /// Literal text.
    Text(String),
    /// The output of a command line.
    Shell {
        /// The line. Its placeholders are left for the shell to expand from its arguments (`${0}` for `$ARGUMENTS[0]`), so
        /// that foreign text cannot become part of the command.
        line: String,
        /// The line with the arguments in it, to be judged and not to be run.
        filled: String,
    },
    /// The contents of a file.
    File {
        /// The path as written, with the arguments in it.
        path: String,
        /// Whether the path is nothing but an argument: the user has named the file, not the template.
        is_typed: bool,
    },
}

/// Which number the first word of the arguments has in a template.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Numbering {
    /// `$1` is the first word.
    #[default]
    FromOne,
    /// `$0` is the first word, as in `$ARGUMENTS[0]`; a backslash before a placeholder keeps it.
    FromZero,
}

/// Expands a template with `arguments`. Arguments without a placeholder are appended.
pub fn pieces(template: &str, arguments: &str, numbering: Numbering) -> Vec<Piece> {
    let mut expansion = Expansion {
        given: Given::new(arguments, numbering),
        pieces: Vec::new(),
        text: String::new(),
        used: false,
    };
    let mut rest = template;
    let mut before = None;
    while let Some(c) = rest.chars().next() {
        let expanded = match c {
            '!' => expansion.shell(rest),
            '@' if before
                .is_none_or(|c: char| c.is_whitespace() || matches!(c, '(' | '"' | '`')) =>
            {
                expansion.file(rest)
            }
            '$' => expansion.argument(rest),
            '\\' => expansion.kept(rest),
            _ => None,
        };
        let taken = expanded.unwrap_or_else(|| {
            expansion.text.push(c);
            c.len_utf8()
        });
        before = rest[..taken].chars().next_back();
        rest = &rest[taken..];
    }
    if !expansion.used && !expansion.given.text.is_empty() {
        expansion.text.push_str("\n\n");
        expansion.text.push_str(expansion.given.text);
    }
    expansion.flush();
    expansion.pieces
}

/// Puts `arguments` into a text without commands and files; arguments without a placeholder are appended.
pub fn filled(text: &str, arguments: &str) -> String {
    let given = Given::new(arguments, Numbering::FromZero);
    let (mut filled, used) = given.fill(text);
    if !used && !given.text.is_empty() {
        filled.push_str("\n\n");
        filled.push_str(given.text);
    }
    filled
}

/// The arguments of a template.
struct Given<'a> {
    text: &'a str,
    words: Vec<String>,
    numbering: Numbering,
}

/// State of the expansion.
struct Expansion<'a> {
    given: Given<'a>,
    pieces: Vec<Piece>,
    text: String,
    /// Whether there was a placeholder for arguments.
    used: bool,
}

impl Expansion<'_> {
    /// Parses a command line between `` !` `` and `` ` ``; returns its length in bytes.
    fn shell(&mut self, rest: &str) -> Option<usize> {
        let inner = rest.strip_prefix("!`")?;
        let end = inner
            .find(['`', '\n'])
            .filter(|end| inner[*end..].starts_with('`'))?;
        let line = &inner[..end];
        if line.trim().is_empty() {
            return None;
        }
        let (filled, used) = self.given.fill(line);
        self.used |= used;
        self.flush();
        let line = self.given.for_shell(line);
        self.pieces.push(Piece::Shell { line, filled });
        Some(end + 3)
    }

    /// Parses the path after an `@`.
    fn file(&mut self, rest: &str) -> Option<usize> {
        let is_end = |c: char| c.is_whitespace() || matches!(c, ',' | ';' | ')' | '"' | '`');
        let end = rest[1..].find(is_end).map_or(rest.len(), |end| end + 1);
        let end = rest[..end].trim_end_matches(['.', ':', '!', '?']).len();
        let (mut path, mut is_typed) = (String::new(), false);
        let mut template = &rest[1..end];
        while let Some(c) = template.chars().next() {
            let (taken, filled) = match self.given.place(template) {
                Some((taken, filled)) if c == '$' => (taken, filled),
                _ => (c.len_utf8(), c.to_string()),
            };
            self.used |= c == '$' && taken > 1;
            is_typed |= c == '$' && taken == end - 1;
            path.push_str(&filled);
            template = &template[taken..];
        }
        if path.is_empty() {
            return None;
        }
        self.flush();
        self.pieces.push(Piece::File { path, is_typed });
        Some(end)
    }

    fn argument(&mut self, rest: &str) -> Option<usize> {
        let (taken, filled) = self.given.place(rest)?;
        self.used = true;
        self.text.push_str(&filled);
        Some(taken)
    }

    /// Keeps the placeholder after a backslash as it is, without the backslash.
    fn kept(&mut self, rest: &str) -> Option<usize> {
        let after = &rest[1..];
        let is_kept = self.given.numbering == Numbering::FromZero
            && (after.starts_with("$ARGUMENTS")
                || after
                    .strip_prefix('$')?
                    .starts_with(|c: char| c.is_ascii_digit()));
        is_kept.then(|| {
            self.text.push('$');
            2
        })
    }

    fn flush(&mut self) {
        if !self.text.is_empty() {
            self.pieces
                .push(Piece::Text(std::mem::take(&mut self.text)));
        }
    }
}

impl<'a> Given<'a> {
    fn new(arguments: &'a str, numbering: Numbering) -> Self {
        Self {
            text: arguments.trim(),
            words: split_words(arguments),
            numbering,
        }
    }

    /// Returns a text with the values of its placeholders, and whether there was any.
    fn fill(&self, text: &str) -> (String, bool) {
        let (mut filled, mut rest, mut used) = (String::new(), text, false);
        while let Some((before, after)) = rest.split_once('$') {
            filled.push_str(before);
            let at = &rest[before.len()..];
            match self.place(at) {
                Some((taken, value)) => {
                    used = true;
                    filled.push_str(&value);
                    rest = &at[taken..];
                }
                None => {
                    filled.push('$');
                    rest = after;
                }
            }
        }
        filled.push_str(rest);
        (filled, used)
    }

    /// Returns a command line in which the shell finds what `$ARGUMENTS[0]` and so on mean.
    fn for_shell(&self, line: &str) -> String {
        let (mut placed, mut rest) = (String::new(), line);
        while let Some((before, after)) = rest.split_once("$ARGUMENTS") {
            placed.push_str(before);
            match in_brackets(after) {
                Some((taken, number)) => {
                    let number = match self.numbering {
                        Numbering::FromOne => number.saturating_add(1),
                        Numbering::FromZero => number,
                    };
                    placed.push_str(&format!("${{{number}}}"));
                    rest = &after[taken..];
                }
                None => {
                    placed.push_str("$ARGUMENTS");
                    rest = after;
                }
            }
        }
        placed + rest
    }

    /// Parses an argument placeholder at the beginning of `rest`; returns its length and its value.
    fn place(&self, rest: &str) -> Option<(usize, String)> {
        if let Some(after) = rest.strip_prefix("$ARGUMENTS") {
            let length = "$ARGUMENTS".len();
            if let Some((taken, number)) = in_brackets(after) {
                let word = self.words.get(number).cloned().unwrap_or_default();
                return Some((length + taken, word));
            }
            let goes_on = after.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_');
            return (!goes_on).then(|| (length, self.text.to_owned()));
        }
        match self.numbering {
            Numbering::FromOne => self.of_a_shell(rest),
            Numbering::FromZero => self.word(rest),
        }
    }

    /// Parses `$0` and so on: all digits are of the number.
    fn word(&self, rest: &str) -> Option<(usize, String)> {
        let digits = rest.strip_prefix('$')?;
        let end = digits.find(|c: char| !c.is_ascii_digit());
        let (number, after) = digits.split_at(end.unwrap_or(digits.len()));
        if after.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') {
            return None;
        }
        let word = self.words.get(number.parse::<usize>().ok()?)?;
        Some((1 + number.len(), word.clone()))
    }

    /// Parses `$1`, `$@`, `${@:2}` and the like.
    fn of_a_shell(&self, rest: &str) -> Option<(usize, String)> {
        let words = &self.words;
        if rest.starts_with("$@") {
            return Some((2, words.join(" ")));
        }
        if let Some(inner) = rest.strip_prefix("${@:") {
            let end = inner.find('}')?;
            let mut numbers = inner[..end].split(':').map(str::parse::<usize>);
            let from = numbers.next()?.ok()?.saturating_sub(1).min(words.len());
            let count = match numbers.next() {
                None => words.len(),
                Some(count) => count.ok()?,
            };
            if numbers.next().is_some() {
                return None;
            }
            let chosen: Vec<_> = words[from..]
                .iter()
                .take(count)
                .map(String::as_str)
                .collect();
            return Some(("${@:".len() + end + 1, chosen.join(" ")));
        }
        // `$12` is the twelfth argument if there are so many, otherwise the first followed by a 2.
        let digits = rest[1..]
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(rest.len() - 1);
        (1..=digits.min(4)).rev().find_map(|count| {
            let number: usize = rest[1..=count].parse().ok()?;
            let word = words.get(number.checked_sub(1)?)?;
            Some((count + 1, word.clone()))
        })
    }
}

/// Parses a number in brackets at the beginning of `rest`; returns its length and its value.
fn in_brackets(rest: &str) -> Option<(usize, usize)> {
    let (number, _) = rest.strip_prefix('[')?.split_once(']')?;
    let is_number = !number.is_empty() && number.chars().all(|c| c.is_ascii_digit());
    Some((number.len() + 2, number.parse().ok().filter(|_| is_number)?))
}
