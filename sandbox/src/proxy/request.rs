//! Parses requests to the proxy. Pure: bytes in, request out.
//!
//! `httparse` does the tokens of the request line and the header fields. It accepts more than is safe for a proxy, so the
//! checks before and after it refuse whatever two parsers could read differently.

use httparse::{EMPTY_HEADER, Header, Status};

use crate::allowlist::Authority;

/// Longest accepted request head, in bytes.
pub(crate) const LONGEST_HEAD: usize = 8 * 1024;
/// Largest accepted number of header fields.
const MOST_FIELDS: usize = 128;
/// Status of a request to a host that is not allowed.
pub(crate) const FORBIDDEN: &str = "403 Forbidden";
const TOO_LARGE: &str = "431 Request Header Fields Too Large";
/// Fields that concern the connection to the proxy, or that the proxy sets itself.
const HOP_BY_HOP: [&str; 7] = [
    "host",
    "connection",
    "proxy-connection",
    "proxy-authorization",
    "keep-alive",
    "upgrade",
    "te",
];

/// Request of a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ProxyRequest {
    /// Tunnel to a host.
    Connect(Authority),
    /// Plain HTTP request: the host, and the head to send to it.
    Http(Authority, Vec<u8>),
}

/// Error response to a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refusal {
    /// HTTP status code and phrase.
    pub status: &'static str,
    /// Reason for people, one sentence.
    pub reason: String,
}

impl Refusal {
    pub fn new(status: &'static str, reason: impl Into<String>) -> Self {
        Self {
            status,
            reason: reason.into(),
        }
    }

    fn malformed(reason: &str) -> Self {
        Self::new("400 Bad Request", reason)
    }
}

/// Returns the length of the request head including its empty line, or `None` if more bytes are needed.
///
/// # Errors
///
/// If the head is too long, has control characters or has line endings other than CR LF.
pub(crate) fn head_length(bytes: &[u8]) -> Result<Option<usize>, Refusal> {
    let end = bytes.windows(4).position(|four| four == b"\r\n\r\n");
    let head = &bytes[..end.map_or(bytes.len(), |end| end + 4)];
    if head.len() > LONGEST_HEAD || (end.is_none() && bytes.len() >= LONGEST_HEAD) {
        return Err(Refusal::new(TOO_LARGE, "the request head is too long"));
    }
    let is_control = |byte: &u8| byte.is_ascii_control() && !matches!(byte, b'\r' | b'\n' | b'\t');
    if head.iter().any(is_control) {
        return Err(Refusal::malformed(
            "the request head contains a control character",
        ));
    }
    let mut lines = head.split(|byte| *byte == b'\n');
    // The text after the last LF is empty or an incomplete line.
    let unfinished = lines.next_back().unwrap_or_default();
    let is_bare = |line: &[u8]| {
        line.strip_suffix(b"\r")
            .is_none_or(|line| line.contains(&b'\r'))
    };
    let rest = unfinished.strip_suffix(b"\r").unwrap_or(unfinished);
    if lines.any(is_bare) || rest.contains(&b'\r') {
        return Err(Refusal::malformed(
            "a line of the request does not end with CR LF",
        ));
    }
    Ok(end.map(|end| end + 4))
}

/// Parses a complete request head, as delimited by [`head_length`].
///
/// # Errors
///
/// If the request is malformed or ambiguous, or neither CONNECT nor a plain HTTP request in absolute form.
pub(crate) fn parse(head: &[u8]) -> Result<ProxyRequest, Refusal> {
    if str::from_utf8(head).is_err() {
        return Err(Refusal::malformed("the request head is not UTF-8"));
    }
    // The parser skips empty lines before the request.
    if head.starts_with(b"\r\n") {
        return Err(Refusal::malformed("malformed request line"));
    }
    let mut fields = [EMPTY_HEADER; MOST_FIELDS];
    let mut request = httparse::Request::new(&mut fields);
    match request.parse(head) {
        Ok(Status::Complete(length)) if length == head.len() => {}
        Err(httparse::Error::TooManyHeaders) => {
            return Err(Refusal::new(TOO_LARGE, "too many header fields"));
        }
        Err(httparse::Error::HeaderName | httparse::Error::HeaderValue) => {
            return Err(Refusal::malformed("malformed header field"));
        }
        Ok(_) | Err(_) => return Err(Refusal::malformed("malformed request line")),
    }
    let (Some(method), Some(target), Some(version)) =
        (request.method, request.path, request.version)
    else {
        return Err(Refusal::malformed("malformed request line"));
    };
    let fields = request.headers;
    if method == "CONNECT" {
        if fields.iter().any(|field| is_body(field)) {
            return Err(Refusal::malformed("a CONNECT request must not have a body"));
        }
        return authority(target).map(ProxyRequest::Connect);
    }
    plain(method, target, version, fields)
}

