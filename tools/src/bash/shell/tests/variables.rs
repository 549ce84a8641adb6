//! Builtins and variables of the line, beside commands that rules allow.

use ah_conversation::{Decision, PermissionMode};

use super::{decide, in_w, permissions};

/// Whether the line runs unasked in mode `default` with these rules.
fn runs(allow: &[&str], line: &str) -> bool {
    let permissions = permissions(PermissionMode::Default, allow, &[]);
    decide(&permissions, line, &in_w) == Decision::Allow
}

#[test]
fn settings_and_ends_of_the_shell_need_no_rule() {
    for line in [
        "set -e; make",
        "set -euo pipefail; make",
        "set -eu -o pipefail\nmake",
        "set +e; make",
        "set -x; make",
        "make || exit 1",
        "make || exit",
        "make; return 0",
        "cd . && make || exit 2",
    ] {
        assert!(runs(&["Bash(make:*)"], line), "{line}");
        assert!(!runs(&[], line), "{line} without a rule");
    }
    for line in [
        "set -a; make",
        "set; make",
        "set -o posix; make",
        "set -- a; make",
        "set a; make",
        "set -e$x; make",
        "set \"$X\"; make",
        "make || exit $X",
        "make || exit x",
        "PS4='$(touch x)'; set -x; make",
        "X=1 set -e; make",
    ] {
        assert!(!runs(&["Bash(make:*)"], line), "{line}");
    }
}

#[test]
fn questions_for_programs_and_lines_need_no_rule() {
    for line in [
        "command -v git",
        "command -V git make",
        "type git",
        "type -a git",
        "type -P git >/dev/null",
        "make | while read -r line; do make; done",
        "make | while IFS= read -r line; do make; done",
        "make | while IFS=, read -r a b; do make; done",
        "make | while read -r; do make; done",
    ] {
        assert!(runs(&["Bash(make:*)"], line), "{line}");
    }
    for line in [
        "command git",
        "command -p git",
        "command -v",
        "command -vp git",
        "command -v $X",
        "type -x git",
        "type *",
        "read -r PATH",
        "read -r http_proxy",
        "read -r 'x[$(touch y)]'",
        "read -p x y",
        "read -ru 3 y",
        "IFS=x read -r y",
        "PATH=. read -r y",
        "IFS= make x",
    ] {
        assert!(!runs(&["Bash(make:*)"], line), "{line}");
    }
}

#[test]
fn variables_of_the_line_are_shown_without_a_rule() {
    for line in [
        "make; echo \"exit: $?\"",
        "make; echo $?",
        "echo \"== $x ==\"; make",
        "for i in 1 2; do echo $i; make; done",
        "for f in a b; do echo \"--- ${f}:\"; basename \"$f\"; make; done",
        "make; echo \"$PWD/a\" 'it is $5'",
    ] {
        assert!(runs(&["Bash(make:*)"], line), "{line}");
    }
    for line in [
        // The environment may hold secrets.
        "make; echo $API_KEY",
        "make; echo \"${GITHUB_TOKEN}\"",
        "make; echo $http_proxy",
        "make; echo $((1+1))",
        "make; echo ${x:=y}",
        "make; echo ${!x}",
        "make; echo ${x@P}",
        "make; echo $(touch y)",
        "make; echo \"`touch y`\"",
        "make; echo <(touch y)",
        "make; echo a\\b",
        "make; cat \"$x\"",
        "make; printf \"$x\"",
        "make; test -v \"$x\"",
        "make; echo $x > y",
        "make; $x",
        "make; echo$x",
    ] {
        assert!(!runs(&["Bash(make:*)"], line), "{line}");
    }
}

#[test]
fn variables_of_the_line_are_set_without_a_rule() {
    for line in [
        "x=foo; make",
        "X=foo; make \"$X\"",
        "MSG=\"a b\"; make \"$MSG\"",
        "x=\"$(make)\"; make $x",
    ] {
        assert!(runs(&["Bash(make:*)"], line), "{line}");
        assert!(!runs(&[], line), "{line} without a rule");
    }
    for line in [
        "PATH=.; make",
        "IFS=,; make",
        "HOME=.; make",
        "CC=x; make",
        "GIT_DIR=x; make",
        "http_proxy=x; make",
        "npm_config_x=y; make",
        "x=1 make",
        "x[1]=y; make",
        "x+=y; make",
        "x='a' PATH=.; make",
        "x=$(touch y); make",
        "export x=1; make",
        "set -a; x=1; make",
        "x=y; cat $x",
    ] {
        assert!(!runs(&["Bash(make:*)"], line), "{line}");
    }
}

#[test]
fn variables_of_the_line_become_no_options_and_no_programs() {
    for line in [
        "read -r x; git log $x",
        "read -r x; git log \"$x\"",
        "git log | while read -r x; do git log $x; done",
        "x=--output=f; git log $x",
        "x=\"$(cat f)\"; git log $x",
        "x='a --output=f'; git log $x",
        "IFS=, read -r x y; git log $y",
        "x=-delete; find . $x",
        "read -r x; find . $x",
        "x=git; $x push",
        "x=alias.z=!rm; git -c $x log",
        "for x in --output=f; do git log $x; done",
    ] {
        assert!(!runs(&["Bash(git log:*)", "Bash(find:*)"], line), "{line}");
    }
}

#[test]
fn settings_of_what_is_shown_need_no_rule_of_their_own() {
    let rules = ["Bash(cargo test:*)", "Bash(npm test)", "Bash(timeout:*)"];
    for line in [
        "RUST_BACKTRACE=1 cargo test",
        "RUST_BACKTRACE=full RUST_LOG=ah=debug,info cargo test -p a",
        "CI=true NO_COLOR=1 npm test",
        "LANG=C.UTF-8 TZ=UTC timeout 5 cargo test",
        "NO_COLOR=1 ls",
    ] {
        assert!(runs(&rules, line), "{line}");
    }
    for line in [
        "RUSTC_WRAPPER=x cargo test",
        "RUST_BACKTRACE=1 cargo run",
        "RUST_BACKTRACE=1 PATH=. cargo test",
        "RUST_BACKTRACE=$(touch x) cargo test",
        "RUST_BACKTRACE+=1 cargo test",
        "TZ=/etc/secret cargo test",
        "TZ=:/etc/secret cargo test",
        "TERM=../x cargo test",
        "CI=true npm test -- x",
        "CI=true",
        "CI=true rm x",
    ] {
        assert!(!runs(&rules, line), "{line}");
    }
    // A rule may also name them.
    let denied = permissions(
        PermissionMode::Default,
        &["Bash(npm:*)"],
        &["Bash(CI=1 npm*)"],
    );
    let decision = decide(&denied, "CI=1 npm test", &in_w);
    assert!(matches!(decision, Decision::Deny(_)), "{decision:?}");
}
