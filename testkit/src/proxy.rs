//! A proxy for tunnels (`HTTPS_PROXY`), at the end of which a server of a test speaks TLS, whatever its name.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::{CryptoProvider, ring};
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::server::Server;

/// Longest head of a request, in bytes.
const LONGEST_HEAD: usize = 16 * 1024;

/// A proxy that runs to the end of the process.
pub struct Proxy {
    address: SocketAddr,
    wanted: Arc<Mutex<Vec<String>>>,
}

/// Where tunnels lead.
#[derive(Clone)]
struct End {
    server: SocketAddr,
    tls: TlsAcceptor,
}

impl Proxy {
    /// A proxy that opens no tunnels.
    ///
    /// # Panics
    /// If there is no port, or no runtime.
    pub fn refusing() -> Self {
        Self::start(None)
    }

    /// A proxy all of whose tunnels lead to `server`, which speaks TLS with the [certificate] of `localhost`.
    ///
    /// # Panics
    /// If there is no port, no runtime or no certificate.
    pub fn to(server: &Server) -> Self {
        if CryptoProvider::get_default().is_none() {
            // Another thread may be faster, with the same one.
            let _ = ring::default_provider().install_default();
        }
        let found = "the certificate of the tests";
        let chain = CertificateDer::from_pem_file(certificate()).expect(found);
        let key = PrivateKeyDer::from_pem_file(certificate()).expect(found);
        let config = ServerConfig::builder().with_no_client_auth();
        let config = config.with_single_cert(vec![chain], key).expect(found);
        Self::start(Some(End {
            server: server.address(),
            tls: TlsAcceptor::from(Arc::new(config)),
        }))
    }

    fn start(end: Option<End>) -> Self {
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let address = listener.local_addr().expect("an address");
        let wanted: Arc<Mutex<Vec<String>>> = Arc::default();
        let noted = wanted.clone();
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .expect("a runtime");
            runtime.block_on(async move {
                listener.set_nonblocking(true).expect("a listener");
                let listener = TcpListener::from_std(listener).expect("a listener");
                while let Ok((client, _)) = listener.accept().await {
                    let (end, noted) = (end.clone(), noted.clone());
                    tokio::spawn(async move {
                        // A client may leave at any time.
                        let _ = serve(client, end, &noted).await;
                    });
                }
            });
        });
        Self { address, wanted }
    }

    /// Returns its address, for `HTTPS_PROXY`.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Returns the first line of each request so far.
    pub fn wanted(&self) -> Vec<String> {
        let wanted = self.wanted.lock();
        wanted.clone()
    }
}

/// Returns the file with the certificate of `localhost` and its key.
pub fn certificate() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../http/src/early/localhost.pem")
}

async fn serve(
    mut client: TcpStream,
    end: Option<End>,
    wanted: &Mutex<Vec<String>>,
) -> io::Result<()> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") && head.len() < LONGEST_HEAD {
        head.push(client.read_u8().await?);
    }
    let head = String::from_utf8_lossy(&head);
    let line = head.lines().next().unwrap_or_default().to_owned();
    { wanted.lock() }.push(line);
    let Some(End { server, tls }) = end else {
        return client.write_all(b"HTTP/1.1 403 No\r\n\r\n").await;
    };
    client.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await?;
    let mut client = tls.accept(client).await?;
    let mut server = TcpStream::connect(server).await?;
    copy_bidirectional(&mut client, &mut server).await?;
    Ok(())
}
