//! Whether git would start a program of the repository's choice while it only looks at it.
//!
//! The configuration of a repository may name programs for that: a monitor of files, filters, drivers for differences. A folder
//! from elsewhere may bring one. So git runs unasked only where the configuration has nothing but what is listed here.

use std::fs;
use std::path::{Path, PathBuf};

/// Longest configuration that is looked at, in bytes.
const LONGEST: u64 = 256 << 10;

/// Sections of the configuration and their settings that start nothing; `*` is all of a section.
const HARMLESS: &[(&str, &[&str])] = &[
    (
        "core",
        &[
            "repositoryformatversion",
            "filemode",
            "bare",
            "logallrefupdates",
            "ignorecase",
            "precomposeunicode",
            "symlinks",
            "autocrlf",
            "eol",
            "safecrlf",
            "abbrev",
            "quotepath",
            "protecthfs",
            "protectntfs",
            "untrackedcache",
            "preloadindex",
            "compression",
            "bigfilethreshold",
            "trustctime",
            "checkstat",
            "longpaths",
        ],
    ),
    (
        "remote",
        &[
            "url",
            "fetch",
            "push",
            "pushurl",
            "tagopt",
            "prune",
            "mirror",
            "gh-resolved",
        ],
    ),
    ("extensions", &["objectformat", "refstorage"]),
    ("lfs", &["repositoryformatversion"]),
    ("branch", &["*"]),
    ("user", &["*"]),
    ("author", &["*"]),
    ("committer", &["*"]),
    ("init", &["*"]),
    ("color", &["*"]),
    ("column", &["*"]),
    ("advice", &["*"]),
    ("push", &["*"]),
    ("pull", &["*"]),
    ("fetch", &["*"]),
    ("rebase", &["*"]),
];

/// Variables with which git takes no lock and asks no server.
const APART: [(&str, &str); 2] = [("GIT_OPTIONAL_LOCKS", "0"), ("GIT_NO_LAZY_FETCH", "1")];
/// Configuration with which git starts nothing while it looks at a repository. One within it has a configuration of its own.
const LOOKING: [(&str, &str); 3] = [
    ("core.fsmonitor", "false"),
    ("core.hooksPath", "/dev/null"),
    ("diff.ignoreSubmodules", "all"),
];

/// Returns the variables of a git that only looks. Where a rule lets it look at any repository, it shows what submodules hold.
pub(super) fn looking(shows_submodules: bool) -> Vec<(String, String)> {
    let count = LOOKING.len() - usize::from(shows_submodules);
    let settings = LOOKING[..count].iter().zip(0..);
    let settings = settings.flat_map(|((key, value), place)| {
        [("KEY", key), ("VALUE", value)]
            .map(|(kind, text)| (format!("GIT_CONFIG_{kind}_{place}"), (*text).to_owned()))
    });
    let apart = APART.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let count = ("GIT_CONFIG_COUNT".to_owned(), count.to_string());
    apart.into_iter().chain([count]).chain(settings).collect()
}

/// Returns whether the repository around `folder` has git start nothing.
pub(super) fn starts_nothing(folder: &Path) -> bool {
    let Some((root, git)) = found(folder) else {
        return false;
    };
    let shared = match text(&git.join("commondir")) {
        Some(path) => git.join(path.trim()),
        None => git.clone(),
    };
    let is_absent = |path: PathBuf| fs::symlink_metadata(path).is_err();
    is_absent(root.join(".gitmodules"))
        && is_absent(git.join("config.worktree"))
        && text(&shared.join("config")).is_some_and(|config| is_harmless(&config))
}

/// Returns the root of the work tree around `folder` and its git directory, as git finds them.
fn found(folder: &Path) -> Option<(PathBuf, PathBuf)> {
    for folder in folder.ancestors() {
        let at = folder.join(".git");
        if at.is_dir() {
            return Some((folder.to_owned(), at));
        }
        if let Some(named) = text(&at) {
            let named = named.strip_prefix("gitdir:")?.trim();
            return Some((folder.to_owned(), folder.join(named)));
        }
        let is_bare = ["HEAD", "objects", "refs"].map(|name| folder.join(name).exists());
        if is_bare == [true; 3] {
            return None;
        }
    }
    None
}

