//! Resolves paths: the working directory, symbolic links, paths that may not be written, and how a path is shown.
//!
//! Every file tool resolves a path once, here, and then touches exactly what the permission rules were asked about.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs;
use std::io::{self, Cursor, Read, Seek};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use ah_conversation::{Access, Embedded, EmbeddedEntry, Input, Interface, without_dots};
use ah_process::Confinement;

use crate::file::{self, FileError};
use crate::naming::accepts;

/// Limit for the symbolic links in one path, as in the kernel.
const MAX_LINKS: usize = 40;

/// Working directory of the file tools, and their limits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Workspace {
    cwd: PathBuf,
    home: Option<PathBuf>,
    protected: Vec<PathBuf>,
    embedded: Arc<Embedded>,
    confinement: Option<Arc<Confinement>>,
}

/// An open file, on the disk or in memory.
pub(crate) struct OpenFile<'a> {
    pub(crate) source: FileSource<'a>,
    pub(crate) len: u64,
}

impl<'a> OpenFile<'a> {
    /// Returns a file with this content, which is in memory.
    pub(crate) fn of(content: &'a [u8]) -> Self {
        Self {
            source: FileSource::Memory(Cursor::new(content)),
            len: content.len() as u64,
        }
    }
}

/// Source of the bytes of a file.
pub(crate) enum FileSource<'a> {
    Disk(fs::File),
    Memory(Cursor<&'a [u8]>),
}

impl Read for FileSource<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Disk(file) => file.read(buffer),
            Self::Memory(content) => content.read(buffer),
        }
    }
}

impl Seek for FileSource<'_> {
    fn seek(&mut self, to: io::SeekFrom) -> io::Result<u64> {
        match self {
            Self::Disk(file) => file.seek(to),
            Self::Memory(content) => content.seek(to),
        }
    }
}

