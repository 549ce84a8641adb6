//! Programs of the system that tests start.

use std::path::PathBuf;

/// Returns the path of a program in `PATH`, or its name if there is none. By its name and with an environment of its own,
/// the standard library starts a program by `fork`, which copies the page tables of a process with all its tests.
pub fn found(name: &str) -> PathBuf {
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let mut places = std::env::split_paths(&folders).map(|folder| folder.join(name));
    let found = places.find(|place| place.is_file());
    found.unwrap_or_else(|| name.into())
}
