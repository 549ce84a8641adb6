//! Files of a work tree that git's configuration names: hooks, included files, and programs that git starts.

use std::fs;
use std::path::{Component, Path, PathBuf};

use super::config::{Setting, Settings, Target, target};

/// Last part of the names of settings whose value is a command.
const COMMANDS: [&str; 36] = [
    "alternaterefscommand",
    "askpass",
    "browser",
    "cccmd",
    "clean",
    "cmd",
    "command",
    "defaultkeycommand",
    "difffilter",
    "driver",
    "editor",
    "external",
    "fsmonitor",
    "gitproxy",
    "headercmd",
    "helper",
    "packobjectshook",
    "pager",
    "path",
    "postcommand",
    "precommand",
    "process",
    "program",
    "receivepack",
    "recentobjectshook",
    "sendmailcmd",
    "smtpserver",
    "smudge",
    "sshcommand",
    "sshkeycommand",
    "textconv",
    "tocmd",
    "tool",
    "tunnel",
    "update",
    "uploadpack",
];
/// Settings whose value is a file or folder that decides what git runs.
const FILES: [&str; 3] = ["attributesfile", "templatedir", "hookspath"];
/// Hooks that git runs.
const HOOKS: [&str; 28] = [
    "applypatch-msg",
    "commit-msg",
    "fsmonitor-watchman",
    "p4-changelist",
    "p4-post-changelist",
    "p4-pre-submit",
    "p4-prepare-changelist",
    "post-applypatch",
    "post-checkout",
    "post-commit",
    "post-index-change",
    "post-merge",
    "post-receive",
    "post-rewrite",
    "post-update",
    "pre-applypatch",
    "pre-auto-gc",
    "pre-commit",
    "pre-merge-commit",
    "pre-push",
    "pre-rebase",
    "pre-receive",
    "prepare-commit-msg",
    "proc-receive",
    "push-to-checkout",
    "reference-transaction",
    "sendemail-validate",
    "update",
];

/// Returns the files and folders that a configuration names; relative ones are below `tree`. Files that it includes
/// are among them.
pub(super) fn named(settings: &Settings, tree: &Path, home: Option<&Path>) -> Vec<PathBuf> {
    let mut found = settings.included.clone();
    for setting in &settings.list {
        let value = &setting.value;
        let name = setting.name.as_str();
        if FILES.contains(&name) {
            let Target::At(path) = target(value, tree, home) else {
                continue;
            };
            let path = without_dots(&path);
            if name == "hookspath" && tree.starts_with(&path) {
                found.extend(HOOKS.map(|hook| path.join(hook)));
            } else {
                found.push(path);
            }
        } else if is_command(setting) {
            found.extend(words(value).filter_map(|word| program(word, tree, home)));
        }
    }
    let mut found: Vec<_> = found.iter().map(|path| without_dots(path)).collect();
    let real: Vec<_> = { found.iter() }
        .filter_map(|path| without_links(path))
        .collect();
    found.extend(real);
    found.sort();
    found.dedup();
    found
}

fn is_command(setting: &Setting) -> bool {
    // A program for each command, alias or kind of file.
    let is_by_name = matches!(setting.section.as_str(), "alias" | "pager");
    let is_include = matches!(setting.section.as_str(), "include" | "includeif");
    is_by_name || (COMMANDS.contains(&setting.name.as_str()) && !is_include)
}

/// Returns the words of a command line, and of those within it.
fn words(command: &[u8]) -> impl Iterator<Item = &[u8]> {
    command
        .split(|byte| byte.is_ascii_whitespace() || b"\"'`;|&()<>=!$".contains(byte))
        .filter(|word| !word.is_empty() && !word.starts_with(b"-"))
}

/// Returns the file that a word of a command names. One that does not exist counts if it is a path; a folder does not.
fn program(word: &[u8], tree: &Path, home: Option<&Path>) -> Option<PathBuf> {
    let Target::At(path) = target(word, tree, home) else {
        return None;
    };
    let is_path = word.contains(&b'/');
    match fs::metadata(&path) {
        Ok(metadata) => metadata.is_file().then_some(path),
        Err(_) => is_path.then_some(path),
    }
}

/// Returns the path without symbolic links, even if the end of it does not exist.
fn without_links(path: &Path) -> Option<PathBuf> {
    path.ancestors().find_map(|above| {
        let real = fs::canonicalize(above).ok()?;
        Some(real.join(path.strip_prefix(above).ok()?))
    })
}

/// Returns the path without `.` and `..`, as it is written.
pub(super) fn without_dots(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                plain.pop();
            }
            part => plain.push(part),
        }
    }
    plain
}
