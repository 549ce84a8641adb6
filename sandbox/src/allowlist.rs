//! Allowlist of network hosts: exact hosts and ports, and domains.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// Host and port. Names are lower case; IPv6 addresses are without brackets.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Authority {
    /// Name or address.
    pub host: Host,
    /// Port, never 0.
    pub port: u16,
}

/// Host part of an authority.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Host {
    /// Name, resolved when connecting.
    Name(String),
    /// IP address.
    Address(IpAddr),
}

/// Error for text that is not a valid host and port.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid host and port `{0}`; expected HOST:PORT, as in example.com:443")]
pub struct AuthorityError(String);

impl FromStr for Authority {
    type Err = AuthorityError;

    /// Parses `host:port` strictly: ambiguous spellings are refused.
    fn from_str(text: &str) -> Result<Self, AuthorityError> {
        parse(text).ok_or_else(|| AuthorityError(text.chars().take(300).collect()))
    }
}

fn parse(text: &str) -> Option<Authority> {
    let (host, port) = text.rsplit_once(':')?;
    let is_port = (1..=5).contains(&port.len())
        && port.bytes().all(|byte| byte.is_ascii_digit())
        && !port.starts_with('0');
    let port = port.parse().ok().filter(|_| is_port)?;
    let host = match host.strip_prefix('[') {
        // A zone (`%eth0`) is not accepted as part of an address.
        Some(rest) => Host::Address(rest.strip_suffix(']')?.parse::<Ipv6Addr>().ok()?.into()),
        None => name_or_address(host)?,
    };
    Some(Authority { host, port })
}

fn name_or_address(text: &str) -> Option<Host> {
    if let Ok(address) = text.parse::<Ipv4Addr>() {
        return Some(Host::Address(address.into()));
    }
    let labels: Vec<_> = text.split('.').collect();
    let is_label = |label: &&str| {
        (1..=63).contains(&label.len())
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
    };
    let last = labels.last()?.to_ascii_lowercase();
    // Some resolvers read such names as addresses: 2130706433, 0x7f000001, 127.1, 0177.0.0.1.
    let may_be_number = last.bytes().all(|byte| byte.is_ascii_digit())
        || last
            .strip_prefix("0x")
            .is_some_and(|rest| rest.bytes().all(|byte| byte.is_ascii_hexdigit()));
    let is_name = text.len() <= 253 && labels.iter().all(is_label) && !may_be_number;
    is_name.then(|| Host::Name(text.to_ascii_lowercase()))
}

impl fmt::Display for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

impl fmt::Display for Host {
    /// Formats the host as in a URL: IPv6 addresses in brackets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => f.write_str(name),
            Self::Address(IpAddr::V4(address)) => write!(f, "{address}"),
            Self::Address(IpAddr::V6(address)) => write!(f, "[{address}]"),
        }
    }
}

/// Domain pattern: a host, or `*.` and a name for all subdomains. Applies to every port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Domain {
    name: Host,
    is_below: bool,
}

impl FromStr for Domain {
    type Err = AuthorityError;

    /// Parses `example.com`, `*.example.com` or an address.
    fn from_str(text: &str) -> Result<Self, AuthorityError> {
        let (name, is_below) = match text.strip_prefix("*.") {
            Some(name) => (name, true),
            None => (text, false),
        };
        let invalid = || AuthorityError(text.chars().take(300).collect());
        let name = parse(&format!("{name}:1")).ok_or_else(invalid)?.host;
        // `*.com` is too broad to be a domain, and an address has no subdomains.
        let is_sound = match &name {
            Host::Name(name) => !is_below || name.contains('.'),
            Host::Address(_) => !is_below,
        };
        is_sound
            .then_some(Self { name, is_below })
            .ok_or_else(invalid)
    }
}

impl fmt::Display for Domain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let below = if self.is_below { "*." } else { "" };
        write!(f, "{below}{}", self.name)
    }
}

impl Domain {
    /// Returns whether the pattern matches `host`.
    pub fn covers(&self, host: &Host) -> bool {
        match (&self.name, host) {
            (Host::Name(domain), Host::Name(name)) if self.is_below => name
                .strip_suffix(domain.as_str())
                .is_some_and(|rest| rest.ends_with('.')),
            (own, host) => own == host,
        }
    }
}

/// Kind of outgoing connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Egress {
    /// CONNECT tunnel; the proxy does not see its content.
    Tunnel,
    /// Plain HTTP.
    Http,
}

