//! Policy for confined commands, as plain data enforced by every layer.

use std::ffi::OsStr;
use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::access::{Access, Grant, Tier};
use crate::bounds::Withheld;
use crate::protected::{OBEYED, OF_OTHERS, UNFINISHED};

/// Policy for confined commands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Confinement {
    /// Layers that must be available.
    pub tier: Tier,
    /// Working directory of the project, with all rights.
    pub workspace: PathBuf,
    /// Home directory. It appears empty, except for granted paths below it.
    pub home: Option<PathBuf>,
    /// Further visible paths. The longest matching path wins; of equal paths, the last.
    pub grants: Vec<Grant>,
    /// Paths that can be neither written nor created; relative paths are resolved against the workspace.
    pub protected: Vec<PathBuf>,
    /// Absolute paths that appear empty although they lie within a visible path. Grants below them stay visible.
    pub hidden: Vec<PathBuf>,
    /// Directory for `/tmp`, `/var/tmp` and the home directory, shared by all commands of the sandbox. Without it,
    /// every command starts with empty ones.
    pub scratch: Option<PathBuf>,
    /// Directory for the home directory alone, in place of the one in `scratch`.
    pub own_home: Option<PathBuf>,
    /// Names of files on which programs act outside the sandbox, in any folder of the workspace.
    pub steering: Vec<String>,
    /// Home directory as git knows it, also if it cannot be hidden.
    pub git_home: Option<PathBuf>,
    /// The user's configuration files of git.
    pub git_configuration: Vec<PathBuf>,
    /// What the user should know about the protection of the workspace, each in one line.
    pub remarks: Vec<String>,
    /// What is kept from one command besides.
    pub(crate) withheld: Withheld,
}

impl Confinement {
    /// Returns a policy with `workspace` and no further grants, which protects what git obeys there.
    pub fn new(workspace: PathBuf, home: Option<PathBuf>) -> Self {
        let of_git = OBEYED.map(|name| Path::new(".git").join(name)).into_iter();
        Self {
            tier: Tier::Full,
            git_home: home.clone(),
            home: home.filter(|home| is_hideable(home)),
            grants: Vec::new(),
            protected: of_git.chain(OF_OTHERS.map(PathBuf::from)).collect(),
            hidden: Vec::new(),
            scratch: None,
            own_home: None,
            steering: Vec::new(),
            git_configuration: Vec::new(),
            remarks: Vec::new(),
            withheld: Withheld::default(),
            workspace,
        }
    }

