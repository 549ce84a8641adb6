//! Lines in which the shell does more than their words say: it evaluates values again, sets variables that decide where names
//! lead, or opens a file in two ways. Each table has lines that must be asked about, and everyday lines that must not be.

use ah_conversation::Effect;

use super::super::Analysis;
use super::*;

/// Lines that run `rm` where a value, a name or a callback is evaluated.
const RUN: [&str; 72] = [
    "RANDOM='b[$(rm x)]'",
    "HISTCMD='b[$(rm x)]'",
    "SRANDOM='b[$(rm x)]'",
    "OPTIND+='b[$(rm x)]'",
    "p='b['; q='$(rm x)]'; OPTIND=$p$q",
    "read OPTIND <<< 'b[$(rm x)]'",
    "echo 'b[$(rm x)]' | while read -r OPTIND; do true; done",
    "printf -v RANDOM %s 'b[$(rm x)]'",
    "mapfile -t OPTIND <<< 'b[$(rm x)]'",
    "y='b[$(rm x)]'; export OPTIND=$y",
    "y='b[$(rm x)]'; readonly \"OPTIND=$y\"",
    "y='b[$(rm x)]'; bash -c 'OPTIND=$y'",
    "getopts x OPTIND",
    "read y <<< 'b[$(rm x)]'; echo {a[y]}>sub/x",
    "read y <<< 'b[$(rm x)]'; true {a[y]}<&0",
    "read y <<< 'b[$(rm x)]'; exec {a[y]}>&1",
    "read -a a <<< x; declare 'a=([$(rm x)]=1)'",
    "y='($(rm x))'; declare -a a; declare a=$y",
    "y='($(rm x))'; a[0]=1; typeset -g a=\"\"$y",
    "y='$(rm x))'; a[0]=1; declare a='('\"$y\"",
    "y='($(rm x))'; declare DIRSTACK+=$y",
    "y='b[$(rm x)]'; test -v 'a[y]'",
    "y='b[$(rm x)]'; [ -v 'a[y]' ]",
    "y='b[`rm x`]'; [ ! -v 'a[y]' ]",
    "y='a[$(rm x)]'; test -v \"$y\"",
    "y='a[$(rm x)]'; test -v $y",
    "y='a[$(rm x)]'; t=-v; test $t 'a[y]'",
    "y='b[$(rm x)]'; test -R 'a[y]'",
    "read y <<< 'b[$(rm x)]'; test -v 'a[y]'",
    "for y in 'b[$(rm x)]'; do test -v 'a[y]'; done",
    "echo 'b[$(rm x)]' | { read y; test -v 'a[y]'; }",
    "y='b[$(rm x)]'; let z=y",
    "y='b[$(rm x)]'; let 'z=y'",
    "y='b[$(rm x)]'; declare -i z=y",
    "y='b[$(rm x)]'; typeset -i z=y",
    "y='b[$(rm x)]'; readonly -i z=y",
    "y='b[$(rm x)]'; a[y]=1",
    "y='b[$(rm x)]'; a[y]+=1",
    "y='b[$(rm x)]'; printf -v 'a[y]' 1",
    "y='b[$(rm x)]'; printf '-va[y]' 1",
    "y='b[$(rm x)]'; printf -v a -v 'a[y]' 1",
    "y='b[$(rm x)]'; v=-v; printf $v 'a[y]' 1",
    "y='b[$(rm x)]'; read 'a[y]' <<< 1",
    "y='b[$(rm x)]'; read -a 'a[y]' <<< 1",
    "y='b[$(rm x)]'; mapfile 'a[y]' <<< 1",
    "y='b[$(rm x)]'; getopts a 'a[y]' -a",
    "y='b[$(rm x)]'; unset 'a[y]'",
    "y='b[$(rm x)]'; wait -p 'a[y]'",
    "y='b[$(rm x)]'; export 'a[y]=1'",
    "y='b[$(rm x)]'; declare -n r='a[y]'; r=1",
    "declare -a 'z=([$(rm x)]=1)'",
    "builtin declare -i 'z=b[$(rm x)]'",
    "command let 'z=b[$(rm x)]'",
    "BASH_CMDS[git]=/bin/rm; git x",
    "BASH_ALIASES[git]=rm; git x",
    "mapfile -C 'rm x #' -c 1 lines < notes",
    "readarray -c 1 -C 'rm x #' lines < notes",
    "compgen -C 'rm x'",
    "fc -s git=rm",
    "bash -coo pipefail posix 'rm x'",
    "bash -c - 'rm x'",
    "bash -c + 'rm x'",
    "bash -c -- 'rm x'",
    "sh -c + - 'rm x'",
    "bash -oco pipefail posix 'rm x'",
    "echo rm x | xargs -I{} sh -c '{}'",
    "echo rm x | xargs -I X sh -c X",
    "echo rm | xargs -I{} env {} x",
    "echo rm | xargs -I ls sh -c 'ls x'",
    "echo rm | xargs --replace=X env X x",
    "LESSOPEN='||-rm %s' less notes",
    "LESSOPEN='|rm %s' less notes",
];

