//! Rust source as a list of tokens: names, signs and `::`, without comments and tests.
//!
//! A parser (`syn`) would need seconds for the whole workspace in a debug build, and would not look into macro calls, where
//! paths and prints occur as well. Tokens are enough for [`circles`](crate::circles), [`json`](crate::json), [`prints`](crate::prints)
//! and [`words`](crate::words).

/// A name, a sign, `::`, or a placeholder for a literal ([`LITERAL`]) or a lifetime.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Token<'a> {
    pub text: &'a str,
    /// 1-based line where the token starts.
    pub line: usize,
    /// Text between the quotes of a string, as it is written; empty for all other tokens.
    pub content: &'a str,
}

/// Text of the token that stands for a string, a character or a number.
const LITERAL: &str = "\"";
const LIFETIME: &str = "'";

/// Returns the tokens of a source text, without comments and without items marked `#[cfg(test)]`.
pub fn tokens(text: &str) -> Vec<Token<'_>> {
    let lexer = Lexer {
        text,
        bytes: text.as_bytes(),
        at: 0,
        line: 1,
    };
    without_tests(&lexer.collect::<Vec<_>>())
}

/// Returns the index after the bracket that closes the one at `open`, or the end if none does.
pub fn behind_block(tokens: &[Token], open: usize) -> usize {
    let mut depth = 0_usize;
    for (index, token) in tokens.iter().enumerate().skip(open) {
        match token.text {
            "{" | "(" | "[" => depth += 1,
            "}" | ")" | "]" => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return index + 1;
                }
            }
            _ => {}
        }
    }
    tokens.len()
}

fn without_tests<'a>(tokens: &[Token<'a>]) -> Vec<Token<'a>> {
    const ATTRIBUTE: [&str; 7] = ["#", "[", "cfg", "(", "test", ")", "]"];
    let is_test = |at: usize| {
        tokens
            .get(at..at + ATTRIBUTE.len())
            .is_some_and(|found| found.iter().map(|token| token.text).eq(ATTRIBUTE))
    };
    let mut kept = Vec::with_capacity(tokens.len());
    let mut at = 0;
    while let Some(token) = tokens.get(at) {
        if token.text == "#" && is_test(at) {
            at = behind_item(tokens, at + ATTRIBUTE.len());
        } else {
            kept.push(*token);
            at += 1;
        }
    }
    kept
}

/// Returns the index after an item, which ends with its first block or with a semicolon.
fn behind_item(tokens: &[Token], mut at: usize) -> usize {
    while let Some(token) = tokens.get(at) {
        match token.text {
            ";" => return at + 1,
            "{" => return behind_block(tokens, at),
            "(" | "[" => at = behind_block(tokens, at),
            _ => at += 1,
        }
    }
    at
}

struct Lexer<'a> {
    text: &'a str,
    bytes: &'a [u8],
    at: usize,
    line: usize,
}

impl<'a> Iterator for Lexer<'a> {
    type Item = Token<'a>;

    fn next(&mut self) -> Option<Token<'a>> {
        self.skip_blanks();
        let (start, line) = (self.at, self.line);
        let byte = self.peek(0)?;
        let text = match byte {
            b'"' => self.string(),
            b'\'' => self.quote(),
            b':' if self.peek(1) == Some(b':') => {
                self.at += 2;
                "::"
            }
            b'0'..=b'9' => self.number(),
            _ if is_name(byte) => self.name(),
            _ => {
                self.at += 1;
                self.text.get(start..self.at).unwrap_or(LITERAL)
            }
        };
        let content = match text {
            LITERAL => content(self.text.get(start..self.at).unwrap_or_default()),
            _ => "",
        };
        Some(Token {
            text,
            line,
            content,
        })
    }
}

/// Returns what is between the quotes of a literal, nothing if it is not a string.
fn content(literal: &str) -> &str {
    let content = literal
        .split_once('"')
        .and_then(|(_, rest)| rest.rsplit_once('"'));
    content.map_or("", |(content, _)| content)
}

impl<'a> Lexer<'a> {
    fn peek(&self, ahead: usize) -> Option<u8> {
        self.bytes.get(self.at + ahead).copied()
    }

    fn step(&mut self) {
        if self.peek(0) == Some(b'\n') {
            self.line += 1;
        }
        self.at += 1;
    }

    fn skip_blanks(&mut self) {
        while let Some(byte) = self.peek(0) {
            match (byte, self.peek(1)) {
                (b'/', Some(b'/')) => {
                    while self.peek(0).is_some_and(|byte| byte != b'\n') {
                        self.at += 1;
                    }
                }
                (b'/', Some(b'*')) => self.skip_block_comment(),
                _ if byte.is_ascii_whitespace() => self.step(),
                _ => return,
            }
        }
    }

    fn skip_block_comment(&mut self) {
        let mut depth = 0_usize;
        loop {
            match (self.peek(0), self.peek(1)) {
                (Some(b'/'), Some(b'*')) => {
                    depth += 1;
                    self.at += 2;
                }
                (Some(b'*'), Some(b'/')) => {
                    depth -= 1;
                    self.at += 2;
                    if depth == 0 {
                        return;
                    }
                }
                (Some(_), _) => self.step(),
                (None, _) => return,
            }
        }
    }

