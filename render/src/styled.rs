//! A row of text with styles, safe to be written to a terminal.

use std::fmt;

use anstyle::{AnsiColor, Effects};
use unicode_segmentation::UnicodeSegmentation as _;
use unicode_width::UnicodeWidthStr as _;

use crate::neutralise;

/// A tab reaches to the next multiple of so many columns.
const TAB: usize = 4;

/// What a piece of text is, which decides its colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Ink {
    /// Just text.
    #[default]
    Plain,
    /// A heading, or whatever else is to be found at a glance.
    Accent,
    /// Code among words.
    Code,
    /// What leads elsewhere.
    Link,
    /// A failure, or what needs attention.
    Warning,
    /// What a change has brought.
    Added,
    /// What a change has taken away.
    Removed,
    /// A word of a language.
    Keyword,
    /// Quoted text in code.
    Quoted,
    /// A number or a constant in code.
    Constant,
    /// The name of something that is defined in code.
    Name,
}

impl Ink {
    fn colour(self) -> Option<AnsiColor> {
        match self {
            Self::Plain => None,
            Self::Accent | Self::Code | Self::Name => Some(AnsiColor::Cyan),
            Self::Link | Self::Added | Self::Keyword => Some(AnsiColor::Blue),
            Self::Warning | Self::Removed | Self::Quoted => Some(AnsiColor::Yellow),
            Self::Constant => Some(AnsiColor::Magenta),
        }
    }
}

/// How a piece of text looks: what it is, and how strong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Style {
    /// What it is.
    pub ink: Ink,
    /// Bold, dimmed, italic, underlined, struck out.
    pub effects: Effects,
}

impl Style {
    /// As the terminal shows text by itself.
    pub const PLAIN: Self = Self::of(Ink::Plain, Effects::new());
    /// Stronger.
    pub const BOLD: Self = Self::of(Ink::Plain, Effects::BOLD);
    /// Weaker.
    pub const DIM: Self = Self::of(Ink::Plain, Effects::DIMMED);
    /// Failures, and what needs attention.
    pub const WARNING: Self = Self::of(Ink::Warning, Effects::BOLD);

    /// This ink, with these effects.
    pub const fn of(ink: Ink, effects: Effects) -> Self {
        Self { ink, effects }
    }

    /// The same with `effects` besides.
    #[must_use]
    pub fn with(self, effects: Effects) -> Self {
        Self {
            effects: self.effects | effects,
            ..self
        }
    }

    fn ansi(self) -> anstyle::Style {
        let style = anstyle::Style::new().effects(self.effects);
        style.fg_color(self.ink.colour().map(Into::into))
    }

    /// The words that stand for it in the readable form, and its classes in a page.
    pub(crate) fn mark(self) -> String {
        const EFFECTS: [(Effects, &str); 6] = [
            (Effects::BOLD, "bold"),
            (Effects::DIMMED, "dim"),
            (Effects::ITALIC, "italic"),
            (Effects::UNDERLINE, "underline"),
            (Effects::STRIKETHROUGH, "struck"),
            (Effects::INVERT, "inverse"),
        ];
        let ink = (self.ink != Ink::Plain).then(|| format!("{:?}", self.ink).to_lowercase());
        let effects = EFFECTS.iter().filter(|(e, _)| self.effects.contains(*e));
        let effects = effects.map(|(_, name)| (*name).to_owned());
        ink.into_iter().chain(effects).collect::<Vec<_>>().join(" ")
    }
}

/// With what lines are painted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Palette {
    /// Nothing but the text.
    Plain,
    /// The sixteen colours that every terminal has, as its user has set them.
    Ansi,
}

/// A piece of a row that looks the same throughout.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Span {
    text: String,
    style: Style,
}

impl Span {
    /// The text: no line break, tab or control character.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// How it looks.
    pub fn style(&self) -> Style {
        self.style
    }
}

/// A row of text. Whatever is put into it is made harmless first, and neighbours that look the same become one.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Line {
    spans: Vec<Span>,
}

impl Line {
    /// A row of `text` in one style.
    pub fn of(text: &str, style: Style) -> Self {
        let mut line = Self::default();
        line.push(text, style);
        line
    }

