//! The one list of files that steer other programs: whoever writes one decides what such a program does to the user,
//! outside of any sandbox. The permission rules, the sandbox and `ah work` all take it from here.
//!
//! Names are from the documentation of the programs; `steering/sources.txt` says from where and when. Instructions for agents in plain
//! text, such as `AGENTS.md`, are not in the list: they are part of a project's work.

use std::borrow::Cow;
use std::collections::HashMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

/// Kind of program that a file steers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Steered {
    /// Coding agents: their permissions, hooks, servers and extensions.
    Agents,
    /// Editors: tasks, settings that start programs, code that runs when a folder is opened.
    Editors,
    /// Git hooks, and what runs when a shell enters a folder.
    Hooks,
    /// Containers that editors and agents build for a project.
    Containers,
    /// Git: its configuration.
    Git,
    /// Shells and the programs that they configure.
    Shells,
    /// Continuous integration of hubs, which runs with the repository's permissions once pushed.
    Builds,
    /// Package managers, build tools, managers of hooks, other version controls and interpreters: where they fetch from, and what
    /// they start by the way.
    Packages,
}

/// Names of files and folders, each with what it steers; a name of two parts is a path.
const STEERING: &[(Steered, &[&str])] = &[
    (
        Steered::Agents,
        &[
            ".ah",
            ".agents",
            ".aider.conf.yml",
            ".amazonq",
            ".amp",
            ".augment",
            ".claude",
            ".claude.json",
            ".cline",
            ".clinerules",
            ".codex",
            ".continue",
            ".crush",
            ".crush.json",
            "crush.json",
            ".cursor",
            ".cursorrules",
            ".factory",
            ".gemini",
            ".goose",
            ".goosehints",
            ".junie",
            ".kilocode",
            ".kiro",
            ".mcp.json",
            ".opencode",
            "opencode.json",
            "opencode.jsonc",
            ".openhands",
            ".pi",
            ".qwen",
            ".roo",
            ".roomodes",
            ".trae",
            ".windsurf",
            ".windsurfrules",
        ],
    ),
    (
        Steered::Editors,
        &[
            ".dir-locals.el",
            ".exrc",
            ".fleet",
            ".helix",
            ".idea",
            ".lvimrc",
            ".nvim.lua",
            ".nvimrc",
            ".vimrc",
            ".vscode",
            ".zed",
        ],
    ),
    (Steered::Hooks, &[".envrc", ".githooks", ".husky"]),
    (
        Steered::Containers,
        &[".devcontainer", ".devcontainer.json"],
    ),
    (Steered::Git, &[".git", ".gitconfig", ".gitmodules"]),
    (
        Steered::Shells,
        &[
            ".bash_login",
            ".bash_logout",
            ".bash_profile",
            ".bashrc",
            ".inputrc",
            ".kshrc",
            ".profile",
            ".ripgreprc",
            ".zlogin",
            ".zlogout",
            ".zprofile",
            ".zshenv",
            ".zshrc",
        ],
    ),
    (
        Steered::Builds,
        &[
            ".appveyor.yml",
            "appveyor.yml",
            ".azure-pipelines",
            "azure-pipelines.yaml",
            "azure-pipelines.yml",
            "bitbucket-pipelines.yml",
            ".build.yml",
            ".buildkite",
            "buildkite.json",
            "buildkite.yaml",
            "buildkite.yml",
            ".builds",
            ".circleci",
            ".cirrus.star",
            ".cirrus.yml",
            "cloudbuild.yaml",
            ".drone.star",
            ".drone.yaml",
            ".drone.yml",
            ".forgejo",
            ".gitea",
            ".github/actions",
            ".github/workflows",
            ".gitlab",
            ".gitlab-ci.yml",
            "Jenkinsfile",
            ".semaphore",
            ".teamcity",
            ".tekton",
            ".travis.yml",
            ".woodpecker",
            ".woodpecker.yaml",
            ".woodpecker.yml",
            ".zuul.d",
            ".zuul.yaml",
            "zuul.d",
            "zuul.yaml",
        ],
    ),
    (
        Steered::Packages,
        &[
            "_darcs/prefs",
            ".bazelrc",
            "bunfig.toml",
            ".cargo/config",
            ".cargo/config.toml",
            ".condarc",
            ".config/mise",
            ".config/mise.toml",
            ".gitattributes",
            ".ghci",
            "gradle/wrapper",
            ".hg/hgrc",
            ".hg/hgrc-not-shared",
            ".hg/sharedpath",
            ".iex.exs",
            ".irbrc",
            ".jj/repo",
            ".lefthook.yaml",
            ".lefthook.yml",
            "lefthook.yaml",
            "lefthook.yml",
            ".mise",
            ".mise.local.toml",
            ".mise.toml",
            "mise.local.toml",
            "mise.toml",
            ".mvn",
            ".npmrc",
            "nuget.config",
            ".ocamlinit",
            ".octaverc",
            ".overcommit.yml",
            "pip.conf",
            ".pijul/config",
            ".pnpmfile.cjs",
            ".pre-commit-config.yaml",
            ".pryrc",
            ".pypirc",
            ".Rprofile",
            "rust-toolchain",
            "rust-toolchain.toml",
            ".rvmrc",
            ".sl/config",
            ".sl/sharedpath",
            ".tool-versions",
            "uv.toml",
            ".yarn/plugins",
            ".yarn/releases",
            ".yarnrc",
            ".yarnrc.yml",
        ],
    ),
];

