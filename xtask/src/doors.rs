//! The one door to files whose names come from data: modules that touch such files do it with `ah_beneath`, which follows no link
//! and leaves no folder. `std::fs` takes whatever a path leads to at that moment.
//!
//! In the folders where most names are such, each file is one of these modules, or is listed with whose names it uses.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use crate::source::{Token, behind_block, tokens};
use crate::tidy;

/// A module that touches such files.
struct Module {
    path: &'static str,
    /// Where the names come from.
    names: &'static str,
    /// The functions and types of the module for files that it uses nevertheless, each with the reason.
    may: &'static [(&'static str, &'static str)],
}

const STEPS: &str = "file steps of a session";
const ROWS: &str = "rows of a session";
const CARRIED: &str = "files that a session carries";
const CHECKED: &str = "files of a project that a run has changed";
const MOVED: &str = "sessions of others";
const KEPT: &str = "it only looks, before a command runs; what is written goes into open folders";

/// The modules.
const MODULES: &[Module] = &[
    module("agent/src/checkpoint/edit.rs", STEPS, &[]),
    module("agent/src/checkpoint/rewind.rs", STEPS, &[]),
    module("agent/src/checkpoint/state.rs", STEPS, &[]),
    module(
        "agent/src/subagent/memory.rs",
        "definitions of subagents",
        &[],
    ),
    module("store/src/sqlite/files.rs", ROWS, &[]),
    module("store/src/sqlite/outputs.rs", ROWS, &[]),
    module("store/src/sqlite/copy.rs", ROWS, &[]),
    module(
        "store/src/sqlite/session/moved.rs",
        ROWS,
        &[(
            "read",
            "the database itself, which the user may have put behind a link",
        )],
    ),
    module(
        "store/src/log/stored.rs",
        "entries of a log",
        &[("read", "an output that this process has just written")],
    ),
    module("verify/src/copy.rs", CHECKED, &[]),
    module("verify/src/sealed.rs", CHECKED, &[]),
    module("fleet/src/moving/session_files.rs", MOVED, &[]),
    module(
        "fleet/src/moving/parcel.rs",
        MOVED,
        &[
            ("File", "the file of the session, which the user names"),
            ("rename", "the draft of that file"),
        ],
    ),
    module(
        "fleet/src/moving.rs",
        MOVED,
        &[
            ("canonicalize", "compares paths that the user names"),
            (
                "remove_file",
                "the file of the session, which the user names",
            ),
        ],
    ),
    module(
        "fleet/src/carried/workspace.rs",
        CARRIED,
        &[(
            "create_dir_all",
            "the folder to come home to, which the user names",
        )],
    ),
    module(
        "fleet/src/carried/folder.rs",
        CARRIED,
        &[
            (
                "canonicalize",
                "the user's folder, and the path of its remote",
            ),
            (
                "copy",
                "a file of the user's repository, where git says it is",
            ),
            (
                "read",
                "patterns of the user's repository, where git says they are",
            ),
        ],
    ),
    module(
        "plugins/src/copy.rs",
        "files of a marketplace",
        &[
            (
                "canonicalize",
                "says where a link leads; what is read is opened without following any",
            ),
            ("create_dir_all", "the folder of a copy"),
        ],
    ),
    module(
        "porting/src/import/opencode.rs",
        "sessions of another program",
        &[],
    ),
    module(
        "work/src/setup/layer.rs",
        "files that agents and setups have made",
        &[("create_dir_all", "the folder of the layer")],
    ),
    module(
        "engine/src/sessions/worktrees.rs",
        "names of worktrees",
        &[
            ("File", "locks, which are opened without following a link"),
            ("canonicalize", "compares a path with what git has written"),
            ("read_dir", "lists the worktrees"),
        ],
    ),
    // The sandbox uses no other crate of ours, and has a door of its own: `listing::open`.
    module(
        "sandbox/src/linux/quarantine.rs",
        "files that a command has left",
        &[],
    ),
    module(
        "sandbox/src/linux/kept.rs",
        "files that a command has changed",
        &[
            ("File", "from an open file"),
            ("OpenOptions", KEPT),
            ("read_dir", KEPT),
            ("read_link", KEPT),
            ("symlink_metadata", KEPT),
        ],
    ),
];

const fn module(
    path: &'static str,
    names: &'static str,
    may: &'static [(&'static str, &'static str)],
) -> Module {
    Module { path, names, may }
}

