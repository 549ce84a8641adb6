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