/// Returns what a file of this path steers, if anything: its name or that of a folder above it is in the list, at any
/// depth. The case is ignored, as some file systems do.
pub fn steered_by(path: &Path) -> Option<Steered> {
    let parts: Vec<_> = path.iter().map(lower).collect();
    let parts = &parts;
    let begun = |at: usize| {
        let names = BY_FIRST_PART.get(&*parts[at]).into_iter().flatten();
        let found = names.filter(move |(name, _)| begins_with(&parts[at..], name));
        found.map(|(_, kind)| *kind)
    };
    let found = (0..parts.len()).flat_map(begun).min();
    found.map(|kind| STEERING[kind].0)
}

/// Does the same for a path of which it is known what the folder around it steers: of many paths in a deep folder, each is
/// looked at once.
pub fn steered_in(around: Option<Steered>, path: &Path) -> Option<Steered> {
    let parts: Vec<_> = path.iter().rev().take(LONGEST_NAME).map(lower).collect();
    let last: PathBuf = parts.iter().rev().map(|part| part.as_ref()).collect();
    let order = |kind: &Steered| STEERING.iter().position(|(other, _)| other == kind);
    [around, steered_by(&last)]
        .into_iter()
        .flatten()
        .min_by_key(order)
}

/// Number of parts of the longest names in the list.
const LONGEST_NAME: usize = 2;

/// The names of the list by their first parts, each with the place of its kind. A path is long, and so is the list.
static BY_FIRST_PART: LazyLock<HashMap<String, Vec<(&str, usize)>>> = LazyLock::new(|| {
    let mut names: HashMap<_, Vec<_>> = HashMap::new();
    for (kind, (_, of_kind)) in STEERING.iter().enumerate() {
        for name in *of_kind {
            let first = name.split('/').next().unwrap_or_default();
            let known = names.entry(first.to_ascii_lowercase()).or_default();
            known.push((*name, kind));
        }
    }
    names
});

fn begins_with(parts: &[Cow<'_, str>], name: &str) -> bool {
    let mut parts = parts.iter();
    let mut names = name.split('/');
    names.all(|name| {
        parts
            .next()
            .is_some_and(|part| part.eq_ignore_ascii_case(name))
    })
}

fn lower(part: &OsStr) -> Cow<'_, str> {
    let part = part.to_string_lossy();
    match part.bytes().any(|byte| byte.is_ascii_uppercase()) {
        true => part.to_ascii_lowercase().into(),
        false => part,
    }
}

/// Whether a file below this folder steers something by the name of the folder: `.github`, which may hold `workflows`.
pub fn may_hold_steering(path: &Path) -> bool {
    let Some(last) = path.file_name().map(|name| name.to_string_lossy()) else {
        return false;
    };
    let names = STEERING.iter().flat_map(|(_, names)| names.iter());
    let mut folders = names.filter_map(|name| name.split_once('/'));
    folders.any(|(folder, _)| last.eq_ignore_ascii_case(folder))
}

