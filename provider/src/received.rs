//! The body of a response as it is received, ahead of what is decoded.

use std::pin::pin;

use bytes::Bytes;
use futures_core::Stream;
use futures_util::{StreamExt, stream};
use tokio::sync::mpsc;

/// Most pieces of an answer that have arrived and are not decoded yet.
const PIECES_AHEAD: usize = 32;

/// Reads a body in a task of its own, so that pieces are decoded as they arrive. The connection is a task that hands on one piece
/// at a time; a reader that is no task gets one for each poll of the I/O driver, which takes longer than to decode a piece.
pub fn received<E: Send + 'static>(
    body: impl Stream<Item = Result<Bytes, E>> + Send + 'static,
) -> impl Stream<Item = Result<Bytes, E>> {
    let (sender, mut receiver) = mpsc::channel(PIECES_AHEAD);
    tokio::spawn(async move {
        let mut body = pin!(body);
        while let Some(piece) = tokio::select! {
            piece = body.next() => piece,
            // Dropped with its connection, whose server is thinking.
            () = sender.closed() => None,
        } {
            if sender.send(piece).await.is_err() {
                break;
            }
        }
    });
    stream::poll_fn(move |context| receiver.poll_recv(context))
}
