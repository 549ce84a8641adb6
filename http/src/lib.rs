//! HTTP clients and the framing of server-sent events.
//!
//! All clients of the program are built here, so that proxies, certificates and timeouts are the same everywhere.
//! Requests and the handling of errors are left to the callers.

pub mod early;
mod no_proxy;
pub mod outside;
pub mod sse;
pub mod transport;

use std::path::{Path, PathBuf};
use std::time::Duration;

use reqwest::redirect::Policy;
use reqwest::{Certificate, Client, ClientBuilder, Proxy, Url};
use rustls::crypto::CryptoProvider;

/// `User-Agent` of all requests.
pub const USER_AGENT: &str = concat!("ah/", env!("CARGO_PKG_VERSION"));

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Options of connections.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Proxy for `https://` addresses.
    pub https_proxy: Option<String>,
    /// Proxy for `http://` addresses.
    pub http_proxy: Option<String>,
    /// Hosts that are reached without a proxy, as in the variable `NO_PROXY`.
    pub no_proxy: Option<String>,
    /// File of trusted certificates in PEM format, instead of the system's.
    pub certificates: Option<PathBuf>,
    /// Timeout for opening a connection.
    pub connect_timeout: Duration,
    /// What answers requests to models in the place of servers, in simulations.
    pub transport: Option<transport::Own>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            https_proxy: None,
            http_proxy: None,
            no_proxy: None,
            certificates: None,
            connect_timeout: CONNECT_TIMEOUT,
            transport: None,
        }
    }
}

/// Error of building a client.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The address is not a valid `http` or `https` URL.
    #[error("`{address}` is not an http or https address")]
    Address {
        /// The address.
        address: String,
    },
    /// The address of a proxy is not valid. It is not part of the message, as it may hold a password.
    #[error("the address of the proxy for {scheme} is not valid")]
    Proxy {
        /// Scheme of the requests that use it.
        scheme: &'static str,
        /// The parse error.
        source: reqwest::Error,
    },
    /// The file of certificates cannot be read.
    #[error("cannot read certificates from {}", path.display())]
    Certificates {
        /// The file.
        path: PathBuf,
        /// The I/O error.
        source: std::io::Error,
    },
    /// The file of certificates has none.
    #[error("no certificate in PEM form in {}", path.display())]
    NoCertificate {
        /// The file.
        path: PathBuf,
    },
    /// The host has no permitted address.
    #[error("`{host}` has no public address")]
    NotPublic {
        /// The host.
        host: String,
    },
    /// The TLS library rejects the settings, or the system has no certificates.
    #[error("cannot set up HTTPS")]
    Tls(#[source] reqwest::Error),
}

impl Error {
    /// Returns a hint that names the environment variable to correct (see [`Options::from_variables`]). An invalid address
    /// has none, since only the caller knows which setting it is from.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Proxy {
                scheme: "https", ..
            } => Some("correct HTTPS_PROXY or ALL_PROXY, for example http://localhost:8080"),
            Self::Proxy { .. } => {
                Some("correct HTTP_PROXY or ALL_PROXY, for example http://localhost:8080")
            }
            Self::Certificates { .. } | Self::NoCertificate { .. } => {
                Some("correct SSL_CERT_FILE, or unset it to use the system's certificates")
            }
            Self::Tls(_) => Some(
                "install the system's certificates, or set SSL_CERT_FILE to a file of certificates",
            ),
            Self::Address { .. } | Self::NotPublic { .. } => None,
        }
    }
}

impl Options {
    /// Reads the options from the usual environment variables, such as `HTTPS_PROXY` and `SSL_CERT_FILE`.
    pub fn from_variables<'a>(variable: impl Fn(&str) -> Option<&'a str>) -> Self {
        let first = |names: &[&str]| {
            let mut values = names.iter().filter_map(|name| variable(name));
            let value = values.find(|value| !value.trim().is_empty())?;
            Some(value.trim().to_owned())
        };
        Self {
            https_proxy: first(&["HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"]),
            http_proxy: first(&["HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"]),
            no_proxy: first(&["NO_PROXY", "no_proxy"]),
            certificates: first(&["SSL_CERT_FILE"]).map(PathBuf::from),
            ..Self::default()
        }
    }
}

/// Returns a client for requests below `base_url`. It follows no redirects, so that credentials go only to the address
/// that the user has set.
pub fn client(options: &Options, base_url: &str) -> Result<Client, Error> {
    builder(options, &address(base_url)?)?
        .build()
        .map_err(Error::Tls)
}

/// Returns a [`client`] whose connections a server can turn into WebSockets: they speak HTTP/1.1.
pub fn client_of_sockets(options: &Options, base_url: &str) -> Result<Client, Error> {
    let builder = builder(options, &address(base_url)?)?;
    builder.http1_only().build().map_err(Error::Tls)
}

