//! The bodies of requests.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Frame, SizeHint};

/// Returns the number of bytes of a body in pieces.
pub fn len(body: &[Bytes]) -> u64 {
    body.iter().map(|piece| piece.len() as u64).sum()
}

/// A request body of known length, in pieces that later requests share.
pub struct Pieces {
    pieces: std::vec::IntoIter<Bytes>,
    left: u64,
}

impl Pieces {
    /// A body of these pieces.
    pub fn new(pieces: Vec<Bytes>) -> Self {
        Self {
            left: len(&pieces),
            pieces: pieces.into_iter(),
        }
    }
}

impl http_body::Body for Pieces {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let piece = self.pieces.find(|piece| !piece.is_empty());
        if let Some(piece) = &piece {
            self.left -= piece.len() as u64;
        }
        Poll::Ready(piece.map(|piece| Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}
