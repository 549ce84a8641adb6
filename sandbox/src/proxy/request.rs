//! A request to the proxy: bytes in, what is wanted out. No socket.

use crate::allowlist::Authority;

/// How long the head of a request may be.
pub(crate) const LONGEST_HEAD: usize = 8 * 1024;

/// What a client asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ProxyRequest {
    /// A tunnel.
    Connect(Authority),
    /// Something by plain HTTP: from where, and the head to be sent there.
    Http(Authority, Vec<u8>),
}

/// Why a request is answered with an error: the status, and the reason in a sentence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub status: &'static str,
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

/// The length of the head with its empty line, if all of it is there.
///
/// # Errors
///
/// Where it is too long, or holds what no head holds.
pub(crate) fn head_length(bytes: &[u8]) -> Result<Option<usize>, Refusal> {
    let end = bytes.windows(4).position(|four| four == b"\r\n\r\n");
    let head = &bytes[..end.map_or(bytes.len(), |end| end + 4)];
    if head.len() > LONGEST_HEAD || (end.is_none() && bytes.len() >= LONGEST_HEAD) {
        return Err(Refusal::new(
            "431 Request Header Fields Too Large",
            "the head of the request is too long",
        ));
    }
    let is_control = |byte: &u8| byte.is_ascii_control() && !matches!(byte, b'\r' | b'\n' | b'\t');
    if head.iter().any(is_control) {
        return Err(Refusal::malformed(
            "the head of the request has a control character",
        ));
    }
    let mut lines = head.split(|byte| *byte == b'\n');
    // Behind the last end of line there is nothing, or what has not come yet.
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

/// Reads a whole head.
///
/// # Errors
///
/// Where it asks for nothing that the proxy does, or could be read in two ways.
pub(crate) fn parse(head: &[u8]) -> Result<ProxyRequest, Refusal> {
    let Ok(head) = str::from_utf8(head) else {
        return Err(Refusal::malformed("the head of the request is not text"));
    };
    let (line, fields) = head.split_once("\r\n").unwrap_or((head, ""));
    let [method, target, version] = line.split(' ').collect::<Vec<_>>()[..] else {
        return Err(Refusal::malformed("malformed request line"));
    };
    if line.contains('\t') || !matches!(version, "HTTP/1.1" | "HTTP/1.0") {
        return Err(Refusal::malformed("malformed request line"));
    }
    let fields = parse_fields(fields)?;
    if method == "CONNECT" {
        if fields.iter().any(|(name, value)| is_body(name, value)) {
            return Err(Refusal::malformed("CONNECT has no body"));
        }
        return authority(target).map(ProxyRequest::Connect);
    }
    plain(method, target, version, &fields)
}

fn authority(text: &str) -> Result<Authority, Refusal> {
    text.parse::<Authority>()
        .map_err(|error| Refusal::malformed(&error.to_string()))
}

fn is_body(name: &str, value: &str) -> bool {
    name.eq_ignore_ascii_case("transfer-encoding")
        || (name.eq_ignore_ascii_case("content-length") && value != "0")
}

fn parse_fields(text: &str) -> Result<Vec<(&str, &str)>, Refusal> {
    let lines = text.split("\r\n").filter(|line| !line.is_empty());
    let fields = lines.map(|line| {
        let (name, value) = line.split_once(':')?;
        let is_token =
            |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
        // A line that goes on where another ended begins with a blank, which is no name.
        (!name.is_empty() && name.bytes().all(is_token))
            .then(|| (name, value.trim_matches([' ', '\t'])))
    });
    fields
        .collect::<Option<Vec<_>>>()
        .ok_or_else(|| Refusal::malformed("malformed field in the head of the request"))
}

/// A request by plain HTTP, as it is sent on: one request per connection, so that the next one is looked at as well.
fn plain(
    method: &str,
    target: &str,
    version: &str,
    fields: &[(&str, &str)],
) -> Result<ProxyRequest, Refusal> {
    let Some(rest) = strip_scheme(target) else {
        return Err(Refusal::new(
            "405 Method Not Allowed",
            "only CONNECT is understood here, and plain HTTP where --allow-http permits it",
        ));
    };
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    let (host, path) = rest.split_at(end);
    let has_port = host
        .rsplit_once(':')
        .is_some_and(|(_, port)| !port.ends_with(']'));
    let to = match has_port {
        true => authority(host)?,
        false => authority(&format!("{host}:80"))?,
    };
    let encodings = fields
        .iter()
        .filter(|(name, _)| name.eq_ignore_ascii_case("transfer-encoding"));
    let lengths = fields
        .iter()
        .filter(|(name, _)| name.eq_ignore_ascii_case("content-length"));
    if encodings.count() + lengths.count() > 1 {
        return Err(Refusal::malformed(
            "the length of the request could be read in two ways",
        ));
    }
    let slash = if path.starts_with('/') { "" } else { "/" };
    let mut head =
        format!("{method} {slash}{path} {version}\r\nHost: {to}\r\nConnection: close\r\n");
    let of_the_way = [
        "host",
        "connection",
        "proxy-connection",
        "proxy-authorization",
        "keep-alive",
        "upgrade",
        "te",
    ];
    for (name, value) in fields {
        if !of_the_way.iter().any(|own| name.eq_ignore_ascii_case(own)) {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
    }
    head.push_str("\r\n");
    Ok(ProxyRequest::Http(to, head.into_bytes()))
}

fn strip_scheme(target: &str) -> Option<&str> {
    let scheme = target.get(..7)?;
    scheme.eq_ignore_ascii_case("http://").then(|| &target[7..])
}

/// The answer that tells of a refusal.
pub(crate) fn answer(refusal: &Refusal) -> String {
    // What a client has sent must not end the line of an answer.
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
    fn what_could_be_read_in_two_ways_is_refused() {
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

    /// The authority that a complete, well-formed request names.
    fn requested_authority(bytes: &[u8]) -> Option<String> {
        let length = head_length(bytes).ok()??;
        match parse(&bytes[..length]).ok()? {
            ProxyRequest::Connect(to) | ProxyRequest::Http(to, _) => Some(to.to_string()),
        }
    }

    proptest! {
        #[test]
        fn what_is_wanted_is_one_host_and_port(
            start in "(CONNECT|GET|POST|connect)[ \t]{1,2}(http://)?",
            host in "[-a-zA-Z0-9.:@%_\\[\\]/#?]{0,30}",
            rest in "(:[0-9]{1,6})?(/x)? HTTP/1\\.[01]\r\n([A-Za-z-]{1,12}: ?[ -~]{0,12}\r\n){0,3}\r\n",
        ) {
            let text = format!("{start}{host}{rest}");
            if let Some(to) = requested_authority(text.as_bytes()) {
                // It is written in one way only, and stands so in what was sent.
                prop_assert_eq!(&to.parse::<Authority>().unwrap().to_string(), &to);
                let name = to.rsplit_once(':').unwrap().0;
                // An address of version 6 may be written in many ways.
                let is_there = text.to_ascii_lowercase().contains(name);
                prop_assert!(is_there || name.starts_with('['), "{to} {text:?}");
                prop_assert!(!name.contains(['@', '%', '/', '#', '?']), "{to}");
            }
        }

        #[test]
        fn whatever_comes_is_read_the_same_in_pieces(bytes in prop::collection::vec(any::<u8>(), 0..300), cut in 0_usize..300) {
            let cut = cut.min(bytes.len());
            if let Ok(Some(length)) = head_length(&bytes[..cut]) {
                prop_assert_eq!(head_length(&bytes), Ok(Some(length)));
            }
            let _ = parse(&bytes);
        }

        #[test]
        fn heads_are_found_wherever_they_end(name in "[a-z]{1,20}", port in 1_u16.., cut in 0_usize..40) {
            let text = format!("CONNECT {name}.example:{port} HTTP/1.1\r\nHost: x\r\n\r\n");
            prop_assert_eq!(read(&text), Ok(format!("{name}.example:{port}")));
            prop_assert_eq!(head_length(&text.as_bytes()[..cut.min(text.len() - 1)]), Ok(None));
        }
    }
}
