//! Explains why a text is not in a file: the likely mistake of the model, or the place that it probably meant.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::ops::Range;

use bstr::ByteSlice;

/// Limits for the lines of the wanted text that are compared and for those of the place that are shown.
const COMPARED: usize = 40;
const SHOWN: usize = 20;
/// Number of characters of a line that are compared.
const WIDTH: usize = 300;
/// Limit for the places at which all lines are compared, and how alike they must be (0 to 1).
const PLACES: usize = 20;
const ALIKE: f32 = 0.5;
/// Limit for the size of a file that is searched for similar text.
const SEARCHED: usize = 4 << 20;
/// Length of a text that is not found by chance.
const TELLING: usize = 10;

/// Returns the continuation of "is not in the file".
pub(super) fn explain(content: &[u8], old: &str, new: &str) -> String {
    let without_numbers = without_line_numbers(old);
    if without_numbers.is_some_and(|text| content.contains_str(text)) {
        return ": it has the line numbers of `read` in it, leave them out".into();
    }
    if content.len() > SEARCHED {
        return ": read the lines in question again".into();
    }
    let text = content.to_str_lossy();
    let lines: Vec<&str> = text.lines().collect();
    let wanted: Vec<&str> = old.lines().collect();
    if let Some(place) = differing_in_white_space(&lines, &wanted) {
        return format!(
            ": {} only in white space{}",
            match place.len() {
                1 => format!("line {} differs", place.start + 1),
                _ => format!("lines {}-{} differ", place.start + 1, place.end),
            },
            numbered(&lines, &place)
        );
    }
    if new.trim().len() >= TELLING
        && let Some(at) = content.find(new)
    {
        let line = content[..at].find_iter("\n").count() + 1;
        return format!(", but new_string is, at line {line}: the edit may have been made already");
    }
    match nearest(&lines, &wanted) {
        Some(place) => {
            let named = match place.len() {
                1 => format!("line {} comes", place.start + 1),
                _ => format!("lines {}-{} come", place.start + 1, place.end),
            };
            format!(": {named} nearest{}", numbered(&lines, &place))
        }
        None => " nor anything like it: read the file again".into(),
    }
}

/// Returns the text without line numbers of `read`, if each line has one.
fn without_line_numbers(text: &str) -> Option<String> {
    let strip = |line: &str| {
        let (number, rest) = line.split_once('\t')?;
        let number = number.trim_start();
        let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
        is_number.then(|| rest.to_owned())
    };
    let lines = text.lines().map(strip).collect::<Option<Vec<_>>>()?;
    Some(lines.join("\n"))
}

/// Returns the first place whose lines differ from the wanted ones only in white space and in empty lines at either end.
/// The first and the last wanted line may be parts of lines.
fn differing_in_white_space(lines: &[&str], wanted: &[&str]) -> Option<Range<usize>> {
    let squeeze = |line: &&str| line.split_whitespace().collect::<String>();
    let wanted: Vec<_> = wanted.iter().map(squeeze).collect();
    let start = wanted.iter().position(|line| !line.is_empty())?;
    let end = wanted.iter().rposition(|line| !line.is_empty())? + 1;
    let wanted = &wanted[start..end];
    let lines: Vec<_> = lines.iter().map(squeeze).collect();
    let last = wanted.len() - 1;
    let is_there = |place: &[String]| match last {
        0 => place[0].contains(&wanted[0]),
        _ => {
            place[0].ends_with(&wanted[0])
                && place[1..last] == wanted[1..last]
                && place[last].starts_with(&wanted[last])
        }
    };
    let at = lines.windows(wanted.len()).position(is_there)?;
    Some(at..at + wanted.len())
}

/// Returns the place whose lines are most like the wanted ones, if any is like them.
fn nearest(lines: &[&str], wanted: &[&str]) -> Option<Range<usize>> {
    let wanted = &wanted[..wanted.len().min(COMPARED)];
    // All lines are compared only at places with a line similar to the longest one, which is the most distinctive.
    let (anchor, telling) = wanted
        .iter()
        .enumerate()
        .max_by_key(|(_, line)| line.trim().len())?;
    let letters = Letters::of(telling);
    let mut places: Vec<_> = lines
        .iter()
        .enumerate()
        .map(|(at, line)| (letters.shared(line), at))
        .filter(|(shared, _)| *shared >= ALIKE)
        .collect();
    places.sort_by(|(one, at), (other, later)| other.total_cmp(one).then(at.cmp(later)));
    let mut best: Option<(f32, Range<usize>)> = None;
    for (_, at) in places.into_iter().take(PLACES) {
        let start = at.saturating_sub(anchor);
        let place = start..(start + wanted.len()).min(lines.len());
        let alike = alike(&lines[place.clone()], wanted);
        if alike >= ALIKE && best.as_ref().is_none_or(|(most, _)| alike > *most) {
            best = Some((alike, place));
        }
    }
    best.map(|(_, place)| place)
}

/// Returns how alike two runs of lines are on average, from 0 to 1.
fn alike(lines: &[&str], wanted: &[&str]) -> f32 {
    let pairs = lines.iter().zip(wanted);
    let sum: f32 = pairs
        .map(|(line, wanted)| ah_diff::likeness(&narrow(line), &narrow(wanted)))
        .sum();
    sum / wanted.len() as f32
}

fn narrow(line: &str) -> String {
    line.trim().chars().take(WIDTH).collect()
}

/// Counts of the characters of a line, from which an upper bound of the likeness to another line follows quickly.
struct Letters {
    counts: HashMap<char, usize>,
    len: usize,
}

impl Letters {
    fn of(line: &str) -> Self {
        let line = narrow(line);
        let mut counts = HashMap::new();
        for letter in line.chars() {
            *counts.entry(letter).or_default() += 1;
        }
        Self {
            counts,
            len: line.chars().count(),
        }
    }

    fn shared(&self, line: &str) -> f32 {
        let mut left = self.counts.clone();
        let (mut shared, mut len) = (0, 0);
        for letter in line.trim().chars().take(WIDTH) {
            len += 1;
            if let Some(count) = left.get_mut(&letter).filter(|count| **count > 0) {
                *count -= 1;
                shared += 1;
            }
        }
        if len + self.len == 0 {
            return 0.0;
        }
        2.0 * shared as f32 / (len + self.len) as f32
    }
}

/// Returns the lines of a place with line numbers, each behind a line end.
fn numbered(lines: &[&str], place: &Range<usize>) -> String {
    let mut text = String::new();
    for at in place.clone().take(SHOWN) {
        let line: String = lines[at].chars().take(WIDTH).collect();
        let _ = write!(text, "\n{}\t{line}", at + 1);
    }
    if place.len() > SHOWN {
        text.push_str("\n…");
    }
    text
}
