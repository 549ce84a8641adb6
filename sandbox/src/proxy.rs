//! Proxy of the sandbox, its only way out: tunnels and plain HTTP to allowed hosts.
//!
//! The proxy runs in this process, on a listener created inside the sandbox. It resolves a name once, checks the
//! address, and connects to that address. A refusal names the option that would allow the host.

pub(crate) mod request;
pub(crate) mod thread;

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use crate::allowlist::{Allowlist, Authority, Egress, Host};
use crate::host_policy::{AskHost, ConnectionPermit, HostPolicy};
use request::{ProxyRequest, Refusal, head_length, parse, response};

/// Time limit for receiving a request head.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// Time limit for resolving a name, and for connecting to an address.
const DIAL_TIMEOUT: Duration = Duration::from_secs(10);
/// Longest silence of both sides. A model may think for minutes before it answers.
const IDLE_TIMEOUT: Duration = Duration::from_secs(15 * 60);
/// Largest number of simultaneous connections.
const MOST_CONNECTIONS: usize = 256;
/// Largest number of refusals kept until they are taken.
const MOST_REFUSALS: usize = 16;
const BUFFER: usize = 64 * 1024;

/// Proxy of one sandbox.
#[derive(Clone)]
pub struct Proxy {
    policy: Arc<HostPolicy>,
    free: Arc<Semaphore>,
    refused: Arc<Mutex<Vec<String>>>,
}

impl Proxy {
    /// Returns a proxy that enforces `allowlist`.
    pub fn new(allowlist: Allowlist) -> Self {
        Self {
            policy: Arc::new(HostPolicy::new(allowlist)),
            free: Arc::new(Semaphore::new(MOST_CONNECTIONS)),
            refused: Arc::default(),
        }
    }

    /// Returns a proxy that also allows the hosts of `more`. Both share the user's answers, not the refusals.
    #[must_use]
    pub fn extended(&self, more: &Allowlist) -> Self {
        Self {
            policy: Arc::new(self.policy.extended(more)),
            free: Arc::new(Semaphore::new(MOST_CONNECTIONS)),
            refused: Arc::default(),
        }
    }

    /// Sets the callback for hosts that are not listed. It is called for one host at a time; connections to that host
    /// wait for its result.
    pub fn set_prompt(&self, ask: AskHost) {
        self.policy.set_prompt(ask);
    }

    /// Returns the allowlist.
    pub fn allowlist(&self) -> &Allowlist {
        self.policy.allowlist()
    }

    /// Checks whether a host may be reached, and asks the user if necessary.
    ///
    /// # Errors
    ///
    /// If it may not, with the option that would allow it.
    pub async fn authorize(
        &self,
        to: &Authority,
        egress: Egress,
    ) -> Result<ConnectionPermit, String> {
        let permit = self.policy.authorize(to, egress).await;
        permit.map_err(|refusal| refusal.reason)
    }

    /// Returns why connections were refused since the last call: for each host a sentence with the option that would
    /// allow it. Clients seldom show the response that says so.
    pub fn take_refusals(&self) -> Vec<String> {
        std::mem::take(&mut self.refused.lock())
    }

    fn note(&self, refusal: &Refusal) {
        let mut refused = self.refused.lock();
        let is_forbidden = refusal.status == request::FORBIDDEN;
        if is_forbidden && refused.len() < MOST_REFUSALS && !refused.contains(&refusal.reason) {
            refused.push(refusal.reason.clone());
        }
    }

    /// Serves connections to a TCP listener until dropped.
    pub async fn serve_tcp(self, listener: tokio::net::TcpListener) {
        self.serve_all(async || {
            let (client, _) = listener.accept().await?;
            let _ = client.set_nodelay(true);
            Ok(client)
        })
        .await;
    }

    /// Serves connections to a Unix socket until dropped.
    pub async fn serve_unix(self, listener: tokio::net::UnixListener) {
        self.serve_all(async || Ok(listener.accept().await?.0))
            .await;
    }

