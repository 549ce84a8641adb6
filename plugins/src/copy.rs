//! Copies a folder of unknown origin: regular files only, up to a number and a size. Links are followed as far as they
//! stay inside; the rest is left out and named.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

/// Most files of a copy.
const MAX_FILES: usize = 20_000;
/// Most bytes of a copy.
const MAX_BYTES: u64 = 256 << 20;
/// Deepest folder of a copy; links may make a circle.
const MAX_DEPTH: usize = 24;

/// Copies `from` to the new folder `to`, and returns the paths that were left out, each with the reason. Links must stay
/// inside `bounds`.
///
/// # Errors
///
/// If it is too large, or cannot be read or written.
pub fn copy(from: &Path, to: &Path, bounds: &Path) -> io::Result<Vec<String>> {
    let bounds = fs::canonicalize(bounds)?;
    let root = fs::canonicalize(from)?;
    if !root.starts_with(&bounds) {
        return Err(io::Error::other(
            "it links to a file outside the marketplace",
        ));
    }
    let mut copying = Copying {
        bounds,
        files: 0,
        bytes: 0,
        left_out: Vec::new(),
    };
    copying.folder(&root, to, Path::new(""), 0)?;
    Ok(copying.left_out)
}

struct Copying {
    bounds: PathBuf,
    files: usize,
    bytes: u64,
    left_out: Vec<String>,
}

impl Copying {
    fn folder(&mut self, from: &Path, to: &Path, shown: &Path, depth: usize) -> io::Result<()> {
        if depth > MAX_DEPTH {
            return Err(too_large(&format!("folders deeper than {MAX_DEPTH}")));
        }
        fs::create_dir_all(to)?;
        let mut names = Vec::new();
        for entry in fs::read_dir(from)? {
            names.push(entry?.file_name());
        }
        names.sort();
        for name in names {
            // Of a nested repository or a submodule, too.
            if name != ".git" {
                self.entry(
                    &from.join(&name),
                    &to.join(&name),
                    &shown.join(&name),
                    depth,
                )?;
            }
        }
        Ok(())
    }

    fn entry(&mut self, from: &Path, to: &Path, shown: &Path, depth: usize) -> io::Result<()> {
        let Ok(real) = fs::canonicalize(from) else {
            self.leave_out(shown, "a broken link");
            return Ok(());
        };
        let is_git = real.iter().any(|name| name == ".git");
        if !real.starts_with(&self.bounds)
            || is_git && !self.bounds.iter().any(|name| name == ".git")
        {
            self.leave_out(shown, "a link to a file outside the plugin");
            return Ok(());
        }
        let metadata = fs::metadata(&real)?;
        if metadata.is_dir() {
            return self.folder(&real, to, shown, depth + 1);
        }
        if !metadata.is_file() {
            self.leave_out(shown, "not a regular file");
            return Ok(());
        }
        self.files += 1;
        self.bytes += metadata.len();
        if self.files > MAX_FILES {
            return Err(too_large(&format!("{MAX_FILES} files")));
        }
        if self.bytes > MAX_BYTES {
            return Err(too_large(&format!("{} MiB", MAX_BYTES >> 20)));
        }
        let content = fs::read(&real)?;
        let runs = metadata.permissions().mode() & 0o111 != 0;
        fs::write(to, content)?;
        fs::set_permissions(
            to,
            fs::Permissions::from_mode(if runs { 0o755 } else { 0o644 }),
        )
    }

    fn leave_out(&mut self, shown: &Path, why: &str) {
        self.left_out.push(format!("{}: {why}", shown.display()));
    }
}

fn too_large(most: &str) -> io::Error {
    io::Error::other(format!("it has more than {most}"))
}
