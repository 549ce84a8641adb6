//! Folders of dependencies, whose programs the check may use: they are not copied, and must be as they were when the check
//! was sealed.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use ah_beneath::{Folder, Status};
use ah_ignored::{DirEntry, walk_all};
use rustix::fs::FileType;
use sha2::{Digest as _, Sha256};

use crate::compiled::{COMPILED, is_compiled};

/// The name of such folders anywhere in a project.
const ANYWHERE: &str = "node_modules";
/// Names of such folders at the top of a project.
const AT_THE_TOP: [&str; 3] = [".venv", "venv", "vendor"];
/// Folders at the top of them that are written by each use. In the sandbox, the check does not see them.
const CACHES: [&str; 3] = [".cache", ".vite", ".vitest"];

/// The folders of a project.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Dependencies(pub(crate) Vec<Dependency>);

/// One of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Dependency {
    /// Path in the project: the folder, or a link to it.
    pub(crate) path: PathBuf,
    /// The folder itself.
    pub(crate) folder: PathBuf,
    /// Stands for its content when the check was sealed.
    pub(crate) content: [u8; 32],
    /// The caches of Python in it then.
    pub(crate) caches: Compiled,
}

/// Paths of the folders in which Python keeps what it has compiled, relative to that of dependencies. Each has a value that changes with
/// its files.
pub(crate) type Compiled = BTreeMap<PathBuf, [u8; 32]>;

/// Whether something with this name, so deep in a project, is of dependencies.
pub(crate) fn is_dependency(name: &OsStr, depth: usize) -> bool {
    name == ANYWHERE || depth == 1 && AT_THE_TOP.iter().any(|known| name == *known)
}

/// Returns the folders of dependencies of a project: each as it is called there, and where it is.
fn found(project: &Path) -> Vec<(PathBuf, PathBuf)> {
    let walk = walk_all(project)
        .filter_entry(|entry| {
            let parent = entry.path().parent().and_then(Path::file_name);
            let is_inside = parent.is_some_and(|name| is_dependency(name, entry.depth() - 1));
            entry.file_name() != ".git" && !(entry.depth() > 1 && is_inside)
        })
        .build();
    let entries = walk.flatten();
    let named = entries.filter(|entry| is_dependency(entry.file_name(), entry.depth()));
    named
        .filter_map(|entry| {
            let folder = fs::canonicalize(entry.path()).ok()?;
            folder.is_dir().then(|| (entry.into_path(), folder))
        })
        .collect()
}

impl Dependencies {
    pub(crate) fn of(project: &Path) -> Self {
        let found = found(project).into_iter();
        let dependencies = found.map(|(path, folder)| {
            let now = State::of(&folder, project);
            Dependency {
                path,
                folder,
                content: now.content,
                caches: now.caches,
            }
        });
        Self(dependencies.collect())
    }

    /// Returns each path in the project, and the folder that it stands for.
    pub(crate) fn links(&self) -> Vec<(PathBuf, PathBuf)> {
        let links = self.0.iter().map(|it| (it.path.clone(), it.folder.clone()));
        links.collect()
    }

    /// Returns the folders.
    pub(crate) fn folders(&self) -> Vec<PathBuf> {
        self.0.iter().map(|it| it.folder.clone()).collect()
    }

    /// Looks at the folders.
    pub(crate) fn states(&self, project: &Path) -> Vec<State> {
        let states = self.0.iter().map(|it| State::of(&it.folder, project));
        states.collect()
    }

    /// Returns the first folder that has changed since the check was sealed.
    pub(crate) fn changed(&self, now: &[State]) -> Option<PathBuf> {
        let pairs = self.0.iter().zip(now);
        let mut changed = pairs.filter(|(it, now)| now.content != it.content);
        changed.next().map(|(it, _)| it.path.clone())
    }

    /// Returns the caches whose content may be anything: those that each use of the tools writes, and those of Python that have
    /// changed since the check was sealed. The check is not to see them.
    pub(crate) fn caches(&self, now: &[State]) -> Vec<PathBuf> {
        let mut caches = Vec::new();
        for (it, now) in self.0.iter().zip(now) {
            let named = CACHES.iter().map(|name| it.folder.join(name));
            caches.extend(named.filter(|path| path.is_dir()));
            let changed = now
                .caches
                .iter()
                .filter(|(path, hash)| it.caches.get(*path) != Some(hash));
            caches.extend(changed.map(|(path, _)| it.folder.join(path)));
        }
        caches
    }

