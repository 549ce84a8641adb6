//! Placeholders in the template of a slash command, and their expansion.

use ah_conversation::split_words;

/// Part of an expanded template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece {
    /// Literal text.
    Text(String),
    /// The output of this command line. Its placeholders are left for the shell to expand from its arguments, so that
    /// foreign text cannot become part of the command.
    Shell(String),
    /// The contents of this file, by the path as written.
    File(String),
}

/// Expands a template with `arguments`. Arguments without a placeholder are appended.
pub fn pieces(template: &str, arguments: &str) -> Vec<Piece> {
    let mut expansion = Expansion {
        given: arguments.trim(),
        words: split_words(arguments),
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
            _ => None,
        };
        let taken = expanded.unwrap_or_else(|| {
            expansion.text.push(c);
            c.len_utf8()
        });
        before = rest[..taken].chars().next_back();
        rest = &rest[taken..];
    }
    if !expansion.used && !expansion.given.is_empty() {
        expansion.text.push_str("\n\n");
        expansion.text.push_str(expansion.given);
    }
    expansion.flush();
    expansion.pieces
}

/// State of the expansion.
struct Expansion<'a> {
    given: &'a str,
    words: Vec<String>,
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
        self.used |= line
            .char_indices()
            .any(|(at, c)| c == '$' && place(&line[at..], &self.words, self.given).is_some());
        self.flush();
        self.pieces.push(Piece::Shell(line.to_owned()));
        Some(end + 3)
    }

    /// Parses the path after an `@`.
    fn file(&mut self, rest: &str) -> Option<usize> {
        let is_end = |c: char| c.is_whitespace() || matches!(c, ',' | ';' | ')' | '"' | '`');
        let end = rest[1..].find(is_end).map_or(rest.len(), |end| end + 1);
        let end = rest[..end].trim_end_matches(['.', ':', '!', '?']).len();
        let mut path = String::new();
        let mut template = &rest[1..end];
        while let Some(c) = template.chars().next() {
            let (taken, filled) = match place(template, &self.words, self.given) {
                Some((taken, filled)) if c == '$' => (taken, filled),
                _ => (c.len_utf8(), c.to_string()),
            };
            self.used |= c == '$' && taken > 1;
            path.push_str(&filled);
            template = &template[taken..];
        }
        if path.is_empty() {
            return None;
        }
        self.flush();
        self.pieces.push(Piece::File(path));
        Some(end)
    }

    fn argument(&mut self, rest: &str) -> Option<usize> {
        let (taken, filled) = place(rest, &self.words, self.given)?;
        self.used = true;
        self.text.push_str(&filled);
        Some(taken)
    }

    fn flush(&mut self) {
        if !self.text.is_empty() {
            self.pieces
                .push(Piece::Text(std::mem::take(&mut self.text)));
        }
    }
}

/// Parses an argument placeholder at the beginning of `rest`; returns its length and its value.
fn place(rest: &str, words: &[String], given: &str) -> Option<(usize, String)> {
    if let Some(after) = rest.strip_prefix("$ARGUMENTS") {
        let goes_on = after.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_');
        return (!goes_on).then(|| ("$ARGUMENTS".len(), given.to_owned()));
    }
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
