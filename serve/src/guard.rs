//! Who is answered: whoever has the token, names this server, and is no page of another. Pure.

use std::net::SocketAddr;

use axum::http::header::{AUTHORIZATION, HOST, ORIGIN};
use axum::http::{HeaderMap, HeaderName, StatusCode};
use sha2::{Digest as _, Sha256};

/// The secret that every request names. Only its hash is kept here.
#[derive(Clone, PartialEq, Eq)]
pub struct Token([u8; 32]);

impl Token {
    /// The token with this text.
    pub fn new(text: &str) -> Self {
        Self(Sha256::digest(text.as_bytes()).into())
    }

    /// Returns the folder of the page: a name that only those know who have the token, and that opens nothing else.
    pub fn key(&self) -> String {
        let named = Sha256::new().chain_update(b"page").chain_update(self.0);
        let hash = named.finalize();
        hash[..8].iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Returns whether `text` is it, in a time that says nothing of it: hashes are compared, in full.
    fn is(&self, text: &str) -> bool {
        let other = Self::new(text).0;
        let differ = self
            .0
            .iter()
            .zip(other)
            .fold(0, |all, (a, b)| all | (a ^ b));
        differ == 0
    }
}

/// How clients reach the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scheme {
    /// Without TLS.
    Http,
    /// With TLS.
    Https,
}

impl Scheme {
    /// Returns what its addresses begin with.
    fn prefix(self) -> &'static str {
        match self {
            Self::Http => "http://",
            Self::Https => "https://",
        }
    }
}

/// Checks the headers of a request.
pub(crate) struct Guard {
    token: Token,
    scheme: Scheme,
    /// Names of this server, with the port.
    names: Vec<String>,
}

impl Guard {
    /// For a server at this address, with these names besides.
    pub(crate) fn new(token: Token, scheme: Scheme, address: SocketAddr, names: &[String]) -> Self {
        let port = address.port();
        let local = ["127.0.0.1", "localhost", "[::1]"].map(str::to_owned);
        let named = local.iter().chain(names);
        let mut names: Vec<_> = named.map(|name| format!("{name}:{port}")).collect();
        if !address.ip().is_unspecified() {
            names.push(address.to_string());
        }
        if (scheme, port) == (Scheme::Https, 443) {
            // Clients leave it out.
            let short = names.iter().filter_map(|name| name.strip_suffix(":443"));
            let short: Vec<_> = short.map(str::to_owned).collect();
            names.extend(short);
        }
        Self {
            token,
            scheme,
            names,
        }
    }

    /// Returns why a request is not answered, if it is not.
    pub(crate) fn refusal(&self, headers: &HeaderMap) -> Option<StatusCode> {
        self.strange(headers).or_else(|| {
            let mut tokens = all(headers, AUTHORIZATION);
            let token = tokens
                .next()
                .flatten()
                .and_then(|it| it.strip_prefix("Bearer "));
            let is_known =
                token.is_some_and(|token| self.token.is(token)) && tokens.next().is_none();
            (!is_known).then_some(StatusCode::UNAUTHORIZED)
        })
    }

    /// Returns why a request is not answered whoever sends it: it is meant for another server, or comes from another's page.
    pub(crate) fn strange(&self, headers: &HeaderMap) -> Option<StatusCode> {
        let is_ours = |name: Option<&str>| name.is_some_and(|name| self.is_name(name));
        let mut hosts = all(headers, HOST);
        // A name that was bound to this address is not one of ours.
        if !(hosts.next().is_some_and(is_ours) && hosts.next().is_none()) {
            return Some(StatusCode::FORBIDDEN);
        }
        let is_page_of_ours = |origin: Option<&str>| {
            is_ours(origin.and_then(|it| it.strip_prefix(self.scheme.prefix())))
        };
        let is_strange = !all(headers, ORIGIN).all(is_page_of_ours);
        is_strange.then_some(StatusCode::FORBIDDEN)
    }

    fn is_name(&self, name: &str) -> bool {
        self.names.iter().any(|own| own.eq_ignore_ascii_case(name))
    }
}

/// Returns the values of a header; `None` for one that is no text.
fn all(headers: &HeaderMap, name: HeaderName) -> impl Iterator<Item = Option<&str>> {
    let values = headers.get_all(name).into_iter();
    values.map(|value| value.to_str().ok())
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    #[test]
    fn only_who_has_the_token_and_is_no_page_of_another_is_answered() {
        let address = SocketAddr::from(([127, 0, 0, 1], 4114));
        let guard = Guard::new(Token::new("secret"), Scheme::Http, address, &[]);
        let own = ("host", "127.0.0.1:4114");
        let token = ("authorization", "Bearer secret");
        for (headers, expected) in [
            (&[own, token] as &[_], None),
            (&[("host", "LOCALHOST:4114"), token], None),
            (&[own, token, ("origin", "http://localhost:4114")], None),
            (&[own], Some(401)),
            (&[own, ("authorization", "Bearer secre")], Some(401)),
            (&[own, ("authorization", "secret")], Some(401)),
            (&[own, token, token], Some(401)),
            (&[token], Some(403)),
            (&[("host", "evil.example:4114"), token], Some(403)),
            (&[("host", "127.0.0.1:80"), token], Some(403)),
            (&[("host", "127.0.0.1"), token], Some(403)),
            (&[own, own, token], Some(403)),
            (&[own, token, ("origin", "http://evil.example")], Some(403)),
            (
                &[own, token, ("origin", "https://localhost:4114")],
                Some(403),
            ),
            (&[own, token, ("origin", "null")], Some(403)),
        ] {
            let mut map = HeaderMap::new();
            for (name, value) in headers {
                map.append(
                    HeaderName::from_static(name),
                    HeaderValue::from_static(value),
                );
            }
            let refusal = guard.refusal(&map).map(|status| status.as_u16());
            assert_eq!(refusal, expected, "{headers:?}");
        }
    }

    #[test]
    fn another_address_has_its_own_names() {
        let address = SocketAddr::from(([0, 0, 0, 0], 443));
        let named = ["ah.example".to_owned()];
        let guard = Guard::new(Token::new("secret"), Scheme::Https, address, &named);
        for (host, origin, expected) in [
            ("ah.example", None, None),
            ("ah.example:443", Some("https://ah.example"), None),
            ("ah.example", Some("http://ah.example"), Some(403)),
            ("0.0.0.0", None, Some(403)),
            ("evil.example", None, Some(403)),
        ] {
            let mut map = HeaderMap::new();
            map.insert(HOST, HeaderValue::from_static(host));
            map.insert(AUTHORIZATION, HeaderValue::from_static("Bearer secret"));
            if let Some(origin) = origin {
                map.insert(ORIGIN, HeaderValue::from_static(origin));
            }
            let refusal = guard.refusal(&map).map(|status| status.as_u16());
            assert_eq!(refusal, expected, "{host} {origin:?}");
        }
    }
}
