//! Words of a command line. Commands in their substitutions are parsed too.

use super::super::word::{Influence, Spelling, Word, is_of_line, prints_no_option};
use super::{CONTINUED, Parser};

/// Unquoted characters, besides letters and digits, that mean themselves in every shell.
const PLAIN: &str = "_-./:,@%+=!";

/// The part of a word that has been read.
struct PartialWord {
    /// Its value; `None` if it is known only at run time.
    text: Option<String>,
    spelling: Spelling,
    influence: Influence,
    /// Whether what comes next may be the beginning of an argument.
    is_start: bool,
    /// Whether what came before each open brace may be nothing.
    braces: Vec<bool>,
    may_begin_option: bool,
    begins_wild: bool,
    /// Where line ends that are nothing are in the source: the number of bytes of the line from there on.
    continued: Vec<usize>,
}

impl PartialWord {
    fn new() -> Self {
        Self {
            text: Some(String::new()),
            spelling: Spelling::Literal,
            influence: Influence::None,
            is_start: true,
            braces: Vec::new(),
            may_begin_option: false,
            begins_wild: false,
            continued: Vec::new(),
        }
    }

    /// Returns the source of the word: what is between `start` and `rest`, without line ends that are nothing.
    fn source(&self, start: &str, rest: &str) -> String {
        let mut source = start[..start.len() - rest.len()].to_owned();
        for left in self.continued.iter().rev() {
            let at = start.len() - left;
            source.replace_range(at..at + CONTINUED.len(), "");
        }
        source
    }

    fn push(&mut self, more: &str, spelling: Spelling) {
        self.may_begin_option |= self.is_start && more.starts_with('-');
        self.is_start &= more.is_empty();
        if let Some(text) = &mut self.text {
            text.push_str(more);
        }
        self.spelling = self.spelling.max(spelling);
    }

    fn push_char(&mut self, more: char, spelling: Spelling) {
        self.push(more.encode_utf8(&mut [0; 4]), spelling);
    }

    /// Appends something that is known only at run time, and is not nothing.
    fn push_unknown(&mut self, spelling: Spelling) {
        self.text = None;
        self.spelling = self.spelling.max(spelling);
        self.is_start = false;
    }

    /// Appends an expansion, which may be nothing, so that an argument may also begin behind it.
    fn push_expansion(&mut self, influence: Influence) {
        let is_start = self.is_start;
        self.may_begin_option |= is_start && influence != Influence::None;
        self.influence = self.influence.max(influence);
        self.push_unknown(Spelling::Complex);
        self.is_start = is_start;
    }

    /// Appends an unquoted character of a pattern, or a brace. An argument may begin behind a brace as before it.
    fn push_wild(&mut self, c: char, spelling: Spelling) {
        let is_start = match c {
            '{' => {
                self.braces.push(self.is_start);
                self.is_start
            }
            '}' => self.braces.pop().unwrap_or_default(),
            _ => {
                self.begins_wild |= self.is_start;
                false
            }
        };
        self.push_unknown(spelling);
        self.is_start = is_start;
    }

    /// Appends an unquoted character that means itself, but for a comma or dots between braces.
    fn push_bare(&mut self, c: char, spelling: Spelling) {
        self.push_char(c, spelling);
        if matches!(c, ',' | '.') {
            self.is_start = self.braces.last().copied().unwrap_or_default();
        }
    }
}

impl Parser<'_, '_> {
    /// Takes the next word; `None` if it is empty or not understood.
    pub(super) fn word(&mut self) -> Option<Word> {
        let start = self.rest;
        let mut word = PartialWord::new();
        while let Some(c) = self.peek() {
            let is_first = start.len() == self.rest.len();
            match c {
                ' ' | '\t' | '\n' | ';' | '&' | '|' | ')' => break,
                '<' | '>' => {
                    if !self.rest[1..].starts_with('(') {
                        break;
                    }
                    // Process substitution.
                    self.rest = &self.rest[2..];
                    self.nested(')')?;
                    word.push_unknown(Spelling::Complex);
                }
                // A function, an array or a pattern of some shells.
                '(' => return None,
                '\'' => {
                    let (quoted, behind) = self.rest[1..].split_once('\'')?;
                    // Some shells let a backslash escape the closing quote.
                    let spelling = if quoted.ends_with('\\') {
                        Spelling::Complex
                    } else {
                        Spelling::Literal
                    };
                    word.push(quoted, spelling);
                    self.rest = behind;
                }
                '"' => {
                    self.rest = &self.rest[1..];
                    self.double_quoted(&mut word)?;
                }
                '\\' => self.escape(&mut word)?,
                '$' | '`' => {
                    let decides = self.decides_expansion()?;
                    word.push_expansion(if decides {
                        Influence::OfWords
                    } else {
                        Influence::None
                    });
                }
                '*' | '?' | '[' | ']' | '{' | '}' => self.pattern(c, is_first, &mut word),
                '~' if is_first => self.home(&mut word),
                // In zsh, `=name` is the path of a program.
                '=' if is_first => {
                    word.push_unknown(Spelling::Literal);
                    self.rest = &self.rest[1..];
                }
                _ => {
                    let spelling = match c {
                        '~' => Spelling::Pattern,
                        _ if c.is_alphanumeric() || PLAIN.contains(c) => Spelling::Literal,
                        _ => Spelling::Complex,
                    };
                    word.push_bare(c, spelling);
                    self.rest = &self.rest[c.len_utf8()..];
                }
            }
        }
        let raw = word.source(start, self.rest);
        (!raw.is_empty()).then_some(Word {
            raw,
            text: word.text,
            spelling: word.spelling,
            influence: word.influence,
            may_begin_option: word.may_begin_option,
            begins_wild: word.begins_wild,
        })
    }

