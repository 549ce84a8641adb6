//! Connections with TLS. Handshakes are made beside each other, so a client that does not finish its own delays nobody; if too
//! many do not, the next takes the place of the oldest.

use std::collections::VecDeque;
use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use axum::serve::Listener;
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc::{Receiver, channel};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::server::TlsStream;

/// Time for a handshake.
const PATIENCE: Duration = Duration::from_secs(10);
/// Handshakes at once.
const HANDSHAKES: usize = 64;
/// Pause after an error of the system: there are too many open files.
const PAUSE: Duration = Duration::from_millis(100);

/// The server's certificate and key.
#[derive(Clone)]
pub struct Certificate(TlsAcceptor);

impl Certificate {
    /// Reads a chain of certificates, the server's first, and its key, both as PEM.
    ///
    /// # Errors
    ///
    /// If they cannot be read, or do not belong together.
    pub fn read(chain: &Path, key: &Path) -> Result<Self, String> {
        let text = |path: &Path| {
            fs::read(path).map_err(|error| format!("cannot read `{}`: {error}", path.display()))
        };
        let (chain_text, key_text) = (text(chain)?, text(key)?);
        let certificates =
            CertificateDer::pem_slice_iter(&chain_text).collect::<Result<Vec<_>, _>>();
        let certificates = certificates
            .ok()
            .filter(|certificates| !certificates.is_empty())
            .ok_or_else(|| format!("`{}` holds no certificate as PEM", chain.display()))?;
        let own = PrivateKeyDer::from_pem_slice(&key_text)
            .map_err(|_| format!("`{}` holds no private key as PEM", key.display()))?;
        let unusable = |error| format!("the certificate cannot be used: {error}");
        let cryptography = Arc::new(ring::default_provider());
        let mut config = ServerConfig::builder_with_provider(cryptography)
            .with_safe_default_protocol_versions()
            .map_err(unusable)?
            .with_no_client_auth()
            .with_single_cert(certificates, own)
            .map_err(unusable)?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self(TlsAcceptor::from(Arc::new(config))))
    }
}

/// Accepts connections with TLS.
pub(crate) struct TlsListener {
    ready: Receiver<(TlsStream<TcpStream>, SocketAddr)>,
    address: SocketAddr,
}

impl TlsListener {
    /// Begins to accept connections.
    pub(crate) fn new(listener: TcpListener, certificate: Certificate) -> io::Result<Self> {
        let address = listener.local_addr()?;
        let (sender, ready) = channel(1);
        tokio::spawn(async move {
            let mut handshakes = Handshakes::default();
            loop {
                let (stream, peer) = tokio::select! {
                    accepted = listener.accept() => match accepted {
                        Ok(accepted) => accepted,
                        Err(_) => {
                            tokio::time::sleep(PAUSE).await;
                            continue;
                        }
                    },
                    // Nobody serves any more.
                    () = sender.closed() => return,
                };
                let (sender, acceptor) = (sender.clone(), certificate.0.clone());
                handshakes.begin(async move {
                    let shaken = timeout(PATIENCE, acceptor.accept(stream)).await;
                    if let Ok(Ok(stream)) = shaken {
                        // It is no handshake any more. The send fails if nobody serves.
                        tokio::spawn(async move { sender.send((stream, peer)).await });
                    }
                });
            }
        });
        Ok(Self { ready, address })
    }
}

/// Handshakes in progress, oldest first.
#[derive(Default)]
struct Handshakes(VecDeque<JoinHandle<()>>);

impl Handshakes {
    /// Begins one; the oldest ends if there are too many.
    fn begin(&mut self, handshake: impl Future<Output = ()> + Send + 'static) {
        self.0.retain(|handshake| !handshake.is_finished());
        if self.0.len() == HANDSHAKES
            && let Some(oldest) = self.0.pop_front()
        {
            oldest.abort();
        }
        self.0.push_back(tokio::spawn(handshake));
    }
}

impl Listener for TlsListener {
    type Io = TlsStream<TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        match self.ready.recv().await {
            Some(accepted) => accepted,
            // The task has ended with the runtime.
            None => std::future::pending().await,
        }
    }

    fn local_addr(&self) -> io::Result<Self::Addr> {
        Ok(self.address)
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot::{Sender, channel, error::TryRecvError};

    use super::*;

    #[tokio::test]
    async fn the_next_handshake_takes_the_place_of_the_oldest() {
        let mut handshakes = Handshakes::default();
        let mut begin = || {
            let (held, end) = channel();
            handshakes.begin(async move {
                let _held: Sender<()> = held;
                std::future::pending::<()>().await;
            });
            end
        };
        let mut ends: Vec<_> = (0..=HANDSHAKES).map(|_| begin()).collect();
        assert!((&mut ends[0]).await.is_err());
        for end in &mut ends[1..] {
            assert_eq!(end.try_recv(), Err(TryRecvError::Empty));
        }
    }
}
