//! The pieces of an answer in progress without secrets, also where one comes in pieces.

use ah_desk::Piece;

use crate::shown::Shown;

/// Passes on the pieces of answers.
pub(crate) struct Pieces {
    shown: Shown,
    /// The end of a piece that may be the first part of a secret, which comes with the next piece.
    held: Option<Piece>,
}

impl Pieces {
    pub(crate) fn new(shown: Shown) -> Self {
        Self { shown, held: None }
    }

    /// Returns what can be shown once a piece has come.
    pub(crate) fn after(&mut self, mut piece: Piece) -> Vec<Piece> {
        let mut pieces = Vec::new();
        match self.held.take() {
            Some(held) if held.block == piece.block => piece.text.insert_str(0, &held.text),
            other => pieces.extend(other),
        }
        let text = self.shown.redacted(&piece.text);
        let (text, held) = text.split_at(self.shown.safe_length(&text));
        let begins = piece.text.is_empty();
        if !held.is_empty() {
            self.held = Some(Piece {
                text: held.to_owned(),
                ..piece.clone()
            });
        }
        if begins || !text.is_empty() {
            text.clone_into(&mut piece.text);
            pieces.push(piece);
        }
        pieces
    }

    /// Returns what was held back, once something else has come.
    pub(crate) fn rest(&mut self) -> Option<Piece> {
        self.held.take()
    }
}

#[cfg(test)]
mod tests {
    use ah_conversation::Environment;
    use ah_desk::BlockKind;

    use super::*;

    #[test]
    fn a_secret_in_pieces_is_replaced() {
        let secret = ("MY_TOKEN".to_owned(), "a-long-secret".to_owned());
        let environment = Environment::new([secret], "/".into());
        let mut pieces = Pieces::new(Shown::without_secrets_of(environment));
        let mut texts = Vec::new();
        for text in [
            "",
            "It is a-lo",
            "ng-sec",
            "ret, is it?",
            " No, a-long",
            " one: a",
        ] {
            let shown = pieces.after(Piece {
                block: 0,
                kind: BlockKind::Text,
                text: text.to_owned(),
            });
            texts.extend(shown.into_iter().map(|piece| piece.text));
        }
        texts.extend(pieces.rest().map(|piece| piece.text));
        let expected = [
            "",
            "It is ",
            "[MY_TOKEN], is it?",
            " No, ",
            "a-long one: ",
            "a",
        ];
        assert_eq!(texts, expected);
    }
}