fn address(base_url: &str) -> Result<Url, Error> {
    let is_address = |url: &Url| matches!(url.scheme(), "http" | "https") && url.has_host();
    let parsed = Url::parse(base_url).ok();
    parsed.filter(is_address).ok_or_else(|| Error::Address {
        address: base_url.to_owned(),
    })
}

/// Gives this process a cryptography for TLS, unless it has one. Each client of this crate is built after it.
pub fn choose_cryptography() {
    if CryptoProvider::get_default().is_none() {
        // Another thread may be faster, with the same one.
        let _ = rustls::crypto::ring::default_provider().install_default();
    }
}

fn builder(options: &Options, base: &Url) -> Result<ClientBuilder, Error> {
    choose_cryptography();
    let mut builder = Client::builder()
        .user_agent(USER_AGENT)
        .redirect(Policy::none())
        .connect_timeout(options.connect_timeout)
        // Otherwise reqwest would read the variables of the process, which are not those of the session.
        .no_proxy();
    let mut needs_tls = base.scheme() == "https";
    let excepted = options.no_proxy.as_deref();
    let is_direct = excepted.is_some_and(|list| no_proxy::excepts(list, base));
    if let Some((address, proxy)) = proxy(options, base.scheme())?.filter(|_| !is_direct) {
        needs_tls |= address.starts_with("https:");
        builder = builder.proxy(proxy);
    }
    builder = match &options.certificates {
        // Loading certificates takes longer than the rest of the start-up.
        _ if !needs_tls => builder.tls_certs_only([]),
        Some(path) => builder.tls_certs_only(certificates(path)?),
        None => builder,
    };
    Ok(builder)
}

fn proxy<'a>(options: &'a Options, scheme: &str) -> Result<Option<(&'a str, Proxy)>, Error> {
    let (scheme, address, proxy) = match scheme {
        "https" => {
            let address = options.https_proxy.as_deref();
            ("https", address, address.map(Proxy::https))
        }
        _ => {
            let address = options.http_proxy.as_deref();
            ("http", address, address.map(Proxy::http))
        }
    };
    let proxy = proxy
        .transpose()
        .map_err(|source| Error::Proxy { scheme, source })?;
    Ok(address.zip(proxy))
}

fn certificates(path: &Path) -> Result<Vec<Certificate>, Error> {
    let pem = std::fs::read(path).map_err(|source| Error::Certificates {
        path: path.to_owned(),
        source,
    })?;
    match Certificate::from_pem_bundle(&pem) {
        Ok(certificates) if !certificates.is_empty() => Ok(certificates),
        Ok(_) | Err(_) => Err(Error::NoCertificate {
            path: path.to_owned(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(variables: &[(&str, &'static str)]) -> Options {
        Options::from_variables(|name| {
            let mut found = variables.iter().filter(|(known, _)| *known == name);
            found.next().map(|(_, value)| *value)
        })
    }

    #[test]
    fn upper_case_variables_win() {
        let options = options(&[
            ("https_proxy", "http://small:1"),
            ("HTTPS_PROXY", " http://capital:1 "),
            ("all_proxy", "http://all:1"),
            ("http_proxy", ""),
            ("NO_PROXY", "localhost"),
            ("SSL_CERT_FILE", "/etc/ca.pem"),
        ]);
        assert_eq!(options.https_proxy.unwrap(), "http://capital:1");
        assert_eq!(options.http_proxy.unwrap(), "http://all:1");
        assert_eq!(options.no_proxy.unwrap(), "localhost");
        assert_eq!(options.certificates.unwrap(), Path::new("/etc/ca.pem"));
    }

    #[test]
    fn errors_name_the_setting_or_file() {
        let directory = tempfile::tempdir().unwrap();
        let empty = directory.path().join("empty.pem");
        std::fs::write(&empty, "not a certificate").unwrap();
        let with_certificates = |path: &Path| Options {
            certificates: Some(path.to_owned()),
            ..Options::default()
        };
        let with_proxy = Options {
            https_proxy: Some("http://user:password@:::".to_owned()),
            ..Options::default()
        };
        let missing = directory.path().join("missing.pem");
        for (options, address, expected) in [
            (
                Options::default(),
                "ftp://host",
                "`ftp://host` is not an http or https address",
            ),
            (
                Options::default(),
                "host",
                "`host` is not an http or https address",
            ),
            (
                with_proxy,
                "https://host",
                "the address of the proxy for https is not valid",
            ),
            (
                with_certificates(&missing),
                "https://host",
                "cannot read certificates from ",
            ),
            (
                with_certificates(&empty),
                "https://host",
                "no certificate in PEM form in ",
            ),
        ] {
            let error = client(&options, address).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{error}");
        }
        // Certificates are not loaded for plain HTTP.
        client(&with_certificates(&missing), "http://host").unwrap();
    }
}
