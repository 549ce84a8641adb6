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

/// Returns a line cut to `columns`, with an ellipsis if something is missing.
pub fn fit(line: &str, columns: usize) -> String {
    if width(line) > columns {
        format!("{}…", cut(line, columns.saturating_sub(1)))
    } else {
        line.to_owned()
    }
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
}
