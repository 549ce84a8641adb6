//! What a path means: where relative ones begin, what symbolic links lead to, what may not be written, and how a
//! path is shown.
//!
//! Every file tool resolves a path once, here, and then touches exactly what it has told the permission rules.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs;
use std::path::{Component, Path, PathBuf};

use ah_conversation::Input;

/// How many symbolic links one path may lead through, as in the kernel.
const MAX_LINKS: usize = 40;

/// The place in which the file tools work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Workspace {
    cwd: PathBuf,
    home: Option<PathBuf>,
    protected: Vec<PathBuf>,
}

impl Workspace {
    /// A workspace at `cwd`. `home` is what `~` stands for; nothing at or below `protected` (relative to `cwd`) is
    /// ever written.
    pub fn new(cwd: &Path, home: Option<PathBuf>, protected: &[PathBuf]) -> Self {
        let cwd = real_path(cwd);
        let protected = protected
            .iter()
            .map(|folder| real_path(&cwd.join(folder)))
            .collect();
        Self {
            cwd,
            home,
            protected,
        }
    }

    /// The working directory, without symbolic links.
    pub fn cwd(&self) -> &Path {
        &self.cwd
    }

    /// The absolute path that `path` means, symbolic links followed as far as it exists.
    pub(crate) fn resolve(&self, path: &str) -> PathBuf {
        let from_home = match path.strip_prefix('~') {
            Some(rest) if rest.is_empty() || rest.starts_with('/') => {
                let below = rest.trim_start_matches('/');
                self.home.as_ref().map(|home| home.join(below))
            }
            _ => None,
        };
        real_path(&self.cwd.join(from_home.unwrap_or_else(|| path.into())))
    }

    /// What the path argument of a call means, if it has one.
    pub(crate) fn argument(&self, input: &Input) -> Option<PathBuf> {
        let path = input.text("path").or_else(|| input.text("file_path"))?;
        Some(self.resolve(path))
    }

    /// The path as it is shown: relative to the working directory where it lies below it.
    pub(crate) fn show(&self, path: &Path) -> String {
        let shown = match path.strip_prefix(&self.cwd) {
            Ok(below) if below.as_os_str().is_empty() => Path::new("."),
            Ok(below) => below,
            Err(_) => path,
        };
        shown.to_string_lossy().into_owned()
    }

    /// Refuses a resolved path that lies in a protected folder.
    pub(crate) fn check_writable(&self, path: &Path) -> Result<(), String> {
        let protecting = self
            .protected
            .iter()
            .find(|folder| path.starts_with(folder));
        match protecting {
            None => Ok(()),
            Some(folder) => Err(format!(
                "cannot write `{}`: `{}` is protected (AH_PROTECT_DIRS)",
                self.show(path),
                self.show(folder)
            )),
        }
    }
}

/// The path without `.`, `..` and symbolic links. What does not exist is taken for a plain name, so that the path
/// of a file still to be made resolves too.
fn real_path(path: &Path) -> PathBuf {
    let mut real = PathBuf::new();
    let mut rest: VecDeque<OsString> = parts(path).collect();
    let mut links = 0;
    while let Some(part) = rest.pop_front() {
        match Path::new(&part).components().next() {
            Some(Component::ParentDir) => {
                real.pop();
            }
            Some(Component::Normal(name)) => match fs::read_link(real.join(name)) {
                Ok(target) if links < MAX_LINKS => {
                    links += 1;
                    for part in parts(&target).rev() {
                        rest.push_front(part);
                    }
                }
                _ => real.push(name),
            },
            Some(Component::RootDir | Component::Prefix(_)) => real.push(&part),
            Some(Component::CurDir) | None => {}
        }
    }
    real
}

fn parts(path: &Path) -> impl DoubleEndedIterator<Item = OsString> {
    path.components().map(|part| part.as_os_str().to_owned())
}
