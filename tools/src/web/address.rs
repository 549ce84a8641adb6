//! Addresses that may be fetched, and redirections that may be followed. Pure.

use ah_process::{Authority, Egress};
use reqwest::Url;

use super::Web;

/// Limit for the length of an address in bytes.
const LONGEST: usize = 2_000;

/// Target of a redirection.
#[derive(Debug, PartialEq, Eq)]
pub enum Redirect {
    /// The same host: it is followed.
    SameHost(Url),
    /// Another host, which is permitted on its own: the model has to fetch the new address.
    OtherHost(Url),
    /// No address that may be fetched.
    Invalid,
}

impl Web {
    /// Parses an address. HTTP becomes HTTPS, unless the host is this machine or the user has named it.
    pub(super) fn address(&self, text: &str) -> Result<Url, String> {
        let text = text.trim();
        if text.len() > LONGEST {
            return Err(format!("the address has more than {LONGEST} characters"));
        }
        let mut url = Url::parse(text).map_err(|error| {
            format!("`{text}` is not an address ({error}); it needs its scheme, as in https://example.com/page")
        })?;
        if !matches!(url.scheme(), "http" | "https") || !url.has_host() {
            return Err(format!(
                "only http and https addresses can be fetched, not `{text}`"
            ));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err("addresses with a user name or a password are not fetched".to_owned());
        }
        url.set_fragment(None);
        if url.scheme() == "http" && !is_this_machine(&url) && !self.names(&url) {
            url.set_scheme("https")
                .map_err(|()| format!("`{text}` has no HTTPS address"))?;
        }
        Ok(url)
    }

    /// Returns the target of a redirection from `from` to `location`.
    pub(super) fn redirected(&self, from: &Url, location: &str) -> Redirect {
        let Ok(url) = from.join(location) else {
            return Redirect::Invalid;
        };
        let Ok(to) = self.address(url.as_str()) else {
            return Redirect::Invalid;
        };
        let is_same = to.host_str() == from.host_str()
            && to.port_or_known_default() == from.port_or_known_default()
            && to.scheme() == from.scheme();
        if is_same {
            Redirect::SameHost(to)
        } else {
            Redirect::OtherHost(to)
        }
    }

    /// Returns whether the user has named the host of `url` as one whose private addresses may be reached.
    pub(super) fn names(&self, url: &Url) -> bool {
        let mut hosts = self.private_hosts.iter();
        hosts.any(|named| is_named(named, url))
    }

    /// Refuses a host that a confined run may not reach.
    pub(super) fn check_reach(&self, url: &Url) -> Result<(), String> {
        let Some(reach) = &self.reach else {
            return Ok(());
        };
        let host = url.host_str().unwrap_or_default();
        let port = url.port_or_known_default().unwrap_or_default();
        let authority = format!("{host}:{port}");
        let to = authority.parse::<Authority>();
        // A host that is permitted by one way may be reached by either.
        let ways = [Egress::Tunnel, Egress::Http];
        if to.is_ok_and(|to| ways.iter().any(|way| reach.permits(&to, *way))) {
            Ok(())
        } else {
            Err(format!(
                "the sandbox does not let this run reach {authority}; `--allow-host {authority}` would allow it"
            ))
        }
    }
}

/// Returns the host of an address as permission rules name it.
pub fn host(url: &Url) -> String {
    url.host_str()
        .unwrap_or_default()
        .trim_end_matches('.')
        .to_owned()
}

fn is_this_machine(url: &Url) -> bool {
    let host = host(url);
    let literal = host.trim_start_matches('[').trim_end_matches(']');
    let is_loopback = |address: std::net::IpAddr| address.is_loopback();
    host == "localhost" || host.ends_with(".localhost") || literal.parse().is_ok_and(is_loopback)
}

fn is_named(named: &str, url: &Url) -> bool {
    let host = host(url);
    let with_port = match url.port_or_known_default() {
        Some(port) => format!("{host}:{port}"),
        None => host.clone(),
    };
    let is_like = |host: &str| match named.strip_prefix('*') {
        Some(end) => {
            end.starts_with('.') && host.len() > end.len() && {
                let at = host.len() - end.len();
                host.is_char_boundary(at) && host[at..].eq_ignore_ascii_case(end)
            }
        }
        None => host.eq_ignore_ascii_case(named),
    };
    is_like(&host) || is_like(&with_port)
}

