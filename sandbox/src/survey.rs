//! Looks up on disk what a policy speaks of: which paths there are, what they lead through, what must not be seen.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Component, Path, PathBuf};
use std::sync::LazyLock;

use crate::access::{Access, Grant, Tier};
use crate::confinement::Confinement;
use crate::git::linked_repository;
use crate::plan::{Layout, Mount, MountSource, SYSTEM};

/// How many symbolic links one path may lead through, as in the kernel.
const MAX_LINKS: usize = 40;
/// How large a temporary folder of one command may become, in MiB.
const ROOM: u64 = 1024;

impl Layout {
    /// Looks up what `confinement` speaks of.
    pub fn of(confinement: &Confinement) -> io::Result<Self> {
        let mut layout = Self::default();
        for path in SYSTEM {
            if Path::new(path).exists() {
                layout.add(Path::new(path), MountSource::Same, Access::RUN)?;
            }
        }
        layout.add_temporary(confinement)?;
        for grant in confinement.in_order() {
            layout.add(&grant.path, MountSource::Same, grant.access)?;
        }
        layout.add_git(confinement)?;
        layout.protect(&confinement.workspace, &confinement.protected);
        layout.masked.extend(PRIVATE.iter().cloned());
        layout.hide(&confinement.hidden)?;
        layout.mask_credentials();
        // Stable: of two places alike, the later covers the earlier.
        layout
            .mounts
            .sort_by_key(|mount| mount.path.components().count());
        layout.leave_out_repetitions();
        if confinement.tier == Tier::Landlock {
            layout.stay();
        }
        Ok(layout)
    }

    /// Nothing can be put in the place of anything: what is kept elsewhere is used there.
    fn stay(&mut self) {
        self.mounts.retain_mut(|mount| match &mount.source {
            MountSource::Same => true,
            MountSource::Other(path) => {
                mount.path.clone_from(path);
                true
            }
            MountSource::Empty { .. } => false,
        });
    }

    /// Leaves out what the place around it gives already.
    fn leave_out_repetitions(&mut self) {
        let mut kept: Vec<Mount> = Vec::with_capacity(self.mounts.len());
        for mount in self.mounts.drain(..) {
            let around = kept
                .iter()
                .rfind(|around| mount.path.starts_with(&around.path));
            let is_repetition = around.is_some_and(|around| {
                around.access == mount.access
                    && [&around.source, &mount.source] == [&MountSource::Same, &MountSource::Same]
            });
            if !is_repetition {
                kept.push(mount);
            }
        }
        self.mounts = kept;
    }

    fn add(&mut self, path: &Path, source: MountSource, access: Access) -> io::Result<()> {
        let (real, links) = resolve(path)?;
        if real == Path::new("/") {
            return Err(io::Error::other("the whole file system cannot be granted"));
        }
        if source == MountSource::Same {
            fs::symlink_metadata(&real)?;
        }
        self.links.extend(links);
        self.mounts.push(Mount {
            path: real,
            source,
            access,
        });
        Ok(())
    }

    fn add_temporary(&mut self, confinement: &Confinement) -> io::Result<()> {
        for (path, name) in confinement.temporary() {
            let source = match &confinement.scratch {
                Some(scratch) => MountSource::Other(scratch.join(name)),
                None => MountSource::Empty { mebibytes: ROOM },
            };
            self.add(&path, source, Access::ALL)?;
        }
        Ok(())
    }

    /// A commit writes where git keeps things, but not what git obeys.
    fn add_git(&mut self, confinement: &Confinement) -> io::Result<()> {
        if let Some(common) = linked_repository(&confinement.workspace) {
            self.add(&common, MountSource::Same, Access::ALL)?;
        }
        self.pinned = repositories(&confinement.workspace, &confinement.protected);
        Ok(())
    }

    /// Puts an empty folder in the place of each that is hidden, in which what is granted below finds its place.
    fn hide(&mut self, hidden: &[PathBuf]) -> io::Result<()> {
        for path in hidden.iter().filter_map(|path| fs::canonicalize(path).ok()) {
            match path.is_dir() {
                true => self.add(&path, MountSource::Empty { mebibytes: 1 }, Access::READ)?,
                false => self.masked.push(path),
            }
        }
        Ok(())
    }

    fn protect(&mut self, folder: &Path, names: &[PathBuf]) {
        for name in names {
            let path = folder.join(name);
            // One that leads elsewhere is looked at when the command has ended.
            if is_plain(folder, name) {
                self.mounts.push(Mount {
                    path,
                    source: MountSource::Same,
                    access: Access::RUN,
                });
            }
        }
    }

