//! Which lines work in the repository of the working directory only.

use std::path::PathBuf;

use crate::bash::shell::{analyze, stays_in_repository};

#[test]
fn only_lines_of_known_commands_stay_in_the_repository() {
    for (line, expected) in [
        ("git diff --cached", true),
        ("git diff --cached | head -5", true),
        ("git status && git add -A", true),
        ("git commit --amend --no-edit", true),
        ("cat f.txt; git show HEAD", true),
        ("git -C ../other status", false),
        ("git --git-dir=/x/.git log", false),
        ("git init /tmp/x", false),
        ("git clone a b", false),
        ("git worktree add ../side", false),
        ("cd ../other && git status", false),
        ("(cd sub; git add .)", false),
        ("cargo test", false),
        ("git diff --cached && ./test.sh", false),
        ("GIT_DIR=../x/.git git log", false),
        ("bash -c 'git init'", false),
        ("git log $(./make)", false),
        ("git $COMMAND", false),
    ] {
        let as_is = |name: &str| PathBuf::from(name);
        let line = analyze(line, &as_is).line;
        assert_eq!(stays_in_repository(&line), expected, "{}", line.line);
    }
}
