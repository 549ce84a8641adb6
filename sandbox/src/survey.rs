//! Resolves a policy against the file system: existing paths, symbolic links on the way, and files to hide.

use std::collections::HashMap;
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt};
use std::path::{Component, Path, PathBuf};
use std::sync::LazyLock;

use crate::access::{Access, Grant, Tier};
use crate::bounds::Withheld;
use crate::confinement::Confinement;
use crate::git::linked_repository;
use crate::listing::look;
use crate::plan::{Identity, Layout, Mount, MountSource, SYSTEM};

/// Largest number of symbolic links in one path, as in the kernel.
const MAX_LINKS: usize = 40;
/// Size limit of a command's own temporary directory, in MiB.
const ROOM: u64 = 1024;

impl Layout {
    /// Resolves `confinement` against the file system.
    pub fn of(confinement: &Confinement) -> io::Result<Self> {
        let protected = Protected::look(confinement);
        if let Some(path) = protected.second_name() {
            let path = path.display();
            return Err(io::Error::other(format!(
                "`{path}` has another name (a hard link), through which a command could write it"
            )));
        }
        let mut layout = Self::default();
        for path in SYSTEM {
            if Path::new(path).exists() {
                layout.add(Path::new(path), MountSource::Same, Access::RUN)?;
            }
        }
        let of_system = layout.mounts.len();
        layout.add_temporary(confinement)?;
        for grant in confinement.in_order() {
            layout.add(&grant.path, MountSource::Same, grant.access)?;
        }
        layout.add_git(confinement)?;
        layout.protect(&protected);
        layout.withhold(&confinement.withheld);
        layout.masked.extend(PRIVATE.iter().cloned());
        layout.hide(&confinement.hidden)?;
        layout.hide_keys(of_system)?;
        // The sort is stable: of two mounts at the same path, the later one covers the earlier.
        layout
            .mounts
            .sort_by_key(|mount| mount.path.components().count());
        layout.remove_redundant_mounts();
        layout.pin_above(confinement);
        // A profile of macOS needs the folders that it must deny.
        if !confinement.tier.has_namespaces() {
            layout.keep_in_place();
        }
        Ok(layout)
    }

    /// Adapts the layout to the Landlock tier, which cannot replace directories: scratch directories are used at their
    /// own paths.
    fn keep_in_place(&mut self) {
        let mut hidden = Vec::new();
        self.mounts.retain_mut(|mount| match &mount.source {
            MountSource::Same => true,
            MountSource::Other(path) => {
                mount.path.clone_from(path);
                true
            }
            MountSource::Empty { .. } => {
                hidden.extend(mount.access.is_read_only().then(|| mount.path.clone()));
                false
            }
        });
        self.masked.append(&mut hidden);
    }

    /// Removes mounts that the enclosing mount already provides.
    fn remove_redundant_mounts(&mut self) {
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
        let found = match &source {
            MountSource::Same => Some(fs::symlink_metadata(&real)?),
            MountSource::Other(path) => Some(fs::symlink_metadata(path)?),
            MountSource::Empty { .. } => None,
        };
        self.links.extend(links);
        self.mounts.push(Mount {
            path: real,
            source,
            access,
            identity: found.as_ref().map(identity),
        });
        Ok(())
    }

    fn add_temporary(&mut self, confinement: &Confinement) -> io::Result<()> {
        for (path, backing) in confinement.temporary() {
            let source = match backing {
                Some(backing) => MountSource::Other(backing),
                None => MountSource::Empty { mebibytes: ROOM },
            };
            self.add(&path, source, Access::ALL)?;
        }
        Ok(())
    }

    /// Grants the git directory of a linked worktree, since commits write there; its control files stay protected.
    fn add_git(&mut self, confinement: &Confinement) -> io::Result<()> {
        if let Some(common) = linked_repository(&confinement.workspace) {
            self.add(&common, MountSource::Same, Access::ALL)?;
        }
        self.pinned = repositories(&confinement.workspace, &confinement.protected);
        Ok(())
    }

    /// Covers each hidden directory with an empty one, in which grants below it are mounted.
    fn hide(&mut self, hidden: &[PathBuf]) -> io::Result<()> {
        for path in hidden.iter().filter_map(|path| fs::canonicalize(path).ok()) {
            if path.is_dir() {
                self.add(&path, MountSource::Empty { mebibytes: 1 }, Access::READ)?;
            } else {
                self.masked.push(path);
            }
        }
        Ok(())
    }

    /// Adds the protected files that exist. Paths through symbolic links are checked after the command has ended.
    fn protect(&mut self, protected: &Protected) {
        self.mounts
            .extend(protected.files.iter().map(|(path, found)| Mount {
                path: path.clone(),
                source: MountSource::Same,
                access: Access::RUN,
                identity: Some(identity(found)),
            }));
    }