/// Folders of which every file, and the module that each belongs to, is one of the modules or of the others.
const FOLDERS: &[&str] = &[
    "agent/src/checkpoint",
    "agent/src/subagent",
    "config/src/plugins",
    "engine/src/sessions",
    "fleet/src",
    "plugins/src",
    "porting/src",
    "store/src",
    "verify/src",
    "work/src/setup",
];

const SESSION: &str = "the files of a session, which are named by its id or by the user";
const OWN: &str = "a folder of this program's, in names that it makes";

/// The files in these folders that use `std::fs`, and whose names they give it.
const OTHERS: &[(&str, &str)] = &[
    (
        "agent/src/checkpoint/big.rs",
        "compares two files that are open to this program, and changes none",
    ),
    ("agent/src/subagent/registry.rs", "its own log"),
    ("agent/src/subagent/relay.rs", "its own log"),
    (
        "config/src/plugins.rs",
        "compares where folders of plugins are",
    ),
    (
        "config/src/plugins/fingerprint.rs",
        "lists a plugin without following links; what was put in between is another hash",
    ),
    ("config/src/plugins/parts.rs", "lists a plugin for people"),
    ("engine/src/sessions/folders.rs", OWN),
    (
        "engine/src/sessions/place.rs",
        "the transcript that another program has named by a UUID",
    ),
    ("fleet/src/carried/shadow.rs", OWN),
    ("fleet/src/worker/metrics/text.rs", "a file of the kernel"),
    (
        "plugins/src/catalogue.rs",
        "the list in a clone, which leads nowhere else, and the manifest in a copy, which has no links",
    ),
    (
        "plugins/src/fetch.rs",
        "the size of a clone, and its folder of git",
    ),
    (
        "plugins/src/lib.rs",
        "names of plugins and marketplaces, which are checked when their list is read",
    ),
    (
        "porting/src/import/places.rs",
        "lists the sessions of another program, without following links",
    ),
    (
        "store/src/big.rs",
        "names of files on disk, which are numbers; the folder is no link",
    ),
    ("store/src/changes.rs", "its tests"),
    ("store/src/known.rs", OWN),
    ("store/src/paths.rs", SESSION),
    ("store/src/seal.rs", OWN),
    ("store/src/sqlite/connection.rs", SESSION),
    ("store/src/sqlite/database.rs", SESSION),
    ("store/src/sqlite/lock.rs", SESSION),
    ("store/src/sqlite/log.rs", SESSION),
    ("store/src/sqlite/resting.rs", SESSION),
    ("store/src/sqlite/salvage.rs", SESSION),
    ("store/src/sqlite/schema.rs", SESSION),
    ("store/src/sqlite/sessions.rs", SESSION),
    (
        "store/src/sqlite/sessions/kept.rs",
        "sizes of files whose names are numbers",
    ),
    ("store/src/sqlite/tree.rs", SESSION),
    (
        "verify/src/dependencies.rs",
        "compares where folders of the project are",
    ),
    ("verify/src/kept.rs", OWN),
    (
        "work/src/setup.rs",
        "a file beside the repository, and its log",
    ),
];

/// Crates with a module `fs` that takes paths.
const LIBRARIES: [&str; 2] = ["std", "tokio"];

/// Returns every place in these modules that takes a path by itself, one line each, and the exceptions that nothing uses.
pub fn faults(root: &Path) -> Result<Vec<String>> {
    let mut faults = Vec::new();
    for module in MODULES {
        let path = root.join(module.path);
        let text = fs::read_to_string(path).with_context(|| format!("reading {}", module.path))?;
        faults.extend(faults_of(module, &text));
    }
    for folder in FOLDERS {
        let mut files = tidy::files(root, Path::new(folder))?;
        files.push(Path::new(folder).with_extension("rs"));
        for path in files {
            let name = path.to_string_lossy();
            let is_code = path.extension().is_some_and(|ending| ending == "rs");
            if !is_code || is_of_tests(&name) || !root.join(&path).is_file() {
                continue;
            }
            let text = fs::read_to_string(root.join(&path))?;
            faults.extend(missing(&name, &text));
        }
    }
    let is_gone = |path: &str| !root.join(path).is_file();
    let gone = OTHERS.iter().filter(|(path, _)| is_gone(path));
    faults.extend(gone.map(|(path, _)| format!("{path}: it is gone; remove it from {LIST}")));
    Ok(faults)
}

