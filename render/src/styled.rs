//! Rows of styled text that are safe to print to a terminal.

use std::fmt;

use anstyle::{AnsiColor, Effects};
use unicode_segmentation::UnicodeSegmentation as _;
use unicode_width::UnicodeWidthStr as _;

use ah_conversation::neutralise;

/// Distance of tab stops, in columns.
const TAB: usize = 4;

/// The kind of a piece of text, which determines its colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Ink {
    /// Plain text.
    #[default]
    Plain,
    /// A heading, or other text that should stand out.
    Accent,
    /// Inline code.
    Code,
    /// A link.
    Link,
    /// A warning.
    Warning,
    /// Something that succeeded.
    Done,
    /// Something that failed.
    Failed,
    /// An added line.
    Added,
    /// A removed line.
    Removed,
    /// A keyword in code.
    Keyword,
    /// A string in code.
    Quoted,
    /// A number or a constant in code.
    Constant,
    /// A name that is defined in code.
    Name,
}

impl Ink {
    fn colour(self) -> Option<AnsiColor> {
        match self {
            Self::Plain => None,
            Self::Accent | Self::Code | Self::Name => Some(AnsiColor::Cyan),
            Self::Link | Self::Keyword => Some(AnsiColor::Blue),
            Self::Done | Self::Added => Some(AnsiColor::Green),
            Self::Failed | Self::Removed => Some(AnsiColor::Red),
            Self::Quoted => Some(AnsiColor::Yellow),
            Self::Constant | Self::Warning => Some(AnsiColor::Magenta),
        }
    }

    /// Whether it can be bold: many terminals show bold text in the bright colour, and on white nobody sees bright green,
    /// cyan or yellow.
    fn can_be_bold(self) -> bool {
        !matches!(
            self.colour(),
            Some(AnsiColor::Cyan | AnsiColor::Green | AnsiColor::Yellow)
        )
    }
}

/// Style of a piece of text: its kind and its effects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Style {
    /// Kind, which determines the colour.
    pub ink: Ink,
    /// Bold, dimmed, italic, underlined, struck through.
    pub effects: Effects,
}

impl Style {
    /// Default style of the terminal.
    pub const PLAIN: Self = Self::of(Ink::Plain, Effects::new());
    /// Bold.
    pub const BOLD: Self = Self::of(Ink::Plain, Effects::BOLD);
    /// Dimmed.
    pub const DIM: Self = Self::of(Ink::Plain, Effects::DIMMED);
    /// Warnings.
    pub const WARNING: Self = Self::of(Ink::Warning, Effects::BOLD);
    /// Successes.
    pub const DONE: Self = Self::of(Ink::Done, Effects::new());
    /// Failures.
    pub const FAILED: Self = Self::of(Ink::Failed, Effects::BOLD);

    /// A style of this kind with these effects.
    pub const fn of(ink: Ink, effects: Effects) -> Self {
        Self { ink, effects }
    }

    /// Adds `effects`.
    #[must_use]
    pub fn with(self, effects: Effects) -> Self {
        Self {
            effects: self.effects | effects,
            ..self
        }
    }

    /// Returns a text that is safe to print in this style. It may have several lines.
    pub fn around(self, text: &str) -> String {
        let ansi = self.ansi();
        format!("{ansi}{text}{ansi:#}")
    }

    fn ansi(self) -> anstyle::Style {
        let effects = match self.ink.can_be_bold() {
            true => self.effects,
            false => self.effects.remove(Effects::BOLD),
        };
        let style = anstyle::Style::new().effects(effects);
        style.fg_color(self.ink.colour().map(Into::into))
    }

    /// The names of kind and effects: the marks in the `Debug` form.
    fn mark(self) -> String {
        const EFFECTS: [(Effects, &str); 6] = [
            (Effects::BOLD, "bold"),
            (Effects::DIMMED, "dim"),
            (Effects::ITALIC, "italic"),
            (Effects::UNDERLINE, "underline"),
            (Effects::STRIKETHROUGH, "struck"),
            (Effects::INVERT, "inverse"),
        ];
        let ink = (self.ink != Ink::Plain).then(|| format!("{:?}", self.ink).to_lowercase());
        let effects = EFFECTS
            .iter()
            .filter(|(effect, _)| self.effects.contains(*effect))
            .map(|(_, name)| (*name).to_owned());
        ink.into_iter().chain(effects).collect::<Vec<_>>().join(" ")
    }
}

/// Colours that lines are printed with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Palette {
    /// None.
    Plain,
    /// The sixteen colours of the terminal, as its user has configured them.
    Ansi,
}

/// A piece of a row with one style.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Span {
    text: String,
    style: Style,
}

impl Span {
    /// Returns the text, without line breaks, tabs and control characters.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the style.
    pub fn style(&self) -> Style {
        self.style
    }
}

