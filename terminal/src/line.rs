//! Texts and times in one line.

use ah_conversation::{Time, neutralise};

/// Returns the beginning of a text as one line of at most `width` characters.
pub fn preview(text: &str, width: usize) -> String {
    let line = neutralise(text)
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ");
    match line.char_indices().nth(width) {
        Some((end, _)) => format!("{}...", &line[..end]),
        None => line,
    }
}

/// Formats a time as `2026-11-20T10:00:00`, in UTC.
pub fn utc(time: Time) -> String {
    match jiff::Timestamp::from_millisecond(time.0) {
        Ok(moment) => moment.strftime("%Y-%m-%dT%H:%M:%S").to_string(),
        Err(_) => "????-??-??T??:??:??".to_owned(),
    }
}