    /// Tool chains are seen, but not the keys that some keep beside them.
    fn mask_credentials(&mut self) {
        let read_only = self
            .mounts
            .iter()
            .filter(|mount| mount.source == MountSource::Same && mount.access.is_read_only());
        let found: Vec<_> = read_only
            .flat_map(|mount| KEYS.map(|name| mount.path.join(name)))
            .filter(|path| path.is_file())
            .collect();
        self.masked.extend(found);
    }
}

/// Files of tool chains that hold keys.
const KEYS: [&str; 2] = ["credentials", "credentials.toml"];

/// The path without symbolic links, and the links that it leads through.
fn resolve(path: &Path) -> io::Result<(PathBuf, Vec<(PathBuf, PathBuf)>)> {
    let mut rest: Vec<PathBuf> = vec![path.to_owned()];
    let mut real = PathBuf::from("/");
    let mut links = Vec::new();
    while let Some(next) = rest.pop() {
        let mut components = next.components();
        let Some(first) = components.next() else {
            continue;
        };
        let behind = components.as_path().to_owned();
        if !behind.as_os_str().is_empty() {
            rest.push(behind);
        }
        match first {
            Component::RootDir | Component::Prefix(_) => real = PathBuf::from("/"),
            Component::CurDir => {}
            Component::ParentDir => {
                real.pop();
            }
            Component::Normal(name) => match fs::read_link(real.join(name)) {
                Ok(target) => {
                    if links.len() == MAX_LINKS {
                        return Err(io::Error::other("too many symbolic links"));
                    }
                    links.push((real.join(name), target.clone()));
                    rest.push(target);
                }
                Err(_) => real.push(name),
            },
        }
    }
    Ok((real, links))
}

impl Confinement {
    /// What is to be watched while a command runs: the protected names that may be made, those whose folder is there,
    /// and the repositories.
    pub(crate) fn watched_paths(&self) -> Vec<PathBuf> {
        let paths = self.protected.iter().map(|name| self.workspace.join(name));
        let paths = paths.filter(|path| path.parent().is_some_and(Path::is_dir));
        let repositories = repositories(&self.workspace, &self.protected);
        paths.chain(repositories).collect()
    }
}

/// The repositories and parts of such whose configuration is protected: another one must not take their place.
fn repositories(workspace: &Path, protected: &[PathBuf]) -> Vec<PathBuf> {
    let paths = protected.iter().map(|name| workspace.join(name));
    let obeyed = paths.filter(|path| path.ends_with("config") || path.ends_with("commondir"));
    let mut found: Vec<_> = obeyed
        .filter_map(|path| path.parent().map(Path::to_owned))
        .filter(|folder| folder.ends_with(".git") || folder.join("HEAD").exists())
        .filter(|folder| is_plain(Path::new("/"), folder) && folder.is_dir())
        .collect();
    found.sort();
    found.dedup();
    found
}

/// Whether `name` is there below `folder`, and no part of it is a symbolic link.
pub(crate) fn is_plain(folder: &Path, name: &Path) -> bool {
    let mut path = folder.to_owned();
    name.components().all(|part| {
        path.push(part);
        fs::symlink_metadata(&path).is_ok_and(|metadata| !metadata.is_symlink())
    })
}

/// What in `/etc` is not for everybody: root would read it inside as well. Looked up once, since it takes long.
static PRIVATE: LazyLock<Vec<PathBuf>> = LazyLock::new(|| {
    let mut found = Vec::new();
    let mut folders = vec![PathBuf::from("/etc")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            // Most are links, which are for everybody; what they lead to is looked at where it lies.
            let kind = entry.file_type();
            let Some(kind) = kind.ok().filter(|kind| !kind.is_symlink()) else {
                continue;
            };
            let Ok(metadata) = entry.metadata() else {
                continue;
            };
            let needed = if kind.is_dir() { 0o005 } else { 0o004 };
            let is_open = metadata.permissions().mode() & needed == needed;
            match is_open {
                false => found.push(entry.path()),
                true if kind.is_dir() => folders.push(entry.path()),
                true => {}
            }
        }
    }
    found
});

/// Folders of tool chains below a home directory. Caches and settings are not among them.
const TOOL_CHAINS: [&str; 29] = [
    ".asdf",
    ".bun",
    ".cargo",
    ".deno/bin",
    ".dotnet",
    ".elan",
    ".fnm",
    ".ghcup",
    ".jbang",
    ".jdks",
    ".julia",
    ".linuxbrew",
    ".local/bin",
    ".local/lib",
    ".local/share/fnm",
    ".local/share/mise",
    ".local/share/pipx",
    ".local/share/pnpm",
    ".local/share/uv",
    ".m2/repository",
    ".nodenv",
    ".nvm",
    ".opam",
    ".pyenv",
    ".rbenv",
    ".rustup",
    ".sdkman/candidates",
    ".volta",
    "go",
];
/// Variables that say where a tool chain is.
const TOOL_CHAIN_VARIABLES: [&str; 18] = [
    "BUN_INSTALL",
    "CARGO_HOME",
    "CONDA_PREFIX",
    "DENO_INSTALL",
    "DOTNET_ROOT",
    "GOMODCACHE",
    "GOPATH",
    "GOROOT",
    "JAVA_HOME",
    "NVM_BIN",
    "NVM_DIR",
    "PNPM_HOME",
    "PYENV_ROOT",
    "RBENV_ROOT",
    "RUSTUP_HOME",
    "SDKMAN_DIR",
    "VIRTUAL_ENV",
    "VOLTA_HOME",
];

