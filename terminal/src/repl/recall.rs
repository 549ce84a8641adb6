//! The text shown when a session is opened again: its id and the last messages.

use std::sync::Arc;

use ah_conversation::{Message, Role};
use ah_render::{Line, Markdown, Palette, Style};

/// Number of rows shown of each message.
const ROWS: usize = 12;

/// Layout of the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// Markdown laid out for this width.
    Drawn(usize, Palette),
    /// Plain lines.
    Plain,
}

/// Returns the session's id, the last prompt and the last answer.
pub fn text(id: &str, messages: &[Arc<Message>], layout: Layout) -> String {
    let said = |role: Role| {
        messages
            .iter()
            .rev()
            .filter(|message| message.role == role && !message.is_summary())
            .map(|message| message.said().trim().to_owned())
            .find(|text| !text.is_empty())
    };
    let mut rows = vec![Line::of(
        &format!("session {id}, {} messages", messages.len()),
        Style::DIM,
    )];
    if let Some(prompt) = said(Role::User) {
        rows.push(Line::default());
        let signs = ["> "].into_iter().chain(std::iter::repeat("  "));
        let lines: Vec<_> = prompt
            .lines()
            .zip(signs)
            .map(|(line, sign)| Line::of(&format!("{sign}{line}"), Style::BOLD))
            .collect();
        rows.extend(last(lines));
    }
    if let Some(answer) = said(Role::Assistant) {
        rows.push(Line::default());
        rows.extend(last(match layout {
            Layout::Drawn(width, _) => laid_out(&answer, width),
            Layout::Plain => answer
                .lines()
                .map(|line| Line::of(line, Style::PLAIN))
                .collect(),
        }));
    }
    let palette = match layout {
        Layout::Drawn(_, palette) => palette,
        Layout::Plain => Palette::Plain,
    };
    rows.iter().map(|row| row.paint(palette) + "\n").collect()
}

fn laid_out(text: &str, width: usize) -> Vec<Line> {
    let mut markdown = Markdown::new(width);
    let mut rows = markdown.feed(text);
    rows.extend(markdown.finish());
    rows
}

/// Returns the last rows, with an ellipsis if there were more.
fn last(mut rows: Vec<Line>) -> Vec<Line> {
    if rows.len() > ROWS {
        rows.drain(..=rows.len() - ROWS);
        rows.insert(0, Line::of("…", Style::DIM));
    }
    rows
}
