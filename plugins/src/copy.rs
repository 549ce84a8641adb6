//! Copies a folder of unknown origin: regular files only, up to a number and a size. Links are followed as far as they
//! stay inside; the rest is left out and named.

use std::ffi::OsStr;
use std::io::{self, Read as _};
use std::path::Path;

use ah_beneath::Folder;
use ah_config::installed::MADE_BY_PYTHON;
use rustix::fs::OFlags;

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
    let bounds = std::fs::canonicalize(bounds)?;
    let root = std::fs::canonicalize(from)?;
    let Ok(below) = root.strip_prefix(&bounds) else {
        return Err(io::Error::other(
            "it links to a file outside the marketplace",
        ));
    };
    let mut copying = Copying {
        open: Folder::open(&bounds)?,
        bounds: &bounds,
        files: 0,
        bytes: 0,
        left_out: Vec::new(),
    };
    let (above, name) = parts(to)?;
    std::fs::create_dir_all(above)?;
    let above = Folder::follow(above)?;
    copying.folder(below, (&above, name), Path::new(""), 0)?;
    Ok(copying.left_out)
}

/// Where something is copied to: a folder, and a new name in it.
type Place<'a> = (&'a Folder, &'a OsStr);

struct Copying<'a> {
    bounds: &'a Path,
    /// The folder at `bounds`. Where links lead is looked up before, and all is read through it, without following any: another
    /// program may put one there meanwhile.
    open: Folder,
    files: usize,
    bytes: u64,
    left_out: Vec<String>,
}

impl Copying<'_> {
    /// Copies the folder `from`, which is below the bounds.
    fn folder(
        &mut self,
        from: &Path,
        (above, name): Place<'_>,
        shown: &Path,
        depth: usize,
    ) -> io::Result<()> {
        if depth > MAX_DEPTH {
            return Err(too_large(&format!("folders deeper than {MAX_DEPTH}")));
        }
        let mut names = self.open.folder(from)?.list()?;
        above.create_folder(name, 0o777)?;
        let to = above.folder(Path::new(name))?;
        names.sort();
        for name in names {
            // Of a nested repository or a submodule, too. What Python has compiled it makes again.
            if name != ".git" && name != MADE_BY_PYTHON {
                self.entry(&from.join(&name), (&to, &name), &shown.join(&name), depth)?;
            }
        }
        Ok(())
    }

    fn entry(
        &mut self,
        from: &Path,
        (to, name): Place<'_>,
        shown: &Path,
        depth: usize,
    ) -> io::Result<()> {
        let Ok(real) = std::fs::canonicalize(self.bounds.join(from)) else {
            self.leave_out(shown, "a broken link");
            return Ok(());
        };
        let is_git = |path: &Path| path.iter().any(|name| name == ".git");
        let below = real.strip_prefix(self.bounds).ok();
        let Some(real) = below.filter(|below| !is_git(below)) else {
            self.leave_out(shown, "a link to a file outside the plugin");
            return Ok(());
        };
        if real == Path::new("") {
            return self.folder(real, (to, name), shown, depth + 1);
        }
        let (around, own) = self.open.entry(real)?;
        let found = around.status(own)?.ok_or(io::ErrorKind::NotFound)?;
        if found.is_folder() {
            return self.folder(real, (to, name), shown, depth + 1);
        }
        if !found.is_file() {
            self.leave_out(shown, "not a regular file");
            return Ok(());
        }
        self.files += 1;
        if self.files > MAX_FILES {
            return Err(too_large(&format!("{MAX_FILES} files")));
        }
        let mode = if found.mode & 0o111 == 0 {
            0o644
        } else {
            0o755
        };
        // It may grow meanwhile.
        let mut content = around
            .open_file(own, OFlags::RDONLY)?
            .take(MAX_BYTES - self.bytes + 1);
        self.bytes += io::copy(&mut content, &mut to.create_file(name, 0o600)?)?;
        if self.bytes > MAX_BYTES {
            return Err(too_large(&format!("{} MiB", MAX_BYTES >> 20)));
        }
        to.set_mode(name, mode)
    }

    fn leave_out(&mut self, shown: &Path, why: &str) {
        self.left_out.push(format!("{}: {why}", shown.display()));
    }
}

fn too_large(most: &str) -> io::Error {
    io::Error::other(format!("it has more than {most}"))
}

/// Returns the folder of a path, and the name in it.
fn parts(path: &Path) -> io::Result<(&Path, &OsStr)> {
    let parts = path.parent().zip(path.file_name());
    parts.ok_or_else(|| io::Error::other("it has no name"))
}