    fn string(&mut self) -> &'static str {
        self.at += 1;
        while let Some(byte) = self.peek(0) {
            if byte == b'\\' {
                self.at += 1;
            }
            self.step();
            if byte == b'"' {
                break;
            }
        }
        LITERAL
    }

    /// Reads a raw string from its hashes or its quote on; `false` if there is none.
    fn raw_string(&mut self) -> bool {
        let rest = &self.bytes[self.at..];
        let hashes = rest.iter().take_while(|byte| **byte == b'#').count();
        if rest.get(hashes) != Some(&b'"') {
            return false;
        }
        self.at += hashes + 1;
        while let Some(byte) = self.peek(0) {
            self.step();
            let behind = &self.bytes[self.at.min(self.bytes.len())..];
            let closing = behind.iter().take_while(|byte| **byte == b'#').count();
            if byte == b'"' && closing >= hashes {
                self.at += hashes;
                break;
            }
        }
        true
    }

    /// Reads a character or a lifetime.
    fn quote(&mut self) -> &'static str {
        let rest = self.text[self.at + 1..].chars();
        let mut rest = rest.map(|char| (char, char.len_utf8()));
        match (rest.next(), rest.next()) {
            (Some(('\\', _)), _) => {
                self.at += 3;
                while self.peek(0).is_some_and(|byte| byte != b'\'') {
                    self.at += 1;
                }
                self.at += 1;
                LITERAL
            }
            (Some((_, length)), Some(('\'', _))) => {
                self.at += length + 2;
                LITERAL
            }
            _ => {
                self.at += 1;
                while self.peek(0).is_some_and(is_name) {
                    self.at += 1;
                }
                LIFETIME
            }
        }
    }

    fn number(&mut self) -> &'static str {
        let is_digit = |byte: Option<u8>| byte.is_some_and(|byte| byte.is_ascii_digit());
        while self.peek(0).is_some_and(is_name)
            || self.peek(0) == Some(b'.') && is_digit(self.peek(1))
        {
            self.at += 1;
        }
        LITERAL
    }

    /// Reads a name, or the literal that begins with a prefix like `br`.
    fn name(&mut self) -> &'a str {
        let start = self.at;
        while self.peek(0).is_some_and(is_name) {
            self.at += 1;
        }
        let name = &self.text[start..self.at];
        match (name, self.peek(0)) {
            ("r" | "br" | "cr", Some(b'"' | b'#')) if self.raw_string() => LITERAL,
            ("r", Some(b'#')) => {
                self.at += 1;
                self.name()
            }
            ("b" | "c", Some(b'"')) => self.string(),
            ("b", Some(b'\'')) => self.quote(),
            _ => name,
        }
    }
}

fn is_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || !byte.is_ascii()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> String {
        let tokens = tokens(text);
        let texts: Vec<_> = tokens.iter().map(|token| token.text).collect();
        texts.join(" ")
    }

    #[test]
    fn comments_and_literals_hide_their_content() {
        for (text, expected) in [
            ("a::b // c\nd", "a :: b d"),
            ("a /* b /* c */ d */ e", "a e"),
            (
                r#"f("a \" b", 'c', '\'', '\u{1f}', b'x')"#,
                "f ( \" , \" , \" , \" , \" )",
            ),
            ("r#\"a \" b\"# c", "\" c"),
            ("br##\"a\"# b\"## c", "\" c"),
            (
                "x<'a>(&'a str, 'ä', \"ä\")",
                "x < ' > ( & ' str , \" , \" )",
            ),
            ("r#use 1.5e3 0..2 x.0", "use \" \" . . \" x . \""),
        ] {
            assert_eq!(shown(text), expected, "{text}");
        }
    }

    #[test]
    fn strings_keep_their_content() {
        let tokens = tokens("f(\"a \\\" b\", br#\"c \" d\"#, '\"', 1, 'x')");
        let contents: Vec<_> = tokens.iter().map(|token| token.content).collect();
        let strings: Vec<_> = contents.into_iter().filter(|it| !it.is_empty()).collect();
        assert_eq!(strings, [r#"a \" b"#, "c \" d"]);
    }

    #[test]
    fn lines_are_counted_through_comments_and_strings() {
        let tokens = tokens("a\n/* \n */ b \"\n\\\n\" c\nr\"\n\" d");
        let lines: Vec<_> = tokens
            .iter()
            .filter(|token| token.text != LITERAL)
            .map(|token| (token.text, token.line))
            .collect();
        assert_eq!(lines, [("a", 1), ("b", 3), ("c", 5), ("d", 7)]);
    }

    #[test]
    fn items_for_tests_are_left_out() {
        for (text, expected) in [
            ("a #[cfg(test)] mod tests { b { c } } d", "a d"),
            ("#[cfg(test)]\nmod tests; d", "d"),
            ("#[cfg(test)] #[x(y)] fn f(a: [u8; 3]) { b } d", "d"),
            ("#[cfg(unix)] d", "# [ cfg ( unix ) ] d"),
        ] {
            assert_eq!(shown(text), expected, "{text}");
        }
    }
}
