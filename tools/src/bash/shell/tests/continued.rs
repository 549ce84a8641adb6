//! A line end behind a backslash: nothing to the shell, but in single quotes, comments and quoted here-documents.

use super::*;

/// Lines that run `rm`, and lines of which nobody says that they do not.
const ATTACKS: [&str; 32] = [
    "rm \\\nx",
    "rm\\\n x",
    "r\\\nm x",
    "r\\\n\\\nm x",
    "\\\nrm x",
    "git status && \\\nrm x",
    "git status &&\\\nrm x",
    "git status |\\\nrm x",
    "git status &\\\n& rm x",
    "git status ;\\\n rm x",
    "git status \\\n&& rm x",
    "git status \\\\\nrm x",
    "git log 'a\\\n'; rm x",
    "git log 'a' \\\n; rm x",
    "git status # \\\nrm x",
    "git status # a\\\n\nrm x",
    "git status \\\n# comment\nrm x",
    "git log $(r\\\nm x)",
    "git log \"$(r\\\nm x)\"",
    "git log \"a\\\n$(rm x)\"",
    "git log $\\\n(rm x)",
    "git log `r\\\nm x`",
    "git diff <\\\n(rm x)",
    "i\\\nf rm x; then git status; fi",
    "if true; th\\\nen rm x; fi",
    "ba\\\nsh -c 'r\\\nm x'",
    "timeout 5 \\\n  rm x",
    "cat <<\\\n-EOF\n\tEOF\nrm x\n-EOF",
    "cat <<E\\\nOF\nEOF\nrm x",
    "cat <<'EOF'\na \\\nEOF\nrm x",
    "cat <<EOF\na \\\nEOF\nEOF\nrm x",
    "find . \\\n  -exec r\\\nm x \\\n  \\;",
];

#[test]
fn attacks_over_several_lines_do_not_escape_rules() {
    for line in ATTACKS {
        for denied in with_denied() {
            let decision = decide(&denied, line, &in_w);
            assert_ne!(decision, Decision::Allow, "{line:?} runs a denied command");
        }
        let allowed = permissions(
            PermissionMode::Default,
            &["Bash(git:*)", "Bash(cat:*)", "Bash(true)", "Bash(find:*)"],
            &[],
        );
        let decision = decide(&allowed, line, &in_w);
        assert_ne!(decision, Decision::Allow, "{line:?} is allowed by a prefix");
    }
}

#[test]
fn a_command_over_several_lines_is_the_command_in_one() {
    for (line, one) in [
        ("cargo test \\\n  --lib", "cargo test --lib"),
        ("cargo test --lib \\\n  -- x", "cargo test --lib -- x"),
        ("cargo\\\n test", "cargo test"),
        ("car\\\ngo te\\\nst", "cargo test"),
        (
            "docker run \\\n\t--rm \\\n  image \\\n",
            "docker run --rm image",
        ),
        ("git log \"a\\\nb\" c", "git log \"ab\" c"),
        ("git log 'a\\\nb' c", "git log 'a\\\nb' c"),
        ("git log \\\n  2>/dev/null", "git log"),
        ("make \\\n&& \\\n  make test", "make && make test"),
        (
            "make &&\\\n  make test |\\\n cat",
            "make && make test | cat",
        ),
        ("\\\nmake", "make"),
    ] {
        let texts = |line: &str| {
            let commands = analyze(line, &as_is).line.commands?;
            let text = |command: SimpleCommand| (command.text, command.words, command.proposal);
            Some(commands.into_iter().map(text).collect::<Vec<_>>())
        };
        let texts_of_one = texts(one);
        assert!(texts_of_one.is_some(), "{one:?}");
        assert_eq!(texts(line), texts_of_one, "{line:?}");
    }
}

#[test]
fn rules_apply_to_commands_over_several_lines() {
    for (rule, line) in [
        ("Bash(cargo test:*)", "cargo test \\\n  --lib"),
        ("Bash(cargo test *)", "cargo test --lib \\\n  -- x"),
        ("Bash(docker run:*)", "docker run \\\n  --rm \\\n  image"),
        ("Bash(make)", "make \\\n"),
    ] {
        let allowed = permissions(PermissionMode::Default, &[rule], &[]);
        assert_eq!(decide(&allowed, line, &in_w), Decision::Allow, "{line:?}");
        let denied = permissions(PermissionMode::BypassPermissions, &[], &[rule]);
        assert_ne!(decide(&denied, line, &in_w), Decision::Allow, "{line:?}");
        let another = permissions(PermissionMode::BypassPermissions, &[], &["Bash(rm:*)"]);
        assert_eq!(decide(&another, line, &in_w), Decision::Allow, "{line:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    /// Wherever a line goes on, a program in it is found, or the line is not understood: one that the shell runs stays one.
    #[test]
    fn no_place_for_a_line_end_hides_a_program(
        before in prop::sample::select(vec![
            "", "git status; ", "git status && ", "git log | ", "if true; then ", "( ", "timeout 5 ", "git log $(", "! ",
            "for f in a b; do ", "A=b ", "git log 2>&1 | ", "git log > /dev/null; ", "env -i ",
        ]),
        at in 0usize..40,
        count in 1usize..3,
    ) {
        let end = if before.starts_with("if") { "; fi" } else if before.starts_with("for") { "; done" }
            else if before.contains('(') { " )" } else { "" };
        let line = format!("{before}rm x{end}");
        prop_assume!(at <= line.len());
        let line = format!("{}{}{}", &line[..at], "\\\n".repeat(count), &line[at..]);
        prop_assert!(finds_the_program(&line), "{line:?}");
    }
}
