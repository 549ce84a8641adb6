//! Lines that may run without a question, and again, and lines that look as if they could.

use proptest::prelude::*;

use super::super::analyze;
use super::as_is;

fn is_harmless(line: &str) -> bool {
    analyze(line, &as_is).line.harmless
}

const HARMLESS: &[&str] = &[
    "true",
    "  ls  ",
    "ls -la src",
    "ls -la src/*.rs",
    "ls ~/projects",
    "ls;",
    "\nls\n\npwd\n",
    "sleep 0.5",
    "pwd && ls || echo none; true | false",
    "pwd&&ls",
    "cd src && ls",
    "cat a.txt b.txt | head -n 5 | tail -1",
    "echo 'it costs $5 `or` more; > <'",
    "echo \"a; b && c | d > e\"",
    "echo \"it's\" 'say \"so\"'",
    "echo a=b --color=never",
    "echo grüße",
    "printf '%s\\n' one two",
    "grep -rn 'fn main$' src",
    "grep -E \"a\\.b|c\\(d\" src/lib.rs",
    "grep foo *.rs",
    "rg -n 'fn \\w+' src",
    "rg --files -g '*.rs'",
    "find . -name '*.rs' -not -path './target/*'",
    "find . -type f -mtime -7 -size +10k",
    "find src -maxdepth 2 '(' -name a -o -name b ')' -print0",
    "find . ! -name x",
    "wc -l src/lib.rs",
    "date",
    "date -u +%Y-%m-%d",
    "date '--date=1 day ago' -Iseconds",
    "stat -c %s file",
    "file -b a.out",
    "sort -rn -k2,2 -t: names",
    "sort -k 2n -t , names",
    "sort --unique names",
    "uniq -c",
    "uniq -c names",
    "cut -d: -f1 /etc/passwd",
    "tr a-z A-Z",
    "basename /a/b.c .c",
    "dirname /a/b",
    "realpath .",
    "readlink -f x",
    "test -f Cargo.toml && echo yes",
    "[ -d src ]",
    "[ \"a\" = 'a' ] || echo no",
    "[ a == b ]",
    "[ -d ~/src ]",
    "diff -u a b",
    "cmp a b",
    "seq 1 10",
    "which cargo",
    "du -sh .",
    "uname -a",
];

const MAY_CHANGE: &[&str] = &[
    "",
    "   ",
    ";",
    "rm x",
    "ls; rm x",
    "ls && rm x",
    "ls || rm x",
    "ls | tee x",
    "ls\nrm x",
    "/bin/ls",
    "./ls",
    "ls > x",
    "ls >> x",
    "ls 2>&1",
    "ls >/dev/null",
    "cat < x",
    "cat <<EOF\nx\nEOF",
    "cat <<< x",
    "ls & rm x",
    "ls &",
    "ls |& cat",
    "echo $(rm x)",
    "echo `rm x`",
    "echo \"$(rm x)\"",
    "echo \"`rm x`\"",
    "echo $HOME",
    "echo \"$HOME\"",
    "echo ${x:=y}",
    "echo $((1+1))",
    "cat <(rm x)",
    "(rm x)",
    "(ls)",
    "{ ls; }",
    "echo {a,b}",
    "echo a\\;b",
    "echo \\\nrm",
    "echo 'open",
    "echo \"open",
    "echo \"a\\\"; rm x; echo \"b\"",
    "echo \"a\\\\\"; rm x",
    "echo 'a\\'' ; rm x #'",
    "echo $'a'",
    "echo $\"a\"",
    "ls # rm",
    "X=1 ls",
    "X=1",
    "export X=1",
    "! ls",
    "if true; then ls; fi",
    "while true; do ls; done",
    "for x in a; do ls; done",
    "f() { ls; }; f",
    "function ls { rm x; }",
    "alias ls=rm",
    "[[ -f x ]]",
    "time ls",
    "exec ls",
    "eval ls",
    "command rm x",
    "builtin cd",
    "env rm x",
    "env",
    "sudo ls",
    "xargs rm",
    "ls | xargs rm",
    "sh -c ls",
    "bash script",
    ". ./script",
    "source script",
    "trap ls EXIT",
    "git status",
    "git diff",
    "make",
    "cargo test",
    "python3 -c 1",
    "sed -n 1p x",
    "awk 1 x",
    "tee x",
    "touch x",
    "mkdir x",
    "cp a b",
    "mv a b",
    "kill 1",
    "find . -delete",
    "find . -exec rm x +",
    "find . -execdir rm x +",
    "find . -ok rm x +",
    "find . -okdir rm x +",
    "find . -fprint x",
    "find . -fprintf x %p",
    "find . -fls x",
    "find . -name *.rs",
    "find *",
    "rg --pre rm x",
    "rg --pre=rm x",
    "rg --hostname-bin rm x",
    "rg -z x",
    "rg -nz x",
    "rg x *",
    "sort -o x y",
    "sort -no x y",
    "sort y --output=x",
    "sort y --out x",
    "sort --compress-program=rm x",
    "sort -T . x",
    "sort *",
    "uniq a b",
    "uniq - b",
    "uniq -c a b",
    "uniq a*",
    "date -s now",
    "date --set=now",
    "date 01010000",
    "file -C -m x",
    "file -bC x",
    "file -z x",
    "printf -v x y",
    "printf %n 'x[$(rm y)]'",
    "test -v 'x[$(rm y)]'",
    "[ -v 'x[`rm y`]' ]",
    // A file may be named `x[$(rm y)]`.
    "test -v *",
    "[ -v x* ]",
    "printf %n *",
    "printf *",
    "ls\r",
    "ls\u{a0}x",
    "ls\0",
    "l?",
    "l* x",
];

#[test]
fn a_line_is_read_only_if_every_command_is() {
    for line in HARMLESS {
        assert!(is_harmless(line), "{line:?} changes nothing");
    }
    for line in MAY_CHANGE {
        assert!(!is_harmless(line), "{line:?} may change something");
    }
}

proptest! {
    #[test]
    fn commands_after_a_read_only_command_count(
        line in prop::sample::select(HARMLESS),
        joint in prop::sample::select(vec![";", "&&", "||", "|", "\n"]),
        other in prop::sample::select(MAY_CHANGE),
    ) {
        prop_assume!(other.chars().any(|c| !c.is_whitespace() && c != ';'));
        let joined = format!("{line}{joint}{other}");
        prop_assert!(!is_harmless(&joined), "{joined:?}");
    }

    #[test]
    fn unquoted_special_characters_are_not_read_only(
        before in "[a-z ;|]{0,6}",
        special in "[$`<>(){}#\\\\^\\r]",
        after in "[a-z '\"]{0,6}",
    ) {
        let line = format!("echo {before}{special}{after}");
        prop_assert!(!is_harmless(&line));
    }

    #[test]
    fn any_text_has_a_verdict(line in ".*") {
        is_harmless(&line);
    }
}
