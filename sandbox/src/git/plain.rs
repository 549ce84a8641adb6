//! Judges a repository that a command has made: whether git would run anything of its own there. `git init` and
//! `git clone` leave such plain repositories; a hook or a setting beyond those that they write makes it another.

use std::fs;
use std::path::{Path, PathBuf};

use super::config::{Setting, Settings, read_file};
use super::files::{folders, read, worktrees};
use super::named::named;
use super::state::pending;
use crate::listing::is_absent;
use crate::protected::OBEYED;

/// Settings that run nothing, by section and name. A subsection is any.
const INERT: &[(&str, &[&str])] = &[
    (
        "core",
        &[
            "abbrev",
            "autocrlf",
            "bare",
            "bigfilethreshold",
            "commitgraph",
            "compression",
            "eol",
            "filemode",
            "ignorecase",
            "logallrefupdates",
            "longpaths",
            "multipackindex",
            "precomposeunicode",
            "preloadindex",
            "protecthfs",
            "protectntfs",
            "quotepath",
            "repositoryformatversion",
            "safecrlf",
            "splitindex",
            "symlinks",
            "untrackedcache",
        ],
    ),
    (
        "extensions",
        &[
            "compatobjectformat",
            "noop",
            "objectformat",
            "partialclone",
            "preciousobjects",
            "refstorage",
            "relativeworktrees",
        ],
    ),
    ("user", &["email", "name"]),
    ("init", &["defaultbranch"]),
    ("pull", &["ff", "rebase"]),
    ("push", &["autosetupremote", "default", "followtags"]),
    ("merge", &["conflictstyle", "ff"]),
    ("rerere", &["autoupdate", "enabled"]),
    ("gc", &["auto"]),
    (
        "remote",
        &[
            "fetch",
            "mirror",
            "partialclonefilter",
            "promisor",
            "prune",
            "pushurl",
            "tagopt",
            "url",
        ],
    ),
    (
        "branch",
        &["description", "merge", "pushremote", "rebase", "remote"],
    ),
    ("submodule", &["active", "branch", "ignore", "url"]),
    ("lfs", &["access", "locksverify", "repositoryformatversion"]),
];

/// What is known when a repository is judged.
pub(crate) struct Known<'a> {
    /// Git directories that were there before.
    pub repositories: &'a [PathBuf],
    /// The user's own configuration, which applies in all repositories.
    pub global: &'a Settings,
    /// The user's home.
    pub home: Option<&'a Path>,
}

/// Returns whether git runs nothing but itself in the work tree with the `.git` at `git`, as far as the repository and
/// the work tree decide.
pub(crate) fn is_plain(git: &Path, known: &Known<'_>) -> bool {
    let Ok(metadata) = fs::symlink_metadata(git) else {
        return true;
    };
    let tree = git.parent().unwrap_or(Path::new("/"));
    if names_any(known.global, tree, known.home) {
        return false;
    }
    if metadata.is_file() {
        return is_plain_link(git, known);
    }
    metadata.is_dir() && is_plain_folder(git, &Role::Repository)
}

/// Returns whether a configuration names something that is in this work tree.
fn names_any(settings: &Settings, tree: &Path, home: Option<&Path>) -> bool {
    let mut named = named(settings, tree, home).into_iter();
    named.any(|path| path.starts_with(tree) && fs::symlink_metadata(path).is_ok())
}

/// Returns whether a folder that git takes for a repository without a work tree is plain.
pub(crate) fn is_plain_bare(git: &Path) -> bool {
    is_plain_folder(git, &Role::Repository)
}

/// Returns whether the git directory of a submodule, below `modules` of another, is plain.
pub(crate) fn is_plain_module(git: &Path) -> bool {
    is_plain_folder(git, &Role::Module)
}

/// Returns whether the directory of a linked worktree, below `worktrees` of a repository, belongs to that repository and
/// has no configuration of its own.
pub(crate) fn is_plain_worktree(own: &Path) -> bool {
    let is_real = fs::symlink_metadata(own).is_ok_and(|metadata| metadata.is_dir());
    let common = read(&own.join("commondir"));
    let is_absent = |name: &str| is_absent(&own.join(name));
    is_real
        && common.is_none_or(|text| text.trim_end() == "../..")
        && is_absent("config.worktree")
        && is_absent("config")
        && is_absent("hooks")
        && pending(own).is_empty()
}

