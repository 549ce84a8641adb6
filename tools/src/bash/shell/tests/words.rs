//! Words that become options only in the shell, and words that a program takes for options.

use ah_conversation::{Decision, PermissionMode};

use super::{decide, in_w, permissions};

/// Whether the line runs unasked in mode `default` with a rule for each of the programs.
fn runs(line: &str) -> bool {
    let programs = [
        "cat", "curl", "find", "git", "less", "printf", "read", "rg", "sort", "tar", "tree",
        "uniq", "wget", "xargs",
    ];
    let rules = programs.map(|program| format!("Bash({program}:*)"));
    let rules: Vec<_> = rules.iter().map(String::as_str).collect();
    let permissions = permissions(PermissionMode::Default, &rules, &[]);
    decide(&permissions, line, &in_w) == Decision::Allow
}

#[test]
fn braces_make_options() {
    for line in [
        "git log {--output=pw,HEAD}",
        "git log {HEAD,--output=pw}",
        "git log {-,x}-output=pw",
        "git log {,x}--output=pw",
        "git log {{,x},y}--output=pw",
        "git log {\"--output=pw\",HEAD}",
        "git log {\\--output=pw,HEAD}",
        "git log \"\"{--output=pw,HEAD}",
        "git log {a,$U--output=pw}",
        "git log $U{--output=pw,HEAD}",
        "git grep {-Otouch,a}",
        "git grep -{n,Otouch} a",
        "git fetch {--upload-pack=touch\\ pw,.}",
        "git log -n {1,-S} -S --output=pw",
        "sort {-opw,a.txt}",
        "sort {0..-1}opw",
        "curl -s {-o,pw} file:///w/a",
        "wget {-Opw,x}",
        "tar cf - {a.txt,--use-compress-program=touch\\ pw}",
        "find . {-delete,-exec} touch pw ';'",
        "find . -name {a,-fprint} pw",
    ] {
        assert!(!runs(line), "{line}");
    }
    for line in [
        "git add {src,tests}",
        "git add src/{a-b,c-d}.rs",
        "git diff a{,-b}",
        "git log --format=%h{,-x}",
        "sort {a,b}.txt",
    ] {
        assert!(runs(line), "{line}");
    }
}

#[test]
fn expansions_that_are_nothing_leave_options() {
    for line in [
        "git log $U--output=pw",
        "git log \"$U--output=pw\"",
        "git log \"$U\"--output=pw",
        "git log ${U}--output=pw",
        "git log $A$B--output=pw",
        "git log $(pwd -x)--output=pw",
        "git fetch . $U--upload-pack=\"touch pw\"",
        "sort $U-opw a.txt",
        "git log -n $U -S --output=pw",
        "git log -n$U -S --output=pw",
        "git --namespace $U log grep -Otouch a",
        "git --namespace $U log -c alias.z='!touch pw' z",
        "curl -X $U -d -o pw http://h",
        "curl -X$U -d -o pw http://h",
        "find . -name $U -name -fprint pw",
    ] {
        assert!(!runs(line), "{line}");
    }
    for line in [
        "git log \"$X\"",
        "git log origin/$X",
        "git log origin/$X-y",
        "git log -n $N --oneline",
        "git log -n \"$N\" -S x",
        "git -C $D status",
        "git -C $D log --oneline -5",
        "git -C \"$D\" checkout main",
        "curl -H \"A: $T\" -d \"$D\" http://h",
    ] {
        assert!(runs(line), "{line}");
    }
}

#[test]
fn quotes_and_escapes_do_not_hide_a_hyphen() {
    for line in [
        "git log -1 \\--output=p*",
        "git log '-'-output=p*",
        "git log ''\\--output=p*",
        "sort \\-o$PWD/pw a.txt",
        "sort ''[-]opw a.txt",
        "sort \"$U\"*",
        "find . \\-ex[e]c touch pw \\;",
        "find . -ex[e]c touch pw ';'",
    ] {
        assert!(!runs(line), "{line}");
    }
}

