//! Addresses of programs that the user runs: what holds for a vendor's server need not hold there.

use std::net::IpAddr;

/// Whether an address is of this machine or of the user's own network, where the user decides about the windows of models.
pub(crate) fn is_near(address: &str) -> bool {
    let Ok(url) = reqwest::Url::parse(address) else {
        return false;
    };
    let host = url.host_str().unwrap_or_default();
    let address = host.trim_matches(['[', ']']).parse::<IpAddr>();
    match address {
        Ok(IpAddr::V4(address)) => {
            address.is_loopback() || address.is_private() || address.is_unspecified()
        }
        Ok(IpAddr::V6(address)) => {
            address.is_loopback() || address.is_unique_local() || address.is_unspecified()
        }
        Err(_) => !host.contains('.') || host.ends_with(".local") || host.ends_with(".localhost"),
    }
}

/// Returns whether an address is one of this machine.
pub(crate) fn is_loopback(address: &str) -> bool {
    let (_, rest) = address.split_once("://").unwrap_or(("", address));
    let authority = rest.split(['/', '?']).next().unwrap_or_default();
    let host = match authority.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => authority.split(':').next().unwrap_or_default(),
    };
    let is_address = |ip: IpAddr| ip.is_loopback() || ip.is_unspecified();
    host.eq_ignore_ascii_case("localhost") || host.parse().is_ok_and(is_address)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_this_machine_are_known() {
        for (address, is_here) in [
            ("http://127.0.0.1:8080", true),
            ("http://localhost:1234/v1", true),
            ("http://[::1]:8080/v1", true),
            ("http://0.0.0.0:1", true),
            ("127.0.0.2", true),
            ("http://gpu.example:8080", false),
            ("http://192.168.0.7:8080", false),
            ("http://localhost.example/127.0.0.1", false),
            ("", false),
        ] {
            assert_eq!(is_loopback(address), is_here, "{address}");
        }
    }
}