impl Confinement {
    /// Grants the tool chains that the user's programs come from: what `PATH` and the usual variables name, and the
    /// usual folders of the home directory. They are read and executed, not written.
    pub fn grant_tool_chains<'a>(&mut self, variable: impl Fn(&str) -> Option<&'a str>) {
        let searched = variable("PATH").unwrap_or_default();
        let named = TOOL_CHAIN_VARIABLES
            .iter()
            .filter_map(|name| variable(name));
        let usual = self
            .home
            .iter()
            .flat_map(|home| TOOL_CHAINS.map(|name| home.join(name)));
        let mut candidates: Vec<PathBuf> = std::env::split_paths(searched)
            .chain(named.map(PathBuf::from))
            .chain(usual)
            .collect();
        candidates.sort();
        candidates.dedup();
        let found: Vec<_> = candidates
            .into_iter()
            .filter(|path| self.may_be_tool_chain(path))
            .map(|path| Grant {
                path,
                access: Access::RUN,
            })
            .collect();
        // Before those that are there: what the user has granted counts more.
        self.grants.splice(0..0, found);
    }

    /// Whether a command would be able to read `path`, which is absolute and without links.
    pub fn may_read(&self, path: &Path) -> bool {
        let is_key = path
            .file_name()
            .is_some_and(|name| KEYS.iter().any(|key| name == *key));
        let access = self.access_to(path);
        let is_system = SYSTEM.iter().any(|system| path.starts_with(system));
        let is_private = || PRIVATE.iter().any(|private| path.starts_with(private));
        let is_hidden_key = is_key && access.is_read_only();
        (access.read && !is_hidden_key) || (is_system && !is_private() && !self.hides(path))
    }

    /// A variable may name anything, also what holds the home directory or the workspace.
    fn may_be_tool_chain(&self, path: &Path) -> bool {
        let Ok(real) = fs::canonicalize(path) else {
            return false;
        };
        let holds = |folder: &Path| folder.starts_with(&real) || folder.starts_with(path);
        path.is_absolute()
            && real.is_dir()
            && real.components().count() > 2
            && !holds(&self.workspace)
            && !real.starts_with(&self.workspace)
            && !self.home.as_deref().is_some_and(holds)
            && !["/tmp", "/var/tmp", "/run", "/proc", "/dev", "/sys"]
                .iter()
                .any(|own| real == Path::new(own))
            && !SYSTEM.iter().any(|system| real.starts_with(system))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_on_the_way_are_kept() {
        let folder = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(folder.path()).unwrap();
        fs::create_dir_all(root.join("data/home/u")).unwrap();
        std::os::unix::fs::symlink("data/home", root.join("home")).unwrap();
        let (real, links) = resolve(&root.join("home/u/../u")).unwrap();
        assert_eq!(real, root.join("data/home/u"));
        assert_eq!(links, [(root.join("home"), PathBuf::from("data/home"))]);
        std::os::unix::fs::symlink("round", root.join("round")).unwrap();
        assert!(resolve(&root.join("round")).is_err());
    }

    #[test]
    fn tool_chains_never_bring_the_home_or_the_workspace_back() {
        let folder = tempfile::tempdir().unwrap();
        let home = fs::canonicalize(folder.path()).unwrap().join("home");
        for name in ["project/bin", ".cargo/bin", ".ssh", "tools/bin"] {
            fs::create_dir_all(home.join(name)).unwrap();
        }
        let mut confinement = Confinement::new(home.join("project"), Some(home.clone()));
        let path = format!(
            "/usr/bin:relative:{0}:{0}/project/bin:{0}/tools/bin:/",
            home.display()
        );
        let cargo_home = home.display().to_string();
        confinement.grant_tool_chains(|name| match name {
            "PATH" => Some(&path),
            "CARGO_HOME" => Some(&cargo_home),
            _ => None,
        });
        let granted: Vec<_> = confinement
            .grants
            .iter()
            .map(|grant| grant.path.strip_prefix(&home).unwrap().to_owned())
            .collect();
        assert_eq!(granted, [Path::new(".cargo"), Path::new("tools/bin")]);
        assert!(
            confinement
                .grants
                .iter()
                .all(|grant| grant.access == Access::RUN)
        );
    }
}