    /// Returns the first folder in which something was put in the place of something else between two looks at them, and be it
    /// that all is as before.
    pub(crate) fn exchanged(&self, before: &[State], now: &[State]) -> Option<PathBuf> {
        let pairs = self.0.iter().zip(before.iter().zip(now));
        let mut exchanged = pairs.filter(|(it, (before, now))| {
            let is_seen = |(path, hash): &(&PathBuf, &[u8; 32])| it.caches.get(*path) == Some(hash);
            let mut seen = before.caches.iter().filter(is_seen);
            before.folders != now.folders
                || seen.any(|(path, hash)| now.caches.get(path) != Some(hash))
        });
        exchanged.next().map(|(it, _)| it.path.clone())
    }
}

/// A folder at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct State {
    /// Changes with its names, and with the time of each file's last change, which nobody can set. Caches are left out.
    content: [u8; 32],
    /// Changes with each folder in it, too, and with those around it in the project.
    folders: [u8; 32],
    /// The caches of Python in it.
    caches: Compiled,
}

impl State {
    fn of(folder: &Path, project: &Path) -> Self {
        let (mut content, mut folders) = (Sha256::new(), Sha256::new());
        let around = folder.ancestors().take_while(|above| *above != project);
        // Elsewhere, nobody has given the model the folders around it.
        let around = around.take(if folder.starts_with(project) {
            usize::MAX
        } else {
            1
        });
        for above in around {
            let (Some(parent), Some(name)) = (above.parent(), above.file_name()) else {
                continue;
            };
            let found = Folder::follow(parent).and_then(|parent| parent.status(name));
            if let Ok(Some(status)) = found {
                folders.update(stamp(&status).as_bytes());
            }
        }
        let Ok(top) = Folder::follow(folder) else {
            return Self::finished(content, folders, BTreeMap::new());
        };
        let mut caches: BTreeMap<PathBuf, Sha256> = BTreeMap::new();
        let mut walk = walk_all(folder);
        walk.sort_by_file_name(OsStr::cmp)
            .filter_entry(|entry| !is_cache(entry));
        for entry in walk.build().flatten() {
            let Ok(below) = entry.path().strip_prefix(folder) else {
                continue;
            };
            let Ok(Some(status)) = top.look(below) else {
                continue;
            };
            let is_folder = status.kind == FileType::Directory;
            if is_folder && entry.file_name() == COMPILED {
                // What comes and goes in it while a check runs leaves its time there.
                let hash = caches.entry(below.to_owned()).or_default();
                hash.update(stamp(&status).as_bytes());
                continue;
            }
            let hash = match status.kind {
                // While no check runs, caches come and go in it.
                FileType::Directory => &mut folders,
                _ if is_compiled(&top, below) => {
                    let cache = below.parent().unwrap_or(Path::new(""));
                    caches.entry(cache.to_owned()).or_default()
                }
                _ => &mut content,
            };
            hash.update(below.as_os_str().as_encoded_bytes());
            hash.update(stamp(&status).as_bytes());
        }
        Self::finished(content, folders, caches)
    }

    fn finished(content: Sha256, folders: Sha256, caches: BTreeMap<PathBuf, Sha256>) -> Self {
        Self {
            content: content.finalize().into(),
            folders: folders.finalize().into(),
            caches: { caches.into_iter() }
                .map(|(path, hash)| (path, hash.finalize().into()))
                .collect(),
        }
    }
}

/// Whether this is a cache, whose content does not count.
fn is_cache(entry: &DirEntry) -> bool {
    let name = entry.file_name();
    let is_one = entry.depth() == 1 && CACHES.iter().any(|known| name == *known);
    let is_folder = entry.file_type().is_some_and(|kind| kind.is_dir());
    is_folder && is_one
}

