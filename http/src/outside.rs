//! Clients for untrusted addresses, chosen by a model or by a page that it has read. They connect only to IP addresses
//! that the caller permits. The check is part of name resolution: the address that was checked is the one that is
//! connected to, so a name cannot resolve to another address after the check.
//!
//! With a proxy, the proxy resolves names, and their addresses are not checked here.

use std::net::IpAddr;
use std::sync::Arc;

use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::{Client, Url};

use crate::{Error, Options};

/// Returns whether an address may be connected to.
pub type AddressFilter = Arc<dyn Fn(IpAddr) -> bool + Send + Sync>;

/// Returns a client for requests to the host of `url` at permitted addresses. It follows no redirects.
///
/// # Errors
///
/// If the host is an IP address that is not permitted, or the options are not valid.
pub fn client(options: &Options, url: &Url, permits: AddressFilter) -> Result<Client, Error> {
    let host = url
        .host_str()
        .filter(|_| is_web(url))
        .ok_or_else(|| Error::Address {
            address: url.to_string(),
        })?;
    let proxy_url = match url.scheme() {
        "https" => options.https_proxy.as_deref(),
        _ => options.http_proxy.as_deref(),
    };
    let excepted = options.no_proxy.as_deref();
    let is_direct = excepted.is_some_and(|list| crate::no_proxy::excepts(list, url));
    let proxy = proxy_url.filter(|_| !is_direct).and_then(host_of);
    let is_refused = match ip_address(host) {
        Some(address) => !permits(address),
        // The proxy's name is exempt from the check in the resolver, so it may not be a target.
        None => proxy.as_deref() == Some(host),
    };
    if is_refused {
        return Err(not_public(host));
    }
    let resolver = Resolver { permits, proxy };
    let builder = crate::builder(options, url)?.dns_resolver(Arc::new(resolver));
    builder.build().map_err(Error::Tls)
}

fn is_web(url: &Url) -> bool {
    matches!(url.scheme(), "http" | "https")
}

/// The IP address in the host of a URL, which is not resolved.
fn ip_address(host: &str) -> Option<IpAddr> {
    let host = host
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'))
        .unwrap_or(host);
    host.parse().ok()
}

fn host_of(proxy: &str) -> Option<String> {
    let parse = |text: &str| Url::parse(text).ok().filter(Url::has_host);
    let url = parse(proxy).or_else(|| parse(&format!("http://{proxy}")))?;
    url.host_str().map(str::to_owned)
}

fn not_public(host: &str) -> Error {
    Error::NotPublic {
        host: host.to_owned(),
    }
}

/// Resolves names, without addresses that are not permitted.
struct Resolver {
    permits: AddressFilter,
    /// Host of the proxy, which may have any address, since the user has set it.
    proxy: Option<String>,
}

impl Resolve for Resolver {
    fn resolve(&self, name: Name) -> Resolving {
        let is_proxy = self.proxy.as_deref() == Some(name.as_str());
        let permits = self.permits.clone();
        Box::pin(async move {
            let permitted: Vec<_> = tokio::net::lookup_host((name.as_str(), 0))
                .await?
                .filter(|address| is_proxy || permits(address.ip()))
                .collect();
            if permitted.is_empty() {
                Err(not_public(name.as_str()).into())
            } else {
                Ok(Box::new(permitted.into_iter()) as Addrs)
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, TcpListener};

    use super::*;

    fn public() -> AddressFilter {
        Arc::new(|address| !address.is_loopback())
    }

    fn ask(url: &str, options: &Options, permits: AddressFilter) -> Result<(), String> {
        let url = Url::parse(url).unwrap();
        let client = client(options, &url, permits).map_err(|error| error.to_string())?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        let sent = runtime.unwrap().block_on(client.get(url).send());
        sent.map(drop).map_err(|error| {
            let causes = std::iter::successors(Some(&error as &dyn std::error::Error), |cause| {
                cause.source()
            });
            causes.last().unwrap().to_string()
        })
    }

    /// In any notation of a loopback address.
    #[test]
    fn an_address_that_is_not_permitted_is_not_connected_to() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        listener.set_nonblocking(true).unwrap();
        let port = listener.local_addr().unwrap().port();
        for host in [
            "127.0.0.1",
            "2130706433",
            "0x7f.1",
            "[::1]",
            "localhost",
            "LOCALHOST",
        ] {
            let error = ask(
                &format!("http://{host}:{port}/"),
                &Options::default(),
                public(),
            );
            let error = error.unwrap_err();
            assert!(error.ends_with("has no public address"), "{host}: {error}");
        }
        let no_connection = listener.accept().unwrap_err();
        assert_eq!(no_connection.kind(), std::io::ErrorKind::WouldBlock);
    }

    /// The proxy may have any address, but requests through it to a literal address are checked.
    #[test]
    fn a_proxy_may_be_anywhere() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let options = Options {
            http_proxy: Some(format!("http://localhost:{port}")),
            ..Options::default()
        };
        let answering = std::thread::spawn(move || {
            use std::io::{Read, Write};
            let (mut stream, _) = listener.accept().unwrap();
            let mut head = [0; 1024];
            let read = stream.read(&mut head).unwrap();
            stream
                .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
                .unwrap();
            String::from_utf8_lossy(&head[..read])
                .lines()
                .next()
                .unwrap()
                .to_owned()
        });
        for url in ["http://127.0.0.1/", "http://localhost/"] {
            assert!(ask(url, &options, public()).is_err(), "{url}");
        }
        assert_eq!(ask("http://example.invalid/x", &options, public()), Ok(()));
        assert_eq!(
            answering.join().unwrap(),
            "GET http://example.invalid/x HTTP/1.1"
        );
    }
}
