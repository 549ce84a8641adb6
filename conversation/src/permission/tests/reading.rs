//! Reading outside the working directories, where only those may be read unasked.

use super::*;

fn limited(mode: PermissionMode, allow: &[&str]) -> Permissions {
    Permissions {
        readable: Some(vec!["/s/skill".into()]),
        directories: vec!["/d".into()],
        allow: rules(allow),
        ..permissions(mode)
    }
}

/// A harmless command that looks at these files.
fn looking(text: &str, seen: &[&str]) -> Access {
    let mut command = SimpleCommand {
        effect: Effect::None,
        ..simple(text)
    };
    command.files.seen = seen.iter().map(PathBuf::from).collect();
    Access::Command(CommandLine {
        line: text.into(),
        harmless: true,
        looks: false,
        commands: Some(vec![command]),
    })
}

#[test]
fn only_known_places_are_read_unasked() {
    use PermissionMode::{BypassPermissions, Default, DontAsk};
    let read = |path: &str| Access::Read(path.into());
    let etc = "Read(//etc/**)";
    let cases: &[(PermissionMode, &[&str], &str, Access, &str)] = &[
        (Default, &[], "Read", read("/w/p/a"), "allow"),
        (Default, &[], "Read", read("/d/a"), "allow"),
        (Default, &[], "Read", read("/s/skill/a"), "allow"),
        (Default, &[], "Read", read("/w/pq"), "ask"),
        (Default, &[], "Read", read("/etc/shadow"), "ask"),
        (Default, &[etc], "Read", read("/etc/shadow"), "allow"),
        (Default, &["Read"], "Read", read("/etc/shadow"), "allow"),
        (BypassPermissions, &[], "Read", read("/etc/a"), "allow"),
        (DontAsk, &[], "Read", read("/etc/shadow"), "deny"),
        (Default, &[], "Bash", looking("pwd", &[]), "allow"),
        (Default, &[], "Bash", looking("ls", &["/w/p/**"]), "allow"),
        (Default, &[], "Bash", looking("cat", &["/w/p/*"]), "allow"),
        (Default, &[], "Bash", looking("ls", &["/**"]), "ask"),
        (
            Default,
            &[],
            "Bash",
            looking("cat", &["/w/p/a", "/e"]),
            "ask",
        ),
        (
            Default,
            &[etc],
            "Bash",
            looking("cat", &["/etc/a"]),
            "allow",
        ),
        (
            Default,
            &["Read"],
            "Bash",
            looking("cat", &["/etc/a"]),
            "ask",
        ),
        (
            Default,
            &["Bash(cat:*)"],
            "Bash",
            looking("cat", &["/e"]),
            "allow",
        ),
    ];
    for (mode, allow, name, access, expected) in cases {
        let decided = limited(*mode, allow).decide(&call(name), std::slice::from_ref(access));
        assert_eq!(word(&decided), *expected, "{mode:?} {allow:?} {access:?}");
        let decided = Permissions {
            readable: None,
            ..limited(*mode, allow)
        };
        let decided = decided.decide(&call(name), std::slice::from_ref(access));
        assert_eq!(word(&decided), "allow", "{mode:?} {allow:?} {access:?}");
    }
}

/// The question says which file it is about and why, and offers to allow its folder.
#[test]
fn the_question_offers_the_folder() {
    for (access, outside, folder) in [
        (
            Access::Read("/etc/a/b".into()),
            "/etc/a/b",
            Some("//etc/a/**"),
        ),
        (Access::Read("/etc".into()), "/etc", None),
        (looking("ls /etc", &["/etc/**"]), "/etc", Some("//etc/**")),
        (
            looking("cat /etc/b", &["/etc/b"]),
            "/etc/b",
            Some("//etc/**"),
        ),
    ] {
        let decided = limited(PermissionMode::Default, &[]).decide(&call("Bash"), &[access]);
        let Decision::Ask(inquiry) = decided else {
            panic!("{decided:?}");
        };
        assert_eq!(inquiry.outside, Some(outside.into()));
        assert_eq!(
            inquiry.why(),
            Some("Path is outside allowed working directories")
        );
        let offered = inquiry.suggestions.iter().find_map(|update| match update {
            PermissionUpdate::AddRules { rules, .. } if rules[0].tool_name == "Read" => {
                rules[0].rule_content.as_deref()
            }
            _ => None,
        });
        assert_eq!(offered, folder, "{inquiry:?}");
        let changes_mode =
            |update: &PermissionUpdate| matches!(update, PermissionUpdate::SetMode { .. });
        assert!(!inquiry.suggestions.iter().any(changes_mode), "{inquiry:?}");
    }
}

/// Who may write a file may read it as well; the question is the one about writing.
#[test]
fn reading_what_is_written_is_no_question_of_its_own() {
    let accesses = [Access::Read("/x/a".into()), Access::Write("/x/a".into())];
    let decided =
        limited(PermissionMode::Default, &["Edit(//x/**)"]).decide(&call("Edit"), &accesses);
    assert_eq!(word(&decided), "allow");
    let asking = limited(PermissionMode::Default, &[]);
    let Decision::Ask(inquiry) = asking.decide(&call("Edit"), &accesses) else {
        panic!("not asked");
    };
    assert_eq!((inquiry.outside, inquiry.path), (None, Some("/x/a".into())));
    // Whether the change would fail is not looked at before.
    assert!(!asking.may_see(&call("Edit"), &accesses));
}
