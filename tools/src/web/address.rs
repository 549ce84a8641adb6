//! Which addresses are fetched, and where a redirection may lead. Pure.

use ah_process::{Authority, Egress};
use reqwest::Url;

use super::Web;

/// A longer address is no page's.
const LONGEST: usize = 2_000;

/// Where a redirection leads.
#[derive(Debug, PartialEq, Eq)]
pub enum Next {
    /// To the host that was asked, which is fine.
    Follow(Url),
    /// To another host, for which the model has to ask anew.
    Elsewhere(Url),
    /// Nowhere.
    Nowhere,
}

impl Web {
    /// The address as it is fetched: by HTTPS, unless its host is this machine or was named by the user.
    pub(super) fn address(&self, text: &str) -> Result<Url, String> {
        let text = text.trim();
        if text.len() > LONGEST {
            return Err(format!("the address has more than {LONGEST} characters"));
        }
        let mut url = Url::parse(text).map_err(|fault| {
            format!("`{text}` is no address ({fault}); it needs its scheme, as in https://example.com/page")
        })?;
        if !matches!(url.scheme(), "http" | "https") || !url.has_host() {
            return Err(format!(
                "only http and https addresses can be fetched, not `{text}`"
            ));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(
                "addresses with a user's name or password in them are not fetched".to_owned(),
            );
        }
        url.set_fragment(None);
        if url.scheme() == "http" && !is_this_machine(&url) && !self.names(&url) {
            url.set_scheme("https")
                .map_err(|()| format!("`{text}` has no HTTPS address"))?;
        }
        Ok(url)
    }

    /// Where `location`, which `from` has answered with, leads.
    pub(super) fn redirected(&self, from: &Url, location: &str) -> Next {
        let Ok(url) = from.join(location) else {
            return Next::Nowhere;
        };
        let Ok(to) = self.address(url.as_str()) else {
            return Next::Nowhere;
        };
        let is_same = to.host_str() == from.host_str()
            && to.port_or_known_default() == from.port_or_known_default()
            && to.scheme() == from.scheme();
        match is_same {
            true => Next::Follow(to),
            false => Next::Elsewhere(to),
        }
    }

    /// Whether the user has named the host of `url` as one to be reached at a private address.
    pub(super) fn names(&self, url: &Url) -> bool {
        let mut hosts = self.private_hosts.iter();
        hosts.any(|named| is_named(named, url))
    }

    /// Whether a confined run may reach the host of `url`.
    pub(super) fn reaches(&self, url: &Url) -> Result<(), String> {
        let Some(reach) = &self.reach else {
            return Ok(());
        };
        let host = url.host_str().unwrap_or_default();
        let port = url.port_or_known_default().unwrap_or_default();
        let authority = format!("{host}:{port}");
        let to = authority.parse::<Authority>();
        // What reaches it by a tunnel may as well speak plainly, and the other way round.
        let ways = [Egress::Tunnel, Egress::Http];
        match to.is_ok_and(|to| ways.iter().any(|way| reach.permits(&to, *way))) {
            true => Ok(()),
            false => Err(format!(
                "the sandbox does not let this run reach {authority}; it would take `--allow-host {authority}`"
            )),
        }
    }
}

/// The host of the address, as rules name it.
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
    fn redirections_stay_with_the_host() {
        for (from, location, expected) in [
            ("https://a.com/x", "/y#z", "follow https://a.com/y"),
            ("https://a.com/x", "y", "follow https://a.com/y"),
            (
                "https://a.com/x",
                "https://A.com:443/y",
                "follow https://a.com/y",
            ),
            (
                "https://a.com/x",
                "http://a.com/y",
                "follow https://a.com/y",
            ),
            (
                "https://a.com/x",
                "https://www.a.com/",
                "elsewhere https://www.a.com/",
            ),
            (
                "https://a.com/x",
                "https://a.com:444/",
                "elsewhere https://a.com:444/",
            ),
            ("https://a.com/x", "//b.com/", "elsewhere https://b.com/"),
            (
                "https://a.com/x",
                "http://localhost/",
                "elsewhere http://localhost/",
            ),
            (
                "https://a.lan/x",
                "http://a.lan/",
                "elsewhere http://a.lan/",
            ),
            ("https://a.com/x", "https://me@a.com/", "nowhere"),
            ("https://a.com/x", "file:///etc/passwd", "nowhere"),
            ("https://a.com/x", "https://[", "nowhere"),
        ] {
            let told = match web().redirected(&Url::parse(from).unwrap(), location) {
                Next::Follow(url) => format!("follow {url}"),
                Next::Elsewhere(url) => format!("elsewhere {url}"),
                Next::Nowhere => "nowhere".to_owned(),
            };
            assert_eq!(told, expected, "{from} {location}");
        }
    }

    #[test]
    fn a_confined_run_reaches_what_it_was_granted() {
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
            assert_eq!(confined.reaches(&url).is_ok(), is_reached, "{address}");
        }
        let url = Url::parse("https://any.com").unwrap();
        assert!(Web::default().reaches(&url).is_ok());
    }
}