fn text(path: &Path) -> Option<String> {
    let is_short = fs::metadata(path).is_ok_and(|it| it.is_file() && it.len() <= LONGEST);
    is_short.then(|| fs::read_to_string(path).ok()).flatten()
}

/// Returns whether a configuration has only settings that start nothing. What this does not read as git does is none.
fn is_harmless(config: &str) -> bool {
    let mut settings: &[&str] = &[];
    config.lines().map(str::trim).all(|line| {
        if line.is_empty() || line.starts_with(['#', ';']) {
            return true;
        }
        if line.ends_with('\\') {
            return false;
        }
        if let Some(head) = line.strip_prefix('[') {
            let name = head.strip_suffix(']').map(|head| {
                let end = head.find(|c: char| !c.is_ascii_alphanumeric() && c != '-');
                head[..end.unwrap_or(head.len())].to_ascii_lowercase()
            });
            let known = HARMLESS
                .iter()
                .find(|(section, _)| Some(*section) == name.as_deref());
            settings = known.map_or(&[], |(_, settings)| settings);
            return known.is_some();
        }
        let name = line.split_once('=').map_or(line, |(name, _)| name);
        let name = name.trim().to_ascii_lowercase();
        settings.contains(&"*") || settings.contains(&&*name)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const USUAL: &str = "[core]\n\trepositoryformatversion = 0\n\tbare = false\n[remote \"origin\"]\n\turl = https://h/r]\n\
        \tfetch = +refs/heads/*:refs/remotes/origin/*\n[branch \"main\"]\n\tremote = origin\n\tvscode-merge-base = x\n";

    #[test]
    fn only_what_is_known_is_harmless() {
        assert!(is_harmless(USUAL) && is_harmless(""));
        for more in [
            "[core]\n\tfsmonitor = ./evil",
            "[Core]\n\tFsMonitor = ./evil",
            "[core] fsmonitor = ./evil",
            "[core]\n\thooksPath = h",
            "[core]\n\tpager = ./evil",
            "[core]\n\tworktree = /",
            "[diff]\n\texternal = ./evil",
            "[diff \"d\"]\n\ttextconv = ./evil",
            "[filter \"f\"]\n\tclean = ./evil",
            "[include]\n\tpath = other",
            "[includeIf \"gitdir:/\"]\n\tpath = other",
            "[gpg]\n\tprogram = ./evil",
            "[remote \"o\"]\n\tuploadpack = ./evil",
            "[remote \"o\"]\n\tpromisor = true",
            "[submodule \"s\"]\n\tactive = true",
            "[alias]\n\tx = !evil",
            "[user]\n\tname = a\\\n[diff]\n\texternal = ./evil",
            "[user]\n\tname = a \\",
        ] {
            assert!(!is_harmless(more), "{more}");
            assert!(!is_harmless(&format!("{USUAL}{more}\n")), "{more}");
        }
        assert!(!is_harmless("fsmonitor = ./evil"), "it is in no section");
    }

    #[test]
    fn the_repository_is_found_as_git_finds_it() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let write = |name: &str, text: &str| {
            fs::create_dir_all(at(name).parent().unwrap()).unwrap();
            fs::write(at(name), text).unwrap();
        };
        assert!(!starts_nothing(&at("")), "there is none");
        write(".git/config", USUAL);
        write("a/b/file", "");
        assert!(starts_nothing(&at("")) && starts_nothing(&at("a/b")));
        // A bare repository further in is the nearest one.
        write("bare/HEAD", "");
        write("bare/objects/x", "");
        write("bare/refs/x", "");
        assert!(!starts_nothing(&at("bare")));
        write("inner/.git/config", "[core]\n\tfsmonitor = ./evil\n");
        assert!(!starts_nothing(&at("inner")) && starts_nothing(&at("a")));
        write("tree/.git", "gitdir: ../.git/worktrees/tree\n");
        write(".git/worktrees/tree/commondir", "../..\n");
        assert!(starts_nothing(&at("tree")));
        write(".git/worktrees/tree/config.worktree", "");
        assert!(!starts_nothing(&at("tree")));
        write(".gitmodules", "");
        assert!(!starts_nothing(&at("")));
    }
}
