//! A question as rows of a terminal. However small it is, the head, the first line of what is asked about and all
//! answers are there; what is left out is said.

use ah_conversation::neutralise;
use ah_render::{Line, Style, wrap};
use unicode_width::UnicodeWidthStr as _;

use super::sheet::{BACK, Sheet, brief, told};

/// Rows of a body that full answers make room for.
const ROOMY: usize = 3;

/// What of a question is shown, and where.
#[derive(Debug, Clone, Copy)]
pub struct Window<'a> {
    /// Columns of the terminal.
    pub columns: usize,
    /// Rows for the question.
    pub rows: usize,
    /// Index of the marked answer.
    pub marked: Option<usize>,
    /// Indices of chosen answers, where several may be chosen.
    pub picked: &'a [usize],
    /// Number of times that the user has turned a page of the body.
    pub page: usize,
}

/// A question as rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shown {
    /// The rows.
    pub rows: Vec<Line>,
    /// Whether something of what is asked about is left out.
    pub is_folded: bool,
}

/// Returns the rows of a question.
pub fn show(sheet: &Sheet, window: Window<'_>) -> Shown {
    let none = Line::default();
    let columns = window.columns.max(8);
    let head = Line::of(&sheet.head, Style::WARNING);
    let head = wrap(&head, columns, &none, &Line::of("  ", Style::PLAIN));
    let body = sheet.body_rows(columns);
    let notes = sheet.note_rows(columns);
    let full = full(sheet, window, columns);
    let slim = slim(sheet, window, columns);
    let short = short(sheet, window, columns);
    let fixed = head.len() + body.len() + notes.len();
    for answers in [&full, &slim] {
        if fixed + answers.len() <= window.rows {
            let rows = [head, body, notes, answers.clone()].concat();
            return Shown {
                rows,
                is_folded: false,
            };
        }
    }
    let least = head.len() + body.len().min(ROOMY);
    let fits = |answers: &&Vec<Line>| least + answers.len() <= window.rows;
    let answers = [full, slim].iter().find(fits).cloned().unwrap_or(short);
    let room = window.rows.saturating_sub(answers.len()).max(1);
    let first = body.len().min(1);
    let (head, is_cut) = beginning(head, sheet, room.saturating_sub(first).max(1), columns);
    let room = room.saturating_sub(head.len());
    let with_notes = if room >= body.len() + notes.len() || room >= notes.len() + ROOMY {
        notes
    } else {
        Vec::new()
    };
    let room = room - with_notes.len();
    let is_folded = is_cut || body.len() > room;
    let body = fold(body, room, window.page, columns);
    Shown {
        rows: [head, body, with_notes, answers].concat(),
        is_folded,
    }
}

/// Returns the head in at most `room` rows, and whether its middle is left out.
fn beginning(head: Vec<Line>, sheet: &Sheet, room: usize, columns: usize) -> (Vec<Line>, bool) {
    if head.len() <= room {
        return (head, false);
    }
    let none = Line::default();
    // Words that are wrapped leave gaps; fewer characters are tried until the rows suffice.
    let mut most = (room * columns).saturating_sub(2 * (room - 1));
    loop {
        let text = brief(&neutralise(&sheet.head), most.max(1));
        let rows = wrap(
            &Line::of(&text, Style::WARNING),
            columns,
            &none,
            &Line::of("  ", Style::PLAIN),
        );
        if rows.len() <= room || most <= 1 {
            return (rows.into_iter().take(room).collect(), true);
        }
        most -= 1;
    }
}

/// Returns the body in at most `room` rows: its beginning and end, or the page that the user has turned to.
fn fold(body: Vec<Line>, room: usize, page: usize, columns: usize) -> Vec<Line> {
    let count = body.len();
    if count <= room {
        return body;
    }
    let mark = |text: String| Line::of(&text, Style::DIM).cut(columns);
    match room {
        0 => Vec::new(),
        1 if page == 0 => vec![ended(&body[0], columns)],
        _ if page > 0 => {
            let step = room.saturating_sub(1).max(1);
            let first = (page * step) % count.next_multiple_of(step);
            let last = (first + step).min(count);
            let mut rows = body[first..last].to_vec();
            rows.push(mark(format!(
                "  {}-{last} of {count} · Ctrl-O more",
                first + 1
            )));
            rows.truncate(room);
            rows
        }
        _ => {
            let end = if room < 6 { 0 } else { room / 3 };
            let begin = room - 1 - end;
            let hidden = count - begin - end;
            let mut rows = body[..begin].to_vec();
            let lines = if hidden == 1 { "line" } else { "lines" };
            rows.push(mark(format!("  ... {hidden} more {lines} (Ctrl-O)")));
            rows.extend_from_slice(&body[count - end..]);
            rows
        }
    }
}