/// Returns the names of files and folders on which programs act by themselves, as soon as a folder is opened or a
/// command of git runs. Those of git and shells are not among them: the sandbox treats the former apart, and the latter
/// count in the home alone. Those of builds and packages are a part of ordinary work, which programs write themselves.
pub fn steering_names() -> impl Iterator<Item = &'static str> + Clone {
    STEERING
        .iter()
        .filter(|(kind, _)| match kind {
            Steered::Agents | Steered::Editors | Steered::Hooks | Steered::Containers => true,
            Steered::Git | Steered::Shells | Steered::Builds | Steered::Packages => false,
        })
        .flat_map(|(_, names)| names.iter().copied())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_steer_at_any_depth_and_in_any_case() {
        for (path, expected) in [
            ("/w/p/.claude/settings.json", Some(Steered::Agents)),
            ("/w/p/sub/deep/.Claude/x", Some(Steered::Agents)),
            ("/w/p/opencode.json", Some(Steered::Agents)),
            ("/w/p/a/.vscode/tasks.json", Some(Steered::Editors)),
            ("/w/p/.husky/pre-commit", Some(Steered::Hooks)),
            (
                "/w/p/.devcontainer/devcontainer.json",
                Some(Steered::Containers),
            ),
            ("/w/p/vendor/x/.git/config", Some(Steered::Git)),
            ("/home/u/.bashrc", Some(Steered::Shells)),
            ("/w/p/.github/workflows/ci.yml", Some(Steered::Builds)),
            ("/w/p/.gitlab-ci.yml", Some(Steered::Builds)),
            ("/w/p/Jenkinsfile", Some(Steered::Builds)),
            ("/w/p/.gitattributes", Some(Steered::Packages)),
            ("/w/p/web/.npmrc", Some(Steered::Packages)),
            ("/w/p/.tool-versions", Some(Steered::Packages)),
            ("/w/p/rust-toolchain.toml", Some(Steered::Packages)),
            ("/w/p/.config/mise/config.toml", Some(Steered::Packages)),
            ("/w/p/.config/x.toml", None),
            ("/w/p/gradle/wrapper/x.jar", Some(Steered::Packages)),
            ("/w/p/gradle/libs.toml", None),
            ("/w/p/package.json", None),
            ("/w/p/.github/ISSUE_TEMPLATE.md", None),
            ("/w/p/AGENTS.md", None),
            ("/w/p/.gitignore", None),
            ("/w/p/claude/x", None),
        ] {
            assert_eq!(steered_by(Path::new(path)), expected, "{path}");
        }
    }

    #[test]
    fn what_a_path_steers_follows_from_the_folder_around_it() {
        let names = STEERING.iter().flat_map(|(_, names)| names.iter().copied());
        let names: Vec<&str> = names.chain(["a", "b/c", ".github", "workflows"]).collect();
        for outer in &names {
            for inner in &names {
                for path in [
                    format!("/w/{outer}/{inner}"),
                    format!("/w/{outer}/x/{inner}/y"),
                ] {
                    let path = Path::new(&path);
                    let mut above: Vec<_> = path.ancestors().collect();
                    above.reverse();
                    let found = above.into_iter().fold(None, steered_in);
                    assert_eq!(found, steered_by(path), "{}", path.display());
                }
            }
        }
        let parts = names.iter().map(|name| Path::new(name).iter().count());
        assert_eq!(parts.max(), Some(LONGEST_NAME));
    }

    #[test]
    fn each_name_has_a_source_and_a_date_and_counts_at_any_depth() {
        let lines = include_str!("steering/sources.txt").lines();
        let lines = lines.filter(|line| !line.starts_with('#'));
        let mut documented = Vec::new();
        for line in lines {
            let columns: Vec<_> = line.split(" | ").collect();
            let [name, source, month] = columns[..] else {
                panic!("{line}");
            };
            assert!(
                source.starts_with("https://") || source.starts_with("docs/"),
                "{line}"
            );
            let is_month = month.len() == 7 && month.starts_with("20") && month >= "2026-11";
            assert!(is_month, "{line}");
            documented.push(name);
        }
        let mut listed: Vec<_> = { STEERING.iter() }
            .flat_map(|(kind, names)| names.iter().map(move |name| (*name, *kind)))
            .collect();
        for (name, kind) in &listed {
            for path in [
                format!("/w/{name}"),
                format!("/w/a/b/c/{name}/x"),
                format!("/w/{}", name.to_uppercase()),
            ] {
                // Of two names in a path, the first kind counts.
                assert_eq!(steered_by(Path::new(&path)), Some(*kind), "{path}");
            }
        }
        listed.sort_unstable_by_key(|(name, _)| *name);
        documented.sort_unstable();
        let listed: Vec<_> = listed.into_iter().map(|(name, _)| name).collect();
        assert_eq!(listed, documented);
    }
}