/// Where the lists are.
const LIST: &str = "the list in xtask/src/doors.rs";

fn is_of_tests(path: &str) -> bool {
    path.ends_with("/tests.rs") || path.contains("/tests/")
}

/// Returns what is wrong with a file in one of the folders: it uses paths and is in no list, or is in one without need.
fn missing(path: &str, text: &str) -> Option<String> {
    let tokens = tokens(text);
    let is_module = MODULES.iter().any(|module| module.path == path);
    let is_other = OTHERS.iter().any(|(other, _)| *other == path);
    let uses = (0..tokens.len()).find_map(|at| used(&tokens, at));
    match uses {
        Some((token, _)) if !is_module && !is_other => Some(format!(
            "{path}: line {}: `{}::fs` where names come from data; use `ah_beneath`, or add the file to {LIST} with whose \
             names it uses",
            token.line, token.text
        )),
        None if is_other => Some(format!("{path}: it uses no paths; remove it from {LIST}")),
        _ if is_module && is_other => Some(format!("{path}: it is twice in {LIST}")),
        _ => None,
    }
}

fn faults_of(module: &Module, text: &str) -> Vec<String> {
    let Module { path, names, may } = module;
    let tokens = tokens(text);
    let used: Vec<_> = (0..tokens.len())
        .filter_map(|at| used(&tokens, at))
        .collect();
    let mut faults: Vec<_> = { used.iter() }
        .filter(|(_, name)| !may.iter().any(|(function, _)| function == name))
        .map(|(token, name)| {
            format!(
                "{path}: line {}: `{}::fs` (`{name}`) follows links out of a folder, and names here come from the {names}; use \
                 `ah_beneath`, or list the function with the reason",
                token.line, token.text
            )
        })
        .collect();
    let is_used = |function: &str| used.iter().any(|(_, name)| *name == function);
    let unused = may.iter().filter(|(function, _)| !is_used(function));
    faults.extend(unused.map(|(function, _)| {
        format!("{path}: it no longer uses `{function}`; remove that from the list in xtask/src/doors.rs")
    }));
    faults
}

/// Returns the token at `at` with what is used there of a module `fs`: a function, a type, or a list of them.
fn used<'a>(tokens: &'a [Token<'a>], at: usize) -> Option<(&'a Token<'a>, &'a str)> {
    let text = |at: usize| tokens.get(at).map_or("", |token| token.text);
    if !LIBRARIES.contains(&text(at)) || text(at + 1) != "::" {
        return None;
    }
    match text(at + 2) {
        "fs" if text(at + 3) == "::" => Some((&tokens[at], text(at + 4))),
        "fs" => Some((&tokens[at], "fs")),
        "{" => {
            let list = &tokens[at + 2..behind_block(tokens, at + 2)];
            let has_it = list.iter().any(|token| token.text == "fs");
            has_it.then_some((&tokens[at], "fs"))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_module_for_files_is_refused_but_for_what_has_a_reason() {
        let module = module("x.rs", "rows", &[("read", "it is ours")]);
        for (text, expected) in [
            ("std::fs::read(path);", 0),
            ("use std::fs;", 2),
            ("use std::fs::{self, File};", 2),
            ("use std::{fs, io};", 2),
            ("use std::{io, path::Path, fs::File};", 2),
            (
                "fn f() { std::fs::read(path); std::fs::remove_file(path); }",
                1,
            ),
            (
                "async fn f() { std::fs::read(path); tokio::fs::write(path).await; }",
                1,
            ),
            (
                "use std::io; use rustix::fs::OFlags; std::fs::read(path);",
                0,
            ),
            ("// std::fs\nfn f() { \"std::fs\"; }", 1),
            ("#[cfg(test)]\nmod tests { use std::fs; }", 1),
        ] {
            let found = faults_of(&module, text);
            assert_eq!(found.len(), expected, "{text}: {found:?}");
        }
    }
    #[test]
    fn a_file_among_names_from_data_is_in_a_list() {
        let uses = "use std::fs; fn f() {}";
        for (path, text, is_fault) in [
            ("store/src/new.rs", uses, true),
            ("store/src/new.rs", "fn f() {}", false),
            ("store/src/seal.rs", uses, false),
            ("store/src/seal.rs", "fn f() {}", true),
            ("store/src/sqlite/copy.rs", uses, false),
        ] {
            assert_eq!(missing(path, text).is_some(), is_fault, "{path}: {text}");
        }
    }
}
