//! Texts and times in one line.

use ah_conversation::{Time, neutralise};

/// Returns the beginning of a text as one line of at most `width` characters.
pub fn preview(text: &str, width: usize) -> String {
    let line = whole(text);
    match line.char_indices().nth(width) {
        Some((end, _)) => format!("{}...", &line[..end]),
        None => line,
    }
}

/// Returns a text as one line.
pub fn whole(text: &str) -> String {
    let text = neutralise(text);
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Formats a time as `2026-11-20T10:00:00`, in UTC.
pub fn utc(time: Time) -> String {
    match jiff::Timestamp::from_millisecond(time.0) {
        Ok(moment) => moment.strftime("%Y-%m-%dT%H:%M:%S").to_string(),
        Err(_) => "????-??-??T??:??:??".to_owned(),
    }
}
