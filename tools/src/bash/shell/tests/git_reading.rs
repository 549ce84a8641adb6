//! Commands of git that run unasked, and those that look as if they could. The original (2.1.332) asks about all of the
//! second list, and runs all of the first.

use std::path::{Path, PathBuf};

use super::super::{Files, analyze};

/// A repository that has git start nothing, or something.
struct Repository {
    starts_nothing: bool,
}

impl Files for Repository {
    fn resolve(&self, name: &str) -> PathBuf {
        Path::new("/w").join(name)
    }

    fn behind_links(&self, path: &Path) -> PathBuf {
        path.to_owned()
    }

    fn may_be_folder(&self, _: &Path) -> bool {
        true
    }

    fn names_in(&self, _: &Path, _: usize) -> Option<Vec<String>> {
        Some(Vec::new())
    }

    fn repository_starts_nothing(&self) -> bool {
        self.starts_nothing
    }
}

const LOOKS: &[&str] = &[
    "git status",
    "git status -s",
    "git status --porcelain",
    "git log",
    "git log --oneline -5",
    "git log --oneline -n 5",
    "git log -n5 -p",
    "git log --stat --graph --all",
    "git log --format='%H %s' -- f",
    "git log \"--grep=a b\"",
    "git log HEAD..other",
    "git log --since=\"2 days ago\"",
    "git diff",
    "git diff HEAD",
    "git diff --stat",
    "git diff --cached",
    "git diff --staged --name-only",
    "git diff HEAD~0 -- f",
    "git diff --no-ext-diff",
    "git branch",
    "git branch -a",
    "git branch -v",
    "git branch -vv",
    "git branch --show-current",
    "git branch --list",
    "git branch --list 'o*'",
    "git branch --contains HEAD",
    "git branch -r",
    "git branch --merged",
    "git branch --sort=-committerdate",
    "git show",
    "git show HEAD",
    "git show HEAD:f",
    "git show --stat",
    "git blame f",
    "git remote",
    "git remote -v",
    "git tag",
    "git tag -l",
    "git tag -l 'v*'",
    "git stash list",
    "git stash show",
    "git rev-parse HEAD",
    "git rev-parse --show-toplevel",
    "git rev-parse --abbrev-ref HEAD",
    "git ls-files",
    "git describe",
    "git describe --tags",
    "git reflog",
    "git reflog show",
    "git shortlog -sn",
    "git cat-file -p HEAD",
    "git cat-file -t HEAD",
    "git merge-base HEAD other",
    "git rev-list HEAD",
    "git rev-list --count HEAD",
    "git worktree list",
    "git status && git log -1",
    "git status | head -3",
    "git status; ls",
    "git log | grep x",
    "cd . && git status",
];

const MAY_DO_MORE: &[&str] = &[
    "git log --output=x",
    "git log --ext-diff -p",
    "git log --textconv -p",
    "git diff --ext-diff",
    "git diff --output=x",
    "git diff --textconv",
    "git branch new",
    "git branch -v new",
    "git branch -D other",
    "git branch -d other",
    "git branch -m a b",
    "git branch --edit-description",
    "git branch -u origin/main",
    "git show --ext-diff",
    "git remote show origin",
    "git remote add x y",
    "git tag v1",
    "git tag -d v1",
    "git stash",
    "git config user.name x",
    "git reflog expire --all",
    "git cat-file --textconv HEAD:f",
    "git cat-file --filters HEAD:f",
    "git grep -O x",
    "git worktree add ../w",
    "git fetch",
    "git -C /tmp status",
    "git -c core.fsmonitor=x status",
    "git -c color.ui=false status",
    "git -p log",
    "git --git-dir=.git status",
    "git --exec-path=x status",
    "cd /tmp && git status",
    "git log > out",
    "GIT_PAGER=cat git log",
    "GIT_EXTERNAL_DIFF=x git diff",
    "GIT_DIR=.git git status",
    "/usr/bin/git status",
    "git diff $(echo HEAD)",
    "git diff \"$X\"",
    "git diff *",
    "git log -- ~/x",
    "git add f",
    "git commit -m x",
    "git checkout other",
    "git reset --hard",
    "git clean -fd",
    "git pull",
    "git push",
    "git submodule status",
    "git log --show-signature",
    "git verify-commit HEAD",
    "git diff --submodule=diff",
    "git diff --no-index a b",
    "git diff /etc/passwd f",
    "git diff ../a f",
    "git blame --contents=/etc/passwd f",
    "git ls-files --exclude-from=x",
    "git ls-files --recurse-submodules",
    "git ls-remote",
    "git status; touch x",
    "cp evil .git/config; git status",
    "echo x >> .git/config; git status",
    "xargs git status",
    "bash -c 'git status'",
];

#[test]
fn git_runs_unasked_where_it_only_looks() {
    let harmless = |line: &str, starts_nothing| {
        let analysis = analyze(line, &Repository { starts_nothing });
        assert!(!analysis.line.harmless || analysis.line.looks, "{line}");
        assert_eq!(
            analysis.line.harmless, analysis.looks_at_repository,
            "{line}"
        );
        analysis.line.harmless
    };
    let looks = |line: &str| {
        let starts_nothing = false;
        analyze(line, &Repository { starts_nothing }).line.looks
    };
    for line in LOOKS {
        assert!(harmless(line, true), "{line}");
        assert!(
            !harmless(line, false),
            "{line}, where the repository starts something"
        );
        assert!(looks(line), "{line}");
    }
    for line in MAY_DO_MORE {
        assert!(!harmless(line, true), "{line}");
        assert!(!looks(line), "{line}");
    }
}
