//! Detects whether this process already runs in a sandbox, in which no sandbox with namespaces can be built.
//!
//! It looks at the rights of the process and tries what they allow. An environment variable would prove nothing, since
//! anyone can set it.

use std::fs;

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketType, socket};

/// Returns whether this process has no capabilities and cannot gain any, runs under a system call filter, and has no
/// network: as in a sandbox of this crate, or in one as strict.
pub fn is_confined() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    is_powerless(&status) && (has_no_sockets() || has_only_loopback())
}

fn is_powerless(status: &str) -> bool {
    let is = |name: &str, expected: &str| {
        let mut fields = status.lines().filter_map(|line| line.split_once(':'));
        fields.any(|(field, value)| field == name && value.trim() == expected)
    };
    is("NoNewPrivs", "1") && is("Seccomp", "2") && is("CapPrm", "0000000000000000")
}

fn has_no_sockets() -> bool {
    socket(AddressFamily::INET, SocketType::DGRAM, None).err() == Some(Errno::PERM)
}

fn has_only_loopback() -> bool {
    // Two header lines, then one line per interface.
    let interfaces = fs::read_to_string("/proc/net/dev").unwrap_or_default();
    let mut names = interfaces
        .lines()
        .skip(2)
        .filter_map(|line| line.split_once(':'));
    names.next().is_some_and(|(name, _)| name.trim() == "lo") && names.next().is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_with_more_rights_is_not_confined() {
        let powerless = "Name:\tx\nCapPrm:\t0000000000000000\nNoNewPrivs:\t1\nSeccomp:\t2\n";
        assert!(is_powerless(powerless));
        for (now, then) in [
            ("NoNewPrivs:\t1", "NoNewPrivs:\t0"),
            ("Seccomp:\t2", "Seccomp:\t0"),
            ("CapPrm:\t0000000000000000", "CapPrm:\t00000000a80425fb"),
        ] {
            assert!(!is_powerless(&powerless.replace(now, then)), "{then}");
        }
        assert!(!is_powerless(""));
    }
}
