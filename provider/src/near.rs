//! Addresses of programs that the user runs: what holds for a vendor's server need not hold there.

use std::net::IpAddr;

/// Whether an address is of this machine or of the user's own network, where the user decides about the windows of models.
pub(crate) fn is_near(address: &str) -> bool {
    let Some(host) = host(address) else {
        return false;
    };
    match host.parse::<IpAddr>() {
        Ok(ip) if is_here(ip) => true,
        Ok(IpAddr::V4(ip)) => ip.is_private(),
        Ok(IpAddr::V6(ip)) => ip.is_unique_local(),
        Err(_) => !host.contains('.') || host.ends_with(".local") || host.ends_with(".localhost"),
    }
}

/// Returns whether an address is one of this machine.
pub(crate) fn is_loopback(address: &str) -> bool {
    host(address).is_some_and(|host| host == "localhost" || host.parse().is_ok_and(is_here))
}

fn is_here(ip: IpAddr) -> bool {
    ip.is_loopback() || ip.is_unspecified()
}

/// Returns the host of an address, which need not begin with a scheme: a name in small letters, or the number of a machine.
fn host(address: &str) -> Option<String> {
    let url = match address.contains("://") {
        true => reqwest::Url::parse(address),
        false => reqwest::Url::parse(&format!("http://{address}")),
    };
    let url = url.ok()?;
    Some(url.host_str()?.trim_matches(['[', ']']).to_owned())
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
            ("http://localhost:1@gpu.example", false),
            ("http://LOCALHOST:1", true),
            ("", false),
        ] {
            assert_eq!(is_loopback(address), is_here, "{address}");
        }
    }
}
