//! What an allowed call may do at most.

use super::*;
use crate::Reach;

/// Each line with what it may do in a mode, and with a rule for its program. A call that is asked about has no verdict.
#[test]
fn a_command_may_do_what_its_verdict_has_foreseen() {
    let command = |text: &str, effect: Effect, file: &str| SimpleCommand {
        effect,
        operands: vec![file.into()],
        ..simple(text)
    };
    let [look, make, any] = [
        command("ls", Effect::None, "/w/p"),
        command("mkdir a", Effect::Files, "/w/p/a"),
        command("npm test", Effect::Any, "/w/p/test"),
    ];
    let edits = || Some(Reach::Edits(vec!["/w/p".into()]));
    let started = |inner: &SimpleCommand| SimpleCommand {
        inner: vec![inner.clone()],
        transparent: true,
        ..simple("timeout 5 x")
    };
    for (mode, rule, commands, expected) in [
        ("default", "Web", vec![look.clone()], Some(Reach::ReadOnly)),
        (
            "default",
            "Web",
            vec![started(&look)],
            Some(Reach::ReadOnly),
        ),
        ("default", "Web", vec![look.clone(), make.clone()], None),
        ("default", "Bash", vec![look.clone()], Some(Reach::Anything)),
        (
            "default",
            "Bash(ls)",
            vec![look.clone()],
            Some(Reach::Anything),
        ),
        (
            "default",
            "Bash(npm:*)",
            vec![look.clone()],
            Some(Reach::ReadOnly),
        ),
        (
            "default",
            "Bash(npm:*)",
            vec![look.clone(), any.clone()],
            Some(Reach::Anything),
        ),
        (
            "acceptEdits",
            "Web",
            vec![look.clone()],
            Some(Reach::ReadOnly),
        ),
        (
            "acceptEdits",
            "Web",
            vec![look.clone(), make.clone()],
            edits(),
        ),
        ("acceptEdits", "Web", vec![started(&make)], edits()),
        (
            "acceptEdits",
            "Bash(npm:*)",
            vec![make.clone(), any],
            Some(Reach::Anything),
        ),
        ("plan", "Bash", vec![look.clone()], Some(Reach::ReadOnly)),
        (
            "bypassPermissions",
            "Web",
            vec![look.clone()],
            Some(Reach::Anything),
        ),
    ] {
        let permissions = Permissions {
            allow: rules(&[rule]),
            ..permissions(mode.parse().unwrap())
        };
        let texts: Vec<_> = commands.iter().map(|it| it.text.clone()).collect();
        let accesses = [Access::Command(CommandLine {
            line: texts.join(" && "),
            harmless: false,
            looks: false,
            commands: Some(commands),
        })];
        let is_allowed = permissions.decide(&call("Bash"), &accesses) == Decision::Allow;
        let reach = is_allowed.then(|| permissions.reach(&call("Bash"), &accesses));
        assert_eq!(reach, expected, "{mode} {rule} {texts:?}");
    }
}

#[test]
fn a_rule_lets_words_that_only_read_do_no_more() {
    let started = SimpleCommand {
        effect: Effect::Any,
        ..simple("git log")
    };
    for (rule, looks, expected) in [
        ("Bash(git log:*)", true, Reach::ReadOnly),
        ("Bash(git log)", true, Reach::ReadOnly),
        ("Bash", true, Reach::ReadOnly),
        ("Bash(git log:*)", false, Reach::Anything),
    ] {
        let permissions = Permissions {
            allow: rules(&[rule]),
            ..permissions(PermissionMode::Default)
        };
        let accesses = [Access::Command(CommandLine {
            line: "git log".into(),
            harmless: false,
            looks,
            commands: Some(vec![started.clone()]),
        })];
        let reach = permissions.reach(&call("Bash"), &accesses);
        assert_eq!(reach, expected, "{rule} {looks}");
    }
}

#[test]
fn a_redirection_reaches_the_working_directories_and_a_rule_for_a_file_anything() {
    let look = SimpleCommand {
        effect: Effect::None,
        ..simple("echo a")
    };
    let written = |path: &str| {
        [
            Access::Command(CommandLine {
                line: "echo a > file".into(),
                harmless: false,
                looks: false,
                commands: Some(vec![look.clone()]),
            }),
            Access::Write(path.into()),
        ]
    };
    let permissions = Permissions {
        allow: rules(&["Edit(//log/**)"]),
        directories: vec!["/more".into()],
        ..permissions(PermissionMode::AcceptEdits)
    };
    let roots = vec!["/w/p".into(), "/more".into()];
    for (path, expected) in [
        ("/w/p/file", Reach::Edits(roots.clone())),
        ("/more/file", Reach::Edits(roots)),
        ("/log/file", Reach::Anything),
    ] {
        let accesses = written(path);
        assert_eq!(
            permissions.decide(&call("Bash"), &accesses),
            Decision::Allow
        );
        assert_eq!(
            permissions.reach(&call("Bash"), &accesses),
            expected,
            "{path}"
        );
    }
}

#[test]
fn hidden_files_with_whole_paths_are_listed() {
    let permissions = Permissions {
        deny: rules(&[
            "Read(//etc/x)",
            "Read(secret/**)",
            "Read(~/.ssh)",
            "Read(*.pem)",
            "Read",
            "Edit(guard/**)",
        ]),
        ..permissions(PermissionMode::Default)
    };
    let expected = ["/etc/x", "/w/p/secret", "/home/u/.ssh"].map(PathBuf::from);
    assert_eq!(permissions.hidden().paths(), expected);
    assert_eq!(
        permissions.unwritable().paths(),
        [PathBuf::from("/w/p/guard")]
    );
}