    /// Adds `text` at the end. Line breaks become blanks, tabs reach to their next stop.
    pub fn push(&mut self, text: &str, style: Style) {
        let text = neutralise(text);
        if !text.contains(['\n', '\t']) {
            return self.push_clean(&text, style);
        }
        let mut column = self.width();
        for piece in text.split_inclusive(['\n', '\t']) {
            let words = piece.trim_end_matches(['\n', '\t']);
            self.push_clean(words, style);
            column += words.width();
            let blanks = match piece.chars().next_back() {
                Some('\t') => TAB - column % TAB,
                Some('\n') => 1,
                _ => 0,
            };
            self.push_clean(&" ".repeat(blanks), style);
            column += blanks;
        }
    }

    /// Adds text that came out of a line.
    pub(crate) fn push_clean(&mut self, text: &str, style: Style) {
        if text.is_empty() {
            return;
        }
        match self.spans.last_mut() {
            Some(last) if last.style == style => last.text.push_str(text),
            _ => self.spans.push(Span {
                text: text.to_owned(),
                style,
            }),
        }
    }

    /// Adds another row at the end.
    pub fn append(&mut self, other: &Self) {
        for span in &other.spans {
            self.push_clean(&span.text, span.style);
        }
    }

    /// The same behind `prefix`.
    #[must_use]
    pub fn behind(&self, prefix: &Self) -> Self {
        let mut line = prefix.clone();
        line.append(self);
        line
    }

    /// The same behind so many blanks.
    #[must_use]
    pub fn indented(&self, columns: usize) -> Self {
        self.behind(&Self::of(&" ".repeat(columns), Style::PLAIN))
    }

    /// Its pieces.
    pub fn spans(&self) -> &[Span] {
        &self.spans
    }

    /// Whether there is nothing to be seen.
    pub fn is_blank(&self) -> bool {
        self.spans.iter().all(|span| span.text.trim().is_empty())
    }

    /// How many columns it takes.
    pub fn width(&self) -> usize {
        self.spans.iter().map(|span| span.text.width()).sum()
    }

    /// The text alone.
    pub fn text(&self) -> String {
        self.spans.iter().map(Span::text).collect()
    }

    /// As much of it as fits into `width` columns, with a sign where something is left out.
    #[must_use]
    pub fn cut(&self, width: usize) -> Self {
        if self.width() <= width {
            return self.clone();
        }
        let mut line = Self::default();
        let mut room = width.saturating_sub(1);
        'spans: for span in &self.spans {
            for cluster in span.text.graphemes(true) {
                let Some(left) = room.checked_sub(cluster.width()) else {
                    break 'spans;
                };
                room = left;
                line.push_clean(cluster, span.style);
            }
        }
        if width > 0 {
            line.push_clean("…", Style::DIM);
        }
        line
    }

    /// As text for a terminal, without a line break at its end.
    pub fn paint(&self, palette: Palette) -> String {
        let mut painted = String::new();
        for Span { text, style } in &self.spans {
            let ansi = style.ansi();
            match palette {
                Palette::Ansi if !ansi.is_plain() => {
                    painted.push_str(&format!("{ansi}{text}{ansi:#}"));
                }
                Palette::Ansi | Palette::Plain => painted.push_str(text),
            }
        }
        painted
    }
}

impl fmt::Debug for Line {
    /// `words ‹bold:strong words› words`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Span { text, style } in &self.spans {
            match style.mark().as_str() {
                "" => f.write_str(text)?,
                mark => write!(f, "‹{mark}:{text}›")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_a_terminal_obeys_gets_into_a_line() {
        let mut line = Line::of("a\tb\x1b[2J", Style::PLAIN);
        line.push("\nc", Style::BOLD);
        assert_eq!(format!("{line:?}"), "a   b␛[2J‹bold: c›");
        assert_eq!(line.paint(Palette::Plain), "a   b␛[2J c");
        assert_eq!(line.paint(Palette::Ansi), "a   b␛[2J\x1b[1m c\x1b[0m");
    }

    #[test]
    fn lines_are_cut_between_what_people_see_as_characters() {
        for (text, width, expected) in [
            ("abc", 3, "abc"),
            ("abcd", 3, "ab…"),
            ("日本語", 5, "日本…"),
            ("日本語", 4, "日…"),
            ("👩‍👩‍👧x!", 3, "👩‍👩‍👧…"),
            ("e\u{301}e\u{301}e\u{301}", 2, "e\u{301}…"),
            ("abc", 0, ""),
        ] {
            let cut = Line::of(text, Style::PLAIN).cut(width);
            assert_eq!(cut.text(), expected);
            assert!(cut.width() <= width);
        }
    }
}