#[cfg(test)]
mod tests {
    use ah_process::Allowlist;

    use super::*;

    fn web() -> Web {
        Web {
            private_hosts: vec!["wiki.corp:8080".into(), "*.lan".into(), "10.0.0.7".into()],
            ..Web::default()
        }
    }

    #[test]
    fn addresses_are_fetched_by_https() {
        for (text, expected) in [
            ("https://Example.com/a?b#c", "https://example.com/a?b"),
            (" http://example.com ", "https://example.com/"),
            ("http://example.com:80/", "https://example.com/"),
            ("http://example.com:8080/x", "https://example.com:8080/x"),
            ("http://localhost:3000/x", "http://localhost:3000/x"),
            ("http://a.localhost/", "http://a.localhost/"),
            ("http://127.1/", "http://127.0.0.1/"),
            ("http://[::1]:8/", "http://[::1]:8/"),
            ("http://wiki.corp:8080/x", "http://wiki.corp:8080/x"),
            ("http://wiki.corp/x", "https://wiki.corp/x"),
            ("http://a.b.lan/", "http://a.b.lan/"),
            ("http://lan/", "https://lan/"),
            ("http://10.0.0.7:99/", "http://10.0.0.7:99/"),
            ("http://10.0.0.8/", "https://10.0.0.8/"),
        ] {
            assert_eq!(web().address(text).unwrap().as_str(), expected, "{text}");
        }
        for text in [
            "example.com",
            "ftp://example.com/",
            "file:///etc/passwd",
            "data:text/html,x",
            "javascript:alert(1)",
            "https://",
            "https://user@example.com/",
            "https://user:word@example.com/",
            "",
        ] {
            assert!(web().address(text).is_err(), "{text}");
        }
        assert!(
            web()
                .address(&format!("https://h/{}", "x".repeat(LONGEST)))
                .is_err()
        );
    }

    #[test]
    fn only_redirections_within_a_host_are_followed() {
        for (from, location, expected) in [
            ("https://a.com/x", "/y#z", "same https://a.com/y"),
            ("https://a.com/x", "y", "same https://a.com/y"),
            (
                "https://a.com/x",
                "https://A.com:443/y",
                "same https://a.com/y",
            ),
            ("https://a.com/x", "http://a.com/y", "same https://a.com/y"),
            (
                "https://a.com/x",
                "https://www.a.com/",
                "other https://www.a.com/",
            ),
            (
                "https://a.com/x",
                "https://a.com:444/",
                "other https://a.com:444/",
            ),
            ("https://a.com/x", "//b.com/", "other https://b.com/"),
            (
                "https://a.com/x",
                "http://localhost/",
                "other http://localhost/",
            ),
            ("https://a.lan/x", "http://a.lan/", "other http://a.lan/"),
            ("https://a.com/x", "https://me@a.com/", "invalid"),
            ("https://a.com/x", "file:///etc/passwd", "invalid"),
            ("https://a.com/x", "https://[", "invalid"),
        ] {
            let actual = match web().redirected(&Url::parse(from).unwrap(), location) {
                Redirect::SameHost(url) => format!("same {url}"),
                Redirect::OtherHost(url) => format!("other {url}"),
                Redirect::Invalid => "invalid".to_owned(),
            };
            assert_eq!(actual, expected, "{from} {location}");
        }
    }

    #[test]
    fn a_confined_run_reaches_only_permitted_hosts() {
        let confined = Web {
            reach: Some(Allowlist {
                tunnels: ["docs.rs:443", "Example.com:8443"]
                    .map(|to| to.parse().unwrap())
                    .to_vec(),
                domains: vec!["*.lan.example".parse().unwrap()],
                denied: vec!["evil.lan.example".parse().unwrap()],
                ..Allowlist::default()
            }),
            ..Web::default()
        };
        for (address, is_reached) in [
            ("https://docs.rs/x", true),
            ("https://docs.rs:8443/x", false),
            ("https://example.com:8443/", true),
            ("https://example.com/", false),
            ("https://wiki.lan.example/", true),
            ("https://wiki.lan.example:8443/", false),
            ("https://evil.lan.example/", false),
        ] {
            let url = Url::parse(address).unwrap();
            assert_eq!(confined.check_reach(&url).is_ok(), is_reached, "{address}");
        }
        let url = Url::parse("https://any.com").unwrap();
        assert!(Web::default().check_reach(&url).is_ok());
    }
}