impl Egress {
    /// Returns the command-line option that allows this kind.
    pub fn option(self) -> &'static str {
        match self {
            Self::Tunnel => "--allow-host",
            Self::Http => "--allow-http",
        }
    }
}

/// Rules for outgoing connections.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Allowlist {
    /// Hosts reachable through a tunnel.
    pub tunnels: Vec<Authority>,
    /// Hosts reachable by plain HTTP.
    pub http: Vec<Authority>,
    /// Domains reachable through a tunnel to port 443 and by plain HTTP on port 80.
    pub domains: Vec<Domain>,
    /// Domains that are never reachable; takes precedence over all other rules.
    pub denied: Vec<Domain>,
    /// Whether hosts that are not listed are refused without asking.
    pub is_complete: bool,
}

impl Allowlist {
    /// Returns whether `to` is allowed without asking.
    pub fn permits(&self, to: &Authority, egress: Egress) -> bool {
        let (listed, port) = match egress {
            Egress::Tunnel => (&self.tunnels, 443),
            Egress::Http => (&self.http, 80),
        };
        let is_covered = || self.domains.iter().any(|domain| domain.covers(&to.host));
        !self.denies(to) && (listed.contains(to) || (to.port == port && is_covered()))
    }

    /// Returns whether `to` is denied by `denied`.
    pub fn denies(&self, to: &Authority) -> bool {
        self.denied.iter().any(|domain| domain.covers(&to.host))
    }

    /// Returns whether connecting to this address is allowed: always for public addresses, otherwise only if this exact
    /// address is listed.
    pub fn permits_address(&self, address: IpAddr, port: u16) -> bool {
        let typed = Authority {
            host: Host::Address(address),
            port,
        };
        is_public(address) || self.tunnels.contains(&typed) || self.http.contains(&typed)
    }
}

