//! Tables as text, with columns as wide as their cells.

use unicode_width::UnicodeWidthStr as _;

/// Alignment of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Align {
    /// Left, for text.
    Left,
    /// Right, for numbers.
    Right,
}

/// Returns rows as lines with aligned columns; the last column is not padded.
pub fn table<const N: usize>(aligns: [Align; N], rows: &[[String; N]]) -> String {
    let widths: [usize; N] = std::array::from_fn(|column| {
        rows.iter()
            .map(|row| row[column].width())
            .max()
            .unwrap_or(0)
    });
    let mut lines = String::new();
    for row in rows {
        let cells: [String; N] = std::array::from_fn(|column| {
            let blank = " ".repeat(widths[column] - row[column].width());
            match aligns[column] {
                Align::Left => format!("{}{blank}", row[column]),
                Align::Right => format!("{blank}{}", row[column]),
            }
        });
        lines.push_str(cells.join("  ").trim_end());
        lines.push('\n');
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_they_need_to_be() {
        let rows = [["a", "10", "x"], ["日本", "9", ""]].map(|row| row.map(str::to_owned));
        assert_eq!(
            table([Align::Left, Align::Right, Align::Left], &rows),
            "a     10  x\n日本   9\n"
        );
    }
}
