//! Any sequence of edits, new files and deletions can be undone to the same tree, and redone.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ah_agent::checkpoint::{Files, Rewind, record};
use ah_conversation::{Access, MessageId, SharedState as _, Store, redo, undo};
use ah_testkit::world::{SessionStore, Steps};
use proptest::prelude::*;

/// A file operation of a tool.
#[derive(Debug, Clone)]
enum Deed {
    Write(usize, String),
    Delete(usize),
    Mode(usize, u32),
}

const FILES: [&str; 5] = ["a", "b", "deep/er/c", "deep/d", "x y/é"];

fn deed() -> impl Strategy<Value = Deed> {
    let file = 0..FILES.len();
    prop_oneof![
        (file.clone(), "[a-c\n]{0,12}").prop_map(|(file, text)| Deed::Write(file, text)),
        file.clone().prop_map(Deed::Delete),
        (file, prop_oneof![Just(0o600), Just(0o755)])
            .prop_map(|(file, mode)| Deed::Mode(file, mode)),
    ]
}

/// A workspace and the session that works on it.
struct World {
    _folder: tempfile::TempDir,
    root: PathBuf,
    store: Arc<SessionStore>,
    clock: Arc<Steps>,
}

impl World {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(folder.path()).unwrap().join("work");
        fs::create_dir(&root).unwrap();
        Self {
            store: Arc::new(SessionStore::in_memory(folder.path()).unwrap()),
            root,
            clock: Arc::default(),
            _folder: folder,
        }
    }

    /// Performs an operation as a call of a tool in the run `run`.
    async fn perform(&self, run: usize, deed: &Deed) {
        let (Deed::Write(file, _) | Deed::Delete(file) | Deed::Mode(file, _)) = deed;
        let path = self.root.join(FILES[*file]);
        self.note(run, &path).await;
        match deed {
            Deed::Write(_, text) => {
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(&path, text).unwrap();
            }
            Deed::Delete(_) => drop(fs::remove_file(&path)),
            Deed::Mode(_, mode) => {
                drop(fs::set_permissions(
                    &path,
                    fs::Permissions::from_mode(*mode),
                ));
            }
        }
    }

    async fn note(&self, run: usize, path: &Path) {
        let accesses = [Access::Write(path.to_owned())];
        let run = MessageId::from(format!("run-{run}").as_str());
        let record = record(&accesses, None, &run, &*self.clock).unwrap();
        self.store.append(vec![record]).await.unwrap();
    }

    async fn go(&self, way: fn(&[ah_conversation::FileStep]) -> Option<usize>) -> Option<Rewind> {
        let files = self.files();
        let rewind = files.to(way(&files.steps().await.unwrap())?).await.unwrap();
        let failed = files.go(&rewind).await.unwrap();
        assert!(failed.is_empty(), "{failed:?}");
        Some(rewind)
    }

    fn files(&self) -> Files {
        Files::new(
            self.store.clone(),
            self.clock.clone(),
            vec![self.root.clone()],
        )
    }

    /// Returns the files with their modes and contents.
    fn tree(&self) -> BTreeMap<PathBuf, (u32, Vec<u8>)> {
        let mut tree = BTreeMap::new();
        let mut folders = vec![self.root.clone()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(&folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                } else {
                    let mode = fs::metadata(&path).unwrap().permissions().mode();
                    tree.insert(path.clone(), (mode, fs::read(&path).unwrap()));
                }
            }
        }
        tree
    }
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    runtime.unwrap().block_on(future)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn undo_and_redo_restore_each_tree(
        first in proptest::collection::vec(deed(), 0..5),
        runs in proptest::collection::vec(proptest::collection::vec(deed(), 1..5), 1..4),
    ) {
        block_on(async {
            let world = World::new();
            for deed in &first {
                if let Deed::Write(file, text) = deed {
                    let path = world.root.join(FILES[*file]);
                    fs::create_dir_all(path.parent().unwrap()).unwrap();
                    fs::write(path, text).unwrap();
                }
            }
            let mut trees = vec![world.tree()];
            for (run, deeds) in runs.iter().enumerate() {
                for deed in deeds {
                    world.perform(run, deed).await;
                }
                trees.push(world.tree());
            }
            // Back to the beginning, forward to the end, and back again.
            for (way, expected) in [
                (undo as fn(&[_]) -> _, trees.iter().rev().skip(1).collect::<Vec<_>>()),
                (redo, trees.iter().skip(1).collect()),
                (undo, trees.iter().rev().skip(1).collect()),
            ] {
                for tree in expected {
                    assert!(world.go(way).await.is_some());
                    assert_eq!(&world.tree(), tree);
                }
                assert!(world.go(way).await.is_none());
            }
        });
    }
}

