//! What a session carries is, wherever it is made anew, what was there: whatever the names, contents, kinds and commits.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use ah_conversation::Environment;
use ah_store::SessionStore;
use ah_testkit::git::{attempt, git};
use proptest::collection::vec;
use proptest::prelude::*;
use tokio::runtime::Builder;

use super::{Files, Home, Workspace, capture};

/// Names of files, some in folders that others take for a file.
const NAMES: [&[u8]; 10] = [
    b"a",
    b"a/b",
    b"two words",
    b"-dash",
    b".hidden/deep/er",
    b"quote\"'\\",
    b"new\nline\ttab",
    "\u{e4}\u{1f980}".as_bytes(),
    b"not\xffutf8",
    b".gitattributes",
];

/// A change of one file, or a commit of all.
#[derive(Debug, Clone)]
enum Change {
    Write {
        name: usize,
        content: Vec<u8>,
        is_executable: bool,
    },
    Link {
        name: usize,
        target: usize,
    },
    Remove {
        name: usize,
    },
    Commit,
}

fn content() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        vec(any::<u8>(), 0..40),
        vec(any::<u8>(), 3_000..4_000),
        // What git would convert, were it allowed to.
        Just(b"one\r\ntwo\n".to_vec()),
        Just(b"* text=auto eol=crlf ident\n".to_vec()),
        Just(b"$Id$\n".to_vec()),
    ]
}

fn change() -> impl Strategy<Value = Change> {
    let name = 0..NAMES.len();
    prop_oneof![
        5 => (name.clone(), content(), any::<bool>()).prop_map(|(name, content, is_executable)| {
            Change::Write { name, content, is_executable }
        }),
        1 => (name.clone(), 0..NAMES.len()).prop_map(|(name, target)| Change::Link { name, target }),
        2 => name.prop_map(|name| Change::Remove { name }),
        1 => Just(Change::Commit),
    ]
}

fn path_of(name: usize) -> &'static Path {
    Path::new(OsStr::from_bytes(NAMES[name]))
}

/// Makes the changes as far as they are possible.
fn make(top: &Path, changes: &[Change]) {
    for change in changes {
        let _ = match change {
            Change::Write {
                name,
                content,
                is_executable,
            } => {
                let path = top.join(path_of(*name));
                // A link would be followed.
                let _ = fs::remove_file(&path);
                let mode = if *is_executable { 0o755 } else { 0o644 };
                fs::create_dir_all(path.parent().unwrap())
                    .and_then(|()| fs::write(&path, content))
                    .and_then(|()| fs::set_permissions(&path, fs::Permissions::from_mode(mode)))
            }
            Change::Link { name, target } => symlink(path_of(*target), top.join(path_of(*name))),
            Change::Remove { name } => fs::remove_file(top.join(path_of(*name))),
            Change::Commit if top.join(".git").exists() => {
                let _ = attempt(top, &["add", "-A"]);
                let _ = attempt(top, &["commit", "--quiet", "--allow-empty", "-m", "more"]);
                Ok(())
            }
            Change::Commit => Ok(()),
        };
    }
}

/// What a folder has: its files, and the commit and the branch that are checked out.
#[derive(Debug, PartialEq)]
struct State {
    files: BTreeMap<PathBuf, (char, Vec<u8>)>,
    head: Option<String>,
    branch: Option<String>,
}

fn state(top: &Path) -> State {
    fn collect(top: &Path, below: &Path, found: &mut BTreeMap<PathBuf, (char, Vec<u8>)>) {
        for entry in fs::read_dir(top.join(below)).unwrap().flatten() {
            let path = below.join(entry.file_name());
            let metadata = fs::symlink_metadata(entry.path()).unwrap();
            if metadata.is_dir() {
                if entry.file_name() != ".git" {
                    collect(top, &path, found);
                }
                continue;
            }
            let (kind, content) = if metadata.is_symlink() {
                let target = fs::read_link(entry.path()).unwrap();
                ('l', target.as_os_str().as_bytes().to_owned())
            } else {
                let is_executable = metadata.permissions().mode() & 0o100 != 0;
                let kind = if is_executable { 'x' } else { 'f' };
                (kind, fs::read(entry.path()).unwrap())
            };
            found.insert(path, (kind, content));
        }
    }
    let mut files = BTreeMap::new();
    collect(top, Path::new(""), &mut files);
    let own = |words: &[&str]| {
        let is_repository = top.join(".git").exists();
        is_repository.then(|| attempt(top, words).ok()).flatten()
    };
    State {
        files,
        head: own(&["rev-parse", "--verify", "--quiet", "HEAD"]),
        branch: own(&["symbolic-ref", "--short", "HEAD"]),
    }
}

