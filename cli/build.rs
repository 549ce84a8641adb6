//! Stamps the version: `0.1.0+9a4c8caf1` for a program to keep that is built from a git checkout, else `0.1.0`.
//!
//! Programs for development and tests bear the version alone. A commit would only make cargo link them once more, and
//! their tests would see another version after each.
//!
//! On Linux the program is linked for a fixed address, as those of Go and the Python of Debian are: else each start writes
//! the addresses of all constants, a megabyte of pages that are never used and never shared. What the stack, the heap and
//! the libraries get is random as ever.

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

/// Digits of a commit's hash. Git's own choice depends on the checkout, and the same commit must give the same program.
const DIGITS: usize = 9;

fn main() -> io::Result<()> {
    let mut out = io::stdout();
    let mut version = env::var("CARGO_PKG_VERSION").unwrap_or_default();
    // The folder of a crate unpacked from a registry has no workspace above it.
    let root = Path::new("..");
    let is_to_keep = env::var("PROFILE").is_ok_and(|profile| profile == "release");
    match is_to_keep.then(|| commit(root)).flatten() {
        Some((hash, log)) => {
            version.push('+');
            version.extend(hash.chars().take(DIGITS));
            writeln!(out, "cargo::rerun-if-changed={}", log.display())?;
        }
        None => writeln!(out, "cargo::rerun-if-changed=build.rs")?,
    }
    let is = |variable: &str, value: &str| env::var(variable).is_ok_and(|is| is == value);
    if is("CARGO_CFG_TARGET_OS", "linux") && is("CARGO_CFG_TARGET_ENV", "gnu") {
        writeln!(out, "cargo::rustc-link-arg-bins=-no-pie")?;
    }
    writeln!(out, "cargo::rustc-env=AH_VERSION={version}")
}

/// Returns the hash of the commit that is checked out in `root`, and a file that changes with it. `None` if `root` is
/// not the top of a git checkout, for example an unpacked archive in the repository of somebody else's packages.
fn commit(root: &Path) -> Option<(String, PathBuf)> {
    let top = git(root, &["rev-parse", "--show-toplevel"])?;
    if fs::canonicalize(top).ok()? != fs::canonicalize(root).ok()? {
        return None;
    }
    let hash = git(root, &["rev-parse", "--verify", "HEAD"])?;
    // The log of HEAD changes with each commit and checkout. Without it, HEAD itself says at least which branch it is.
    let file = ["logs/HEAD", "HEAD"].into_iter().find_map(|name| {
        let path = root.join(git(root, &["rev-parse", "--git-path", name])?);
        path.is_file().then_some(path)
    })?;
    Some((hash, file))
}

fn git(root: &Path, arguments: &[&str]) -> Option<String> {
    let output = Command::new("git")
        .arg("-C")
        .arg(root)
        .args(arguments)
        .output()
        .ok()?;
    let text = output.status.success().then_some(output.stdout)?;
    Some(String::from_utf8(text).ok()?.trim_end().to_owned())
}
