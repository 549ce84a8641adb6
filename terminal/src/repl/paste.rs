//! Pastes: a long one stands in a typed text as a short token, whose text takes its place where the typed text leaves the
//! editor.

use std::collections::VecDeque;
use std::ops::Range;

use super::editor::Editor;

/// Longest paste in lines that is not folded.
const LINES: usize = 8;
/// Longest paste in bytes that is not folded.
const BYTES: usize = 1_000;
/// Number of earlier pastes that are folded again where a line with their text is called up.
const FORMER: usize = 16;

/// Folded pastes of the typed texts.
#[derive(Debug, Default)]
pub struct Pastes {
    /// Those with a token in a text, by their numbers.
    texts: Vec<Option<String>>,
    /// All tokens so far.
    given: Vec<String>,
    /// Texts without a token any more, the newest last.
    former: VecDeque<String>,
}

impl Pastes {
    /// Inserts a paste at the cursor, folded if it is long.
    pub fn insert(&mut self, text: &str, editor: &mut Editor) {
        let text = text.replace("\r\n", "\n").replace('\r', "\n");
        if text.lines().count() <= LINES && text.len() <= BYTES {
            editor.insert(text);
            return;
        }
        editor.insert(self.fold(text));
    }

    /// Returns a new token for a text.
    fn fold(&mut self, text: String) -> String {
        let token = token(self.texts.len() + 1, text.lines().count());
        self.texts.push(Some(text));
        if !self.given.contains(&token) {
            self.given.push(token.clone());
        }
        token
    }

    /// Returns a line of the history with tokens in place of the pastes that were folded in it.
    pub fn folded(&mut self, line: &str) -> String {
        let mut line = line.to_owned();
        let former = self.former.iter().rev();
        let in_it: Vec<_> = former
            .filter(|text| line.contains(*text))
            .cloned()
            .collect();
        for text in in_it {
            // It may have been a part of a longer one.
            if line.contains(&text) {
                let token = self.fold(text.clone());
                line = line.replace(&text, &token);
            }
        }
        line
    }

    /// Returns `typed` with the pastes in place of their tokens.
    ///
    /// # Errors
    ///
    /// The token of a paste that is no longer known: its text was cleared or sent, and the token was brought back.
    pub fn unfold(&self, typed: &str) -> Result<String, String> {
        let mut text = String::new();
        let mut rest = typed;
        while let Some((at, token)) = first(rest, &self.given) {
            let paste = self.tokens().find(|(known, _)| known == token);
            let (_, paste) = paste.ok_or_else(|| token.clone())?;
            text.push_str(&rest[..at]);
            text.push_str(paste);
            rest = &rest[at + token.len()..];
        }
        text.push_str(rest);
        Ok(text)
    }

    /// Forgets the pastes without a token in one of these texts.
    pub fn keep(&mut self, typed: &[&str]) {
        for (at, paste) in self.texts.iter_mut().enumerate() {
            let is_there = |paste: &String| {
                let token = token(at + 1, paste.lines().count());
                typed.iter().any(|typed| typed.contains(&token))
            };
            if !paste.as_ref().is_some_and(is_there)
                && let Some(gone) = paste.take()
            {
                self.former.retain(|text| *text != gone);
                self.former.push_back(gone);
                self.former
                    .drain(..self.former.len().saturating_sub(FORMER));
            }
        }
        let left = self.texts.iter().rposition(Option::is_some);
        self.texts.truncate(left.map_or(0, |at| at + 1));
    }

    /// Returns the tokens with their texts.
    pub fn tokens(&self) -> impl Iterator<Item = (String, &str)> {
        let pastes = self.texts.iter().enumerate();
        pastes.filter_map(|(at, paste)| {
            let paste = paste.as_ref()?;
            Some((token(at + 1, paste.lines().count()), paste.as_str()))
        })
    }
}

/// Returns the place of the token that comes first in a text.
fn first<'a>(text: &str, tokens: &'a [String]) -> Option<(usize, &'a String)> {
    let places = tokens
        .iter()
        .filter_map(|token| Some((text.find(token)?, token)));
    places.min_by_key(|(at, _)| *at)
}

/// Returns the place of a token that ends at the cursor, or begins there.
pub fn at_cursor(text: &str, cursor: usize, is_before: bool, token: &str) -> Option<Range<usize>> {
    match is_before {
        true => { text[..cursor].ends_with(token) }.then(|| cursor - token.len()..cursor),
        false => { text[cursor..].starts_with(token) }.then(|| cursor..cursor + token.len()),
    }
}

/// Returns the token of a paste, by its 1-based number.
fn token(number: usize, lines: usize) -> String {
    match lines {
        1 => format!("[pasted #{number}, 1 line]"),
        _ => format!("[pasted #{number}, {lines} lines]"),
    }
}

#[cfg(test)]
mod tests {
    use ah_config::settings::conversation::EditorMode;

    use super::*;

    #[test]
    fn a_token_is_replaced_by_its_paste_as_often_as_it_stands_and_not_in_other_pastes() {
        let mut editor = Editor::new(EditorMode::Emacs);
        let mut pastes = Pastes::default();
        let lines = "one\n".repeat(9);
        pastes.insert(&lines, &mut editor);
        let first = editor.take();
        let naming = format!("{first}{}", "x".repeat(1000));
        pastes.insert(&naming, &mut editor);
        let second = editor.take();
        assert_eq!(
            pastes.unfold(&format!("{second} and {first} or {first}")),
            Ok(format!("{naming} and {lines} or {lines}"))
        );
        pastes.keep(&["see", &second]);
        assert_eq!(pastes.unfold(&second), Ok(naming));
        assert_eq!(pastes.unfold(&first), Err(first.clone()));
        // Words that only look like one.
        assert_eq!(
            pastes.unfold("[pasted #7, 9 lines]"),
            Ok("[pasted #7, 9 lines]".to_owned())
        );
        // Numbers are given again from the last that is left.
        pastes.keep(&[]);
        pastes.insert(&lines, &mut editor);
        assert_eq!(editor.take(), first);
        assert_eq!(pastes.unfold(&first), Ok(lines));
    }
}