    /// Protects files of these names in the workspace: programs act on them outside the sandbox. In the directories
    /// between it and `cwd` also those that do not exist.
    pub fn protect_names<'a>(
        &mut self,
        names: impl IntoIterator<Item = &'a str, IntoIter: Clone>,
        cwd: &Path,
    ) {
        let names = names.into_iter();
        self.steering.extend(names.clone().map(str::to_owned));
        let below = cwd.strip_prefix(&self.workspace).unwrap_or(Path::new(""));
        let all = below
            .ancestors()
            .flat_map(|folder| names.clone().map(move |name| folder.join(name)));
        self.protected.extend(all);
    }

    /// Withholds these files from one command.
    #[allow(dead_code, reason = "a build that enforces nothing starts none")]
    pub(crate) fn withhold(&mut self, withheld: &Withheld) {
        let new = { withheld.reading.iter() }.filter(|path| !self.hidden.contains(path));
        let new: Vec<_> = new.cloned().collect();
        self.hidden.extend(new);
        if self.tier.has_namespaces() {
            self.withheld.editing.clone_from(&withheld.editing);
            self.withheld.running.clone_from(&withheld.running);
        } else {
            // Nothing can be mounted over them, but what was changed is restored.
            let below = { withheld.editing.iter() }
                .filter_map(|path| path.strip_prefix(&self.workspace).ok());
            let below: Vec<_> = below.map(Path::to_owned).collect();
            self.protected.extend(below);
        }
    }

    /// Checks that the home directory is not inside the workspace.
    ///
    /// # Errors
    ///
    /// If the sandbox would hide nothing, with the reason for the user.
    pub fn validate(&self) -> Result<(), String> {
        let holds_home = self
            .home
            .as_ref()
            .is_some_and(|home| home.starts_with(&self.workspace));
        if self.workspace == Path::new("/") || holds_home {
            return Err(format!(
                "`{}` contains the home directory, so a sandbox would hide nothing",
                self.workspace.display()
            ));
        }
        Ok(())
    }

    /// Returns all grants, including the workspace, in order of precedence: the longest path last.
    pub fn in_order(&self) -> Vec<Grant> {
        let workspace = Grant {
            path: self.workspace.clone(),
            access: Access::ALL,
        };
        let mut grants: Vec<_> = std::iter::once(workspace)
            .chain(self.grants.iter().cloned())
            .collect();
        grants.sort_by_key(|grant| grant.path.components().count());
        grants
    }

    /// Returns whether commands find the scratch directories at `/tmp`, `/var/tmp` and the home.
    pub(crate) fn replaces_folders(&self) -> bool {
        self.tier.has_namespaces() && !cfg!(target_os = "macos")
    }

    /// Creates the scratch directories in `folder`, which must be empty.
    pub(crate) fn make_scratch(&mut self, folder: &Path) -> io::Result<()> {
        let path = folder.canonicalize()?;
        for (name, mode) in [("tmp", 0o1777), ("var-tmp", 0o1777), ("home", 0o700)] {
            let place = path.join(name);
            fs::create_dir(&place)?;
            fs::set_permissions(place, Permissions::from_mode(mode))?;
        }
        self.scratch = Some(path);
        Ok(())
    }

    /// Returns variables that point programs to the scratch directories where `/tmp` cannot be replaced.
    pub fn variables(&self) -> Vec<(String, String)> {
        if self.replaces_folders() {
            return Vec::new();
        }
        [
            ("TMPDIR", self.backing("tmp")),
            ("HOME", self.backing("home")),
        ]
        .into_iter()
        .filter_map(|(name, path)| Some((name, path?)))
        .map(|(name, path)| (name.to_owned(), path.to_string_lossy().into_owned()))
        .collect()
    }

    /// Returns where the file at `path` is stored on the host, if the sandbox replaces its directory with one of the
    /// scratch directories.
    pub fn backing_path(&self, path: &Path) -> Option<PathBuf> {
        let is_granted = self
            .in_order()
            .iter()
            .any(|grant| path.starts_with(&grant.path));
        let mut places = self.temporary();
        places.retain(|(place, _)| path.starts_with(place));
        let is_own = self.scratch.iter().chain(&self.own_home);
        let mut is_own = is_own.filter(|own| path.starts_with(own));
        let (place, backing) = places
            .pop()
            .filter(|_| !is_granted && is_own.next().is_none())?;
        let below = path.strip_prefix(place).ok()?;
        Some(backing?.join(below))
    }

    /// Returns the directories that are replaced for commands, each with the directory that stores its contents, if
    /// they are kept.
    pub(crate) fn temporary(&self) -> Vec<(PathBuf, Option<PathBuf>)> {
        let home = self.home.iter().map(|home| (home.clone(), "home"));
        let mut places: Vec<_> = [("/tmp", "tmp"), ("/var/tmp", "var-tmp")]
            .into_iter()
            .map(|(place, name)| (PathBuf::from(place), name))
            .chain(home)
            .map(|(place, name)| (place, self.backing(name)))
            .collect();
        places.sort_by_key(|(place, _)| place.components().count());
        places
    }

    /// Returns the directory on the host that stores a temporary directory, by its name in the scratch directory.
    fn backing(&self, name: &str) -> Option<PathBuf> {
        match &self.own_home {
            Some(own_home) if name == "home" => Some(own_home.clone()),
            _ => Some(self.scratch.as_ref()?.join(name)),
        }
    }

    /// Returns whether `path` is inside a hidden path and not inside a deeper grant.
    pub(crate) fn hides(&self, path: &Path) -> bool {
        let deepest = |places: &mut dyn Iterator<Item = &PathBuf>| {
            let around = places.filter(|place| path.starts_with(place));
            around.map(|place| place.components().count()).max()
        };
        let hidden = deepest(&mut self.hidden.iter());
        let grants = self.grants.iter().map(|grant| &grant.path);
        hidden.is_some() && hidden >= deepest(&mut grants.chain([&self.workspace]))
    }

    /// Returns whether programs outside the sandbox obey a file in the workspace: by its name or that of a folder above
    /// it, or as part of a repository within the project, or as the state of an unfinished rebase.
    pub(crate) fn is_steering(&self, path: &Path) -> bool {
        let below = path.strip_prefix(&self.workspace).unwrap_or(Path::new(""));
        let steers = |name: &OsStr| self.steering.iter().any(|other| name == other.as_str());
        let of_git = |name: &OsStr| {
            UNFINISHED
                .iter()
                .chain(&["modules", "worktrees"])
                .any(|other| name == *other)
        };
        let mut names = below.iter();
        let is_git = |name: Option<&OsStr>| name.is_some_and(|name| name == ".git");
        let is_unfinished = is_git(names.next()) && names.next().is_some_and(of_git);
        is_unfinished
            || below.iter().any(steers)
            || below.iter().skip(1).any(|name| is_git(Some(name)))
    }

    /// Returns the access to `path`, which must be absolute and without symbolic links. Used by tools that run in this
    /// process.
    pub fn access_to(&self, path: &Path) -> Access {
        let mut own = self.scratch.iter().chain(&self.own_home);
        if own.any(|own| path.starts_with(own)) {
            return Access::ALL;
        }
        if self.hides(path) {
            return Access::default();
        }
        let mut protected = self.protected.iter();
        let is_protected = self.is_steering(path)
            || protected.any(|name| path.starts_with(self.workspace.join(name)));
        let granted = self.in_order();
        let last = granted.iter().rfind(|grant| path.starts_with(&grant.path));
        match last.map(|grant| grant.access) {
            Some(access) if is_protected => Access {
                write: false,
                create: false,
                ..access
            },
            Some(access) => access,
            None => Access::default(),
        }
    }
}

