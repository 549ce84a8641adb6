//! The words of a command line as they are stored.

use ah_conversation::json;

/// Returns the column of a command; `None` for a prompt.
pub fn stored(words: &[String]) -> Option<String> {
    let text = (!words.is_empty()).then(|| serde_json::to_string(words));
    // Strings are always JSON.
    text.and_then(Result::ok)
}

/// Returns the words of a column; text that is no list is one word, which no worker runs.
pub fn of(column: Option<String>) -> Vec<String> {
    column.map_or_else(Vec::new, |text| {
        json::from_str(&text).unwrap_or_else(|_| vec![text])
    })
}
