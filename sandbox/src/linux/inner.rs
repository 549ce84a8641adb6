//! Whether a sandbox is around this process already, so that none with namespaces of its own can be built.
//!
//! That is found out by looking at what the process can do, and by trying: a variable that says so could have been set
//! by anybody.

use std::fs;

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketType, socket};

/// Whether this process has given up its privileges for good, is under a filter of system calls, and has no network of
/// the machine: as in the sandbox that this crate builds, or in one that is as tight.
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
    // Two lines of headings, and one for each interface.
    let interfaces = fs::read_to_string("/proc/net/dev").unwrap_or_default();
    let mut names = { interfaces.lines().skip(2) }.filter_map(|line| line.split_once(':'));
    names.next().is_some_and(|(name, _)| name.trim() == "lo") && names.next().is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_could_do_more_is_in_no_sandbox() {
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