/// Returns a row with an ellipsis at its end, for what is left out below.
fn ended(row: &Line, columns: usize) -> Line {
    let mut row = row.clone();
    row.push(" …", Style::DIM);
    row.cut(columns)
}

/// Returns the sign before an answer.
fn sign(at: usize, sheet: &Sheet, window: Window<'_>) -> (&'static str, Style) {
    let is_marked = window.marked == Some(at);
    let is_picked = window.picked.contains(&at);
    // The way back cannot be picked beside others.
    let is_box = sheet.is_multiple && sheet.answers[at].key != BACK;
    let sign = match (is_marked, is_box, is_picked) {
        (true, false, _) if sheet.is_multiple => "❯  ",
        (false, false, _) if sheet.is_multiple => "   ",
        (true, false, _) => "❯ ",
        (false, false, _) => "  ",
        (true, true, true) => "❯☑ ",
        (true, true, false) => "❯☐ ",
        (false, true, true) => " ☑ ",
        (false, true, false) => " ☐ ",
    };
    (sign, if is_marked { Style::BOLD } else { Style::PLAIN })
}

/// Returns each answer with all that is to be said about it.
fn full(sheet: &Sheet, window: Window<'_>, columns: usize) -> Vec<Line> {
    let width = key_width(sheet);
    let mut rows = Vec::new();
    for (at, answer) in sheet.answers.iter().enumerate() {
        let (sign, style) = sign(at, sheet, window);
        let typed = answer.typed();
        let first = Line::of(&format!("{sign}{typed:width$}  "), style);
        let rest = Line::of(&" ".repeat(first.width().min(columns / 2)), Style::PLAIN);
        let line = Line::of(&told(answer), style);
        rows.extend(wrap(&line, columns, &first, &rest));
    }
    rows
}

/// Returns each answer in one row.
fn slim(sheet: &Sheet, window: Window<'_>, columns: usize) -> Vec<Line> {
    let width = sheet
        .answers
        .iter()
        .map(|it| it.key.width())
        .max()
        .unwrap_or(0);
    let rows = sheet.answers.iter().enumerate().map(|(at, answer)| {
        let (sign, style) = sign(at, sheet, window);
        let text = format!("{sign}{:width$}  {}", answer.key, told(answer));
        Line::of(&text, style).cut(columns)
    });
    rows.collect()
}

/// Returns the answers in a word each, as many in a row as it holds. If there are more rows than the window has, the
/// marked one is among those that are left.
fn short(sheet: &Sheet, window: Window<'_>, columns: usize) -> Vec<Line> {
    let mut rows: Vec<Line> = Vec::new();
    let mut marked = 0;
    for (at, answer) in sheet.answers.iter().enumerate() {
        let (sign, style) = sign(at, sheet, window);
        let sign = sign.strip_suffix(' ').unwrap_or(sign);
        let short = neutralise(&answer.short).replace('\n', " ");
        let text = format!("{sign}{} {short}", answer.key);
        match rows.last_mut() {
            Some(row) if row.width() + 1 + text.width() <= columns => {
                row.push(" ", Style::PLAIN);
                row.push(&text, style);
            }
            _ => rows.push(Line::of(&text, style).cut(columns)),
        }
        if window.marked == Some(at) {
            marked = rows.len();
        }
    }
    let most = window.rows.saturating_sub(1).max(1);
    let hidden = marked.saturating_sub(most);
    rows.into_iter().skip(hidden).take(most).collect()
}

fn key_width(sheet: &Sheet) -> usize {
    let typed = sheet.answers.iter().map(|it| it.typed().width());
    typed.max().unwrap_or(0)
}