/// A row of styled text. Added text is neutralised, and adjacent pieces of one style are merged.
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

    /// Appends `text`. Line breaks become spaces, and tabs are expanded.
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

    /// Appends text that comes from a line, and so is neutralised already.
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

    /// Appends another row.
    pub fn append(&mut self, other: &Self) {
        for span in &other.spans {
            self.push_clean(&span.text, span.style);
        }
    }

    /// Returns the row after `prefix`.
    #[must_use]
    pub fn behind(&self, prefix: &Self) -> Self {
        let mut line = prefix.clone();
        line.append(self);
        line
    }

    /// Returns the row indented by `columns`.
    #[must_use]
    pub fn indented(&self, columns: usize) -> Self {
        self.behind(&Self::of(&" ".repeat(columns), Style::PLAIN))
    }

    /// Returns the pieces.
    pub fn spans(&self) -> &[Span] {
        &self.spans
    }

    /// Returns whether there is nothing but white space.
    pub fn is_blank(&self) -> bool {
        self.spans.iter().all(|span| span.text.trim().is_empty())
    }

    /// Returns the width in columns.
    pub fn width(&self) -> usize {
        self.spans.iter().map(|span| span.text.width()).sum()
    }

    /// Returns the text without styles.
    pub fn text(&self) -> String {
        self.spans.iter().map(Span::text).collect()
    }

    /// Returns the row truncated to `width` columns, with `…` at the cut.
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

    /// Returns the row as text for a terminal, without a line break at the end.
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

    /// Contrast of two colours, as accessibility guidelines define it: from 1, which nobody sees, to 21.
    fn contrast(one: [u8; 3], other: [u8; 3]) -> f64 {
        let light = |rgb: [u8; 3]| -> f64 {
            let linear = rgb.map(|part| (f64::from(part) / 255.0).powf(2.2));
            0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
        };
        let (one, other) = (light(one), light(other));
        (one.max(other) + 0.05) / (one.min(other) + 0.05)
    }

    /// In the palettes of old terminals, which are the hardest ones to read, and with bold text in the bright colour.
    #[test]
    fn each_colour_is_seen_on_a_light_and_on_a_dark_terminal() {
        // Red, green, yellow, blue, magenta and cyan, as they are and bright.
        let xterm = [
            [
                0xcd_0000, 0x00_cd00, 0xcd_cd00, 0x00_00ee, 0xcd_00cd, 0x00_cdcd,
            ],
            [
                0xff_0000, 0x00_ff00, 0xff_ff00, 0x5c_5cff, 0xff_00ff, 0x00_ffff,
            ],
        ];
        let konsole = [
            [
                0xb2_1818, 0x18_b218, 0xb2_6818, 0x18_18b2, 0xb2_18b2, 0x18_b2b2,
            ],
            [
                0xff_5454, 0x54_ff54, 0xff_ff54, 0x54_54ff, 0xff_54ff, 0x54_ffff,
            ],
        ];
        let inks = [
            Ink::Accent,
            Ink::Code,
            Ink::Link,
            Ink::Warning,
            Ink::Done,
            Ink::Failed,
            Ink::Added,
            Ink::Removed,
            Ink::Keyword,
            Ink::Quoted,
            Ink::Constant,
            Ink::Name,
        ];
        for ink in inks {
            let style = Style::of(ink, Effects::BOLD).ansi();
            let is_bright = style.get_effects().contains(Effects::BOLD);
            let number = match style.get_fg_color() {
                Some(anstyle::Color::Ansi(colour)) => {
                    usize::from(anstyle::Ansi256Color::from(colour).0)
                }
                other => panic!("{ink:?}: {other:?}"),
            };
            let least = match ink {
                Ink::Warning | Ink::Failed => 2.5,
                _ => 1.6,
            };
            for palette in [xterm, konsole] {
                let [_, red, green, blue] =
                    u32::to_be_bytes(palette[usize::from(is_bright)][number - 1]);
                for ground in [[0; 3], [0xff; 3]] {
                    let seen = contrast([red, green, blue], ground);
                    assert!(seen >= least, "{ink:?} on {ground:?}: {seen}");
                }
            }
        }
    }

    #[test]
    fn control_characters_become_visible_in_a_line() {
        let mut line = Line::of("a\tb\x1b[2J", Style::PLAIN);
        line.push("\nc", Style::BOLD);
        assert_eq!(format!("{line:?}"), "a   b␛[2J‹bold: c›");
        assert_eq!(line.paint(Palette::Plain), "a   b␛[2J c");
        assert_eq!(line.paint(Palette::Ansi), "a   b␛[2J\x1b[1m c\x1b[0m");
    }

    #[test]
    fn lines_are_cut_between_grapheme_clusters() {
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