fn authority(text: &str) -> Result<Authority, Refusal> {
    text.parse::<Authority>()
        .map_err(|error| Refusal::malformed(&error.to_string()))
}

fn is_body(field: &Header<'_>) -> bool {
    field.name.eq_ignore_ascii_case("transfer-encoding")
        || (field.name.eq_ignore_ascii_case("content-length") && field.value != b"0")
}

/// Rewrites a plain HTTP request for its server. The connection is closed after one request, so that every request is
/// checked.
fn plain(
    method: &str,
    target: &str,
    version: u8,
    fields: &[Header<'_>],
) -> Result<ProxyRequest, Refusal> {
    let Some(rest) = strip_scheme(target) else {
        return Err(Refusal::new(
            "405 Method Not Allowed",
            "the proxy accepts only CONNECT, and plain HTTP to hosts allowed by --allow-http",
        ));
    };
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    let (host, path) = rest.split_at(end);
    let has_port = host
        .rsplit_once(':')
        .is_some_and(|(_, port)| !port.ends_with(']'));
    let to = if has_port {
        authority(host)?
    } else {
        authority(&format!("{host}:80"))?
    };
    let is_length = |field: &&Header<'_>| {
        field.name.eq_ignore_ascii_case("transfer-encoding")
            || field.name.eq_ignore_ascii_case("content-length")
    };
    if fields.iter().filter(is_length).count() > 1 {
        return Err(Refusal::malformed("the length of the request is ambiguous"));
    }
    let slash = if path.starts_with('/') { "" } else { "/" };
    let mut head =
        format!("{method} {slash}{path} HTTP/1.{version}\r\nHost: {to}\r\nConnection: close\r\n")
            .into_bytes();
    for Header { name, value } in fields {
        if !HOP_BY_HOP.iter().any(|own| name.eq_ignore_ascii_case(own)) {
            head.extend([name.as_bytes(), b": ", value, b"\r\n"].concat());
        }
    }
    head.extend(b"\r\n");
    Ok(ProxyRequest::Http(to, head))
}

fn strip_scheme(target: &str) -> Option<&str> {
    let scheme = target.get(..7)?;
    scheme.eq_ignore_ascii_case("http://").then(|| &target[7..])
}

