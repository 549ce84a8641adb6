//! A byte buffer that grows and is truncated at its end, and whose bytes are shared without a copy.

use bytes::Bytes;

/// What stands between two items of a list.
pub const BETWEEN: &[u8] = b",";
/// Size from which on a piece is sealed: shared, and no longer written.
const SEALED: usize = 64 << 10;

/// Bytes in sealed pieces, with an open piece at the end.
#[derive(Debug, Default)]
pub struct Rope {
    sealed: Vec<Bytes>,
    sealed_len: usize,
    open: Vec<u8>,
}

impl Rope {
    /// Returns the number of bytes.
    pub fn len(&self) -> usize {
        self.sealed_len + self.open.len()
    }

    /// Whether `bytes` stand at the offset `at`.
    pub fn has_at(&self, at: usize, bytes: &[u8]) -> bool {
        let mut there = self.split_by(at, &[], "").into_iter().flatten();
        bytes.iter().all(|byte| there.next() == Some(*byte))
    }

    /// Returns the bytes from the offset `from` up to `to`, in pieces.
    pub fn between(&self, from: usize, to: usize) -> impl Iterator<Item = &[u8]> {
        let pieces = self.sealed.iter().map(|piece| &piece[..]);
        let mut end = 0;
        pieces.chain([&self.open[..]]).map(move |piece| {
            let start = end;
            end += piece.len();
            &piece[from.clamp(start, end) - start..to.clamp(start, end) - start]
        })
    }

    /// Begins an item of a list: behind a comma, unless it is the first.
    pub fn begin_item(&mut self) {
        if self.len() > 0 {
            self.push(BETWEEN);
        }
    }

    /// Appends `bytes`.
    pub fn push(&mut self, bytes: &[u8]) {
        self.open.extend_from_slice(bytes);
    }

    /// Seals the open piece if it is large enough.
    pub fn seal(&mut self) {
        if self.open.len() >= SEALED {
            let piece = Bytes::from(std::mem::take(&mut self.open));
            self.sealed_len += piece.len();
            self.sealed.push(piece);
        }
    }

    /// Keeps only the first `len` bytes.
    pub fn truncate(&mut self, len: usize) {
        while self.sealed_len > len {
            let Some(piece) = self.sealed.pop() else {
                break;
            };
            self.sealed_len -= piece.len();
            self.open = piece.into();
        }
        self.open.truncate(len - self.sealed_len);
    }

    /// Returns the bytes from the offset `from` on, with `inserted` at each of the offsets `at`, which ascend.
    pub fn split_by(&self, from: usize, at: &[usize], inserted: &'static str) -> Vec<Bytes> {
        let mut pieces = Vec::with_capacity(self.sealed.len() + 2 * at.len() + 2);
        let mut places = at.iter().copied().filter(|place| *place >= from).peekable();
        let mut start = 0;
        let open = Bytes::copy_from_slice(&self.open);
        for mut piece in self.sealed.iter().cloned().chain([open]) {
            let end = start + piece.len();
            if end <= from {
                start = end;
                continue;
            }
            drop(piece.split_to(from.saturating_sub(start)));
            start = start.max(from);
            while let Some(place) = places.next_if(|place| *place < end) {
                pieces.push(piece.split_to(place - start));
                pieces.push(Bytes::from_static(inserted.as_bytes()));
                start = place;
            }
            pieces.push(piece);
            start = end;
        }
        pieces
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_rope_equals_plain_bytes(
            steps in proptest::collection::vec((0usize..60_000, 0usize..300_000), 1..12),
        ) {
            let mut rope = Rope::default();
            let mut plain = Vec::new();
            for (number, (pushed, kept)) in steps.into_iter().enumerate() {
                let bytes = vec![b'a' + u8::try_from(number).unwrap_or(0); pushed];
                rope.push(&bytes);
                rope.seal();
                plain.extend_from_slice(&bytes);
                let kept = kept.min(plain.len());
                rope.truncate(kept);
                plain.truncate(kept);
                prop_assert_eq!(rope.len(), plain.len());
            }
            let places = [plain.len() / 3, plain.len() / 2];
            let places = if plain.is_empty() { &[][..] } else { &places[..] };
            let from = plain.len() / 2;
            let rest = rope.split_by(from, &[], "").concat();
            prop_assert_eq!(&rest, &plain[from..]);
            let middle: Vec<&[u8]> = rope.between(plain.len() / 3, from).collect();
            prop_assert_eq!(middle.concat(), &plain[plain.len() / 3..from]);
            let split = rope.split_by(0, places, "--").concat();
            for place in places.iter().rev() {
                plain.splice(place..place, *b"--");
            }
            prop_assert_eq!(split, plain);
        }
    }
}
