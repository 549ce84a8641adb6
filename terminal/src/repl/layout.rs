//! Texts as rows of the terminal: wrapped, indented or cut by the columns that characters take.

use std::ops::Range;

use unicode_segmentation::UnicodeSegmentation as _;

use crate::print::cut;
use crate::print::wrap::width;

/// Returns a text as rows of at most `columns` that break between words, and the row and column of the byte `cursor`. After a
/// row that is just full, the cursor is in the next one.
pub fn wrap(
    text: &str,
    cursor: usize,
    columns: usize,
    (first, further): (&str, &str),
) -> (Vec<String>, (usize, usize)) {
    let ranges = ranges(text, columns, (width(first), width(further)));
    let lead = |row| if row == 0 { first } else { further };
    let column = |row: usize, end| width(lead(row)) + width(&shown(&text[ranges[row].start..end]));
    let mut row = ranges.partition_point(|range| range.start <= cursor).max(1) - 1;
    let mut at = column(row, cursor.min(ranges[row].end));
    if at >= columns && row + 1 < ranges.len() {
        row += 1;
        at = width(further);
    }
    let rows = ranges.iter().enumerate();
    let rows = rows.map(|(row, range)| format!("{}{}", lead(row), shown(&text[range.clone()])));
    (rows.collect(), (row, at))
}

/// Returns a part of the text as it is shown.
fn shown(text: &str) -> String {
    text.replace('\t', "    ")
}

/// Returns the parts of the text that are rows. Line ends are between them, and blanks for which there was no room.
fn ranges(text: &str, columns: usize, (first, further): (usize, usize)) -> Vec<Range<usize>> {
    let mut ranges = Vec::new();
    let (mut start, mut at) = (0, first);
    // Where the last word of the row begins.
    let mut word = 0;
    for (place, piece) in text.grapheme_indices(true) {
        let end = place + piece.len();
        let wide = width(&shown(piece));
        let is_blank = matches!(piece, " " | "\t");
        if piece == "\n" || at + wide > columns && is_blank {
            ranges.push(start..place);
            (start, word, at) = (end, end, further);
            continue;
        }
        if at + wide > columns && word > start {
            ranges.push(start..word);
            start = word;
            at = further + width(&shown(&text[start..place]));
        }
        if at + wide > columns {
            ranges.push(start..place);
            (start, word, at) = (place, place, further);
        }
        at += wide;
        if is_blank {
            word = end;
        }
    }
    ranges.push(start..text.len());
    if at >= columns {
        ranges.push(text.len()..text.len());
    }
    ranges
}

/// Returns a line cut to `columns`, with an ellipsis if something is missing. Colours take no room and stay.
pub fn fit(line: &str, columns: usize) -> String {
    if width(line) <= columns {
        return line.to_owned();
    }
    let mut fitted = String::new();
    let mut room = Some(columns.saturating_sub(1));
    let mut rest = line;
    while !rest.is_empty() {
        let begin = rest.find('\x1b').unwrap_or(rest.len());
        let (text, sequence) = rest.split_at(begin);
        if let Some(left) = room {
            let kept = cut(text, left);
            fitted.push_str(kept);
            room = (kept.len() == text.len()).then(|| left - width(kept));
            if room.is_none() {
                fitted.push('…');
            }
        }
        let is_end = |c: char| c.is_ascii_alphabetic();
        let end = sequence.find(is_end).map_or(sequence.len(), |end| end + 1);
        fitted.push_str(&sequence[..end]);
        rest = &sequence[end..];
    }
    fitted
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn texts_break_between_words_and_the_cursor_is_in_its_place() {
        // The cursor is at the sign `|`.
        for (text, rows, cursor) in [
            ("|", &["> "] as &[_], (0, 2)),
            ("abc|", &["> abc"], (0, 5)),
            ("abcdefgh|", &["> abcdefgh", "  "], (1, 2)),
            ("abcdefghi|", &["> abcdefgh", "  i"], (1, 3)),
            ("a\nb|", &["> a", "  b"], (1, 3)),
            ("a|\nb", &["> a", "  b"], (0, 3)),
            ("日本語日本|", &["> 日本語日", "  本"], (1, 4)),
            ("👍🏽 e\u{301}|", &["> 👍🏽 e\u{301}"], (0, 6)),
            (
                "in the terminal|",
                &["> in the ", "  terminal", "  "],
                (2, 2),
            ),
            ("in the term|", &["> in the ", "  term"], (1, 6)),
            ("in |the term", &["> in the ", "  term"], (0, 5)),
            ("in the |term", &["> in the ", "  term"], (1, 2)),
            ("one four five|", &["> one four", "  five"], (1, 6)),
            ("one four| five", &["> one four", "  five"], (1, 2)),
            ("a abcdefghij|", &["> a ", "  abcdefgh", "  ij"], (2, 4)),
            ("\ta|", &["> \u{20}   a"], (0, 7)),
        ] {
            let at = text.find('|').unwrap();
            let (wrapped, place) = wrap(&text.replace('|', ""), at, 10, ("> ", "  "));
            assert_eq!(wrapped, rows, "{text:?}");
            assert_eq!(place, cursor, "{text:?}");
        }
    }

    proptest! {
        /// Whatever is typed: no row is too wide, nothing is lost but line ends and blanks, and the cursor is on the screen.
        #[test]
        fn nothing_that_is_typed_is_lost(text in "[a-z日 \\n]{0,60}", columns in 6_usize..20) {
            let (rows, _) = wrap(&text, 0, columns, ("> ", "  "));
            let letters = |text: &str| text.chars().filter(|c| !c.is_whitespace()).collect::<String>();
            prop_assert_eq!(letters(&rows.concat().replace('>', "")), letters(&text));
            for row in &rows {
                prop_assert!(width(row) <= columns, "{row:?}");
            }
            let mut last = (0, 0);
            for (at, _) in text.char_indices() {
                let (_, place) = wrap(&text, at, columns, ("> ", "  "));
                prop_assert!(place >= last && place.0 < rows.len() && place.1 < columns, "{place:?}");
                last = place;
            }
        }
    }

    #[test]
    fn a_line_is_cut_without_its_colours() {
        for (line, columns, expected) in [
            ("abc", 3, "abc"),
            ("abcd", 3, "ab…"),
            ("日本語", 4, "日…"),
            (
                "\x1b[1mbold\x1b[0m and \x1b[2mdim\x1b[0m",
                6,
                "\x1b[1mbold\x1b[0m …\x1b[2m\x1b[0m",
            ),
            ("\x1b[1mbold\x1b[0m", 4, "\x1b[1mbold\x1b[0m"),
            ("ab", 1, "…"),
        ] {
            assert_eq!(fit(line, columns), expected, "{line:?}");
        }
    }
}