/// Formats the HTTP response to a refused request.
pub(crate) fn response(refusal: &Refusal) -> String {
    // The reason may quote the client, and must not break out of the header line.
    let reason: String = refusal.reason.chars().filter(|c| !c.is_control()).collect();
    let body = format!("ah sandbox: {reason}\n");
    format!(
        "HTTP/1.1 {}\r\nContent-Type: text/plain; charset=utf-8\r\nX-Ah-Sandbox: {}\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}",
        refusal.status,
        reason.escape_default(),
        body.len(),
    )
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(text: &str) -> Result<String, &'static str> {
        let length = head_length(text.as_bytes()).map_err(|refusal| refusal.status)?;
        let head = &text.as_bytes()[..length.ok_or("more")?];
        match parse(head) {
            Ok(ProxyRequest::Connect(to)) => Ok(to.to_string()),
            Ok(ProxyRequest::Http(to, head)) => Ok(format!(
                "{to} {}",
                String::from_utf8(head).unwrap().lines().next().unwrap()
            )),
            Err(refusal) => Err(refusal.status),
        }
    }

    #[test]
    fn a_plain_request_is_rewritten_for_its_server() {
        let head = "POST http://a.example/x HTTP/1.0\r\nHost: b.example\r\nUpgrade: y\r\nX-A:  \u{e4} \r\nContent-Length: 1\r\n\r\n";
        let Ok(ProxyRequest::Http(_, head)) = parse(head.as_bytes()) else {
            panic!("the request is well-formed");
        };
        assert_eq!(
            String::from_utf8(head).unwrap(),
            "POST /x HTTP/1.0\r\nHost: a.example:80\r\nConnection: close\r\nX-A: \u{e4}\r\nContent-Length: 1\r\n\r\n"
        );
    }

    #[test]
    fn ambiguous_requests_are_refused() {
        let (bad, long, method) = (
            "400 Bad Request",
            "431 Request Header Fields Too Large",
            "405 Method Not Allowed",
        );
        let padding = "x".repeat(LONGEST_HEAD);
        for (text, expected) in [
            (
                "CONNECT a.example:443 HTTP/1.1\r\nHost: b.example\r\n\r\n",
                Ok("a.example:443"),
            ),
            (
                "CONNECT a.example:443 HTTP/1.0\r\n\r\n",
                Ok("a.example:443"),
            ),
            (
                "CONNECT a.example:443 HTTP/1.1\r\nContent-Length: 0\r\n\r\n",
                Ok("a.example:443"),
            ),
            (
                "GET http://a.example/x?y HTTP/1.1\r\nHost: b.example\r\n\r\n",
                Ok("a.example:80 GET /x?y HTTP/1.1"),
            ),
            (
                "GET http://a.example?y HTTP/1.1\r\n\r\n",
                Ok("a.example:80 GET /?y HTTP/1.1"),
            ),
            (
                "GET HTTP://A.example:8080 HTTP/1.1\r\n\r\n",
                Ok("a.example:8080 GET / HTTP/1.1"),
            ),
            (
                "GET http://[::1]/ HTTP/1.1\r\n\r\n",
                Ok("[::1]:80 GET / HTTP/1.1"),
            ),
            ("CONNECT a.example:443 HTTP/1.1\r\n", Err("more")),
            ("CONNECT a.example:443\r\n\r\n", Err(bad)),
            ("CONNECT  a.example:443 HTTP/1.1\r\n\r\n", Err(bad)),
            ("CONNECT\ta.example:443 HTTP/1.1\r\n\r\n", Err(bad)),
            ("CONNECT a.example:443 HTTP/2\r\n\r\n", Err(bad)),
            ("CONNECT a.example:443 HTTP/1.1 x\r\n\r\n", Err(bad)),
            ("CONNECT a.example:443 HTTP/1.1\n\r\n\r\n", Err(bad)),
            (
                "CONNECT a.example:443 HTTP/1.1\r\nX: a\nHost: b\r\n\r\n",
                Err(bad),
            ),
            (
                "CONNECT a.example:443 HTTP/1.1\r\nX: a\rb\r\n\r\n",
                Err(bad),
            ),
            ("CONNECT a.example:443\0 HTTP/1.1\r\n\r\n", Err(bad)),
            (
                "CONNECT a.example:443 HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello",
                Err(bad),
            ),
            (
                "CONNECT a.example:443 HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n",
                Err(bad),
            ),
            (
                "CONNECT a.example:443 HTTP/1.1\r\n folded\r\n\r\n",
                Err(bad),
            ),
            (
                "CONNECT a.example:443 HTTP/1.1\r\nno field\r\n\r\n",
                Err(bad),
            ),
            (
                "CONNECT a.example:443 HTTP/1.1\r\nName : x\r\n\r\n",
                Err(bad),
            ),
            ("CONNECT http://a.example:443/ HTTP/1.1\r\n\r\n", Err(bad)),
            ("CONNECT a.example:443/path HTTP/1.1\r\n\r\n", Err(bad)),
            ("CONNECT u@a.example:443 HTTP/1.1\r\n\r\n", Err(bad)),
            ("CONNECT a.example HTTP/1.1\r\n\r\n", Err(bad)),
            ("connect a.example:443 HTTP/1.1\r\n\r\n", Err(method)),
            ("GET / HTTP/1.1\r\nHost: a.example\r\n\r\n", Err(method)),
            ("GET https://a.example/ HTTP/1.1\r\n\r\n", Err(method)),
            ("GET ftp://a.example/ HTTP/1.1\r\n\r\n", Err(method)),
            ("GET http://u:p@a.example/ HTTP/1.1\r\n\r\n", Err(bad)),
            ("GET http://a.example:x/ HTTP/1.1\r\n\r\n", Err(bad)),
            ("GET http:///x HTTP/1.1\r\n\r\n", Err(bad)),
            (
                "POST http://a.example/ HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
                Err(bad),
            ),
            (
                "POST http://a.example/ HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
                Err(bad),
            ),
            ("\r\n\r\n", Err(bad)),
            ("\r\nCONNECT a.example:443 HTTP/1.1\r\n\r\n", Err(bad)),
            (" http://a.example/ HTTP/1.1\r\n\r\n", Err(bad)),
            ("G(T http://a.example/ HTTP/1.1\r\n\r\n", Err(bad)),
            (
                "GET http://a.example/ HTTP/1.1\r\nX: a\r\n b\r\n\r\n",
                Err(bad),
            ),
            (
                &format!(
                    "GET http://a.example/ HTTP/1.1\r\n{}\r\n",
                    "X: y\r\n".repeat(128)
                ),
                Ok("a.example:80 GET / HTTP/1.1"),
            ),
            (
                &format!(
                    "GET http://a.example/ HTTP/1.1\r\n{}\r\n",
                    "X: y\r\n".repeat(129)
                ),
                Err(long),
            ),
            ("\u{16}\u{3}\u{1}", Err(bad)),
            (&format!("CONNECT {padding}"), Err(long)),
            (
                &format!("CONNECT a.example:443 HTTP/1.1\r\nX: {padding}\r\n\r\n"),
                Err(long),
            ),
        ] {
            assert_eq!(
                read(text).as_deref().map_err(|status| *status),
                expected,
                "{text:?}"
            );
        }
    }

    /// Returns the authority that a complete, well-formed request names.
    fn requested_authority(bytes: &[u8]) -> Option<String> {
        let length = head_length(bytes).ok()??;
        match parse(&bytes[..length]).ok()? {
            ProxyRequest::Connect(to) | ProxyRequest::Http(to, _) => Some(to.to_string()),
        }
    }

    proptest! {
        #[test]
        fn an_accepted_request_names_one_host_and_port(
            start in "(CONNECT|GET|POST|connect)[ \t]{1,2}(http://)?",
            host in "[-a-zA-Z0-9.:@%_\\[\\]/#?]{0,30}",
            rest in "(:[0-9]{1,6})?(/x)? HTTP/1\\.[01]\r\n([A-Za-z-]{1,12}: ?[ -~]{0,12}\r\n){0,3}\r\n",
        ) {
            let text = format!("{start}{host}{rest}");
            if let Some(to) = requested_authority(text.as_bytes()) {
                // It has only one spelling, which is a part of the request.
                prop_assert_eq!(&to.parse::<Authority>().unwrap().to_string(), &to);
                let name = to.rsplit_once(':').unwrap().0;
                // IPv6 addresses have several spellings.
                let is_there = text.to_ascii_lowercase().contains(name);
                prop_assert!(is_there || name.starts_with('['), "{to} {text:?}");
                prop_assert!(!name.contains(['@', '%', '/', '#', '?']), "{to}");
            }
        }

        #[test]
        fn the_head_length_does_not_depend_on_how_bytes_are_split(bytes in prop::collection::vec(any::<u8>(), 0..300), cut in 0_usize..300) {
            let cut = cut.min(bytes.len());
            if let Ok(Some(length)) = head_length(&bytes[..cut]) {
                prop_assert_eq!(head_length(&bytes), Ok(Some(length)));
            }
            let _ = parse(&bytes);
        }

        #[test]
        fn an_incomplete_head_needs_more_bytes(name in "[a-z]{1,20}", port in 1_u16.., cut in 0_usize..40) {
            let text = format!("CONNECT {name}.example:{port} HTTP/1.1\r\nHost: x\r\n\r\n");
            prop_assert_eq!(read(&text), Ok(format!("{name}.example:{port}")));
            prop_assert_eq!(head_length(&text.as_bytes()[..cut.min(text.len() - 1)]), Ok(None));
        }
    }
}