/// A home directory that contains system directories cannot be hidden.
fn is_hideable(home: &Path) -> bool {
    home.is_absolute()
        && home != Path::new("/")
        && !crate::plan::SYSTEM
            .iter()
            .any(|path| Path::new(path).starts_with(home))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn confinement() -> Confinement {
        let mut confinement =
            Confinement::new("/home/u/project".into(), Some(PathBuf::from("/home/u")));
        confinement.grants = [
            "/home/u/project/o/plan:r",
            "/data:rw",
            "/home/u/project/o:rwc",
            "/data/keys/public:r",
        ]
        .map(|text| text.parse().unwrap())
        .to_vec();
        confinement.hidden = ["/home/u", "/data/keys", "/home/u/project/secret"]
            .map(PathBuf::from)
            .to_vec();
        confinement
    }

    #[test]
    fn the_longest_matching_path_wins() {
        let confinement = confinement();
        for (path, expected) in [
            ("/home/u/project/src/a.rs", "rwxc"),
            ("/home/u/project/o/plan/plan.md", "r"),
            ("/home/u/project/o/do/do.md", "rwc"),
            ("/home/u/project/.git/hooks/pre-commit", "rx"),
            ("/home/u/project/.git/objects/aa", "rwxc"),
            ("/home/u/project/.gitignore", "rwxc"),
            ("/home/u/project2/x", ""),
            ("/home/u/.ssh/id_ed25519", ""),
            ("/data/x", "rw"),
            ("/data/keys/x", ""),
            ("/data/keys/public/x", "r"),
            ("/home/u/project/secret", ""),
        ] {
            let access = match expected {
                "" => Access::default(),
                letters => letters.parse().unwrap(),
            };
            assert_eq!(confinement.access_to(Path::new(path)), access, "{path}");
        }
    }

    #[test]
    fn a_grant_is_parsed_from_path_and_letters() {
        for (text, expected) in [
            ("/a", Ok(("/a", "r"))),
            ("/a:rw", Ok(("/a", "rw"))),
            ("a/b:rwxc", Ok(("a/b", "rwxc"))),
            ("/a:b/c", Ok(("/a:b/c", "r"))),
            ("/a:b/c:x", Ok(("/a:b/c", "x"))),
            ("/a:q", Err("`q` is not one of the letters r, w, x, c")),
            ("/a:", Err("expected letters of rwxc")),
            ("", Err("expected a path")),
        ] {
            let expected = expected
                .map(|(path, letters)| Grant {
                    path: path.into(),
                    access: letters.parse().unwrap(),
                })
                .map_err(str::to_owned);
            assert_eq!(text.parse::<Grant>(), expected, "{text}");
        }
    }

    #[test]
    fn a_workspace_that_contains_the_home_is_rejected() {
        for (workspace, home, is_sound) in [
            ("/home/u/project", "/home/u", true),
            ("/home/u", "/home/u", false),
            ("/home", "/home/u", false),
            ("/", "/home/u", false),
            ("/srv/x", "/", true),
        ] {
            let confinement = Confinement::new(workspace.into(), Some(home.into()));
            assert_eq!(
                confinement.validate().is_ok(),
                is_sound,
                "{workspace} {home}"
            );
        }
    }
}
