//! Line breaking: between words, and within words that are too long.

use unicode_segmentation::UnicodeSegmentation as _;
use unicode_width::UnicodeWidthStr as _;

use crate::{Line, Style};

/// A grapheme cluster.
#[derive(Clone, Copy)]
struct Cluster<'a> {
    text: &'a str,
    style: Style,
    width: usize,
}

impl Cluster<'_> {
    fn is_blank(&self) -> bool {
        self.text == " "
    }
}

/// Breaks `line` into rows of at most `width` columns, with `first` before the first row and `rest` before the others.
/// Spaces at a break are dropped. A blank line is one row.
pub fn wrap(line: &Line, width: usize, first: &Line, rest: &Line) -> Vec<Line> {
    broken(line, width, first, rest, |clusters, room| {
        let end = fitting(clusters, room);
        let blanks = clusters[end..].iter().take_while(|next| next.is_blank());
        (end, end + blanks.count())
    })
}

/// Like [`wrap`], but breaks where the row is full and keeps all spaces, for code.
pub fn wrap_hard(line: &Line, width: usize, first: &Line, rest: &Line) -> Vec<Line> {
    broken(line, width, first, rest, |clusters, room| {
        let end = full(clusters, room);
        (end, end)
    })
}

/// Breaks `line` into rows. `next` gets the rest of the line and the room for it, and returns the end of the row and the
/// start of the next one.
fn broken(
    line: &Line,
    width: usize,
    first: &Line,
    rest: &Line,
    next: impl Fn(&[Cluster<'_>], usize) -> (usize, usize),
) -> Vec<Line> {
    if first.width() + line.width() <= width {
        return vec![line.behind(first)];
    }
    let clusters = clusters(line);
    let mut left = &clusters[..];
    let mut rows = Vec::new();
    while !left.is_empty() || rows.is_empty() {
        let prefix = if rows.is_empty() { first } else { rest };
        let (end, begin) = next(left, width.saturating_sub(prefix.width()));
        rows.push(row(prefix, &left[..end]));
        left = &left[begin..];
    }
    rows
}

fn clusters(line: &Line) -> Vec<Cluster<'_>> {
    line.spans()
        .iter()
        .flat_map(|span| {
            span.text().graphemes(true).map(|text| Cluster {
                text,
                style: span.style(),
                width: text.width(),
            })
        })
        .collect()
}

fn row(prefix: &Line, clusters: &[Cluster<'_>]) -> Line {
    let mut row = prefix.clone();
    for cluster in clusters {
        row.push_clean(cluster.text, cluster.style);
    }
    row
}

/// The number of `clusters` that fill a row of `width`; at least one, so that wrapping makes progress.
fn full(clusters: &[Cluster<'_>], width: usize) -> usize {
    let mut room = width;
    let fits = clusters.iter().take_while(|cluster| {
        let left = room.checked_sub(cluster.width);
        room = left.unwrap_or(0);
        left.is_some()
    });
    fits.count().max(1).min(clusters.len())
}

/// The number of `clusters` in the next row, which breaks at a space or beside a wide character, which counts as a word.
fn fitting(clusters: &[Cluster<'_>], width: usize) -> usize {
    let full = full(clusters, width);
    if full == clusters.len() {
        return full;
    }
    let breaks = (1..=full).rev().find(|&at| {
        let (before, after) = (&clusters[at - 1], &clusters[at]);
        before.is_blank() || after.is_blank() || before.width > 1 || after.width > 1
    });
    let end = breaks.unwrap_or(full);
    let blanks = clusters[..end].iter().rev().take_while(|c| c.is_blank());
    match end - blanks.count() {
        // Only spaces before a word that is too long.
        0 => full,
        end => end,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn rows(text: &str, width: usize) -> Vec<String> {
        let line = Line::of(text, Style::PLAIN);
        let indent = Line::of("  ", Style::PLAIN);
        let rows = wrap(&line, width, &Line::default(), &indent);
        rows.iter().map(Line::text).collect()
    }

    #[test]
    fn rows_break_between_words_and_wide_characters() {
        for (text, width, expected) in [
            ("", 10, &[""] as &[_]),
            ("one two", 10, &["one two"]),
            ("one two three", 8, &["one two", "  three"]),
            ("one two   three", 8, &["one two", "  three"]),
            ("extraordinarily", 6, &["extrao", "  rdin", "  aril", "  y"]),
            (
                "an extraordinary",
                6,
                &["an", "  extr", "  aord", "  inar", "  y"],
            ),
            ("日本語の文章", 6, &["日本語", "  の文", "  章"]),
            ("abc日本", 6, &["abc日", "  本"]),
            ("👩‍👩‍👧 👍🏽 🇩🇪 ok", 6, &["👩‍👩‍👧 👍🏽", "  🇩🇪", "  ok"]),
            (
                "e\u{301}e\u{301}e\u{301} b",
                4,
                &["e\u{301}e\u{301}e\u{301}", "  b"],
            ),
            ("ab", 1, &["a", "  b"]),
        ] {
            assert_eq!(rows(text, width), expected, "{text:?} in {width}");
        }
    }

    proptest! {
        #[test]
        fn no_row_is_too_wide_and_no_word_is_lost(text in "[a-c 日👍]{0,60}", width in 4usize..20) {
            let rows = rows(&text, width);
            for row in &rows {
                prop_assert!(row.width() <= width, "{row:?}");
            }
            let letters = |text: &str| text.replace(' ', "");
            prop_assert_eq!(letters(&rows.concat()), letters(&text));
        }

        #[test]
        fn no_word_that_fits_is_broken(text in "([a-c(`]{1,16}[.,:)`]?[ ]{1,2}){1,30}", width in 20usize..100) {
            let rows = rows(&text, width);
            let words: Vec<_> = text.split_whitespace().collect();
            let left: Vec<_> = rows.iter().flat_map(|row| row.split_whitespace()).collect();
            prop_assert_eq!(left, words);
        }

        #[test]
        fn code_keeps_every_blank(text in "[a-c 日]{1,60}", width in 4usize..20) {
            let line = Line::of(&text, Style::PLAIN);
            let rows = wrap_hard(&line, width, &Line::default(), &Line::default());
            prop_assert_eq!(rows.iter().map(Line::text).collect::<String>(), text);
            prop_assert!(rows.iter().all(|row| row.width() <= width));
        }
    }
}
