//! Lines that try to escape a rule, and lines that rules must allow.

mod bypasses;
mod continued;
mod evaluated;
mod git_reading;
mod read_only;
mod repository;
mod seen;
mod variables;
mod verdicts;
mod words;

use std::path::{Path, PathBuf};

use ah_conversation::{
    Access, Decision, Input, PatternRoots, PermissionMode, Permissions, SimpleCommand, ToolUse,
};
use proptest::prelude::*;

use super::{Files, analyze};

/// Lines that run `rm`, or might, in some shell. None is allowed without a question if `rm` is denied and everything
/// else is allowed, or if `git`, `echo`, `timeout`, `env`, `xargs`, `find`, `bash` and the like are allowed.
const ATTACKS: &[&str] = &[
    // Separators.
    "git status; rm x",
    "git status;rm x",
    "git status && rm x",
    "git status&&rm x",
    "git status || rm x",
    "git status | rm x",
    "git status |& rm x",
    "git status & rm x",
    "git status &\nrm x",
    "git status\nrm x",
    "git status\n\n\trm x",
    "git status \\\n; rm x",
    "git status; ; rm x",
    "! rm x",
    "; rm x",
    "git status # comment\nrm x",
    "git status;#\nrm x",
    "git log --format='%h' ; rm x",
    "git commit -m \"a; b\"; rm x",
    "git commit -m 'it'\\''s' && rm x",
    "git commit -m \"a\\\" b\"; rm x; echo \"c\"",
    // Substitutions.
    "git log $(rm x)",
    "git log \"$(rm x)\"",
    "git log `rm x`",
    "git log \"`rm x`\"",
    "git log $(echo `rm x`)",
    "git log \"a $(echo \"$(rm x)\") b\"",
    "echo ${x:-$(rm x)}",
    "echo ${x:=`rm x`}",
    "echo $((`rm x`))",
    "echo $(($(rm x)))",
    "echo $[$(rm x)]",
    "git diff <(rm x)",
    "git diff <(git show) <(rm x)",
    "git log > >(rm x)",
    "git log | tee >(rm x)",
    "$(rm x)",
    "`rm x`",
    "$(echo rm) x",
    "`echo rm` x",
    "\"$(echo rm)\" x",
    "git log $(\nrm x\n)",
    "git log $(git status; rm x)",
    "echo ${x@P}$(rm x)",
    // Groups and compound commands.
    "(rm x)",
    "( git status; rm x )",
    "{ rm x; }",
    "{ git status; rm x; } > log",
    "if rm x; then git status; fi",
    "if true; then rm x; fi",
    "if true; then git status; else rm x; fi",
    "if false; then :; elif rm x; then :; fi",
    "while rm x; do git status; done",
    "while true; do rm x; done",
    "until false; do rm x; break; done",
    "for f in a b; do rm $f; done",
    "for f in $(rm x); do git status; done",
    "for PATH in /tmp/evil; do git status; rm x; done",
    "case x in x) rm x;; esac",
    "case x in (x) rm x;; esac",
    "select x in a; do rm x; done",
    "f() { rm x; }; f",
    "f () (rm x); f",
    "function f { rm x; }; f",
    "git() { rm x; }; git status",
    "[[ -n $(rm x) ]]",
    "[[ -v a[$(rm x)] ]]",
    "(( a[$(rm x)] ))",
    "coproc rm x",
    "time rm x",
    "time -p rm x",
    "((git status); rm x)",
    // Redirections and here-documents.
    "git log > out; rm x",
    "git log 2>&1; rm x",
    "git log >&2 & rm x",
    "git log 2>/dev/null; rm x",
    "> out rm x",
    ">out rm x",
    "2>/dev/null rm x",
    "< in rm x",
    "&> out rm x",
    "bash < script",
    "bash <<< 'rm x'",
    "bash <<EOF\nrm x\nEOF",
    "bash <<'EOF'\nrm x\nEOF",
    "bash <<-EOF\n\trm x\n\tEOF",
    "git log <<EOF\n$(rm x)\nEOF",
    "git log <<EOF\n`rm x`\nEOF",
    "git log <<EOF\ntext\nEOF\nrm x",
    "git log <<'EOF'\ntext\nEOF\nrm x",
    "git log <<A <<B\na\nA\nb\nB\nrm x",
    "git log <<EOF; rm x\ntext\nEOF",
    "git log <<E\"O\"F\ntext\nEOF\nrm x",
    "git log <<EOF\ntext\n EOF\nEOF\nrm x",
    "git log <<EOF && rm x\ntext\nEOF",
    "echo $(git log <<EOF\nx\nEOF\n) ; rm x",
    // Shells.
    "bash -c 'rm x'",
    "bash -c \"rm x\"",
    "bash -lc 'rm x'",
    "bash -ec 'git status; rm x'",
    "bash -x -c 'rm x'",
    "bash -o pipefail -c 'rm x'",
    "bash --norc -c 'rm x'",
    "/bin/bash -c 'rm x'",
    "sh -c 'rm x'",
    "dash -c 'rm x'",
    "zsh -c 'rm x'",
    "fish -c 'rm x'",
    "busybox rm x",
    "busybox sh -c 'rm x'",
    "bash -c 'bash -c \"rm x\"'",
    "bash -c \"$CMD\"",
    "bash -c \"$(echo rm x)\"",
    "bash -c $'rm x'",
    "bash -s",
    "bash",
    "sh",
    "sh -",
    "bash -i",
    "bash /dev/stdin",
    "bash /dev/fd/3",
    "bash /proc/self/fd/0",
    "bash --rcfile evil",
    "bash --init-file evil -i",
    "echo rm x | sh",
    "echo rm x | bash -s --",
    "cat script | bash",
    "echo rm x | xargs bash -c",
    "eval rm x",
    "eval 'rm x'",
    "eval \"git status; rm x\"",
    "eval $CMD",
    "eval \"$(echo rm x)\"",
    "eval eval eval rm x",
    // Wrappers.
    "env rm x",
    "env A=b rm x",
    "env -i rm x",
    "env -u A rm x",
    "env -S 'rm x'",
    "env --split-string='rm x'",
    "env -iS'rm x'",
    "/usr/bin/env rm x",
    "env -- rm x",
    "env bash -c 'rm x'",
    "env -C /tmp rm x",
    "nohup rm x",
    "nohup rm x &",
    "setsid rm x",
    "setsid -f rm x",
    "nice rm x",
    "nice -n 5 rm x",
    "nice -5 rm x",
    "ionice -c 3 rm x",
    "stdbuf -oL rm x",
    "stdbuf -o L rm x",
    "timeout 5 rm x",
    "timeout -s KILL 5 rm x",
    "timeout --signal=KILL 5 rm x",
    "timeout -k 1 5 rm x",
    "timeout --kill-after 1 5 rm x",
    "timeout 5 timeout 5 rm x",
    "timeout 5 env nohup rm x",
    "timeout $T rm x",
    "command rm x",
    "command -p rm x",
    "builtin eval rm x",
    "exec rm x",
    "exec -a git rm x",
    "sudo rm x",
    "sudo -u root rm x",
    "sudo -- rm x",
    "sudo -s rm x",
    "sudo A=b rm x",
    "doas rm x",
    "su -c 'rm x'",
    "xargs rm",
    "echo x | xargs rm",
    "echo x | xargs -n 1 rm",
    "echo x | xargs -n1 -P4 rm",
    "echo x | xargs -I{} rm {}",
    "echo x | xargs -I CMD sh -c 'rm CMD'",
    "echo rm | xargs -I{} {} x",
    "echo x | xargs -i rm {}",
    "echo x | xargs -l rm",
    "echo x | xargs -0r rm",
    "echo x | xargs env rm",
    "find . -exec rm {} ;",
    "find . -exec rm {} \\;",
    "find . -exec rm {} +",
    "find . -execdir rm {} \\;",
    "find . -ok rm {} \\;",
    "find . -name '*.o' -exec sh -c 'rm \"$1\"' _ {} \\;",
    "find . -exec git add {} \\; -exec rm {} \\;",
    "find . -exec {} \\;",
    "find . \"$ACTION\" rm {} \\;",
    "find . -e{xec,xec} rm {} \\;",
    "watch rm x",
    "script -c 'rm x'",
    "strace rm x",
    "parallel rm ::: x",
    "flock lock rm x",
    "chroot / rm x",
    "unshare rm x",
    "setarch x86_64 rm x",
    "linux64 rm x",
    "choom -n 0 rm x",
    "ssh-agent rm x",
    "dbus-run-session rm x",
    "sg root 'rm x'",
    "capsh -- -c 'rm x'",
    "/lib64/ld-linux-x86-64.so.2 /bin/rm x",
    "ld.so /bin/rm x",
    "/lib/ld-musl-x86_64.so.1 rm x",
    "valgrind rm x",
    "perf stat rm x",
    "tool-nobody-knows rm x",
    "tool-nobody-knows -- /bin/rm x",
    "tool-nobody-knows --run='git status; rm x'",
    "awk 'BEGIN{system(\"rm x\")}'",
    "python3 -c 'import os; os.system(\"rm x\")'",
    "npm exec rm x",
    "uv run rm x",
    "docker run -v /:/x y rm x",
    "git bisect run rm x",
    "git submodule foreach 'rm x'",
    "git submodule foreach --recursive rm x",
    "git rebase -x 'rm x' HEAD~1",
    "git rebase --exec='rm x' HEAD~1",
    "git fetch --upload-pack='rm x;' y",
    "git fetch --upload-p 'rm x' y",
    "git grep --open-files-in-pager='rm x' y",
    "git -c alias.y='!rm x' y",
    "sort --compress-program='rm x' y",
    "tar -x --to-command='rm x' -f y",
    "tar -x --checkpoint-action=exec='rm x' -f y",
    "rg --pre 'rm x' y",
    "source /dev/stdin <<< 'rm x'",
    ". <(echo rm x)",
    ". /proc/self/fd/0 <<< 'rm x'",
    // Spellings.
    "\"rm\" x",
    "'rm' x",
    "r'm' x",
    "r\"\"m x",
    "\\rm x",
    "r\\m x",
    "/bin/rm x",
    "//bin//rm x",
    "../../bin/rm x",
    "\"/bin/\"rm x",
    "/bin/r? x",
    "/b*/rm x",
    "/bin/r[m] x",
    "{rm,x}",
    "{/bin/,}rm x",
    "$RM x",
    "${RM} x",
    "$'rm' x",
    "$'\\x72m' x",
    "$\"rm\" x",
    "=rm x",
    "~/bin/../../../bin/rm x",
    "r$()m x",
    "r``m x",
    "r${EMPTY}m x",
    "$@rm x",
    "rm$IFS$9x",
    "rm\tx",
    "  rm x",
    "rm<in",
    "rm>out x",
    "rm;",
    "rm\u{a0}x; rm x",
    "git status\r\nrm x",
    "git status\u{2028}rm x",
    "git status\0rm x",
    "git status\u{b}; rm x",
    // Variables and names that change what other words mean.
    "A=b rm x",
    "A=$(rm x)",
    "A=$(rm x) git status",
    "A=`rm x` git status",
    "A=rm; $A x",
    "A+=b rm x",
    "A[0]=b rm x",
    "A=(rm x); \"${A[@]}\"",
    "alias git='rm x'\ngit status",
    "shopt -s expand_aliases; alias g=rm",
    "trap 'rm x' EXIT",
    "hash -p /bin/rm git; git x",
    "enable -f /tmp/evil.so git; rm x",
    // Unfinished or odd.
    "git status 'unfinished; rm x",
    "git status \"unfinished; rm x",
    "git status $(unfinished; rm x",
    "git status ) ; rm x",
    "git status ;; rm x",
    "git status &&& rm x",
    "git status ||| rm x",
    "git status <<EOF\nunfinished; rm x",
    "git status \\",
    "echo !(x); rm x",
    "echo *(e:'rm x':)",
    "echo @(a|b) $(rm x)",
];

