//! Layout of tables.

use pulldown_cmark::Alignment;

use crate::{Line, Style, wrap};

/// Column separator.
const SEPARATOR: &str = " │ ";
/// Minimum width of a column with longer content.
const MIN_WIDTH: usize = 4;

/// A table: rows of cells, of which the first row is the header.
pub struct Table {
    aligns: Vec<Alignment>,
    /// The lines of each cell.
    rows: Vec<Vec<Vec<Line>>>,
}

impl Table {
    pub fn new(aligns: Vec<Alignment>) -> Self {
        Self {
            aligns,
            rows: vec![Vec::new()],
        }
    }

    pub fn begin_row(&mut self) {
        self.rows.push(Vec::new());
    }

    pub fn push(&mut self, cell: Vec<Line>) {
        if let Some(row) = self.rows.last_mut() {
            row.push(cell);
        }
    }

    /// Returns the table in at most `width` columns. Wide cells are wrapped; if columns would become too narrow, the cells
    /// are listed one below the other.
    pub fn rows(&self, width: usize) -> Vec<Line> {
        let count = self.aligns.len();
        let Some(room) = width.checked_sub(SEPARATOR.chars().count() * count.saturating_sub(1))
        else {
            return self.stacked(width);
        };
        match fit(&self.natural(), room) {
            Some(widths) => self.side_by_side(&widths),
            None => self.stacked(width),
        }
    }

    /// The width of each column without wrapping.
    fn natural(&self) -> Vec<usize> {
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.flatten().map(Line::width).max().unwrap_or(0)
        };
        (0..self.aligns.len()).map(width).collect()
    }

    fn side_by_side(&self, widths: &[usize]) -> Vec<Line> {
        let mut rows = Vec::new();
        for (index, row) in self.rows.iter().enumerate() {
            let cells: Vec<Vec<Line>> = widths
                .iter()
                .enumerate()
                .map(|(column, width)| cell(row.get(column), *width))
                .collect();
            let height = cells.iter().map(Vec::len).max().unwrap_or(0);
            for line in 0..height {
                let mut joined = Line::default();
                for (column, width) in widths.iter().enumerate() {
                    if column > 0 {
                        joined.push(SEPARATOR, Style::DIM);
                    }
                    let part = cells[column].get(line).cloned().unwrap_or_default();
                    let is_last = column + 1 == widths.len();
                    align(&mut joined, &part, self.aligns[column], *width, is_last);
                }
                rows.push(joined);
            }
            if index == 0 {
                let rules: Vec<_> = widths.iter().map(|width| "─".repeat(*width)).collect();
                rows.push(Line::of(&rules.join("─┼─"), Style::DIM));
            }
        }
        rows
    }

    /// One line `head: cell` per cell, with a blank line between rows.
    fn stacked(&self, width: usize) -> Vec<Line> {
        let mut rows = Vec::new();
        let Some((heads, body)) = self.rows.split_first() else {
            return rows;
        };
        let indent = Line::of("  ", Style::PLAIN);
        for (index, row) in body.iter().enumerate() {
            if index > 0 {
                rows.push(Line::default());
            }
            for (column, cell) in row.iter().enumerate() {
                let mut line = heads
                    .get(column)
                    .map(|head| joined(head))
                    .unwrap_or_default();
                line.push(": ", Style::DIM);
                line.append(&joined(cell));
                rows.extend(wrap(&line, width, &Line::default(), &indent));
            }
        }
        rows
    }
}

fn joined(cell: &[Line]) -> Line {
    let mut line = Line::default();
    for (index, part) in cell.iter().enumerate() {
        if index > 0 {
            line.push(" ", Style::PLAIN);
        }
        line.append(part);
    }
    line
}

fn cell(lines: Option<&Vec<Line>>, width: usize) -> Vec<Line> {
    let lines = lines.into_iter().flatten();
    let none = Line::default();
    lines
        .flat_map(|line| wrap(line, width, &none, &none))
        .collect()
}

fn align(row: &mut Line, part: &Line, align: Alignment, width: usize, is_last: bool) {
    let blank = width.saturating_sub(part.width());
    let before = match align {
        Alignment::None | Alignment::Left => 0,
        Alignment::Center => blank / 2,
        Alignment::Right => blank,
    };
    row.push(&" ".repeat(before), Style::PLAIN);
    row.append(part);
    if !is_last {
        row.push(&" ".repeat(blank - before), Style::PLAIN);
    }
}

/// The widths of the columns in `room`; the widest columns are reduced first. `None` if a column would be too narrow.
fn fit(natural: &[usize], room: usize) -> Option<Vec<usize>> {
    if natural.iter().sum::<usize>() <= room {
        return Some(natural.to_vec());
    }
    let total = |most: usize| natural.iter().map(|width| *width.min(&most)).sum::<usize>();
    let most = (MIN_WIDTH..room).rev().find(|most| total(*most) <= room)?;
    let mut widths: Vec<usize> = natural.iter().map(|width| *width.min(&most)).collect();
    let mut left = room - widths.iter().sum::<usize>();
    for (width, natural) in widths.iter_mut().zip(natural) {
        if left > 0 && *width < *natural {
            *width += 1;
            left -= 1;
        }
    }
    Some(widths)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_widest_columns_are_reduced_first() {
        for (natural, room, expected) in [
            ([3, 5].as_slice(), 10, Some(vec![3, 5])),
            (&[3, 20], 10, Some(vec![3, 7])),
            (&[30, 20], 11, Some(vec![6, 5])),
            (&[1, 1, 30], 8, Some(vec![1, 1, 6])),
            (&[30, 20], 7, None),
        ] {
            assert_eq!(fit(natural, room), expected, "{natural:?} in {room}");
        }
    }
}
