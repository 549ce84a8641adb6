//! The variable `NO_PROXY`: which hosts are asked without the proxy. Pure.
//!
//! There is no standard; this is what curl, Python, Go and Node agree on, and where they differ, what makes fewer requests
//! go to the proxy.

use std::net::IpAddr;

use reqwest::Url;

/// Whether a list of names excepts the host of this address. Names are separated by commas and blanks; `*` is every host, a
/// name stands for its subdomains as well, with or without a leading dot, networks are written `10.0.0.0/8`, and a port
/// restricts an entry to it.
pub(crate) fn excepts(list: &str, url: &Url) -> bool {
    let Some(host) = url.host_str() else {
        return false;
    };
    let entries = list.split(|c: char| c == ',' || c == ';' || c.is_whitespace());
    let mut entries = entries.filter(|entry| !entry.is_empty());
    entries.any(|entry| is_of(entry, host, url.port_or_known_default()))
}

fn is_of(entry: &str, host: &str, port: Option<u16>) -> bool {
    if entry == "*" {
        return true;
    }
    let (name, only) = split(entry);
    if only.is_some_and(|only| Some(only) != port) {
        return false;
    }
    match host.trim_start_matches('[').trim_end_matches(']').parse() {
        Ok(address) => has(name, address),
        Err(_) => is_within(host, name),
    }
}

/// Splits `NAME:PORT`, of which an address with colons has none but behind brackets.
fn split(entry: &str) -> (&str, Option<u16>) {
    if let Some((address, rest)) = entry.strip_prefix('[').and_then(|it| it.split_once(']')) {
        return (
            address,
            rest.strip_prefix(':').and_then(|port| port.parse().ok()),
        );
    }
    match entry.split_once(':') {
        Some((name, port)) if !port.contains(':') => match port.parse() {
            Ok(port) => (name, Some(port)),
            Err(_) => (entry, None),
        },
        _ => (entry, None),
    }
}

fn is_within(host: &str, name: &str) -> bool {
    let plain = |name: &str| name.trim_end_matches('.').to_ascii_lowercase();
    let name = name.strip_prefix('*').unwrap_or(name);
    let (host, name) = (plain(host), plain(name.trim_start_matches('.')));
    !name.is_empty()
        && host
            .strip_suffix(&name)
            .is_some_and(|before| before.is_empty() || before.ends_with('.'))
}

/// Whether an entry is this address, or a network with it.
fn has(entry: &str, address: IpAddr) -> bool {
    let (network, bits) = match entry.split_once('/') {
        Some((network, bits)) => (network, bits.parse::<u32>().ok()),
        None => (entry, Some(128)),
    };
    let (Ok(network), Some(bits)) = (network.parse::<IpAddr>(), bits) else {
        return false;
    };
    match (network, address) {
        (IpAddr::V4(network), IpAddr::V4(address)) => {
            let shift = 32_u32.saturating_sub(bits);
            let first = |address: u32| address.checked_shr(shift).unwrap_or(0);
            first(network.to_bits()) == first(address.to_bits())
        }
        (IpAddr::V6(network), IpAddr::V6(address)) => {
            let shift = 128_u32.saturating_sub(bits);
            let first = |address: u128| address.checked_shr(shift).unwrap_or(0);
            first(network.to_bits()) == first(address.to_bits())
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read_as_other_programs_read_them() {
        for (list, url, expected) in [
            ("*", "https://a.example", true),
            ("a, *", "http://127.0.0.1:8080", true),
            ("", "https://a.example", false),
            (" , ", "https://a.example", false),
            ("127.0.0.1 localhost", "http://127.0.0.1:1", true),
            ("b.example\ta.example", "https://a.example", true),
            ("a.example", "https://A.Example", true),
            ("a.example", "https://x.a.example", true),
            (".a.example", "https://x.a.example", true),
            (".a.example", "https://a.example", true),
            ("*.a.example", "https://x.a.example", true),
            ("a.example.", "https://a.example", true),
            ("a.example", "https://ba.example", false),
            ("a.example", "https://a.example.org", false),
            ("a.example:8443", "https://a.example:8443", true),
            ("a.example:8443", "https://a.example", false),
            ("a.example:443", "https://a.example", true),
            ("localhost:3000", "http://localhost:3000", true),
            ("127.0.0.0/8", "http://127.9.9.9", true),
            ("10.0.0.0/8", "http://11.0.0.1", false),
            ("0.0.0.0/0", "http://11.0.0.1", true),
            ("10.0.0.0/x", "http://10.0.0.1", false),
            ("::1", "http://[::1]:80", true),
            ("[::1]:81", "http://[::1]:80", false),
            ("[::1]", "http://[::1]:80", true),
            ("fd00::/8", "http://[fd12::1]", true),
            ("fd00::/8", "http://[fe12::1]", false),
            ("1", "http://127.0.0.1", false),
        ] {
            let url = Url::parse(url).unwrap();
            assert_eq!(excepts(list, &url), expected, "{list:?} {url}");
        }
    }
}
