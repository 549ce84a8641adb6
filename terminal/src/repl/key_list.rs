//! The keys, which are shown while a question mark is all that is typed: laid out for the width of the terminal, and scrolled to
//! where its height has no room.

use ah_render::{Line, Palette, Style, wrap};

use super::layout::fit;
use super::slash;
use crate::print::wrap::width;

/// What shows the keys while it is all that is typed.
pub const QUESTION: &str = "?";
/// Where the descriptions begin in a row.
const ABOUT: usize = 16;
/// Lines of a terminal that are kept for others: the rule, the typed text, the line at the bottom, and one that stays free.
const OTHERS: usize = 4;

/// Returns the rows for a terminal of this size, from one of them on; none if it has no room for one and the place in the list.
pub fn shown(from: usize, size: (usize, usize)) -> Vec<String> {
    let (columns, rows, room) = (size.0, rows(size.0), room(size.1));
    if rows.len() <= room {
        return rows;
    }
    let Some(most) = room.checked_sub(1).filter(|most| *most > 0) else {
        return Vec::new();
    };
    let from = from.min(rows.len() - most);
    let place = format!("  {}-{} of {}, Up, Down", from + 1, from + most, rows.len());
    let mut part = rows[from..from + most].to_vec();
    part.push(fit(&place, columns));
    part
}

/// Returns the first row after a step up or down; `None` if all rows are in sight, or none can be.
pub fn step(from: usize, is_down: bool, size: (usize, usize)) -> Option<usize> {
    let (rows, room) = (rows(size.0).len(), room(size.1));
    let last = (rows + 1).saturating_sub(room);
    (rows > room && room > 1).then(|| match is_down {
        true => (from + 1).min(last),
        false => from.min(last).saturating_sub(1),
    })
}

fn room(lines: usize) -> usize {
    lines.saturating_sub(OTHERS)
}

/// Returns all rows: a key and what it does, in two columns if they fit.
fn rows(columns: usize) -> Vec<String> {
    let keys: Vec<_> = { slash::KEYS.lines() }
        .filter(|row| !row.is_empty())
        .collect();
    if keys.iter().all(|row| width(row) <= columns) {
        return keys.into_iter().map(str::to_owned).collect();
    }
    let narrow = |row: &&str| {
        let (key, about) = row.split_at(ABOUT);
        let (about, none) = (Line::of(about, Style::PLAIN), Line::default());
        let lines = wrap(&about, columns.saturating_sub(4).max(1), &none, &none);
        let lines = lines.into_iter();
        let below = lines.map(|line| format!("    {}", line.paint(Palette::Plain).trim_end()));
        std::iter::once(fit(key.trim_end(), columns))
            .chain(below)
            .collect::<Vec<_>>()
    };
    keys.iter().flat_map(narrow).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whatever the size, all words of the list come into sight, and no row is cut or beyond the room.
    #[test]
    fn all_keys_can_be_seen_at_any_size() {
        let words = |rows: &[String]| {
            let words = rows.iter().flat_map(|row| row.split_whitespace());
            words.map(str::to_owned).collect::<Vec<_>>()
        };
        let all: Vec<_> = slash::KEYS.split_whitespace().collect();
        for size in [
            (80, 24),
            (120, 40),
            (60, 24),
            (40, 20),
            (20, 8),
            (80, 8),
            (20, 50),
            (20, 6),
            (20, 5),
            (20, 3),
        ] {
            let (mut from, mut seen) = (0, Vec::new());
            loop {
                let rows = shown(from, size);
                assert!(rows.len() <= size.1.saturating_sub(4), "{size:?}: {rows:?}");
                assert!(rows.iter().all(|row| width(row) <= size.0), "{rows:?}");
                let Some(next) = step(from, true, size) else {
                    seen.extend(rows);
                    break;
                };
                // The first of those that are shown goes next; the last row says which these are.
                let end = match next == from {
                    true => rows.len() - 1,
                    false => 1,
                };
                seen.extend_from_slice(&rows[..end]);
                if next == from {
                    break;
                }
                from = next;
            }
            let all = if size.1 < 6 { &[][..] } else { &all };
            assert_eq!(words(&seen), all, "{size:?}");
            assert_eq!(step(0, false, size).unwrap_or_default(), 0);
        }
    }
}