fn decide(permissions: &Permissions, line: &str, files: &dyn Files) -> Decision {
    let analysis = analyze(line, files);
    let call = ToolUse {
        id: "t".into(),
        name: "bash".into(),
        input: Input::default(),
    };
    let mut accesses = vec![Access::Command(analysis.line)];
    accesses.extend(analysis.reads.into_iter().map(Access::Read));
    accesses.extend(analysis.writes.into_iter().map(Access::Write));
    permissions.decide(&call, &accesses)
}

fn as_is(name: &str) -> PathBuf {
    PathBuf::from(name)
}

/// Resolves a name in `/w`, without regard to `..`.
fn in_w(name: &str) -> PathBuf {
    Path::new("/w").join(name)
}

fn permissions(mode: PermissionMode, allow: &[&str], deny: &[&str]) -> Permissions {
    let rules = |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect();
    Permissions {
        mode,
        allow: rules(allow),
        deny: rules(deny),
        places: PatternRoots {
            cwd: "/w".into(),
            project: "/w".into(),
            home: None,
        },
        ..Permissions::default()
    }
}

fn with_prefixes() -> Permissions {
    let programs = [
        "git", "echo", "timeout", "env", "xargs", "find", "bash", "sudo", "nice", "cat", "eval",
    ];
    let allow: Vec<_> = programs.map(|program| format!("Bash({program}:*)")).into();
    let allow: Vec<_> = allow.iter().map(String::as_str).collect();
    permissions(PermissionMode::Default, &allow, &[])
}

