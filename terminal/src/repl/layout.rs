//! Texts as rows of the terminal: wrapped, indented or cut by the columns that characters take.

use unicode_segmentation::UnicodeSegmentation as _;
use unicode_width::UnicodeWidthStr as _;

use crate::print::cut;
use crate::print::wrap::width;

/// Returns a text as rows of at most `columns`, and the column after its last character. After a row that is just full,
/// the cursor is in the next one.
pub fn wrap(text: &str, columns: usize, first: &str, further: &str) -> (Vec<String>, usize) {
    let mut rows = vec![first.to_owned()];
    let mut at = width(first);
    for piece in text.graphemes(true) {
        let (shown, wide) = match piece {
            "\n" => {
                rows.push(further.to_owned());
                at = width(further);
                continue;
            }
            "\t" => ("    ", 4),
            piece => (piece, piece.width()),
        };
        if at + wide > columns {
            rows.push(further.to_owned());
            at = width(further);
        }
        if let Some(row) = rows.last_mut() {
            row.push_str(shown);
        }
        at += wide;
    }
    if at >= columns {
        rows.push(further.to_owned());
        at = width(further);
    }
    (rows, at)
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
    use super::*;

    #[test]
    fn texts_wrap_by_columns_and_report_the_end() {
        for (text, rows, end) in [
            ("", &["> "] as &[_], 2),
            ("abc", &["> abc"], 5),
            ("abcdefgh", &["> abcdefgh", "  "], 2),
            ("abcdefghi", &["> abcdefgh", "  i"], 3),
            ("a\nb", &["> a", "  b"], 3),
            ("日本語日本", &["> 日本語日", "  本"], 4),
            ("👍🏽 e\u{301}", &["> 👍🏽 e\u{301}"], 6),
        ] {
            let (wrapped, column) = wrap(text, 10, "> ", "  ");
            assert_eq!(wrapped, rows, "{text:?}");
            assert_eq!(column, end, "{text:?}");
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
