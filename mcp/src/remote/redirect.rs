//! The loopback address to which a browser returns after a sign-in.

use std::io;

use reqwest::Url;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};

/// Longest request line that is read, in bytes.
const LONGEST_LINE: u64 = 16 * 1024;
const PATH: &str = "/callback";

/// A port on which the browser is awaited. The address is a number: another user of the machine could listen at the
/// other address of `localhost`.
pub(crate) struct Redirect {
    listener: TcpListener,
    /// Address of the page.
    pub(crate) uri: String,
}

impl Redirect {
    /// Listens on `port`, 0 for any.
    pub(crate) async fn listen(port: u16) -> io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", port)).await?;
        let uri = format!("http://{}{PATH}", listener.local_addr()?);
        Ok(Self { listener, uri })
    }

    /// Waits until the browser comes with `state`; returns the whole address. Any page may send a browser here, so
    /// requests without it are refused and change nothing.
    pub(crate) async fn visited(&self, state: &str) -> io::Result<String> {
        loop {
            let (stream, _) = self.listener.accept().await?;
            if let Some(address) = self.answer(stream, state).await {
                return Ok(address);
            }
        }
    }

    async fn answer(&self, mut stream: TcpStream, state: &str) -> Option<String> {
        let mut line = String::new();
        let (read, mut write) = stream.split();
        let mut reader = BufReader::new(read.take(LONGEST_LINE));
        reader.read_line(&mut line).await.ok()?;
        let address = self.address(&line, state);
        let (status, text) = match &address {
            Some(address) if code(address).is_some() => (
                "200 OK",
                "You can close this window and go back to the terminal.",
            ),
            Some(_) => (
                "200 OK",
                "The sign-in was refused. You can close this window.",
            ),
            None => ("404 Not Found", "Nothing is here."),
        };
        let answer = format!(
            "HTTP/1.1 {status}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {}\r\nCache-Control: no-store\r\n\
             Referrer-Policy: no-referrer\r\nConnection: close\r\n\r\n{text}",
            text.len()
        );
        // A browser that has gone has been here all the same.
        let _ = write.write_all(answer.as_bytes()).await;
        // Otherwise the rest of the request would reset the connection before the answer is read.
        let mut rest = String::new();
        while matches!(reader.read_line(&mut rest).await, Ok(length) if length > 2) {
            rest.clear();
        }
        address
    }

    /// Returns the address of a request, if it is for this sign-in.
    fn address(&self, line: &str, state: &str) -> Option<String> {
        let target = line.strip_prefix("GET ")?.split(' ').next()?;
        let base = Url::parse(&self.uri).ok()?;
        let address = base.join(target).ok()?;
        let is_ours = address.origin() == base.origin() && address.path() == PATH;
        (is_ours && value(address.as_str(), "state").as_deref() == Some(state))
            .then(|| address.into())
    }
}

/// Returns the code in the address to which a browser returned.
pub(crate) fn code(address: &str) -> Option<String> {
    value(address, "code")
}

/// Returns a parameter of an address; none if it is there twice.
pub(crate) fn value(address: &str, name: &str) -> Option<String> {
    let address = Url::parse(address).ok()?;
    let mut values = address.query_pairs().filter(|(key, _)| key == name);
    let value = values.next()?.1.into_owned();
    values.next().is_none().then_some(value)
}

/// Whether an address is one of a web page that nobody on the way can read: https, or on this machine.
pub(crate) fn is_safe(url: &Url) -> bool {
    let is_here = matches!(url.host_str(), Some("127.0.0.1" | "[::1]" | "localhost"));
    url.scheme() == "https" || (url.scheme() == "http" && is_here)
}