/// Lines that show `secret/key`.
const READ: [&str; 30] = [
    "cat <> secret/key",
    "cat 0<> secret/key",
    "read line <> secret/key",
    "read HOME <<< secret; cd; cat key",
    "read -r HOME <<< secret; cat ~/key",
    "printf -v HOME secret; cat ~/key",
    "mapfile -t HOME <<< secret; cat ~/key",
    "declare HOME=secret; cat ~/key",
    "export \"HOME=secret\"; cat ~/key",
    "export 'CDPATH=secret'; cd sub; cat key",
    "readonly CDPATH=secret; cd sub; cat key",
    "read OLDPWD <<< secret; cd -; cat key",
    "declare -n h=HOME; h=secret; cat ~/key",
    "typeset -n h=HOME; h=secret; cat ~/key",
    "pushd -n $PWD/secret; popd; cat key",
    "pushd -n secret; popd; cat key",
    "git commit -Fsecret/key",
    "git commit -aFsecret/key",
    "git tag -Fsecret/key x",
    "git notes add -Fsecret/key",
    "date -fsecret/key",
    "date --file=secret/key",
    "pip install -rsecret/key",
    "mkdir d; ln -s ../secret d/l; cat d/l/key",
    "ln -s secret/key k; cat k",
    "ln secret/key k; cat < k",
    "ln -s secret; cat secret/key",
    "mv secret t; cat t/key",
    "git mv secret t; cat t/key",
    "cd ..; mv w t; cat t/secret/key",
];

/// Lines that change `guard/file`.
const EDIT: [&str; 10] = [
    "echo x <> guard/file 1>&0",
    "echo x 1<> guard/file",
    "ln -s . t; echo x > t/guard/file",
    "ln -s guard t; cp x t/file",
    "mv guard g; echo x > g/file",
    "tar xf guard.tar",
    "tar xf guard.tar -C .",
    "git apply x.patch",
    "git clean -fd",
    "git checkout -- .",
];

/// Everyday lines.
const EVERYDAY: [&str; 41] = [
    "OPTIND=1; while getopts ab: option; do echo $option; done",
    "RANDOM=42; echo $RANDOM",
    "declare -r dir=/tmp x=\"a b\"; echo $dir",
    "test -f notes && echo yes",
    "[ -n x ] && [ 1 -eq 2 ]",
    "[ -v HOME ] && echo set",
    "if [ -f \"$f\" ]; then echo there; fi",
    "if [ \"$(cat notes)\" = x ]; then make; fi",
    "x=$(wc -l < notes); [ \"$x\" -gt 3 ] && make",
    "[ -z \"$(ls sub)\" ] || make",
    "make & pid=$!; wait $pid",
    "set -- \"$(cat notes)\" b; make",
    "for f in a b; do [ -f $f ] && echo $f; done",
    "while read -r line; do echo \"$line\"; done < notes",
    "IFS=, read -r a b < notes",
    "read -rp 'name: ' name < notes",
    "read -ra words < notes",
    "mapfile -t lines < notes",
    "printf '[%s]\\n' a b",
    "printf -v x %s a; echo $x",
    "export NAME=x && make",
    "export PATH=$PATH:/opt/x/bin && cargo test",
    "export NO_COLOR=1; npm test",
    "declare x=1; echo $x",
    "declare -r x=1",
    "unset x",
    "set -euo pipefail; make",
    "cat notes | xargs -I{} echo {}",
    "ls | xargs -n 1 echo",
    "bash -eo pipefail -c 'make'",
    "git add -A && git commit -m 'x'",
    "git commit -am x",
    "git checkout main",
    "git tag -a x -m x",
    "date +%F; date -u",
    "pip install -U x",
    "mkdir d; ln -s a d/l; ls d",
    "mv a b; make",
    "cat < notes > out",
    "tar tf a.tar",
    "cd sub && cat notes",
];

fn bypassing(deny: &str) -> Permissions {
    permissions(PermissionMode::BypassPermissions, &[], &[deny])
}

#[test]
fn what_is_evaluated_again_may_be_anything() {
    let plain = permissions(PermissionMode::Default, &[], &[]);
    for line in RUN {
        for denied in with_denied() {
            assert_ne!(decide(&denied, line, &in_w), Decision::Allow, "{line}");
        }
        assert_ne!(decide(&plain, line, &in_w), Decision::Allow, "{line}");
    }
    let made = bypassing("Bash(rm:*)");
    for line in ["make --eval='x:;rm y'", "make -E 'x:;rm y'"] {
        assert_ne!(decide(&made, line, &in_w), Decision::Allow, "{line}");
    }
}