impl Workspace {
    /// Returns a workspace at `cwd`. `home` replaces `~`; nothing at or below the paths in `protected` (relative to `cwd`) is
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
            embedded: Arc::default(),
            confinement: None,
        }
    }

    /// Adds the files that are embedded in the program, which can be read.
    #[must_use]
    pub fn with_embedded(self, embedded: Arc<Embedded>) -> Self {
        Self { embedded, ..self }
    }

    /// Limits the file tools to what a command under this policy may do.
    #[must_use]
    pub fn confined(self, confinement: Arc<Confinement>) -> Self {
        let confinement = Some(confinement);
        Self {
            confinement,
            ..self
        }
    }

    /// Returns the working directory, without symbolic links.
    pub fn cwd(&self) -> &Path {
        &self.cwd
    }

    /// Returns the absolute path of `path`, with symbolic links in it.
    fn absolute(&self, path: &str) -> PathBuf {
        let from_home = match path.strip_prefix('~') {
            Some(rest) if rest.is_empty() || rest.starts_with('/') => {
                let below = rest.trim_start_matches('/');
                self.home.as_ref().map(|home| home.join(below))
            }
            _ => None,
        };
        self.cwd.join(from_home.unwrap_or_else(|| path.into()))
    }

    /// Returns the absolute path of `path`, symbolic links followed as far as it exists.
    pub(crate) fn resolve(&self, path: &str) -> PathBuf {
        self.place(&self.absolute(path))
    }

    /// Resolves a path in which `~` is a name like any other.
    pub(crate) fn place(&self, path: &Path) -> PathBuf {
        let path = self.cwd.join(path);
        Embedded::place(&path).unwrap_or_else(|| self.kept(real_path(&path)))
    }

    /// Returns whether the file tools are confined to a policy.
    #[cfg(feature = "lua")]
    pub(crate) fn is_confined(&self) -> bool {
        self.confinement.is_some()
    }

    /// Returns the absolute path of `path` without `.` and `..`, if it leads through symbolic links.
    pub(crate) fn named(&self, path: &str) -> Option<PathBuf> {
        let name = without_dots(&self.absolute(path));
        (name != self.resolve(path)).then_some(name)
    }

    /// Returns the accesses of a call that does `access` to the file `path`: to the file, and to the name of a link to it.
    pub(crate) fn touched(&self, path: &str, access: fn(PathBuf) -> Access) -> Vec<Access> {
        std::iter::once(access(self.resolve(path)))
            .chain(self.named(path).map(Access::Named))
            .collect()
    }

    /// Returns the place of a path of a confined command, for which the sandbox may keep another file there.
    fn kept(&self, path: PathBuf) -> PathBuf {
        self.confinement
            .as_ref()
            .and_then(|confinement| confinement.backing_path(&path))
            .map_or(path, |kept| real_path(&kept))
    }

    /// Refuses a resolved path that the policy hides, or that holds what belongs to a process.
    pub(crate) fn check_readable(&self, path: &Path) -> Result<(), String> {
        if is_of_process(path) {
            return Err(format!(
                "cannot read `{}`: it shows the memory or the environment of a process",
                path.display()
            ));
        }
        let is_embedded = self.embedded_at(path).is_some();
        match &self.confinement {
            Some(confinement) if !is_embedded && !confinement.may_read(path) => Err(format!(
                "cannot read `{}`: the sandbox hides it; `--unveil {}` would show it",
                self.show(path),
                path.display()
            )),
            Some(_) | None => Ok(()),
        }
    }

    /// Returns the embedded files, if the resolved `path` is in their root.
    pub(crate) fn embedded_at(&self, path: &Path) -> Option<&Embedded> {
        Embedded::place(path).map(|_| &*self.embedded)
    }

    /// Opens the regular file at a resolved path.
    pub(crate) fn open(&self, path: &Path) -> Result<OpenFile<'_>, FileError> {
        let Some(embedded) = self.embedded_at(path) else {
            // A search finds files in a folder that are hidden although the folder is not.
            if self.check_readable(path).is_err() {
                return Err(FileError::Special("hidden"));
            }
            let (file, metadata) = file::open(path)?;
            return Ok(OpenFile {
                source: FileSource::Disk(file),
                len: metadata.len(),
            });
        };
        match embedded.at(path) {
            Some(EmbeddedEntry::File(file)) => Ok(OpenFile::of(&file.content)),
            Some(EmbeddedEntry::Folder(_)) => Err(FileError::Directory),
            None => Err(FileError::Missing),
        }
    }

    /// Returns an error if there is no regular file at a resolved path.
    pub(crate) fn check_regular(&self, path: &Path) -> Result<(), FileError> {
        match self.embedded_at(path) {
            Some(_) => self.open(path).map(drop),
            None => file::regular(path).map(drop),
        }
    }

    /// Returns the accesses of a call that does `access` to the file of its path argument; none if it has no valid one.
    pub(crate) fn argument(
        &self,
        input: &Input,
        interface: Interface,
        access: fn(PathBuf) -> Access,
    ) -> Vec<Access> {
        let names = ["path", "file_path", "notebook_path"];
        let path = names.iter().find_map(|name| input.text(name));
        path.filter(|path| accepts(interface, path))
            .map_or_else(Vec::new, |path| self.touched(path, access))
    }

    /// Refuses a path in a form that `interface` does not accept, and names the absolute path that was probably meant.
    pub(crate) fn check_form(&self, interface: Interface, path: &str) -> Result<(), String> {
        if accepts(interface, path) {
            return Ok(());
        }
        Err(format!(
            "`{path}` is a relative path, and it has to be absolute: `{}`?",
            self.resolve(path).display()
        ))
    }

    /// Returns the path for display: relative to the working directory if it is below it.
    pub(crate) fn show(&self, path: &Path) -> String {
        let shown = match path.strip_prefix(&self.cwd) {
            Ok(below) if below.as_os_str().is_empty() => Path::new("."),
            Ok(below) => below,
            Err(_) => path,
        };
        shown.to_string_lossy().into_owned()
    }

    /// Refuses a resolved path that is protected, by the user or the sandbox, or embedded in the program.
    pub(crate) fn check_writable(&self, path: &Path) -> Result<(), String> {
        if self.embedded_at(path).is_some() {
            return Err(format!(
                "cannot write `{}`: it is a part of the program, which can only be read",
                path.display()
            ));
        }
        if path.starts_with("/proc") {
            return Err(format!(
                "cannot write `{}`: it controls a process or the system",
                path.display()
            ));
        }
        if let Some(confinement) = &self.confinement {
            let access = confinement.access_to(path);
            if !access.write || !access.create {
                return Err(format!(
                    "cannot write `{}`: the sandbox protects it; the user can change it, or allow it with `--no-sandbox`",
                    self.show(path)
                ));
            }
        }
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

/// Whether a resolved path holds the memory, the environment or the open files of a process, or leads to its folders.
fn is_of_process(path: &Path) -> bool {
    const PRIVATE: [&str; 18] = [
        "auxv",
        "cwd",
        "environ",
        "exe",
        "fd",
        "fdinfo",
        "map_files",
        "maps",
        "mem",
        "numa_maps",
        "pagemap",
        "personality",
        "root",
        "smaps",
        "smaps_rollup",
        "stack",
        "syscall",
        "wchan",
    ];
    let Ok(below) = path.strip_prefix("/proc") else {
        return false;
    };
    let mut parts = below.iter().map(|part| part.to_string_lossy());
    match parts.next().as_deref() {
        Some("kcore" | "kpagecgroup" | "kpagecount" | "kpageflags") => true,
        Some(_) => {
            let mut rest = parts.skip_while(|part| {
                part == "task" || part.bytes().all(|byte| byte.is_ascii_digit())
            });
            rest.next().is_some_and(|name| PRIVATE.contains(&&*name))
        }
        None => false,
    }
}

/// Returns the path without `.`, `..` and symbolic links. What does not exist is taken for a plain name, so that the
/// path of a new file is resolved too.
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
