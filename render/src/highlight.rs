//! Syntax highlighting, line by line.
//!
//! The set of grammars is loaded with the first code, and each grammar with the first code in its language. The scopes of
//! the grammars are mapped to the few styles that the sixteen terminal colours can express.

use std::sync::LazyLock;

use anstyle::Effects;
use syntect::easy::ScopeRegionIterator;
use syntect::parsing::{ParseState, Scope, ScopeStack, SyntaxSet};

use crate::{Ink, Line, Style};

/// Length limit of highlighted lines, in bytes. Longer ones are usually generated, and the grammars are slow on them.
const MAX_LINE: usize = 2_000;
/// Limit of highlighted code per text, in bytes.
const MAX_TEXT: usize = 128 * 1024;

static SYNTAXES: LazyLock<SyntaxSet> = LazyLock::new(two_face::syntax::extra_newlines);

/// Style for each prefix of a scope; the first match holds.
static KINDS: LazyLock<Vec<(Scope, Style)>> = LazyLock::new(|| {
    const KINDS: [(&str, Style); 22] = [
        ("comment", Style::of(Ink::Plain, Effects::DIMMED)),
        ("string", Style::of(Ink::Quoted, Effects::new())),
        (
            "constant.character.escape",
            Style::of(Ink::Constant, Effects::new()),
        ),
        ("constant", Style::of(Ink::Constant, Effects::new())),
        ("keyword.operator", Style::PLAIN),
        ("keyword", Style::of(Ink::Keyword, Effects::new())),
        (
            "storage.type.numeric",
            Style::of(Ink::Constant, Effects::new()),
        ),
        ("storage", Style::of(Ink::Keyword, Effects::new())),
        ("variable.language", Style::of(Ink::Keyword, Effects::new())),
        ("variable.function", Style::of(Ink::Name, Effects::new())),
        ("support.function", Style::of(Ink::Name, Effects::new())),
        (
            "support.type.property-name",
            Style::of(Ink::Name, Effects::new()),
        ),
        ("support", Style::of(Ink::Name, Effects::new())),
        ("entity.name.tag", Style::of(Ink::Keyword, Effects::new())),
        ("entity.name", Style::of(Ink::Name, Effects::new())),
        (
            "entity.other.attribute-name",
            Style::of(Ink::Name, Effects::new()),
        ),
        ("entity.other", Style::of(Ink::Name, Effects::new())),
        ("markup.inserted", Style::of(Ink::Added, Effects::new())),
        ("markup.deleted", Style::of(Ink::Removed, Effects::new())),
        ("markup.heading", Style::of(Ink::Accent, Effects::BOLD)),
        ("markup.bold", Style::BOLD),
        ("meta.diff.header", Style::of(Ink::Accent, Effects::new())),
    ];
    let scope = |(name, style)| Some((Scope::new(name).ok()?, style));
    KINDS.into_iter().filter_map(scope).collect()
});

/// Highlights the lines of one text, in order.
#[derive(Clone)]
pub struct Highlighter {
    /// `None` for an unknown language, and after the limit.
    state: Option<(ParseState, ScopeStack)>,
    left: usize,
}

impl Highlighter {
    /// A highlighter for a language, by its name or file extension: `rust`, `rs`.
    pub fn of_language(language: &str) -> Self {
        Self::within(language, MAX_TEXT)
    }

    /// Like [`Self::of_language`], for at most `left` bytes.
    pub(crate) fn within(language: &str, left: usize) -> Self {
        let syntax = match language {
            "" | "text" | "txt" | "plain" | "console" => None,
            _ if left == 0 => None,
            language => SYNTAXES.find_syntax_by_token(language),
        };
        Self {
            state: syntax.map(|syntax| (ParseState::new(syntax), ScopeStack::new())),
            left,
        }
    }

    /// The number of bytes that can still be highlighted.
    pub(crate) fn left(&self) -> usize {
        self.left
    }

    /// Returns the next line, which has no line break.
    pub fn line(&mut self, text: &str) -> Line {
        self.highlight(text)
            .unwrap_or_else(|| Line::of(text, Style::PLAIN))
    }

    fn highlight(&mut self, text: &str) -> Option<Line> {
        let (state, scopes) = self.state.as_mut()?;
        if text.len() > MAX_LINE {
            return None;
        }
        let Some(left) = self.left.checked_sub(text.len()) else {
            self.state = None;
            return None;
        };
        self.left = left;
        let text = format!("{text}\n");
        let Ok(operations) = state.parse_line(&text, &SYNTAXES) else {
            self.state = None;
            return None;
        };
        let mut line = Line::default();
        for (piece, operation) in ScopeRegionIterator::new(&operations, &text) {
            if scopes.apply(operation).is_err() {
                self.state = None;
                return None;
            }
            let piece = piece.strip_suffix('\n').unwrap_or(piece);
            if !piece.is_empty() {
                line.push(piece, style(scopes));
            }
        }
        Some(line)
    }
}

/// The style of the innermost scope that has one.
fn style(scopes: &ScopeStack) -> Style {
    let kind = |scope: &Scope| {
        KINDS
            .iter()
            .find(|(start, _)| start.is_prefix_of(*scope))
            .map(|(_, style)| *style)
    };
    scopes
        .as_slice()
        .iter()
        .rev()
        .find_map(kind)
        .unwrap_or(Style::PLAIN)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(language: &str, code: &str) -> String {
        let mut highlighter = Highlighter::of_language(language);
        let lines = code
            .lines()
            .map(|line| format!("{:?}", highlighter.line(line)));
        lines.collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn tokens_have_the_style_of_their_scope() {
        insta::assert_snapshot!(shown("rust", "/* over\ntwo */ fn main() {\n\tlet x = \"a\\n\" + 1;\n}"), @r#"
‹dim:/* over›
‹dim:two */› ‹keyword:fn› ‹name:main›() {
    ‹keyword:let› x = ‹quoted:"a›‹constant:\n›‹quoted:"› + ‹constant:1›;
}
"#);
        insta::assert_snapshot!(shown("py", "def f(x): return None  # so"), @r#"‹keyword:def› ‹name:f›(x): ‹keyword:return› ‹constant:None›  ‹dim:# so›"#);
        insta::assert_snapshot!(shown("toml", "[a]\nb = 1"), @r#"
[‹name:a›]
‹keyword:b› = ‹constant:1›
"#);
        insta::assert_snapshot!(shown("nobody knows", "def f"), @r#"def f"#);
    }
}