#[test]
fn variables_of_the_shell_hold_words_of_the_line() {
    for line in [
        "git log HEAD$IFS--output=pw",
        "git log HEAD$PS4--output=pw",
        "true --output=pw; git log $_",
        "echo --output=pw | read; git log $REPLY",
        "git log 'x --output=pw' $BASH_COMMAND",
        "X='a '; git log b$X--output=pw",
        "for i in 1 2; do git log $x; x=--output=pw; done",
        "for x in 'a '; do git log b$x--output=pw; done",
        "IFS=x; v=ax-opw; sort $v",
        "read IFS; v=ax-opw; sort $v",
    ] {
        assert!(!runs(line), "{line}");
    }
    for line in [
        "for f in a b; do git log v$f-rc; done",
        "git ls-files | while read -r f; do git add \"./$f\"; done",
    ] {
        assert!(runs(line), "{line}");
    }
}

#[test]
fn a_missing_value_is_no_value() {
    for line in [
        "git log -U --output=pw",
        "git diff -U --output=pw",
        "git format-patch -1 -U --output=pw",
        "git log --message --output=pw",
        "git show --onto --output=pw",
        "git diff -L --output=pw",
        "git log --message -S --output=pw",
        "git log --message -- --output=pw",
        "git log 'é' --grep -- --output=pw",
        "git log --message \"--output=$X\"",
        "git log --grep -- --output=pw",
        "git log -S -- --output=pw",
        "git log '--grep' -- --output=pw",
        "wget --referer -- -Opw http://h",
        "rg --glob -- --pre=touch x",
    ] {
        assert!(!runs(line), "{line}");
    }
    for line in [
        "git log -U3 --author me --grep fix -- src",
        "git commit -m '- one'",
        "git log -S - -- a",
        "git diff --stat -- src",
        "for f in $(git diff --name-only); do git log -1 --format=%ci -- \"$f\"; done",
        "for f in $(git diff --name-only); do git log -1 -- \"$f\"; done",
        "rg -n -- --output src",
    ] {
        assert!(runs(line), "{line}");
    }
}

#[test]
fn files_that_are_made_before_may_be_named_like_options() {
    for line in [
        "tar tf a.tar; touch ./-opw; sort *",
        "touch ./-opw; sort *",
        "echo x > ./-opw; sort *",
        "tar xf evil.tar; sort *",
        "git pull && sort *",
        "git checkout x && git log *",
        "git pull && sort ?o*",
        "git pull && sort */x",
        "bash -c 'git pull' && sort *",
        "for i in 1 2; do sort *; git pull; done",
        "git z; sort *",
        "sort -o ./-opw a; sort *",
    ] {
        let rules = [
            "Bash(bash:*)",
            "Bash(touch:*)",
            "Bash(git:*)",
            "Bash(sort:*)",
            "Bash(tar:*)",
        ];
        let permissions = permissions(PermissionMode::AcceptEdits, &rules, &[]);
        assert_ne!(decide(&permissions, line, &in_w), Decision::Allow, "{line}");
    }
    for line in [
        "git pull && sort src/*",
        "git pull && sort ./*",
        "git pull && git log -- *",
        "git status && git add *",
        "git checkout *",
        "sort * | uniq -c",
        "git pull && cat *",
    ] {
        assert!(runs(line), "{line}");
    }
}

#[test]
fn words_of_find_become_no_actions() {
    for line in [
        "find . \"$(echo -delete)\"",
        "find . -name $U -exec touch pw ';'",
        "find . $X",
        "find . -name \"$X\" -fprint \"$X\"",
        "for x in -delete; do find . \"$x\"; done",
        "x=-delete; find . \"$x\"",
        "find . \"$A-exec\" touch pw ';'",
        "find . -name \"$@\" -name -fprint pw",
        "find . \"$ACTION\" touch pw ';'",
        "find . -name -name \"$ACTION\" touch pw ';'",
        "find . \"$PWDX\" touch pw ';'",
        "for x in ';'; do find . -exec git add {} \"$x\" -exec touch pw ';'; done",
        "for x in '+'; do find . -exec git add {} \"$x\" -exec touch pw ';'; done",
        "find . -exec git add {} {a,';'} -exec touch pw ';'",
        "find . -exec git add {} * -exec touch pw ';'",
        "find . -exec git add {} \"$(echo ';')\" -exec touch pw ';'",
    ] {
        assert!(!runs(line), "{line}");
    }
    for line in [
        "find . -name \"$X\"",
        "find \"$PWD\" -name a",
        "for ext in rs ts; do find . -name \"*.$ext\" | wc -l; done",
        "find . -name \"$X\" -exec git add {} +",
        "find . -exec git grep \"$X\" {} ';'",
    ] {
        assert!(runs(line), "{line}");
    }
}
