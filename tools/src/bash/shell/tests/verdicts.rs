//! Verdicts on many lines under several permissions, so that a change of the grammar or the judgement shows.

use std::fmt::Write as _;
use std::path::{Component, Path, PathBuf};

use ah_conversation::{Decision, PermissionMode, Permissions};

use super::super::analyze;
use super::{decide, permissions, with_prefixes};

/// One line each: the verdict, a blank, the command line as JSON. A verdict is `r` if the line is read-only, else `.`,
/// and a character for each of [`all_permissions`]: `a` allowed, `?` asked, `-` denied.
const VERDICTS: &str = include_str!("verdicts.txt");

fn all_permissions() -> [Permissions; 7] {
    use PermissionMode::{AcceptEdits, BypassPermissions, Default, Plan};
    let rules = permissions(Default, &["Bash"], &["Bash(rm *)"]);
    [
        permissions(Default, &[], &[]),
        with_prefixes(),
        permissions(AcceptEdits, &[], &[]),
        permissions(Plan, &["Bash"], &[]),
        permissions(BypassPermissions, &["Bash"], &["Bash(rm:*)"]),
        Permissions {
            ask: rules.deny,
            deny: Vec::new(),
            ..rules
        },
        permissions(
            BypassPermissions,
            &[],
            &["Read(./secrets/**)", "Edit(.env)"],
        ),
    ]
}

/// Resolves a name in `/w`, without regard to links.
fn resolve(name: &str) -> PathBuf {
    let mut path = PathBuf::from("/w");
    let name = match name.strip_prefix("~/") {
        Some(rest) => Path::new("/home/u").join(rest),
        None => PathBuf::from(name),
    };
    for component in name.components() {
        match component {
            Component::RootDir => path = PathBuf::from("/"),
            Component::ParentDir => drop(path.pop()),
            Component::Normal(name) => path.push(name),
            Component::CurDir | Component::Prefix(_) => {}
        }
    }
    path
}

#[test]
fn verdicts_do_not_change_unnoticed() {
    let all = all_permissions();
    let mut changed = String::new();
    for recorded in VERDICTS.lines() {
        let (expected, line) = recorded.split_once(' ').unwrap();
        let line: String = serde_json::from_str(line).unwrap();
        let analysis = analyze(&line, &resolve);
        let is_read_only = analysis.line.harmless;
        let mut verdict = String::from(if is_read_only { "r" } else { "." });
        for permissions in &all {
            verdict.push(match decide(permissions, &line, &resolve) {
                Decision::Allow => 'a',
                Decision::Ask(_) => '?',
                Decision::Deny(_) => '-',
            });
        }
        if verdict != expected {
            writeln!(changed, "{expected} is now {verdict}: {line:?}").unwrap();
        }
    }
    assert!(changed.is_empty(), "{changed}");
}