#[derive(PartialEq, Eq)]
enum Role {
    Repository,
    /// Its work tree is elsewhere, so its configuration says where.
    Module,
}

fn is_plain_folder(git: &Path, role: &Role) -> bool {
    let mut others = OBEYED
        .iter()
        .filter(|name| !["hooks", "config"].contains(name));
    others.all(|name| is_absent(&git.join(name)))
        && has_no_hooks(&git.join("hooks"))
        && has_plain_config(&git.join("config"), role)
        && pending(git).is_empty()
        && modules(git).iter().all(|module| is_plain_module(module))
        && worktrees(git).iter().all(|own| is_plain_worktree(own))
}

/// Returns the git directories below `modules` of another. Their names may contain slashes.
pub(crate) fn modules(git: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut waiting = folders(&git.join("modules"));
    while let Some(module) = waiting.pop() {
        if module.join("HEAD").exists() {
            found.push(module);
        } else {
            waiting.extend(folders(&module));
        }
    }
    found
}

/// A `.git` file: it must lead to a linked worktree or a submodule of a repository that is known or beside it.
fn is_plain_link(file: &Path, known: &Known<'_>) -> bool {
    let tree = file.parent().unwrap_or(Path::new("/"));
    let text = read(file).unwrap_or_default();
    let named = text.strip_prefix("gitdir:").map(str::trim);
    let Some(own) = named.and_then(|named| fs::canonicalize(tree.join(named)).ok()) else {
        // It leads nowhere, and git refuses to work there; but its goal may be made later.
        return false;
    };
    let Some(git) = { known.repositories.iter() }.find(|git| own.starts_with(git)) else {
        return false;
    };
    let settings = Settings::read(
        [git.join("config"), git.join("config.worktree")],
        known.home,
    );
    let is_of_user = !settings.not_understood.is_empty() || names_any(&settings, tree, known.home);
    match own.strip_prefix(git) {
        _ if is_of_user => false,
        Ok(below) if below.starts_with("worktrees") && below.components().count() == 2 => {
            is_plain_worktree(&own)
        }
        Ok(below) if below.starts_with("modules") => {
            known.repositories.contains(&own) || is_plain_module(&own)
        }
        _ => false,
    }
}

/// Returns whether a folder of hooks has none but git's examples.
fn has_no_hooks(folder: &Path) -> bool {
    if is_absent(folder) {
        return true;
    }
    // Git finds a hook by its name, also in a folder that cannot be listed.
    let Ok(entries) = fs::read_dir(folder) else {
        return false;
    };
    let mut entries = entries.flatten();
    folder.is_dir()
        && !folder.is_symlink()
        && entries.all(|entry| entry.path().extension().is_some_and(|end| end == "sample"))
}

fn has_plain_config(file: &Path, role: &Role) -> bool {
    match fs::symlink_metadata(file) {
        Err(_) => is_absent(file),
        Ok(metadata) if metadata.is_file() => read_file(file)
            .is_some_and(|settings| settings.iter().all(|setting| is_inert(setting, role))),
        Ok(_) => false,
    }
}

fn is_inert(setting: &Setting, role: &Role) -> bool {
    let (section, name) = (setting.section.as_str(), setting.name.as_str());
    if ["advice", "color"].contains(&section) {
        return true;
    }
    let is_place = *role == Role::Module && (section, name) == ("core", "worktree");
    let mut lists = INERT.iter();
    let is_listed = lists.any(|(known, names)| *known == section && names.contains(&name));
    // `ext::` and the like name a program.
    let value = &setting.value;
    let is_helper = ["url", "pushurl", "remote", "pushremote"].contains(&name)
        && (value.windows(2).any(|pair| pair == b"::") || value.starts_with(b"-"));
    (is_listed || is_place) && !is_helper
}