    /// Takes an escaped character, or a line end that is nothing.
    fn escape(&mut self, word: &mut PartialWord) -> Option<()> {
        if self.rest.starts_with(CONTINUED) {
            self.go_on(word);
            // A number would belong to the redirection.
            return (!self.rest.starts_with(['<', '>'])).then_some(());
        }
        let escaped = self.rest[1..].chars().next()?;
        word.push_char(escaped, Spelling::Complex);
        self.rest = &self.rest[1 + escaped.len_utf8()..];
        Some(())
    }

    /// Takes a line end that is nothing.
    fn go_on(&mut self, word: &mut PartialWord) {
        word.continued.push(self.rest.len());
        self.rest = &self.rest[CONTINUED.len()..];
    }

    /// Takes `c`, one of `*?[]{}`: its meaning depends on the existing files and on the shell, unless it is a bracket
    /// or brace that stands alone, or `{}`.
    fn pattern(&mut self, c: char, is_first: bool, word: &mut PartialWord) {
        let spelling = match c {
            '{' | '}' => Spelling::Complex,
            _ => Spelling::Pattern,
        };
        if self.rest.starts_with("{}") {
            word.push("{}", spelling);
            self.rest = &self.rest[2..];
            return;
        }
        let is_alone = is_first && self.is_last_of_word(1);
        if is_alone && c != '*' && c != '?' {
            word.push_char(c, spelling);
        } else {
            word.push_wild(c, spelling);
        }
        self.rest = &self.rest[1..];
    }

    /// Takes `~` at the beginning of a word: the user's home, or another's.
    fn home(&mut self, word: &mut PartialWord) {
        let is_own_home = self.rest[1..].starts_with('/') || self.is_last_of_word(1);
        if is_own_home {
            word.push_char('~', Spelling::Pattern);
        } else {
            word.push_unknown(Spelling::Pattern);
        }
        self.rest = &self.rest[1..];
    }

    /// Whether the word ends before the byte at `at`.
    fn is_last_of_word(&self, at: usize) -> bool {
        let next = self.rest[at..].chars().next();
        next.is_none_or(|c| " \t\n;&|)".contains(c))
    }

    /// Takes double-quoted text after the opening quote.
    fn double_quoted(&mut self, word: &mut PartialWord) -> Option<()> {
        loop {
            let c = self.peek()?;
            match c {
                '"' => {
                    self.rest = &self.rest[1..];
                    return Some(());
                }
                '$' | '`' => {
                    let decides = self.decides_expansion()?;
                    word.push_expansion(if decides {
                        Influence::OfText
                    } else {
                        Influence::None
                    });
                }
                '\\' if self.rest.starts_with(CONTINUED) => self.go_on(word),
                '\\' => {
                    let escaped = self.rest[1..].chars().next()?;
                    match escaped {
                        '"' | '\\' | '$' | '`' => word.push_char(escaped, Spelling::Complex),
                        _ => {
                            word.push_char('\\', Spelling::Literal);
                            word.push_char(escaped, quoted_spelling(escaped));
                        }
                    }
                    self.rest = &self.rest[1 + escaped.len_utf8()..];
                }
                _ => {
                    word.push_char(c, quoted_spelling(c));
                    self.rest = &self.rest[c.len_utf8()..];
                }
            }
        }
    }

    /// Takes an expansion, and returns whether the line itself decides what it stands for.
    fn decides_expansion(&mut self) -> Option<bool> {
        let start = self.rest;
        self.expansion()?;
        // The name of the variable would go on.
        if self.rest.starts_with(CONTINUED) {
            return None;
        }
        let source = &start[..start.len() - self.rest.len()];
        let command = { source.strip_prefix("$(") }
            .and_then(|command| command.strip_suffix(')'))
            .or_else(|| source.strip_prefix('`')?.strip_suffix('`'));
        Some(match command {
            Some(command) => !prints_no_option(command),
            None => {
                let name = source.trim_matches(['$', '{', '}']);
                let is_argument =
                    name.starts_with(|c: char| c.is_ascii_digit() || "@*".contains(c));
                is_argument
                    || is_of_line(name)
                    || self
                        .parsed
                        .variables
                        .iter()
                        .any(|variable| variable == name)
            }
        })
    }

    /// Takes an expansion of a variable, or a command substitution.
    fn expansion(&mut self) -> Option<()> {
        if let Some(rest) = self.rest.strip_prefix('`') {
            let (inner, behind) = rest.split_once('`')?;
            if inner.contains('\\') || !self.pending.is_empty() {
                return None;
            }
            Parser::new(inner, self.depth + 1, self.parsed).lines()?;
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

/// Returns the spelling of a character within double quotes. Interactive shells expand `!` there.
fn quoted_spelling(c: char) -> Spelling {
    if c == '!' {
        Spelling::Complex
    } else {
        Spelling::Literal
    }
}
