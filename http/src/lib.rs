//! The one place that builds HTTP clients, and the framing of server-sent events.
//!
//! Proxies, certificates and timeouts are the same for everything in the program that speaks HTTP, so they are set
//! here and nowhere else. Which requests are made, and what is done about a failure, is left to the callers.

pub mod outside;
pub mod sse;

use std::path::{Path, PathBuf};
use std::time::Duration;

use reqwest::redirect::Policy;
use reqwest::{Certificate, Client, ClientBuilder, NoProxy, Proxy, Url};

/// How this program identifies itself to servers.
pub const USER_AGENT: &str = concat!("ah/", env!("CARGO_PKG_VERSION"));

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// How servers are reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// The proxy for `https://` addresses.
    pub https_proxy: Option<String>,
    /// The proxy for `http://` addresses.
    pub http_proxy: Option<String>,
    /// Hosts that are reached without a proxy, separated by commas.
    pub no_proxy: Option<String>,
    /// A file of certificates in PEM form, trusted in place of the system's.
    pub certificates: Option<PathBuf>,
    /// How long a connection may take to open.
    pub connect_timeout: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            https_proxy: None,
            http_proxy: None,
            no_proxy: None,
            certificates: None,
            connect_timeout: CONNECT_TIMEOUT,
        }
    }
}

/// Why a client could not be built.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The address is not one that HTTP can reach.
    #[error("`{address}` is not an http or https address")]
    Address {
        /// The address.
        address: String,
    },
    /// A proxy's address is not valid. It is not repeated, as it may hold a password.
    #[error("the address of the proxy for {scheme} is not valid")]
    Proxy {
        /// The scheme whose requests were to go through it.
        scheme: &'static str,
        /// What is wrong with it.
        source: reqwest::Error,
    },
    /// The file of certificates cannot be read.
    #[error("cannot read certificates from {}", path.display())]
    Certificates {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The file of certificates holds none.
    #[error("no certificate in PEM form in {}", path.display())]
    NoCertificate {
        /// The file.
        path: PathBuf,
    },
    /// The host has no address that may be reached.
    #[error("`{host}` has no public address")]
    NotPublic {
        /// The host.
        host: String,
    },
    /// The TLS library refuses the settings, or the system has no certificates.
    #[error("cannot set up HTTPS")]
    Tls(#[source] reqwest::Error),
}

impl Error {
    /// What the user can do about it: the variables that were read (see [`Options::from_variables`]) say what is
    /// wrong. Who gave the address knows where that stands.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Proxy {
                scheme: "https", ..
            } => Some("correct HTTPS_PROXY or ALL_PROXY, for example http://localhost:8080"),
            Self::Proxy { .. } => {
                Some("correct HTTP_PROXY or ALL_PROXY, for example http://localhost:8080")
            }
            Self::Certificates { .. } | Self::NoCertificate { .. } => {
                Some("SSL_CERT_FILE names the file; without it the system's certificates count")
            }
            Self::Address { .. } | Self::NotPublic { .. } | Self::Tls(_) => None,
        }
    }
}

impl Options {
    /// The options that the usual environment variables ask for.
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

/// A client for requests below `base_url`. It follows no redirects: credentials go only where the user sent them.
pub fn client(options: &Options, base_url: &str) -> Result<Client, Error> {
    let is_address = |url: &Url| matches!(url.scheme(), "http" | "https") && url.has_host();
    let base = Url::parse(base_url).ok().filter(is_address);
    let Some(base) = base else {
        return Err(Error::Address {
            address: base_url.to_owned(),
        });
    };
    builder(options, &base)?.build().map_err(Error::Tls)
}

fn builder(options: &Options, base: &Url) -> Result<ClientBuilder, Error> {
    let mut builder = Client::builder()
        .user_agent(USER_AGENT)
        .redirect(Policy::none())
        .connect_timeout(options.connect_timeout)
        // Else the variables of the process would count, which are not those of the session.
        .no_proxy();
    let mut needs_tls = base.scheme() == "https";
    if let Some((address, proxy)) = proxy(options, base.scheme())? {
        needs_tls |= address.starts_with("https:");
        let exceptions = options.no_proxy.as_deref().and_then(NoProxy::from_string);
        builder = builder.proxy(proxy.no_proxy(exceptions));
    }
    builder = match &options.certificates {
        // Loading certificates takes longer than the whole rest of a start-up.
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
    fn variables_in_order_of_preference() {
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
    fn faults_say_what_and_where() {
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
        // Certificates matter only where they are used.
        client(&with_certificates(&missing), "http://host").unwrap();
    }
}