    /// Mounts what one command cannot change or run over itself, as far as it sees it.
    fn withhold(&mut self, withheld: &Withheld) {
        let editing = withheld.editing.iter().map(|path| (path, true));
        let running = withheld.running.iter().map(|path| (path, false));
        for (path, is_read_only) in editing.chain(running) {
            let around = self
                .mounts
                .iter()
                .filter(|mount| path.starts_with(&mount.path));
            let around = around.max_by_key(|mount| mount.path.components().count());
            let (Some(around), Ok(found)) = (around, fs::symlink_metadata(path)) else {
                continue;
            };
            let access = match is_read_only {
                true => Access {
                    write: false,
                    create: false,
                    ..around.access
                },
                false => Access {
                    execute: false,
                    ..around.access
                },
            };
            if around.source == MountSource::Same && access != around.access {
                self.mounts.push(Mount {
                    path: path.clone(),
                    source: MountSource::Same,
                    access,
                    identity: Some(identity(&found)),
                });
            }
        }
    }

    /// Hides the keys that some tool chains keep beside their programs. The first mounts are of the system, without keys.
    fn hide_keys(&mut self, of_system: usize) -> io::Result<()> {
        let found: Vec<_> = self.mounts[of_system..]
            .iter()
            .filter(|mount| mount.source == MountSource::Same && mount.access.is_read_only())
            .flat_map(|mount| keys(&mount.path))
            .collect();
        self.hide(&found)
    }
}

/// Files and folders of tool chains that hold keys, by name at the top of what is granted: of cargo, and of .NET.
const KEYS: [&str; 3] = ["credentials", "credentials.toml", "corefx"];
/// Configuration files of tool chains, which may hold a key among other things.
const CONFIGURATION: [&str; 2] = ["config", "config.toml"];

/// Returns the files and folders with keys at the top of a folder of a tool chain.
fn keys(folder: &Path) -> impl Iterator<Item = PathBuf> {
    let keys = KEYS.map(|name| folder.join(name));
    let configuration = CONFIGURATION.map(|name| folder.join(name));
    keys.into_iter()
        .filter(|path| path.exists())
        .chain(configuration.into_iter().filter(|path| has_key(path)))
}

/// Returns whether a TOML file sets a `token` or a `secret-key`.
fn has_key(path: &Path) -> bool {
    let text = fs::read_to_string(path).unwrap_or_default();
    ["token", "secret-key"].iter().any(|name| {
        text.split(name).skip(1).any(|rest| {
            rest.trim_start_matches(['"', '\'', ' ', '\t'])
                .starts_with('=')
        })
    })
}

/// Returns the path without symbolic links, and the links on the way.
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
    /// Returns the paths to check for changes after a command: protected paths, and the repositories that a layout pins.
    pub(crate) fn watched_paths(&self, layout: &Layout) -> Vec<PathBuf> {
        let protected = self.protected.iter().map(|name| self.workspace.join(name));
        protected.chain(layout.pinned.iter().cloned()).collect()
    }
}

/// The protected paths at which there is something, without symbolic links on the way.
pub(crate) struct Protected {
    pub files: Vec<(PathBuf, Metadata)>,
    pub tier: Tier,
}

impl Protected {
    /// Looks up what is protected. Most of it does not exist, and few folders hold it all.
    pub fn look(confinement: &Confinement) -> Self {
        let workspace = &confinement.workspace;
        let mut folders = HashMap::new();
        let found = confinement.protected.iter().filter_map(|name| {
            let path = workspace.join(name);
            let found = look(&path).ok()?;
            // The workspace itself has no parent in it.
            let folder = name.parent().unwrap_or(name);
            let is_folder = *folders
                .entry(folder)
                .or_insert_with(|| is_plain(workspace, folder));
            (is_folder && !found.is_symlink()).then_some((path, found))
        });
        Self {
            files: found.collect(),
            tier: confinement.tier,
        }
    }

    /// Returns the paths.
    pub fn paths(self) -> impl Iterator<Item = PathBuf> {
        self.files.into_iter().map(|(path, _)| path)
    }
}

/// Returns the git directories whose configuration is protected, which must not be replaced as a whole.
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

/// Returns whether `name` exists below `folder`, without symbolic links on the way.
pub(crate) fn is_plain(folder: &Path, name: &Path) -> bool {
    let mut path = folder.to_owned();
    name.components().all(|part| {
        path.push(part);
        fs::symlink_metadata(&path).is_ok_and(|metadata| !metadata.is_symlink())
    })
}

fn identity(found: &Metadata) -> Identity {
    (found.dev(), found.ino())
}

/// Paths in `/etc` that are not world-readable, and would be readable for root inside the sandbox. Cached, because the
/// search is slow.
static PRIVATE: LazyLock<Vec<PathBuf>> = LazyLock::new(|| {
    let mut found = Vec::new();
    let mut folders = vec![PathBuf::from("/etc")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            // Symbolic links are always world-readable; their targets are checked at their own paths.
            let kind = entry.file_type();
            let Some(kind) = kind.ok().filter(|kind| !kind.is_symlink()) else {
                continue;
            };
            let Ok(metadata) = entry.metadata() else {
                continue;
            };
            let needed = if kind.is_dir() { 0o005 } else { 0o004 };
            let is_open = metadata.permissions().mode() & needed == needed;
            if !is_open {
                found.push(entry.path());
            } else if kind.is_dir() {
                folders.push(entry.path());
            }
        }
    }
    found
});