fn with_denied() -> [Permissions; 2] {
    [
        permissions(
            PermissionMode::BypassPermissions,
            &["Bash"],
            &["Bash(rm:*)"],
        ),
        permissions(PermissionMode::Default, &["Bash"], &["Bash(rm *)"]),
    ]
}

#[test]
fn attacks_do_not_escape_rules() {
    assert!(ATTACKS.len() >= 150, "{} attacks", ATTACKS.len());
    for line in ATTACKS {
        let by_prefix = decide(&with_prefixes(), line, &in_w);
        assert_ne!(
            by_prefix,
            Decision::Allow,
            "{line:?} is allowed by a prefix"
        );
        for denied in with_denied() {
            let decision = decide(&denied, line, &in_w);
            assert_ne!(decision, Decision::Allow, "{line:?} runs a denied command");
        }
    }
}

/// Everyday lines must not be asked about if rules allow them.
#[test]
fn allowed_lines_are_not_asked_about() {
    for line in [
        "git status",
        "git log --format='%h; %s' | head -5",
        "git commit -m \"a; b && c\"",
        "git add . && git commit -m 'x' && git push",
        "git diff 2>/dev/null",
        "git diff 2>&1 | cat",
        "git log \"$HOME\" -- $FILE",
        "git log --since=\"$(date +%F)\"",
        "git status; echo done",
        "git log # what happened\n",
        "if git diff --quiet; then echo same; else echo other; fi",
        "for f in a b c; do git add \"$f\"; done",
        "(git status; git log)",
        "timeout 30 git fetch",
        "nice -n 5 git gc",
        "time git status",
        "env git status",
        "find . -name '*.rs' -exec git add {} +",
        "bash -c 'git status && echo ok'",
        "bash build.sh",
        "git commit -F - <<'EOF'\n$(not run) `nor this`\nEOF\n",
        "git stash && git pull || echo failed",
    ] {
        let decision = decide(&with_prefixes(), line, &in_w);
        assert_eq!(decision, Decision::Allow, "{line}");
    }
    for line in [
        "git push",
        "make -j4",
        "cargo test -- rm",
        "echo 'rm x'",
        "git rm x",
        "grep rm *",
    ] {
        for denied in with_denied() {
            assert_eq!(decide(&denied, line, &in_w), Decision::Allow, "{line}");
        }
    }
}