/// Leaves in a shadow what a fetch leaves that is ended in the midst: a commit, and none of its files.
fn begin_to_fetch(shadow: &Path, top: &Path) {
    let Ok(head) = attempt(top, &["rev-parse", "--verify", "--quiet", "HEAD"]) else {
        return;
    };
    let (folder, name) = head.split_at(2);
    let object = Path::new("objects").join(folder).join(name);
    let fetched = shadow.join(&object);
    // It is in a pack if it was fetched before.
    let made = top.join(".git").join(&object);
    if made.exists() && !fetched.exists() {
        fs::create_dir_all(fetched.parent().unwrap()).unwrap();
        fs::copy(made, fetched).unwrap();
    }
}

/// Takes the files of a folder to a second machine, changes them there, takes them to a third, and home again.
async fn go_round(is_repository: bool, before: &[Change], there: &[Change]) {
    let root = tempfile::tempdir().unwrap();
    let folder = |name: &str| {
        let path = root.path().join(name);
        fs::create_dir_all(&path).unwrap();
        path
    };
    let variables = std::env::vars().filter(|(name, _)| name == "PATH");
    let home = folder("home");
    let variables = variables.chain([("HOME".to_owned(), home.display().to_string())]);
    let users = folder("users");
    let environment = Environment::new(variables, users.clone());
    if is_repository {
        git(&users, &["init", "--quiet", "-b", "main"]);
    }
    make(&users, before);
    let left = state(&users);

    let store = SessionStore::in_memory(&folder("outputs")).unwrap();
    let captured = capture(&environment, &users, true).await.unwrap();
    captured.keep(&store).await.unwrap();
    assert_eq!(state(&users), left, "it only looks");

    let second = root.path().join("second");
    let carried = async || Files::of(&store).await.unwrap().unwrap();
    let workspace = Workspace::open(&environment, carried().await, &second, &store);
    let workspace = workspace.await.unwrap();
    let made = workspace.folder().await.unwrap();
    assert_eq!(state(&made), left, "on the second machine");
    make(&made, there);
    let changed = state(&made);
    begin_to_fetch(&second.join("git"), &made);
    workspace.keep(&store).await.unwrap();

    let third = root.path().join("third");
    let workspace = Workspace::open(&environment, carried().await, &third, &store);
    let made = workspace.await.unwrap().folder().await.unwrap();
    assert_eq!(state(&made), changed, "on the third machine");

    let files = carried().await;
    let home = Home::find(&environment, &files, &users, true, None)
        .await
        .unwrap();
    let scratch = folder("scratch");
    let received = home.receive(&environment, &files, &store, &scratch);
    received.await.unwrap();
    assert_eq!(state(&users), changed, "at home");
}

/// The agent has the whole repository, the session a folder of it.
#[tokio::test]
async fn a_link_in_the_place_of_the_sessions_folder_is_no_folder_to_work_in() {
    let root = tempfile::tempdir().unwrap();
    let folder = |name: &str| {
        let path = root.path().join(name);
        fs::create_dir_all(&path).unwrap();
        path
    };
    let variables = std::env::vars().filter(|(name, _)| name == "PATH");
    let within = folder("users/sub");
    let environment = Environment::new(variables, within.clone());
    git(&folder("users"), &["init", "--quiet", "-b", "main"]);
    fs::write(within.join("file"), "x").unwrap();
    let store = SessionStore::in_memory(&folder("outputs")).unwrap();
    let captured = capture(&environment, &within, true).await.unwrap();
    captured.keep(&store).await.unwrap();
    let files = Files::of(&store).await.unwrap().unwrap();
    let place = folder("place");
    let workspace = Workspace::open(&environment, files, &place, &store);
    let workspace = workspace.await.unwrap();
    let made = workspace.folder().await.unwrap();
    assert_eq!(made, place.join("files/sub"));
    fs::rename(&made, place.join("files/away")).unwrap();
    symlink(folder("elsewhere"), &made).unwrap();
    let error = workspace.folder().await.unwrap_err().to_string();
    assert!(
        error.ends_with("`sub` in its path is a symbolic link"),
        "{error}"
    );
}

#[tokio::test]
async fn a_commit_without_its_files_is_fetched_again() {
    let write = |content: &[u8]| Change::Write {
        name: 0,
        content: content.to_owned(),
        is_executable: false,
    };
    let before = [write(b"one"), Change::Commit];
    let there = [write(b"two"), Change::Commit, write(b"three")];
    go_round(true, &before, &there).await;
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn files_are_the_same_everywhere(
        is_repository in any::<bool>(),
        before in vec(change(), 0..10),
        there in vec(change(), 0..10),
    ) {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(go_round(is_repository, &before, &there));
    }
}