/// Directories of tool chains below a home directory; caches, settings and keys are left out.
const TOOL_CHAINS: [&str; 39] = [
    ".asdf",
    ".bun",
    ".cargo",
    ".deno/bin",
    ".dotnet/host",
    ".dotnet/packs",
    ".dotnet/sdk",
    ".dotnet/shared",
    ".dotnet/tools",
    ".elan",
    ".fnm",
    ".ghcup",
    ".jbang",
    ".jdks",
    ".julia/artifacts",
    ".julia/bin",
    ".julia/compiled",
    ".julia/juliaup",
    ".julia/packages",
    ".julia/registries",
    ".linuxbrew",
    ".local/bin",
    ".local/lib",
    ".local/share/fnm",
    ".local/share/mise",
    ".local/share/pipx",
    ".local/share/pnpm",
    ".local/share/uv/python",
    ".local/share/uv/tools",
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
/// Variables that contain the directory of a tool chain.
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
    /// Grants read and execute access to tool chains: directories in `PATH`, in well-known variables, and usual
    /// directories of the home.
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
        // Inserted first, so that the user's own grants take precedence.
        self.grants.splice(0..0, found);
    }

    /// Returns whether a command could read `path`, which must be absolute and without symbolic links.
    pub fn may_read(&self, path: &Path) -> bool {
        let is_key = || {
            let granted = self.grants.iter();
            granted
                .filter(|grant| grant.access.is_read_only() && path.starts_with(&grant.path))
                .any(|grant| keys(&grant.path).any(|key| path.starts_with(key)))
        };
        let access = self.access_to(path);
        let is_system = SYSTEM.iter().any(|system| path.starts_with(system));
        let is_private = || PRIVATE.iter().any(|private| path.starts_with(private));
        let is_hidden_key = access.is_read_only() && is_key();
        (access.read && !is_hidden_key) || (is_system && !is_private() && !self.hides(path))
    }

    /// Returns whether `path` may be granted. A variable may contain any path, even a parent of the home directory or
    /// the workspace.
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
    fn symbolic_links_of_a_path_are_recorded() {
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
    fn tool_chains_never_grant_the_home_or_the_workspace() {
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

    #[test]
    fn keys_of_tool_chains_are_hidden() {
        let folder = tempfile::tempdir().unwrap();
        let home = fs::canonicalize(folder.path()).unwrap();
        let files = [
            (".cargo/bin/tool", "", true),
            (
                ".cargo/credentials.toml",
                "[registry]\ntoken = 'x'\n",
                false,
            ),
            (
                ".cargo/config.toml",
                "[registries.own]\ntoken = 'x'\n",
                false,
            ),
            (".cargo/registry/src/a/credentials.toml", "", true),
            (".dotnet/sdk/a", "", true),
            (".dotnet/corefx/cryptography/x509stores/my/a.pfx", "", false),
            (".julia/packages/a", "", true),
            (".julia/servers/pkg/auth.toml", "", false),
            (".julia/logs/repl_history.jl", "", false),
            (".local/share/uv/python/a", "", true),
            (".local/share/uv/credentials/credentials.toml", "", false),
            (
                "elsewhere/config.toml",
                "[registries]\nx = { \"token\" = 'x' }\n",
                false,
            ),
            (
                "rust/config.toml",
                "[registry]\nproviders = ['cargo:token']\n",
                true,
            ),
        ];
        for (path, text, _) in files {
            let path = home.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let mut confinement = Confinement::new(home.join("project"), Some(home.clone()));
        fs::create_dir(home.join("project")).unwrap();
        let text = |path: &str| home.join(path).display().to_string();
        let (dotnet, elsewhere, rust) = (text(".dotnet"), text("elsewhere"), text("rust"));
        confinement.grant_tool_chains(|name| match name {
            "DOTNET_ROOT" => Some(&dotnet),
            "CARGO_HOME" => Some(&elsewhere),
            "RUSTUP_HOME" => Some(&rust),
            _ => None,
        });
        let layout = Layout::of(&confinement).unwrap();
        for (path, _, is_seen) in files {
            let path = home.join(path);
            assert_eq!(confinement.may_read(&path), is_seen, "{}", path.display());
            let mount = layout
                .mounts
                .iter()
                .rfind(|mount| path.starts_with(&mount.path));
            let is_mounted = mount.is_some_and(|mount| mount.source == MountSource::Same)
                && !layout.masked.contains(&path);
            assert_eq!(is_mounted, is_seen, "{}", path.display());
        }
    }
}