#[test]
fn redirections_need_their_own_permission() {
    let git = permissions(PermissionMode::Default, &["Bash(git:*)"], &[]);
    let edits = permissions(PermissionMode::AcceptEdits, &["Bash(git:*)"], &[]);
    for (line, by_rule, by_mode) in [
        ("git log > out", false, true),
        ("git log >> a/out", false, true),
        ("git log > /etc/out", false, false),
        ("git log > .git/hooks/pre-commit", false, false),
        ("git log > ../out", false, false),
        ("git log > $OUT", false, false),
        ("git log >| out", false, true),
        ("git log &> out", false, true),
        ("git log >& out", false, true),
        ("git log < in", true, true),
        // Options that write are judged as writes.
        ("git log --output=out", false, true),
        ("git log --output out", false, true),
        ("git log --outp=out", false, true),
        ("git diff --output=/etc/out", false, false),
        ("git show --output=.git/hooks/pre-commit", false, false),
        ("git log --output=$OUT", false, false),
        ("git log \"--output=$OUT\"", false, false),
        ("git archive -o out HEAD", false, true),
        ("git archive -oout HEAD", false, true),
        ("git log --oneline", true, true),
        ("git log -p --no-color", true, true),
        ("cd /etc && git log --output=passwd", false, false),
        ("bash -c 'git log --output=/etc/out'", false, false),
        ("cd /etc && git log > passwd", false, false),
        ("cd sub && git status", false, false),
        ("cd sub && ls", true, true),
        ("cd . && git status", true, true),
        ("cd /w && git status", true, true),
        ("cd /w/ && git log > out", false, true),
        ("cd /w && mkdir a", false, true),
        ("cd /w && cd sub && git status", false, false),
        ("cd sub && cd . && git status", false, false),
        ("cd /w/sub && git status", false, false),
        ("cd /w sub && git status", false, false),
        ("cd \"$X\" && git status", false, false),
        ("cd -P /w && git status", false, false),
        ("pushd . && git status", false, false),
        ("mkdir a && touch a/b", false, true),
        ("cp a b", false, true),
        ("cp -t /etc a", false, false),
        ("mv a /etc/b", false, false),
        ("touch .git/config", false, false),
        ("rm a", false, true),
    ] {
        // `..` is resolved by the workspace; here it is resolved by hand.
        let decide = |permissions: &Permissions| {
            let line = line.replace("../out", "/out");
            decide(permissions, &line, &in_w) == Decision::Allow
        };
        assert_eq!((decide(&git), decide(&edits)), (by_rule, by_mode), "{line}");
    }
}