#[tokio::test]
async fn planning_a_rewind_changes_nothing_and_counts_lines() {
    let world = World::new();
    fs::write(world.root.join("a"), "one\ntwo\n").unwrap();
    for deed in [
        Deed::Write(0, "one\n2\n3\n".to_owned()),
        Deed::Write(1, "new\n".to_owned()),
    ] {
        world.perform(0, &deed).await;
    }
    let before = world.tree();
    let steps = world.store.file_steps().await.unwrap();
    let rewind = world.files().to(0).await.unwrap();
    assert_eq!(rewind.lines(), (1, 3));
    assert_eq!(rewind.changes.len(), 2);
    assert_eq!(world.tree(), before);
    assert_eq!(world.store.file_steps().await.unwrap(), steps);
}

#[tokio::test]
async fn a_folder_created_for_a_file_is_removed_and_restored_with_it() {
    let world = World::new();
    for file in [2, 3] {
        world
            .perform(0, &Deed::Write(file, "text".to_owned()))
            .await;
    }
    world.go(undo).await.unwrap();
    assert!(!world.root.join("deep").exists());
    world.go(redo).await.unwrap();
    assert!(world.root.join("deep/er/c").exists() && world.root.join("deep/d").exists());
    fs::write(world.root.join("deep/other"), "of somebody else").unwrap();
    world.go(undo).await.unwrap();
    assert!(world.root.join("deep/other").exists() && !world.root.join("deep/er").exists());
}

#[tokio::test]
async fn outside_protected_and_linked_files_are_skipped() {
    let world = World::new();
    let outside = world.root.parent().unwrap().join("outside");
    fs::create_dir(&outside).unwrap();
    let config = world.root.join(".git/config");
    fs::create_dir(config.parent().unwrap()).unwrap();
    let (big, moved) = (world.root.join("big"), world.root.join("folder/file"));
    fs::create_dir(moved.parent().unwrap()).unwrap();
    fs::File::create(&big).unwrap().set_len(11 << 20).unwrap();
    let linked = world.root.join("linked");
    for path in [&outside.join("file"), &config, &big, &moved, &linked] {
        world.note(0, path).await;
        fs::write(path, "changed").unwrap();
    }
    // Since then, links have taken their place.
    fs::rename(world.root.join("folder"), outside.join("folder")).unwrap();
    symlink(outside.join("folder"), world.root.join("folder")).unwrap();
    fs::remove_file(&linked).unwrap();
    symlink(outside.join("file"), &linked).unwrap();
    let rewind = world.go(undo).await.unwrap();
    // The link itself goes, not what it leads to.
    let changed: Vec<_> = rewind.changes.iter().map(|edit| &edit.path).collect();
    assert_eq!(changed, [&big, &linked]);
    let left = rewind.skipped.iter().map(|left| {
        let path = left
            .path
            .strip_prefix(world.root.parent().unwrap())
            .unwrap();
        format!("{}: {}", path.display(), left.why)
    });
    insta::assert_snapshot!(left.collect::<Vec<_>>().join("\n"), @"
    outside/file: outside the workspace
    work/.git/config: protected file
    work/folder/file: its path contains a symbolic link
    ");
    for path in [&outside.join("file"), &config, &outside.join("folder/file")] {
        assert_eq!(fs::read_to_string(path).unwrap(), "changed");
    }
    assert_eq!(fs::metadata(&big).unwrap().len(), 11 << 20);
}

/// Returns the names that lead to the same file as `path`, itself included.
fn count_of_names(path: &Path) -> u64 {
    fs::metadata(path).unwrap().nlink()
}

#[tokio::test]
async fn further_names_of_a_file_that_a_tool_wrote_get_its_earlier_content_too() {
    let world = World::new();
    let [file, other] = ["a", "b"].map(|name| world.root.join(name));
    fs::write(&file, "before").unwrap();
    fs::hard_link(&file, &other).unwrap();
    world.note(0, &file).await;
    fs::write(&file, "after").unwrap();
    for (way, content) in [
        (undo as fn(&[_]) -> Option<usize>, "before"),
        (redo, "after"),
        (undo, "before"),
    ] {
        world.go(way).await.unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), content);
        assert_eq!(fs::read_to_string(&other).unwrap(), content);
        assert_eq!(count_of_names(&file), 2);
    }
}

/// They were two files before, or a command wrote them.
#[tokio::test]
async fn names_that_get_a_content_each_become_files_of_their_own() {
    let world = World::new();
    let [file, other] = ["a", "b"].map(|name| world.root.join(name));
    for path in [&file, &other] {
        fs::write(path, path.file_name().unwrap().as_encoded_bytes()).unwrap();
        world.note(0, path).await;
    }
    fs::write(&file, "after").unwrap();
    fs::remove_file(&other).unwrap();
    fs::hard_link(&file, &other).unwrap();
    world.go(undo).await.unwrap();
    for (path, content) in [(&file, "a"), (&other, "b")] {
        assert_eq!(fs::read_to_string(path).unwrap(), content);
        assert_eq!(count_of_names(path), 1);
    }
}
