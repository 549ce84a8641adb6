//! Pastes: a long one stands in the typed text as a short token, which is replaced by its text on submit.

use super::editor::Editor;

/// Longest paste in lines that is not folded.
const LINES: usize = 8;
/// Longest paste in bytes that is not folded.
const BYTES: usize = 1_000;

/// Folded pastes of the typed text, in order.
#[derive(Debug, Default)]
pub struct Pastes(Vec<String>);

impl Pastes {
    /// Inserts a paste at the cursor, folded if it is long.
    pub fn insert(&mut self, text: &str, editor: &mut Editor) {
        let text = text.replace("\r\n", "\n").replace('\r', "\n");
        let lines = text.lines().count();
        if lines <= LINES && text.len() <= BYTES {
            editor.insert(text);
            return;
        }
        self.0.push(text);
        editor.insert(token(self.0.len(), lines));
    }

    /// Removes all folded pastes and returns `typed` with their texts in place of the tokens.
    pub fn unfold(&mut self, typed: &str) -> String {
        let mut text = typed.to_owned();
        for (at, paste) in self.0.drain(..).enumerate().rev() {
            let token = token(at + 1, paste.lines().count());
            text = text.replacen(&token, &paste, 1);
        }
        text
    }

    /// Removes all folded pastes.
    pub fn clear(&mut self) {
        self.0.clear();
    }
}

/// Returns the token of a paste, by its 1-based number.
fn token(number: usize, lines: usize) -> String {
    match lines {
        1 => format!("[pasted #{number}, 1 line]"),
        _ => format!("[pasted #{number}, {lines} lines]"),
    }
}
