//! Connections from which no request with the token has come yet. Anybody can open those, so there are few of them, and
//! not for long: they must not use up what the owner's requests need. And the end of all connections with the server.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::extract::connect_info::Connected;
use axum::serve::{IncomingStream, Listener};
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_util::sync::CancellationToken;

/// Time until the first request with the token.
const PATIENCE: Duration = Duration::from_secs(10);
/// Strangers at once. The next one takes the place of the first: one who knows the token shows it at once.
const STRANGERS: usize = 64;

/// Accepts connections as those of strangers.
pub(crate) struct Doorstep<L> {
    listener: L,
    strangers: Arc<Mutex<VecDeque<Visitor>>>,
    /// Ends all connections when cancelled.
    closed: CancellationToken,
}

/// Who has made a connection.
#[derive(Debug, Clone)]
pub(crate) struct Visitor {
    is_let_in: Arc<AtomicBool>,
    /// Ends the connection of a stranger.
    sent_away: CancellationToken,
}

/// A connection.
pub(crate) struct Guest<S> {
    stream: S,
    visitor: Visitor,
    /// Completes when it has to end.
    end: Pin<Box<dyn Future<Output = ()> + Send>>,
}

impl<L> Doorstep<L> {
    pub(crate) fn new(listener: L, closed: CancellationToken) -> Self {
        Self {
            listener,
            strangers: Arc::default(),
            closed,
        }
    }

    fn visit<S>(&self, stream: S) -> Guest<S> {
        let visitor = Visitor {
            is_let_in: Arc::default(),
            sent_away: CancellationToken::new(),
        };
        enter(&mut self.strangers.lock(), visitor.clone());
        let (closed, known) = (self.closed.clone(), visitor.clone());
        Guest {
            stream,
            visitor,
            end: Box::pin(async move {
                tokio::select! {
                    () = closed.cancelled() => {}
                    () = known.stays_strange() => {}
                }
            }),
        }
    }
}

/// Adds a stranger; the oldest goes if there are too many.
fn enter(strangers: &mut VecDeque<Visitor>, new: Visitor) {
    strangers.retain(Visitor::is_strange);
    if strangers.len() >= STRANGERS
        && let Some(oldest) = strangers.pop_front()
    {
        oldest.sent_away.cancel();
    }
    strangers.push_back(new);
}

impl Visitor {
    /// Notes that a request with the token has come.
    pub(crate) fn let_in(&self) {
        self.is_let_in.store(true, Ordering::Relaxed);
    }

    /// Whether the connection is there, and nobody has shown the token.
    fn is_strange(&self) -> bool {
        !self.is_let_in.load(Ordering::Relaxed) && !self.sent_away.is_cancelled()
    }

    /// Completes when the connection is to end because no request with the token has come.
    async fn stays_strange(&self) {
        // Whether it is let in meanwhile is seen then.
        let _ = tokio::time::timeout(PATIENCE, self.sent_away.cancelled()).await;
        if self.is_let_in.load(Ordering::Relaxed) {
            std::future::pending::<()>().await;
        }
    }
}

impl<L: Listener<Addr = SocketAddr>> Listener for Doorstep<L> {
    type Io = Guest<L::Io>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        let (stream, address) = self.listener.accept().await;
        (self.visit(stream), address)
    }

    fn local_addr(&self) -> io::Result<Self::Addr> {
        self.listener.local_addr()
    }
}

impl<L: Listener<Addr = SocketAddr>> Connected<IncomingStream<'_, Doorstep<L>>> for Visitor {
    fn connect_info(stream: IncomingStream<'_, Doorstep<L>>) -> Self {
        stream.io().visitor.clone()
    }
}

impl<S> Guest<S> {
    /// Returns an error once the connection has to end.
    fn check(&mut self, context: &mut Context<'_>) -> io::Result<()> {
        match self.end.as_mut().poll(context) {
            Poll::Ready(()) => {
                // A completed future is not asked again.
                self.end = Box::pin(std::future::ready(()));
                Err(io::ErrorKind::TimedOut.into())
            }
            Poll::Pending => Ok(()),
        }
    }
}

impl<S> Drop for Guest<S> {
    fn drop(&mut self) {
        // It takes no place any more.
        self.visitor.sent_away.cancel();
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Guest<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.check(context)?;
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Guest<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.check(context)?;
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.check(context)?;
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.check(context)?;
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt as _;

    use super::*;

    fn doorstep() -> Doorstep<()> {
        Doorstep::new((), CancellationToken::new())
    }

    /// How reading ends; `None` if it goes on.
    async fn read(guest: &mut Guest<tokio::io::DuplexStream>) -> Option<io::ErrorKind> {
        let read = tokio::time::timeout(2 * PATIENCE, guest.read_u8()).await;
        Some(read.ok()?.expect_err("nothing is said").kind())
    }

    #[tokio::test(start_paused = true)]
    async fn a_stranger_has_to_show_the_token_soon() {
        let doorstep = doorstep();
        let (_other, ours) = tokio::io::duplex(8);
        let mut guest = doorstep.visit(ours);
        assert_eq!(read(&mut guest).await, Some(io::ErrorKind::TimedOut));
        let (_other, ours) = tokio::io::duplex(8);
        let mut guest = doorstep.visit(ours);
        guest.visitor.let_in();
        assert_eq!(read(&mut guest).await, None);
        doorstep.closed.cancel();
        assert_eq!(read(&mut guest).await, Some(io::ErrorKind::TimedOut));
    }

    #[tokio::test(start_paused = true)]
    async fn the_oldest_stranger_goes_if_there_are_too_many() {
        let doorstep = doorstep();
        let guest = || {
            let (other, ours) = tokio::io::duplex(8);
            (other, doorstep.visit(ours))
        };
        let mut guests: Vec<_> = (0..STRANGERS).map(|_| guest()).collect();
        guests[0].1.visitor.let_in();
        // One takes the place of the one that is let in, and one that of the oldest stranger.
        guests.extend([guest(), guest()]);
        let sent_away = |at: usize| guests[at].1.visitor.sent_away.is_cancelled();
        assert_eq!([0, 1, 2].map(sent_away), [false, true, false]);
    }
}
