//! What a confined process may do, as a value: stated once, enforced by every layer.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::access::{Access, Grant, Tier};
use crate::protected::{OBEYED, SETTINGS};

/// What a confined process may do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Confinement {
    /// How much of it must hold.
    pub tier: Tier,
    /// The folder to work in; read, written and executed.
    pub workspace: PathBuf,
    /// The home directory. What is in it is not seen, but for what is granted; programs find an empty one.
    pub home: Option<PathBuf>,
    /// What else is seen. Of two that speak of one path the longer counts, and of two alike the later.
    pub grants: Vec<Grant>,
    /// Names in the workspace, or absolute paths, that are not written, nor made where they are missing.
    pub protected: Vec<PathBuf>,
    /// Absolute paths that look empty though they lie in what is seen. What is granted below them is seen.
    pub hidden: Vec<PathBuf>,
    /// A folder of our own that becomes `/tmp`, so that one command finds what another has left there. Without it
    /// every command has an empty one.
    pub scratch: Option<PathBuf>,
}

impl Confinement {
    /// Work in `workspace`, with nothing granted besides.
    pub fn new(workspace: PathBuf, home: Option<PathBuf>) -> Self {
        let of_git = OBEYED.map(|name| Path::new(".git").join(name)).into_iter();
        Self {
            tier: Tier::Full,
            home: home.filter(|home| is_hideable(home)),
            grants: Vec::new(),
            protected: of_git.chain(SETTINGS.map(PathBuf::from)).collect(),
            hidden: Vec::new(),
            scratch: None,
            workspace,
        }
    }

    /// Protects the settings of agents and editors in the folders between the workspace and `cwd`, where the work is
    /// done: they count there as well.
    pub fn protect_settings_down_to(&mut self, cwd: &Path) {
        let below = cwd.strip_prefix(&self.workspace).unwrap_or(Path::new(""));
        let folders = below.ancestors().filter(|folder| *folder != Path::new(""));
        let names = folders.flat_map(|folder| SETTINGS.map(|name| folder.join(name)));
        self.protected.extend(names);
    }

    /// Why this can hide nothing worth hiding, if so.
    pub fn validate(&self) -> Result<(), String> {
        let holds_home = self
            .home
            .as_ref()
            .is_some_and(|home| home.starts_with(&self.workspace));
        if self.workspace == Path::new("/") || holds_home {
            return Err(format!(
                "`{}` holds the home directory, so a sandbox around it would hide nothing",
                self.workspace.display()
            ));
        }
        Ok(())
    }

    /// What is granted, the workspace included, in the order in which it takes effect: the longest path last.
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

    /// Variables that lead programs to the temporary folders where nothing can be put in their place.
    pub fn variables(&self) -> Vec<(String, String)> {
        let kept = match self.tier {
            Tier::Full => None,
            Tier::Landlock => self.scratch.as_ref(),
        };
        let named = kept.map(|scratch| {
            [
                ("TMPDIR", scratch.join("tmp")),
                ("HOME", scratch.join("home")),
            ]
        });
        let named = named.into_iter().flatten();
        named
            .map(|(name, path)| (name.to_owned(), path.to_string_lossy().into_owned()))
            .collect()
    }

    /// Where what is at `path` is kept, if the policy puts something else there: the temporary folders and the home.
    pub fn backing_path(&self, path: &Path) -> Option<PathBuf> {
        let scratch = self.scratch.as_ref()?;
        let is_granted = self
            .in_order()
            .iter()
            .any(|grant| path.starts_with(&grant.path));
        let mut places = self.temporary();
        places.retain(|(place, _)| path.starts_with(place));
        let (place, name) = places
            .pop()
            .filter(|_| !is_granted && !path.starts_with(scratch))?;
        let below = path.strip_prefix(place).ok()?;
        Some(scratch.join(name).join(below))
    }

    /// The folders in whose place a command finds others, and what those are called.
    pub(crate) fn temporary(&self) -> Vec<(PathBuf, &'static str)> {
        let home = self.home.iter().map(|home| (home.clone(), "home"));
        let others = [("/tmp", "tmp"), ("/var/tmp", "var-tmp")];
        let others = others.map(|(place, name)| (PathBuf::from(place), name));
        let mut places: Vec<_> = others.into_iter().chain(home).collect();
        places.sort_by_key(|(place, _)| place.components().count());
        places
    }

    /// Whether `path` lies in what is hidden, and in nothing that is granted below that.
    pub(crate) fn hides(&self, path: &Path) -> bool {
        let deepest = |places: &mut dyn Iterator<Item = &PathBuf>| {
            let around = places.filter(|place| path.starts_with(place));
            around.map(|place| place.components().count()).max()
        };
        let hidden = deepest(&mut self.hidden.iter());
        let grants = self.grants.iter().map(|grant| &grant.path);
        hidden.is_some() && hidden >= deepest(&mut grants.chain([&self.workspace]))
    }

    /// What may be done with `path`, which is absolute and without links: for the tools that run in this process.
    pub fn access_to(&self, path: &Path) -> Access {
        let scratch = self.scratch.as_ref();
        if scratch.is_some_and(|scratch| path.starts_with(scratch)) {
            return Access::ALL;
        }
        if self.hides(path) {
            return Access::default();
        }
        let protected = self.protected.iter();
        let is_protected = protected
            .map(|name| self.workspace.join(name))
            .any(|protected| path.starts_with(protected));
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

/// A home that holds the system cannot be hidden from it.
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
    fn the_longest_path_counts() {
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
    fn grants_are_read_as_they_are_typed() {
        for (text, expected) in [
            ("/a", Ok(("/a", "r"))),
            ("/a:rw", Ok(("/a", "rw"))),
            ("a/b:rwxc", Ok(("a/b", "rwxc"))),
            ("/a:b/c", Ok(("/a:b/c", "r"))),
            ("/a:b/c:x", Ok(("/a:b/c", "x"))),
            ("/a:q", Err("`q` is none of the letters r, w, x, c")),
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
    fn a_workspace_that_holds_the_home_hides_nothing() {
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