fn stamp(status: &Status) -> String {
    let Status {
        mode,
        // Devices are numbered anew when the machine starts.
        identity: (_, inode),
        length,
        changed,
        ..
    } = status;
    format!("\0{mode} {inode} {length} {changed:?}\n")
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// Of a folder with compiled files, these alone do not count.
    #[test]
    fn what_is_hidden_among_compiled_files_is_seen() {
        let folder = tempfile::tempdir().unwrap();
        let project = folder.path().canonicalize().unwrap();
        let modules = project.join("node_modules");
        fs::create_dir_all(modules.join("__pycache__")).unwrap();
        fs::write(modules.join("m.py"), "").unwrap();
        for (name, is_seen) in [
            ("m.cpython-312.pyc", false),
            ("product.js", true),
            ("other.cpython-312.pyc", true),
        ] {
            let dependencies = Dependencies::of(&project);
            let path = modules.join("__pycache__").join(name);
            fs::write(&path, b"\xcb\x0d\r\n").unwrap();
            let changed = dependencies.changed(&dependencies.states(&project));
            assert_eq!(changed.is_some(), is_seen, "{name}");
            fs::remove_file(path).unwrap();
        }
    }

    /// Of the caches of Python those are left out that have changed; one that changes while the check runs is seen if it was not.
    #[test]
    fn caches_that_have_changed_are_left_out() {
        let folder = tempfile::tempdir().unwrap();
        let project = folder.path().canonicalize().unwrap();
        let modules = project.join(".venv/lib");
        for package in ["a", "b", "c"] {
            fs::create_dir_all(modules.join(package).join("__pycache__")).unwrap();
            fs::write(modules.join(package).join("m.py"), "").unwrap();
        }
        let compile = |package: &str, text: &[u8]| {
            let path = modules.join(package).join("__pycache__/m.cpython-312.pyc");
            fs::write(path, [b"\xcb\x0d\r\n", text].concat()).unwrap();
        };
        compile("a", b"");
        compile("b", b"");
        let dependencies = Dependencies::of(&project);
        let known = dependencies.states(&project);
        assert_eq!(dependencies.caches(&known), [""; 0].map(PathBuf::from));
        compile("b", b"forged");
        compile("c", b"new");
        let before = dependencies.states(&project);
        let changed = ["b", "c"].map(|it| modules.join(it).join("__pycache__"));
        assert_eq!(dependencies.caches(&before), changed);
        assert_eq!(dependencies.changed(&before), None);
        compile("b", b"once more");
        let now = dependencies.states(&project);
        assert_eq!(dependencies.exchanged(&before, &now), None);
        // What comes and goes is seen; two changes within a tick of the clock have the same time.
        let passing = modules.join("a/__pycache__/n.cpython-312.pyc");
        while { dependencies.exchanged(&before, &dependencies.states(&project)) }.is_none() {
            fs::write(&passing, "").unwrap();
            fs::remove_file(&passing).unwrap();
        }
        let before = dependencies.states(&project);
        assert_eq!(
            dependencies.caches(&before)[0],
            modules.join("a/__pycache__")
        );
        let known = Dependencies::of(&project);
        let before = known.states(&project);
        compile("a", b"forged");
        assert!(known.exchanged(&before, &known.states(&project)).is_some());
    }

    /// What is put in the place of a folder leaves a trace there, and be it taken away again.
    #[test]
    fn an_exchange_is_seen_although_all_is_as_before() {
        for (moved, is_seen) in [
            ("packages/a/node_modules/.bin", true),
            ("packages/a/node_modules", true),
            ("packages/a", true),
            ("packages", true),
            ("src", false),
        ] {
            let folder = tempfile::tempdir().unwrap();
            let project = folder.path().canonicalize().unwrap();
            let bin = project.join("packages/a/node_modules/.bin");
            fs::create_dir_all(&bin).unwrap();
            fs::create_dir(project.join("src")).unwrap();
            fs::write(bin.join("checker"), "").unwrap();
            let dependencies = Dependencies::of(&project);
            let before = dependencies.states(&project);
            assert_eq!(
                dependencies.exchanged(&before, &dependencies.states(&project)),
                None
            );
            // Two changes within a tick of the clock have the same time.
            while dependencies
                .exchanged(&before, &dependencies.states(&project))
                .is_none()
            {
                let (there, away) = (project.join(moved), project.join("away"));
                fs::rename(&there, &away).unwrap();
                fs::create_dir(&there).unwrap();
                fs::remove_dir(&there).unwrap();
                fs::rename(&away, &there).unwrap();
                if !is_seen {
                    break;
                }
            }
            let now = dependencies.states(&project);
            assert_eq!(
                dependencies.exchanged(&before, &now).is_some(),
                is_seen,
                "{moved}"
            );
            assert_eq!(dependencies.changed(&now), None, "{moved}");
        }
    }
}