/// Returns whether an address is globally routable: not loopback, private, link-local or a cloud's metadata service.
pub fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    let is_reserved = match (a, b, c) {
        (0 | 10 | 127 | 240..=255, _, _) | (169, 254, _) | (192, 168, _) => true,
        (100, 64..=127, _) | (172, 16..=31, _) | (198, 18..=19, _) => true,
        (192, 0, 0 | 2) | (192, 88, 99) | (198, 51, 100) | (203, 0, 113) => true,
        _ => address.is_multicast(),
    };
    // The metadata address of one cloud.
    !is_reserved && address.octets() != [168, 63, 129, 16]
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    let segments = address.segments();
    // Globally assigned unicast, without transition mechanisms (IPv4 inside IPv6) and documentation ranges.
    let is_global = segments[0] & 0xe000 == 0x2000;
    let is_special = matches!(
        segments,
        [0x2001, 0..=0x1ff, ..] | [0x2001, 0xdb8, ..] | [0x2002, ..] | [0x3fff, 0..=0xfff, ..]
    );
    is_global && !is_special
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ambiguous_spellings_are_refused() {
        for (text, expected) in [
            ("example.com:443", Some("example.com:443")),
            ("EXAMPLE.Com:443", Some("example.com:443")),
            ("93.184.216.34:80", Some("93.184.216.34:80")),
            ("[2606:2800:220:1::1]:443", Some("[2606:2800:220:1::1]:443")),
            ("[::FFFF:1.2.3.4]:443", Some("[::ffff:1.2.3.4]:443")),
            ("a_b.example:1", Some("a_b.example:1")),
            (
                "xn--bcher-kva.example:443",
                Some("xn--bcher-kva.example:443"),
            ),
            ("example.com", None),
            ("example.com:", None),
            ("example.com:0", None),
            ("example.com:00443", None),
            ("example.com:0443", None),
            ("example.com:+443", None),
            ("example.com:-1", None),
            ("example.com:65536", None),
            ("example.com:99999999999", None),
            ("example.com:4 43", None),
            ("example.com:https", None),
            (":443", None),
            ("example.com.:443", None),
            (".example.com:443", None),
            ("example..com:443", None),
            ("-example.com:443", None),
            ("user@example.com:443", None),
            ("user:pass@example.com:443", None),
            ("example.com/x:443", None),
            ("example.com#x:443", None),
            ("example.com%2eevil:443", None),
            ("example.com\u{0}.evil:443", None),
            ("example.com\t:443", None),
            (" example.com:443", None),
            ("ex\u{e4}mple.com:443", None),
            ("2130706433:443", None),
            ("0x7f000001:443", None),
            ("0x7f.0.0.0x1:443", None),
            ("127.1:443", None),
            ("0177.0.0.1:443", None),
            ("127.0.0.1.:443", None),
            ("::1:443", None),
            ("[::1:443", None),
            ("[::1%lo]:443", None),
            ("[127.0.0.1]:443", None),
            ("[example.com]:443", None),
            ("[]:443", None),
            ("", None),
        ] {
            let read = text
                .parse::<Authority>()
                .ok()
                .map(|authority| authority.to_string());
            assert_eq!(read.as_deref(), expected, "{text:?}");
        }
    }

    #[test]
    fn private_addresses_are_dialled_only_if_listed() {
        for (address, expected) in [
            ("93.184.216.34", true),
            ("8.8.8.8", true),
            ("2606:2800:220:1::1", true),
            ("127.0.0.1", false),
            ("127.9.9.9", false),
            ("0.0.0.0", false),
            ("10.1.2.3", false),
            ("172.16.0.1", false),
            ("172.32.0.1", true),
            ("192.168.1.1", false),
            ("169.254.169.254", false),
            ("100.64.0.1", false),
            ("100.128.0.1", true),
            ("168.63.129.16", false),
            ("198.18.0.1", false),
            ("224.0.0.1", false),
            ("255.255.255.255", false),
            ("::", false),
            ("::1", false),
            ("::ffff:127.0.0.1", false),
            ("::ffff:8.8.8.8", false),
            ("64:ff9b::7f00:1", false),
            ("2002:7f00:1::", false),
            ("2001::1", false),
            ("2001:db8::1", false),
            ("fd00::1", false),
            ("fe80::1", false),
            ("fd00:ec2::254", false),
            ("ff02::1", false),
        ] {
            assert_eq!(is_public(address.parse().unwrap()), expected, "{address}");
        }
        let typed = Allowlist {
            tunnels: vec!["127.0.0.1:8080".parse().unwrap()],
            ..Allowlist::default()
        };
        assert!(typed.permits_address("127.0.0.1".parse().unwrap(), 8080));
        assert!(!typed.permits_address("127.0.0.1".parse().unwrap(), 8081));
        assert!(!typed.permits_address("127.0.0.2".parse().unwrap(), 8080));
    }

    #[test]
    fn a_domain_covers_its_subdomains_only() {
        for (domain, host, expected) in [
            ("*.example.com", "a.example.com", true),
            ("*.example.com", "A.b.Example.com", true),
            ("*.example.com", "example.com", false),
            ("*.example.com", "notexample.com", false),
            ("*.example.com", "example.com.evil.org", false),
            ("example.com", "example.com", true),
            ("example.com", "a.example.com", false),
            ("93.184.216.34", "93.184.216.34", true),
        ] {
            let domain: Domain = domain.parse().unwrap();
            let to: Authority = format!("{host}:443").parse().unwrap();
            assert_eq!(domain.covers(&to.host), expected, "{domain} {host}");
        }
        for text in [
            "*",
            "*.",
            "*.com",
            "**.example.com",
            "a.*.com",
            "*.1.2.3.4",
            "*example.com",
            "",
            "a:1",
        ] {
            assert!(text.parse::<Domain>().is_err(), "{text}");
        }
    }

    #[test]
    fn denied_domains_take_precedence_over_allowed_ones() {
        let domain = |text: &str| text.parse::<Domain>().unwrap();
        let list = Allowlist {
            tunnels: vec![
                "a.example.com:8443".parse().unwrap(),
                "evil.example.com:443".parse().unwrap(),
            ],
            domains: vec![domain("*.example.com")],
            denied: vec![domain("evil.example.com")],
            ..Allowlist::default()
        };
        for (to, egress, expected) in [
            ("b.example.com:443", Egress::Tunnel, true),
            ("b.example.com:80", Egress::Http, true),
            ("b.example.com:80", Egress::Tunnel, false),
            ("b.example.com:22", Egress::Tunnel, false),
            ("a.example.com:8443", Egress::Tunnel, true),
            ("evil.example.com:443", Egress::Tunnel, false),
            ("example.com:443", Egress::Tunnel, false),
        ] {
            assert_eq!(
                list.permits(&to.parse().unwrap(), egress),
                expected,
                "{to} {egress:?}"
            );
        }
    }
}