#[test]
fn files_are_read_and_written_by_whatever_way_a_line_takes() {
    for (lines, deny) in [(&READ[..], "Read(secret/**)"), (&EDIT, "Edit(guard/**)")] {
        for line in lines {
            assert_ne!(
                decide(&bypassing(deny), line, &in_w),
                Decision::Allow,
                "{line}"
            );
        }
    }
}

#[test]
fn everyday_lines_are_not_asked_about() {
    for line in EVERYDAY {
        for deny in ["Bash(rm:*)", "Read(secret/**)", "Edit(guard/**)"] {
            assert_eq!(
                decide(&bypassing(deny), line, &in_w),
                Decision::Allow,
                "{line} {deny}"
            );
        }
    }
}

#[test]
fn a_rule_does_not_cover_what_the_line_makes_of_the_program() {
    let names = [
        "export",
        "read",
        "declare",
        "printf",
        "cd",
        "git log",
        "git status",
    ];
    let rules = names.map(|name| format!("Bash({name}:*)"));
    let rules = rules.each_ref().map(String::as_str);
    let allowed = permissions(PermissionMode::Default, &rules, &[]);
    for (line, is_covered) in [
        ("git status", true),
        ("export NO_COLOR=1; git status", true),
        ("export name=x; git log", true),
        ("read -r line < /dev/null; git log", true),
        ("cd /w && git status", true),
        ("export \"x=--output=F\"; git log $x", false),
        ("export 'GIT_CONFIG_COUNT=1'; git status", false),
        ("export GIT_DIR=x; git status", false),
        ("export PATH=./evil:$PATH; git status", false),
        ("export LD_PRELOAD=./x.so; git status", false),
        ("export FOO=x; git status", false),
        ("declare -n r=x; r=--output=F; git log $x", false),
        ("read HOME <<< --output=F; git log ~", false),
        ("printf -v GIT_DIR x; git status", false),
        ("cd sub && git status", false),
        ("cd sub; git log", false),
    ] {
        let is_allowed = decide(&allowed, line, &in_w) == Decision::Allow;
        assert_eq!(is_allowed, is_covered, "{line}");
    }
    // A rule for the whole line does.
    let named = permissions(PermissionMode::Default, &["Bash(cd sub && git log)"], &[]);
    assert_eq!(decide(&named, "cd sub && git log", &in_w), Decision::Allow);
}

#[test]
fn a_folder_that_becomes_one_with_workflows_is_no_edit() {
    let edits = permissions(PermissionMode::AcceptEdits, &[], &[]);
    for (line, is_edit) in [
        ("mkdir -p q/workflows", true),
        ("mv q other", true),
        ("mv q .github", false),
        ("mv q/.github .", false),
        ("mv q x/.GitHub", false),
        ("mkdir .github", true),
    ] {
        assert_eq!(
            decide(&edits, line, &in_w) == Decision::Allow,
            is_edit,
            "{line}"
        );
    }
}

#[test]
fn the_terminal_is_no_output() {
    let plain = permissions(PermissionMode::Default, &[], &[]);
    for (line, is_output) in [
        ("cat notes", true),
        ("cat notes > /dev/stdout", true),
        ("cat notes 2> /dev/null", true),
        ("cat notes > /dev/tty", false),
        ("printf x > /dev/tty", false),
        ("echo x 2> /dev/tty", false),
        ("echo x > /dev/pts/0", false),
    ] {
        assert_eq!(
            decide(&plain, line, &in_w) == Decision::Allow,
            is_output,
            "{line}"
        );
    }
}

#[test]
fn where_nothing_keeps_a_command_only_plain_words_need_no_question() {
    for (line, is_plain) in [
        ("ls -l sub", true),
        ("cat notes | head -5 && echo done", true),
        ("grep 'a b' notes 2> /dev/null", true),
        ("ls *.rs", false),
        ("echo $x", false),
        ("x=1; echo $x", false),
        ("ls ~", false),
        ("read -r line < notes", false),
        ("for f in a b; do echo $f; done", false),
    ] {
        let kept = analyze(line, &in_w);
        let changes_nothing = |analysis: &Analysis| {
            let mut commands = analysis.line.commands.iter().flatten();
            commands.all(|command| command.effect == Effect::None)
        };
        assert!(changes_nothing(&kept), "{line}");
        assert_eq!(changes_nothing(&kept.unkept()), is_plain, "{line}");
    }
}

#[test]
fn a_line_with_too_many_places_may_be_anything() {
    let commands = |times| {
        let line = "cd a; cat b;".repeat(times);
        analyze(&line, &in_w).line.commands
    };
    assert!(commands(3).is_some());
    assert!(commands(2_000).is_none());
}

#[test]
fn a_path_of_too_many_names_may_be_anything() {
    for name in ["a/", "../", "~/", "./"] {
        let commands = |times| {
            let line = format!("cat notes {}", name.repeat(times));
            analyze(&line, &in_w).line.commands
        };
        assert!(commands(100).is_some());
        assert!(commands(200_000).is_none());
    }
}
