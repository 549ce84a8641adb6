//! The answer in progress, which is in no transcript yet. It is one value that grows, and a watcher is told what has been added
//! since it looked last: so one that comes late is told all of it, and one that is slow delays nobody. Pure.

use ah_desk::{BlockKind, Piece};

/// The answer in progress.
#[derive(Debug, Default)]
pub(crate) struct Draft {
    /// Number of the answer.
    number: u64,
    blocks: Vec<(BlockKind, String)>,
}

/// What a watcher was told of an answer.
#[derive(Debug, Default)]
pub(crate) struct Told {
    number: u64,
    /// Bytes of each block.
    lengths: Vec<usize>,
}

impl Draft {
    /// Begins another answer.
    pub(crate) fn begin(&mut self) {
        self.number += 1;
        self.blocks.clear();
    }

    /// Ends the answer, which is in the transcript now: there is nothing more to tell of it, and nothing of it is void.
    pub(crate) fn end(&mut self) {
        self.blocks.clear();
    }

    /// Adds a piece. Blocks begin in order; a piece of any other block is left out.
    pub(crate) fn add(&mut self, piece: Piece) {
        if piece.block == self.blocks.len() {
            self.blocks.push((piece.kind, piece.text));
        } else if let Some((_, text)) = self.blocks.get_mut(piece.block) {
            text.push_str(&piece.text);
        }
    }

    /// Returns the pieces that are new, and whether those before are void.
    pub(crate) fn news(&self, told: &mut Told) -> (bool, Vec<Piece>) {
        let is_void = told.number != self.number && !told.lengths.is_empty();
        if told.number != self.number {
            *told = Told {
                number: self.number,
                lengths: Vec::new(),
            };
        }
        told.lengths.resize(self.blocks.len(), 0);
        let blocks = self.blocks.iter().zip(&mut told.lengths).enumerate();
        let news = blocks.filter_map(|(block, ((kind, text), length))| {
            let new = text.get(*length..).filter(|new| !new.is_empty())?;
            *length = text.len();
            Some(Piece {
                block,
                kind: *kind,
                text: new.to_owned(),
            })
        });
        (is_void, news.collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(block: usize, text: &str) -> Piece {
        Piece {
            block,
            kind: BlockKind::Text,
            text: text.to_owned(),
        }
    }

    #[test]
    fn each_watcher_is_told_what_it_does_not_know() {
        let mut draft = Draft::default();
        let (mut early, mut late) = (Told::default(), Told::default());
        draft.begin();
        assert_eq!(draft.news(&mut early), (false, vec![]));
        draft.add(piece(0, "Sal"));
        assert_eq!(draft.news(&mut early), (false, vec![piece(0, "Sal")]));
        draft.add(piece(0, "ve, ami\u{301}ce"));
        draft.add(piece(1, "!"));
        let rest = vec![piece(0, "ve, ami\u{301}ce"), piece(1, "!")];
        assert_eq!(draft.news(&mut early), (false, rest));
        let all = vec![piece(0, "Salve, ami\u{301}ce"), piece(1, "!")];
        assert_eq!(draft.news(&mut late), (false, all));
        assert_eq!(draft.news(&mut late), (false, vec![]));
        // No block comes before the one that precedes it.
        draft.add(piece(7, "x"));
        assert_eq!(draft.news(&mut late), (false, vec![]));
        draft.end();
        assert_eq!(draft.news(&mut late), (false, vec![]));
        assert_eq!(draft.news(&mut Told::default()), (false, vec![]));
        draft.begin();
        assert_eq!(draft.news(&mut late), (false, vec![]));
        draft.add(piece(0, "Sal"));
        assert_eq!(draft.news(&mut early).1, [piece(0, "Sal")]);
        // The request was made again.
        draft.begin();
        draft.add(piece(0, "Ave"));
        assert_eq!(draft.news(&mut early), (true, vec![piece(0, "Ave")]));
        draft.begin();
        assert_eq!(draft.news(&mut early), (true, vec![]));
        assert_eq!(draft.news(&mut early), (false, vec![]));
        assert_eq!(draft.news(&mut Told::default()), (false, vec![]));
    }
}