    async fn serve_all<Client>(self, accept: impl AsyncFn() -> io::Result<Client>)
    where
        Client: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        loop {
            let permit = self.free.clone().acquire_owned().await;
            match accept().await {
                Ok(client) => {
                    let proxy = self.clone();
                    tokio::spawn(async move {
                        proxy.serve(client).await;
                        drop(permit);
                    });
                }
                // The connection was reset before it was accepted, or no file descriptor is free.
                Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
            }
        }
    }

    /// Serves one connection. A refused request gets an HTTP error response; other errors close the connection.
    pub async fn serve(&self, mut client: impl AsyncRead + AsyncWrite + Unpin) {
        if let Err(ConnectionError::Refused(refusal)) = self.tunnel(&mut client).await {
            // Before the client knows, so that whoever waits for its end finds the note.
            self.note(&refusal);
            let _ = client.write_all(response(&refusal).as_bytes()).await;
            let _ = client.shutdown().await;
        }
    }

    async fn tunnel(
        &self,
        client: &mut (impl AsyncRead + AsyncWrite + Unpin),
    ) -> Result<(), ConnectionError> {
        let (head, early) = timeout(REQUEST_TIMEOUT, read_head(client))
            .await
            .map_err(|_| Refusal::new("408 Request Timeout", "no request was received"))??;
        match parse(&head)? {
            ProxyRequest::Connect(to) => {
                let _pass = self.policy.authorize(&to, Egress::Tunnel).await?;
                let mut server = self.dial(&to).await?;
                client
                    .write_all(b"HTTP/1.1 200 Connection Established\r\n\r\n")
                    .await?;
                server.write_all(&early).await?;
                relay(client, &mut server).await?;
            }
            ProxyRequest::Http(to, head) => {
                let _pass = self.policy.authorize(&to, Egress::Http).await?;
                let mut server = self.dial(&to).await?;
                server.write_all(&head).await?;
                server.write_all(&early).await?;
                relay(client, &mut server).await?;
            }
        }
        Ok(())
    }

    /// Resolves the host and connects to the first permitted address. An address named in an authorized request needs
    /// no further permission.
    async fn dial(&self, to: &Authority) -> Result<TcpStream, Refusal> {
        let unreachable = |reason: String| Refusal::new("502 Bad Gateway", reason);
        let addresses: Vec<SocketAddr> = match &to.host {
            Host::Address(address) => vec![(*address, to.port).into()],
            Host::Name(name) => {
                let found = timeout(
                    DIAL_TIMEOUT,
                    tokio::net::lookup_host((name.as_str(), to.port)),
                )
                .await;
                match found {
                    Ok(Ok(found)) => found.collect(),
                    Ok(Err(error)) => {
                        return Err(unreachable(format!("cannot resolve {name}: {error}")));
                    }
                    Err(_) => return Err(unreachable(format!("resolving {name} timed out"))),
                }
            }
        };
        let is_named = |address: IpAddr| to.host == Host::Address(address);
        let permitted: Vec<_> = addresses
            .iter()
            .filter(|address| {
                let address = canonical(address.ip());
                is_named(address) || self.policy.allowlist().permits_address(address, to.port)
            })
            .collect();
        if permitted.is_empty() {
            let address = addresses
                .first()
                .map_or_else(|| "no address".to_owned(), ToString::to_string);
            let reason = format!(
                "{to} is at {address}, which is not public; `--allow-host {address}` would allow it"
            );
            return Err(Refusal::new(request::FORBIDDEN, reason));
        }
        let mut reason = String::new();
        for address in permitted {
            match timeout(DIAL_TIMEOUT, TcpStream::connect(address)).await {
                Ok(Ok(server)) => {
                    let _ = server.set_nodelay(true);
                    return Ok(server);
                }
                Ok(Err(error)) => reason = error.to_string(),
                Err(_) => "timed out".clone_into(&mut reason),
            }
        }
        Err(unreachable(format!("cannot connect to {to}: {reason}")))
    }
}

/// Returns the IPv4 address of an IPv4-mapped IPv6 address, so that rules treat both alike.
fn canonical(address: IpAddr) -> IpAddr {
    address.to_canonical()
}

/// Reason why a connection ended early.
enum ConnectionError {
    Refused(Refusal),
    /// One side closed the connection, so no response can be sent.
    Gone,
}

impl From<Refusal> for ConnectionError {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

impl From<io::Error> for ConnectionError {
    fn from(_: io::Error) -> Self {
        Self::Gone
    }
}

/// Reads the request head; returns it and the bytes received after it.
async fn read_head(
    client: &mut (impl AsyncRead + Unpin),
) -> Result<(Vec<u8>, Vec<u8>), ConnectionError> {
    let mut bytes = Vec::with_capacity(1024);
    loop {
        if let Some(length) = head_length(&bytes)? {
            let early = bytes.split_off(length);
            return Ok((bytes, early));
        }
        if client.read_buf(&mut bytes).await? == 0 {
            return Err(ConnectionError::Gone);
        }
    }
}

/// Copies bytes in both directions until both sides are done, or the connection is idle for too long.
async fn relay(
    client: &mut (impl AsyncRead + AsyncWrite + Unpin),
    server: &mut TcpStream,
) -> Result<(), ConnectionError> {
    let moved = AtomicU64::new(0);
    let (from_client, to_client) = tokio::io::split(client);
    let (from_server, to_server) = server.split();
    let both = async {
        tokio::try_join!(
            carry(from_client, to_server, &moved),
            carry(from_server, to_client, &moved)
        )
    };
    let silence = async {
        let mut seen = u64::MAX;
        loop {
            let now = moved.load(Ordering::Relaxed);
            if now == seen {
                return;
            }
            seen = now;
            tokio::time::sleep(IDLE_TIMEOUT).await;
        }
    };
    tokio::select! {
        carried = both => carried.map(drop).map_err(ConnectionError::from),
        () = silence => Err(ConnectionError::Gone),
    }
}

/// Copies bytes in one direction, and passes on the end of the stream.
async fn carry(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    moved: &AtomicU64,
) -> io::Result<()> {
    let mut buffer = vec![0; BUFFER];
    loop {
        let length = from.read(&mut buffer).await?;
        if length == 0 {
            return to.shutdown().await;
        }
        to.write_all(&buffer[..length]).await?;
        moved.fetch_add(1, Ordering::Relaxed);
    }
}
