//! The one way out of the sandbox: a proxy that opens tunnels to the hosts that are allowed.
//!
//! It runs outside, in this process, on a listener that was made inside. A name is looked up once, here, and the
//! address that was looked at is the one that is dialled. What is refused is told with the option that would permit it.

pub(crate) mod request;

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use crate::allowlist::{Allowlist, Authority, Egress, Host};
use crate::host_policy::{AskHost, ConnectionPermit, HostPolicy};
use request::{ProxyRequest, Refusal, answer, head_length, parse};

/// How long a client may take to say what it wants.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long a host may take to be found, and to accept.
const DIAL: Duration = Duration::from_secs(10);
/// How long nothing may come from either side. A model may think for minutes before it answers.
const IDLE: Duration = Duration::from_secs(15 * 60);
/// How many connections there may be at once.
const AT_ONCE: usize = 256;
const BUFFER: usize = 64 * 1024;

/// Serves the connections of one sandbox.
#[derive(Clone)]
pub struct Proxy {
    policy: Arc<HostPolicy>,
    free: Arc<Semaphore>,
}

impl Proxy {
    /// A proxy to what `allowlist` allows.
    pub fn new(allowlist: Allowlist) -> Self {
        Self {
            policy: Arc::new(HostPolicy::new(allowlist)),
            free: Arc::new(Semaphore::new(AT_ONCE)),
        }
    }

    /// From now on somebody can be asked about hosts that are not allowed; `ask` is called for one host at a time, and
    /// while it has no answer what wants to reach it waits.
    pub fn set_prompt(&self, ask: AskHost) {
        self.policy.set_prompt(ask);
    }

    /// What may be reached unasked.
    pub fn allowlist(&self) -> &Allowlist {
        self.policy.allowlist()
    }

    /// Whether a host may be reached: on the list, or by the word of who is asked. An `Err` says what would permit it.
    ///
    /// # Errors
    ///
    /// Where it may not.
    pub async fn authorize(
        &self,
        to: &Authority,
        egress: Egress,
    ) -> Result<ConnectionPermit, String> {
        { self.policy.authorize(to, egress).await }.map_err(|refusal| refusal.reason)
    }

    /// Serves what comes in at `listener`, until it is dropped.
    pub async fn serve_tcp(self, listener: tokio::net::TcpListener) {
        loop {
            let permit = self.free.clone().acquire_owned().await;
            match listener.accept().await {
                Ok((client, _)) => {
                    let proxy = self.clone();
                    tokio::spawn(async move {
                        let _ = client.set_nodelay(true);
                        proxy.serve(client).await;
                        drop(permit);
                    });
                }
                // One connection that broke while it came, or no file descriptor left for it.
                Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
            }
        }
    }

    /// The same on a socket of the file system.
    pub async fn serve_unix(self, listener: tokio::net::UnixListener) {
        loop {
            let permit = self.free.clone().acquire_owned().await;
            match listener.accept().await {
                Ok((client, _)) => {
                    let proxy = self.clone();
                    tokio::spawn(async move {
                        proxy.serve(client).await;
                        drop(permit);
                    });
                }
                Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
            }
        }
    }

    /// Serves one connection. Whatever goes wrong is told to the client, or ends it.
    pub async fn serve(&self, mut client: impl AsyncRead + AsyncWrite + Unpin) {
        if let Err(ConnectionError::Refused(refusal)) = self.tunnel(&mut client).await {
            let _ = client.write_all(answer(&refusal).as_bytes()).await;
            let _ = client.shutdown().await;
        }
    }

    async fn tunnel(
        &self,
        client: &mut (impl AsyncRead + AsyncWrite + Unpin),
    ) -> Result<(), ConnectionError> {
        let (head, early) = timeout(PATIENCE, read_head(client))
            .await
            .map_err(|_| Refusal::new("408 Request Timeout", "no request came"))??;
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

    /// Finds the host once and connects to an address that may be dialled. Whoever has named an address and was let
    /// through may dial just that.
    async fn dial(&self, to: &Authority) -> Result<TcpStream, Refusal> {
        let unreachable = |reason: String| Refusal::new("502 Bad Gateway", reason);
        let addresses: Vec<SocketAddr> = match &to.host {
            Host::Address(address) => vec![(*address, to.port).into()],
            Host::Name(name) => {
                let found = timeout(DIAL, tokio::net::lookup_host((name.as_str(), to.port))).await;
                match found {
                    Ok(Ok(found)) => found.collect(),
                    Ok(Err(error)) => {
                        return Err(unreachable(format!("cannot find {name}: {error}")));
                    }
                    Err(_) => return Err(unreachable(format!("cannot find {name} in time"))),
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
            return Err(Refusal::new("403 Forbidden", reason));
        }
        let mut reason = String::new();
        for address in permitted {
            match timeout(DIAL, TcpStream::connect(address)).await {
                Ok(Ok(server)) => {
                    let _ = server.set_nodelay(true);
                    return Ok(server);
                }
                Ok(Err(error)) => reason = error.to_string(),
                Err(_) => "no answer in time".clone_into(&mut reason),
            }
        }
        Err(unreachable(format!("cannot connect to {to}: {reason}")))
    }
}

/// An address of version 4 in the clothes of version 6 is the former, also for the rules.
fn canonical(address: IpAddr) -> IpAddr {
    address.to_canonical()
}

/// Why a connection ends early.
enum ConnectionError {
    Refused(Refusal),
    /// One side has gone; there is nobody to tell, or nothing.
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

/// The head of a request, and what came behind it already.
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

/// Carries bytes both ways until both sides have said all, or nothing has come from either for long.
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
            tokio::time::sleep(IDLE).await;
        }
    };
    tokio::select! {
        carried = both => carried.map(drop).map_err(ConnectionError::from),
        () = silence => Err(ConnectionError::Gone),
    }
}

/// Carries bytes one way, and tells the other side of their end.
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
