//! One word of a command line, with the commands that it runs to be made.

use super::Parser;

/// A word.
#[derive(Debug, Clone)]
pub(super) struct Word {
    /// As it is written.
    pub raw: String,
    /// As the program will see it; `None`: known only when it runs.
    pub text: Option<String>,
}

impl Word {
    /// Whether it is written without any quotes, so that it may be a keyword.
    pub fn is_bare(&self) -> bool {
        self.text.as_deref() == Some(self.raw.as_str())
    }

    /// Whether it sets a variable where it stands before a program.
    pub fn is_assignment(&self) -> bool {
        let Some((name, _)) = self.raw.split_once('=') else {
            return false;
        };
        let name = name.strip_suffix('+').unwrap_or(name);
        let name = name.split_once('[').map_or(name, |(name, _)| name);
        let mut bytes = name.bytes();
        bytes
            .next()
            .is_some_and(|first| first.is_ascii_alphabetic() || first == b'_')
            && bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    }
}

impl Parser<'_, '_> {
    /// The word at the beginning of the rest.
    pub(super) fn word(&mut self) -> Option<Word> {
        let start = self.rest;
        let mut text = Some(String::new());
        while let Some(c) = self.peek() {
            match c {
                ' ' | '\t' | '\n' | ';' | '&' | '|' | ')' => break,
                '<' | '>' => {
                    if !self.rest[1..].starts_with('(') {
                        break;
                    }
                    // Process substitution.
                    self.rest = &self.rest[2..];
                    self.nested(')')?;
                    text = None;
                }
                // A function, an array or a pattern of some shells.
                '(' => return None,
                '\'' => {
                    let (quoted, behind) = self.rest[1..].split_once('\'')?;
                    push(&mut text, quoted);
                    self.rest = behind;
                }
                '"' => {
                    self.rest = &self.rest[1..];
                    self.quoted(&mut text)?;
                }
                '\\' => {
                    let escaped = self.rest[1..].chars().next().filter(|c| *c != '\n')?;
                    push(&mut text, escaped.encode_utf8(&mut [0; 4]));
                    self.rest = &self.rest[1 + escaped.len_utf8()..];
                }
                '$' | '`' => {
                    self.expansion()?;
                    text = None;
                }
                // What these stand for depends on the files that there are, and on the shell.
                '*' | '?' | '[' | ']' | '{' | '}' => {
                    let rest = &self.rest[1..];
                    let is_pair = self.rest.starts_with("{}");
                    let is_alone = start.len() == self.rest.len()
                        && rest.chars().next().is_none_or(|c| " \t\n;&|)".contains(c));
                    if is_pair {
                        push(&mut text, "{}");
                        self.rest = &self.rest[2..];
                        continue;
                    }
                    if is_alone && c != '*' && c != '?' {
                        push(&mut text, c.encode_utf8(&mut [0; 4]));
                    } else {
                        text = None;
                    }
                    self.rest = rest;
                }
                // `~` is a home directory, and `=name` a program to some shells.
                '~' | '=' if start.len() == self.rest.len() => {
                    let behind = self.rest[1..].chars().next();
                    let is_home =
                        c == '~' && behind.is_none_or(|c| c == '/' || " \t\n;&|)".contains(c));
                    if is_home {
                        push(&mut text, "~");
                    } else {
                        text = None;
                    }
                    self.rest = &self.rest[1..];
                }
                _ => {
                    push(&mut text, c.encode_utf8(&mut [0; 4]));
                    self.rest = &self.rest[c.len_utf8()..];
                }
            }
        }
        let raw = &start[..start.len() - self.rest.len()];
        (!raw.is_empty()).then(|| Word {
            raw: raw.to_owned(),
            text,
        })
    }

    /// What stands between double quotes, behind the first.
    fn quoted(&mut self, text: &mut Option<String>) -> Option<()> {
        loop {
            let c = self.peek()?;
            match c {
                '"' => {
                    self.rest = &self.rest[1..];
                    return Some(());
                }
                '$' | '`' => {
                    self.expansion()?;
                    *text = None;
                }
                '\\' => {
                    let escaped = self.rest[1..].chars().next()?;
                    match escaped {
                        '"' | '\\' | '$' | '`' => push(text, escaped.encode_utf8(&mut [0; 4])),
                        '\n' => return None,
                        _ => {
                            push(text, "\\");
                            push(text, escaped.encode_utf8(&mut [0; 4]));
                        }
                    }
                    self.rest = &self.rest[1 + escaped.len_utf8()..];
                }
                _ => {
                    push(text, c.encode_utf8(&mut [0; 4]));
                    self.rest = &self.rest[c.len_utf8()..];
                }
            }
        }
    }

    /// A variable, or a command whose output is put in.
    fn expansion(&mut self) -> Option<()> {
        if let Some(rest) = self.rest.strip_prefix('`') {
            let (inner, behind) = rest.split_once('`')?;
            if inner.contains('\\') || !self.pending.is_empty() {
                return None;
            }
            Parser::new(inner, self.depth + 1, self.found).lines()?;
            self.rest = behind;
            return Some(());
        }
        let rest = self.rest.strip_prefix('$')?;
        if let Some(rest) = rest.strip_prefix('(') {
            if rest.starts_with('(') {
                return None;
            }
            self.rest = rest;
            return self.nested(')');
        }
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        if let Some(rest) = rest.strip_prefix('{') {
            let (name, behind) = rest.split_once('}')?;
            if name.is_empty() || !name.chars().all(is_name) {
                return None;
            }
            self.rest = behind;
            return Some(());
        }
        let first = rest.chars().next()?;
        self.rest = match first {
            '?' | '#' | '@' | '*' | '!' | '$' | '-' => &rest[1..],
            _ if is_name(first) => rest.trim_start_matches(is_name),
            _ => return None,
        };
        Some(())
    }
}

fn push(text: &mut Option<String>, more: &str) {
    if let Some(text) = text {
        text.push_str(more);
    }
}