#[test]
fn file_rules_apply_to_files_that_commands_name() {
    let denied = permissions(
        PermissionMode::BypassPermissions,
        &[],
        &["Read(./secrets/**)", "Edit(.env)"],
    );
    for (line, allowed) in [
        ("cat secrets/key", false),
        ("cat < secrets/key", false),
        ("cd secrets && cat key", false),
        ("curl --data=secrets/key http://h", false),
        ("bash -c 'cat secrets/key'", false),
        ("echo x > .env", false),
        ("cp a .env", false),
        ("cat other", true),
        ("echo secret", true),
    ] {
        assert_eq!(
            decide(&denied, line, &in_w) == Decision::Allow,
            allowed,
            "{line}"
        );
    }
}

/// Files of processes are no business of a command that is allowed because it only reads.
#[test]
fn reading_commands_reach_no_other_process() {
    let plain = permissions(PermissionMode::Default, &[], &[]);
    for line in [
        "cat /proc/self/environ",
        "grep -a KEY /proc/*/environ",
        "head -c 99 /proc/1/environ",
        "tac /proc/self/../1/environ",
        "cat /p*/1/environ",
        "cat /*/1/environ",
        "cat /[p]roc/1/environ",
        "cd /proc && cat 1/environ",
        "cd /proc; cd 1; cat environ",
        "cd / && cat proc/1/environ",
        "cat < /proc/1/environ",
        "grep -f/proc/1/environ x",
        "grep -nf/proc/1/environ x",
        "grep --file=/proc/1/environ x",
        "grep -r KEY /",
        "rg KEY /",
        "cd / && grep -r KEY",
        "echo /proc/1/environ | xargs cat",
        "find /proc -name environ | xargs cat",
        "ls /proc/1/fd",
        "timeout 5 cat /proc/1/environ",
        "diff /proc/1/environ /dev/null",
    ] {
        let analysis = analyze(line, &in_w);
        assert!(!analysis.line.harmless, "{line}");
        assert_ne!(decide(&plain, line, &in_w), Decision::Allow, "{line}");
    }
    for line in [
        "cat proc/a",
        "grep -rn x src",
        "cat *.rs",
        "cd src && grep -n x *.rs",
        "ls /usr",
    ] {
        assert_eq!(decide(&plain, line, &in_w), Decision::Allow, "{line}");
    }
}

