//! The output of a call while it runs: the tool writes it, displays read it. It is a copy of the end for those who
//! look in between; the result of the call does not depend on it, unless the call is interrupted.

use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;

/// Number of bytes of the end that are kept.
const KEPT: usize = 64 * 1024;

/// Output so far of a running call. Clones share it.
#[derive(Clone, Default)]
pub struct LiveOutput(Arc<Mutex<End>>);

/// End of an output.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct End {
    /// The last bytes, sometimes more than [`KEPT`].
    bytes: Vec<u8>,
    /// Number of all bytes.
    total: u64,
}

impl LiveOutput {
    /// Appends output.
    pub fn write(&self, bytes: &[u8]) {
        let mut end = self.0.lock();
        end.total += bytes.len() as u64;
        end.bytes
            .extend_from_slice(&bytes[bytes.len().saturating_sub(KEPT)..]);
        // Moving the bytes at each write would cost more than writing them.
        if end.bytes.len() > 2 * KEPT {
            let surplus = end.bytes.len() - KEPT;
            end.bytes.drain(..surplus);
        }
    }

    /// Returns the last bytes, at most `most` and 64 KiB, and the number of those before them.
    pub fn last(&self, most: usize) -> (Vec<u8>, u64) {
        let end = self.0.lock();
        let kept = end.bytes.len().min(most).min(KEPT);
        let bytes = end.bytes[end.bytes.len() - kept..].to_vec();
        (bytes, end.total - kept as u64)
    }

    /// Returns whether nothing was written.
    pub fn is_empty(&self) -> bool {
        self.0.lock().total == 0
    }
}

impl fmt::Debug for LiveOutput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.0.lock().total)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_end_is_the_same_for_any_sequence_of_writes(
            pieces in prop::collection::vec(0usize..200_000, 0..6),
            most in 0usize..100_000,
        ) {
            let all: Vec<u8> = (0..pieces.iter().sum()).map(|at: usize| (at % 251) as u8).collect();
            let live = LiveOutput::default();
            let mut rest = &all[..];
            for length in pieces {
                let (piece, behind) = rest.split_at(length);
                live.clone().write(piece);
                rest = behind;
            }
            let (bytes, before) = live.last(most);
            prop_assert_eq!(bytes.len(), most.min(KEPT).min(all.len()));
            prop_assert!(all.ends_with(&bytes));
            prop_assert_eq!(before, (all.len() - bytes.len()) as u64);
            prop_assert_eq!(live.is_empty(), all.is_empty());
        }
    }
}
