//! What is shown of a session that is taken up: which one it is, and what was said last.

use std::sync::Arc;

use ah_conversation::{Message, Role};
use ah_render::{Line, Markdown, Palette, Style};

/// So many rows of the last words are shown.
const ROWS: usize = 12;

/// How it is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Laid out for so many columns.
    Drawn(usize, Palette),
    /// As lines of text.
    Plain,
}

/// The session's id, and the end of what was said in it.
pub fn text(id: &str, messages: &[Arc<Message>], form: Form) -> String {
    let said = |role: Role| {
        let of_role = { messages.iter().rev() }
            .filter(|message| message.role == role && !message.is_summary());
        let texts = of_role.map(|message| message.text());
        texts
            .map(|text| text.trim().to_owned())
            .find(|text| !text.is_empty())
    };
    let mut rows = vec![Line::of(
        &format!("session {id}, {} messages", messages.len()),
        Style::DIM,
    )];
    if let Some(prompt) = said(Role::User) {
        rows.push(Line::default());
        let lines = prompt
            .lines()
            .zip(["> "].into_iter().chain(std::iter::repeat("  ")));
        let lines: Vec<_> = lines
            .map(|(line, sign)| Line::of(&format!("{sign}{line}"), Style::BOLD))
            .collect();
        rows.extend(last(lines));
    }
    if let Some(answer) = said(Role::Assistant) {
        rows.push(Line::default());
        rows.extend(last(match form {
            Form::Drawn(width, _) => laid_out(&answer, width),
            Form::Plain => answer
                .lines()
                .map(|line| Line::of(line, Style::PLAIN))
                .collect(),
        }));
    }
    let palette = match form {
        Form::Drawn(_, palette) => palette,
        Form::Plain => Palette::Plain,
    };
    rows.iter().map(|row| row.paint(palette) + "\n").collect()
}

fn laid_out(text: &str, width: usize) -> Vec<Line> {
    let mut markdown = Markdown::new(width);
    let mut rows = markdown.feed(text);
    rows.extend(markdown.finish());
    rows
}

/// The end of some rows, with a sign where there were more.
fn last(mut rows: Vec<Line>) -> Vec<Line> {
    if rows.len() > ROWS {
        rows.drain(..=rows.len() - ROWS);
        rows.insert(0, Line::of("…", Style::DIM));
    }
    rows
}