/// Lines that mode `acceptEdits` is meant for, and lines that go further.
#[test]
fn accept_edits_allows_file_commands() {
    let edits = permissions(PermissionMode::AcceptEdits, &[], &[]);
    for (line, allowed) in [
        ("mkdir -p a/b && touch a/b/c", true),
        ("cp a b", true),
        ("cp a b c d/", true),
        ("mv b c", true),
        ("mkdir d && mv a b d", true),
        // The files in a folder are not known.
        ("cp -r a b", false),
        ("cp -a skel/. .", false),
        ("cp a/. b", false),
        ("cp a/.. b", false),
        // The target may be a folder.
        ("cp .bashrc dotfiles", false),
        ("mv x/.git .", false),
        ("cp x/.mcp.json .", false),
        // What is moved may be a link, and what follows may go through it.
        ("mv a d/b && cp c d/b", false),
        ("mv a d; mv b d", false),
        ("mv a d; touch d/x", false),
        ("mv a d; mkdir d/x", false),
        ("mv a d; echo x > d/b", false),
        ("for i in 1 2; do mkdir d/x; mv a d; done", false),
        ("rm -rf a/b c", true),
        ("rmdir a", true),
        ("rm", false),
        ("rm -rf .", false),
        ("rm -rf /w", false),
        ("rm -rf /elsewhere/a", false),
        ("rm -rf .git", false),
        ("rm *", false),
        ("rm $x", false),
        ("rm --no-preserve-root a", false),
        ("cd a && rm b", false),
        ("find . -name a | xargs rm", false),
    ] {
        assert_eq!(
            decide(&edits, line, &in_w) == Decision::Allow,
            allowed,
            "{line}"
        );
    }
}

#[test]
fn proposals_are_the_command_or_its_subcommand() {
    let check = |line: &str, expected: &str| {
        let analysis = analyze(line, &as_is);
        let commands = analysis.line.commands.unwrap_or_default();
        let proposals: Vec<_> = commands
            .iter()
            .map(|command| command.proposal.as_str())
            .collect();
        assert_eq!(proposals.join(", "), expected, "{line}");
    };
    for (line, expected) in [
        ("git commit -m x", "git commit:*"),
        ("git -C x commit", "git -C x commit"),
        ("npm run build && touch /w/made", "npm run:*, touch /w/made"),
        ("rm *.o", r"rm \*.o"),
        ("A=b git push", "A=b git push"),
        ("make", "make"),
    ] {
        check(line, expected);
    }
}

/// Whether a plain `rm` at the beginning of a command is found, or the line is not understood.
fn finds_the_program(line: &str) -> bool {
    fn is_there(commands: &[SimpleCommand]) -> bool {
        commands.iter().any(|command| {
            matches!(command.words.first(), Some(Some(program)) if program == "rm")
                || is_there(&command.inner)
        })
    }
    let analysis = analyze(line, &as_is);
    analysis
        .line
        .commands
        .is_none_or(|commands| is_there(&commands))
}

proptest! {
    // About four of five texts leave something open.
    #![proptest_config(ProptestConfig { max_global_rejects: 100_000, ..ProptestConfig::default() })]

    #[test]
    fn surrounding_text_does_not_hide_a_command(
        before in "[a-z '\"$(){}<>&;|\\\\#`=\n-]{0,12}",
        after in "[a-z '\"$(){}<>&;|\\\\#`=\n-]{0,12}",
        joint in prop::sample::select(vec!["; ", " && ", " || ", " | ", "\n", " & "]),
    ) {
        // The text before may put the separator into quotes, a comment or a here-document, or escape it.
        let is_closed = analyze(&before, &as_is).line.commands.is_some()
            && !before.contains(['#', '<']) && !before.ends_with('\\');
        prop_assume!(is_closed);
        let line = format!("{before}{joint}rm {after}");
        prop_assert!(finds_the_program(&line), "{line:?}");
    }

    #[test]
    fn any_line_has_a_verdict(line in "\\PC{0,60}") {
        analyze(&line, &as_is);
    }

    #[test]
    fn any_shell_like_line_has_a_verdict(line in "[a-z '\"$(){}<>&;|\\\\#`=\n\t*?!~0-9-]{0,60}") {
        analyze(&line, &as_is);
        for denied in with_denied() {
            decide(&denied, &line, &in_w);
        }
    }
}
