//! What is pasted: much of it stands as a few words in the line that is typed, and comes back when that is said.

use super::app::App;

/// More lines than this are folded.
const LINES: usize = 8;
/// More bytes than this are folded.
const BYTES: usize = 1_000;

/// Puts what was pasted into the line.
pub fn insert(app: &mut App, text: &str) {
    let text = text.replace("\r\n", "\n").replace('\r', "\n");
    let lines = text.lines().count();
    if lines <= LINES && text.len() <= BYTES {
        app.editor.insert(text);
        return;
    }
    app.pastes.push(text);
    app.editor.insert(token(app.pastes.len(), lines));
}

/// The words that stand for the paste of this number.
fn token(number: usize, lines: usize) -> String {
    match lines {
        1 => format!("[pasted #{number}, 1 line]"),
        _ => format!("[pasted #{number}, {lines} lines]"),
    }
}

/// What was typed, with the pastes in the place of the words for them.
pub fn unfold(app: &mut App, typed: &str) -> String {
    let pastes = std::mem::take(&mut app.pastes);
    let mut text = typed.to_owned();
    for (at, paste) in pastes.iter().enumerate().rev() {
        let token = token(at + 1, paste.lines().count());
        text = text.replacen(&token, paste, 1);
    }
    text
}
