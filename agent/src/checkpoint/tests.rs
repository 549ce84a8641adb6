//! Whatever happens to the folders of a workspace between any two steps of a rewind, nothing outside changes.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::state::State;
use ah_testkit::world::{SessionStore, Steps};
use proptest::prelude::*;

use super::*;

/// Files in the workspace. Outside there are others of the same names.
const FILES: [&str; 5] = ["a/x", "a/b/y", "a/b/z", "c", "d/e/f"];
/// Folders in the workspace.
const FOLDERS: [&str; 4] = ["a", "a/b", "d", "d/e"];

/// The number of the next step, deeds with the step that each comes before, and the workspace.
type Interference = (usize, Vec<(usize, Deed)>, PathBuf);

thread_local! {
    /// What another process does before each of the next steps.
    static INTERFERENCE: RefCell<Interference> = RefCell::default();
}

/// Something that is done in the workspace.
#[derive(Debug, Clone)]
enum Deed {
    Write(usize),
    Remove(usize),
    /// A file becomes a link to the one outside.
    LinkFile(usize),
    /// A folder is moved away, and a link to the one outside comes.
    LinkFolder(usize),
    /// A folder is moved away.
    Move(usize),
    /// A folder is moved away, and an empty one comes.
    Renew(usize),
    /// A folder is closed for changes.
    Close(usize),
}

fn deed() -> impl Strategy<Value = Deed> {
    let (file, folder) = (0..FILES.len(), 0..FOLDERS.len());
    prop_oneof![
        file.clone().prop_map(Deed::Write),
        file.clone().prop_map(Deed::Remove),
        file.prop_map(Deed::LinkFile),
        folder.clone().prop_map(Deed::LinkFolder),
        folder.clone().prop_map(Deed::Move),
        folder.clone().prop_map(Deed::Renew),
        folder.prop_map(Deed::Close),
    ]
}

impl Deed {
    /// Returns the paths that change.
    fn paths(&self, work: &Path) -> Vec<PathBuf> {
        let below = |folder: usize| {
            let files = FILES.iter().chain(&FOLDERS).map(|name| work.join(name));
            files.filter(move |path| path.starts_with(work.join(FOLDERS[folder])))
        };
        match self {
            Self::Write(file) | Self::Remove(file) | Self::LinkFile(file) => {
                vec![work.join(FILES[*file])]
            }
            Self::LinkFolder(folder) | Self::Move(folder) | Self::Renew(folder) => {
                below(*folder).collect()
            }
            Self::Close(folder) => vec![work.join(FOLDERS[*folder])],
        }
    }

    /// Does it, as far as that is possible.
    fn perform(&self, work: &Path, number: usize) -> std::io::Result<()> {
        let outside = work.with_file_name("outside");
        let move_away = |folder: usize| {
            let from = work.join(FOLDERS[folder]);
            fs::rename(from, work.join(format!("moved-{number}")))
        };
        match self {
            Self::Write(file) => {
                let path = work.join(FILES[*file]);
                if path.is_symlink() {
                    fs::remove_file(&path)?;
                }
                fs::write(path, format!("{number}"))
            }
            Self::Remove(file) => fs::remove_file(work.join(FILES[*file])),
            Self::LinkFile(file) => {
                let _ = fs::remove_file(work.join(FILES[*file]));
                symlink(outside.join(FILES[*file]), work.join(FILES[*file]))
            }
            Self::LinkFolder(folder) => {
                let _ = move_away(*folder);
                symlink(outside.join(FOLDERS[*folder]), work.join(FOLDERS[*folder]))
            }
            Self::Move(folder) => move_away(*folder),
            Self::Renew(folder) => {
                let _ = move_away(*folder);
                fs::create_dir(work.join(FOLDERS[*folder]))
            }
            Self::Close(folder) => {
                let folder = work.join(FOLDERS[*folder]);
                match fs::symlink_metadata(&folder)?.is_dir() {
                    true => fs::set_permissions(folder, Permissions::from_mode(0o500)),
                    false => Ok(()),
                }
            }
        }
    }
}

thread_local! {
    /// How many folders were opened for plans.
    static OPENED: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// Called before a folder is opened for a plan.
pub(super) fn count() {
    OPENED.set(OPENED.get() + 1);
}

/// Called between two steps.
pub(super) fn interfere() {
    INTERFERENCE.with_borrow_mut(|(step, deeds, work)| {
        *step += 1;
        for (at, deed) in deeds.iter().filter(|(at, _)| at == step) {
            // Some are not possible any more. None may reach what is outside itself.
            let is_inside = deed
                .paths(work)
                .iter()
                .all(|path| !is_behind_link(path, work));
            if is_inside {
                let _ = deed.perform(work, 1000 + at);
            }
        }
    });
}

fn is_behind_link(path: &Path, work: &Path) -> bool {
    let mut above = path.ancestors().skip(1).take_while(|above| *above != work);
    above.any(Path::is_symlink)
}

/// Makes the files of a folder.
fn lay(folder: &Path, text: &str) {
    for name in FILES {
        let path = folder.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
}

/// Returns a temporary folder and its real path, with files in `work` and others of the same names in `outside`.
fn laid() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let root = fs::canonicalize(folder.path()).unwrap();
    lay(&root.join("work"), "before");
    lay(&root.join("outside"), "outside");
    (folder, root)
}

/// Returns all that is in a folder, with modes and contents.
fn tree(folder: &Path) -> BTreeMap<PathBuf, (u32, Vec<u8>)> {
    let mut tree = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        let mode = |path: &Path| fs::symlink_metadata(path).unwrap().permissions().mode();
        tree.insert(folder.clone(), (mode(&folder), Vec::new()));
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() && !path.is_symlink() {
                true => folders.push(path),
                false => {
                    let content = fs::read(&path).unwrap_or_default();
                    tree.insert(path.clone(), (mode(&path), content));
                }
            }
        }
    }
    tree
}

/// Lets a temporary folder be removed.
fn open_up(folder: &Path) {
    let _ = fs::set_permissions(folder, Permissions::from_mode(0o700));
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            open_up(&entry.path());
        }
    }
}

async fn change(store: &SessionStore, clock: &Steps, run: usize, deed: &Deed, work: &Path) {
    let paths = deed.paths(work);
    if paths.iter().any(|path| is_behind_link(path, work)) {
        return;
    }
    let states = paths.into_iter().map(|path| {
        let now = state(&path);
        (path, now)
    });
    let record = Record::Files(FileChange {
        cause: FileCause::Run(MessageId::from(format!("run-{run}").as_str())),
        at: clock.now(),
        before: states.collect(),
        unseen: Vec::new(),
    });
    store.append(vec![record]).await.unwrap();
    let _ = deed.perform(work, run);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn nothing_outside_changes_whatever_happens_between_two_steps(
        runs in proptest::collection::vec(deed(), 1..6),
        meanwhile in proptest::collection::vec((1_usize..60, deed()), 0..6),
    ) {
        let (_folder, root) = laid();
        let (work, outside) = (root.join("work"), root.join("outside"));
        let before = tree(&outside);
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let store = Arc::new(SessionStore::in_memory(&root).unwrap());
            let clock = Arc::new(Steps::default());
            for (run, deed) in runs.iter().enumerate() {
                change(&store, &clock, run, deed, &work).await;
            }
            let files = Files::new(store, clock, vec![work.clone()]);
            INTERFERENCE.set((0, meanwhile, work.clone()));
            for _ in 0..2 {
                let ways = [files.undo().await.unwrap(), files.redo().await.unwrap()];
                for way in ways.into_iter().flatten() {
                    // What failed is told.
                    let _ = files.go(&way).await.unwrap();
                }
            }
            INTERFERENCE.take();
        });
        let after = tree(&outside);
        open_up(&root);
        prop_assert_eq!(after, before);
    }
}

/// What a command puts in the place of a folder between the question and the answer is left, and named.
#[tokio::test]
async fn what_comes_between_question_and_answer_is_left_and_named() {
    for swap in [
        Deed::LinkFolder(1),
        Deed::Renew(1),
        Deed::LinkFile(1),
        Deed::Write(1),
    ] {
        let (_folder, root) = laid();
        let (work, outside) = (root.join("work"), root.join("outside"));
        let before = tree(&outside);
        let store = Arc::new(SessionStore::in_memory(&root).unwrap());
        let clock = Arc::new(Steps::default());
        change(&store, &clock, 0, &Deed::Write(1), &work).await;
        let files = Files::new(store.clone(), clock, vec![work.clone()]);
        let way = files.undo().await.unwrap().unwrap();
        assert_eq!(way.changes.len(), 1);
        swap.perform(&work, 22).unwrap();
        let failed = files.go(&way).await.unwrap();
        let [(path, _)] = &failed[..] else {
            panic!("{swap:?}: {failed:?}");
        };
        assert_eq!(path, &work.join(FILES[1]), "{swap:?}");
        assert_eq!(tree(&outside), before, "{swap:?}");
        // Nothing was undone, so it can be tried again.
        assert!(files.undo().await.unwrap().is_some(), "{swap:?}");
    }
}

/// A plan goes from folder to folder; links, files and folders of others on its way are seen as from the top.
#[tokio::test]
async fn a_deep_tree_comes_and_goes_but_for_what_others_have_put_there() {
    const DEPTH: usize = 200;
    let (_folder, root) = laid();
    let work = root.join("work");
    let store = Arc::new(SessionStore::in_memory(&root).unwrap());
    let clock = Arc::new(Steps::default());
    let mut folder = work.clone();
    let mut paths = Vec::new();
    for _ in 0..DEPTH {
        folder.push("n");
        paths.push(folder.clone());
        paths.push(folder.join("a"));
    }
    let record = Record::Files(FileChange {
        cause: FileCause::Run(MessageId::from("run")),
        at: clock.now(),
        before: { paths.iter() }
            .map(|path| (path.clone(), state(path)))
            .collect(),
        unseen: Vec::new(),
    });
    store.append(vec![record]).await.unwrap();
    fs::create_dir_all(&folder).unwrap();
    for file in paths.iter().filter(|path| path.ends_with("a")) {
        fs::write(file, "made").unwrap();
    }
    let made = tree(&work);
    let files = Files::new(store, clock, vec![work.clone()]);
    let way = files.undo().await.unwrap().unwrap();
    assert_eq!((way.changes.len(), way.skipped.len()), (2 * DEPTH, 0));
    assert!(files.go(&way).await.unwrap().is_empty());
    assert!(!work.join("n").exists());
    let way = files.redo().await.unwrap().unwrap();
    assert!(files.go(&way).await.unwrap().is_empty());
    assert_eq!(tree(&work), made);
    // In the midst of it there is a file of somebody else, and further down a link.
    let (other, link) = (&paths[DEPTH / 2], &paths[DEPTH]);
    fs::write(other.join("other"), "").unwrap();
    fs::rename(link, work.join("moved")).unwrap();
    symlink(work.join("moved"), link).unwrap();
    let way = files.undo().await.unwrap().unwrap();
    let why = |path: &Path| {
        way.skipped
            .iter()
            .find(|it| it.path == path)
            .map(|it| it.why)
    };
    assert_eq!(why(other), Some("it contains other files"));
    assert_eq!(why(&paths[0]), Some("it contains other files"));
    let below = &paths[DEPTH + 2];
    assert_eq!(why(below), Some("its path contains a symbolic link"));
    assert!(files.go(&way).await.unwrap().is_empty());
    assert!(other.join("other").exists() && work.join("moved/a").exists());
    assert!(!other.join("a").exists());
}

/// However deep a tree is, and wherever the other names in its folders come in the order, a plan opens each folder about twice:
/// once on the way down and once on the way back, and once to list it.
#[tokio::test]
async fn a_plan_opens_each_folder_a_few_times_whatever_the_depth() {
    for depth in [10, 300] {
        for beside in [&["a", "z"][..], &["z/z"], &["a/a/a", "z/z/z"]] {
            let (_folder, root) = laid();
            let work = root.join("work");
            let store = Arc::new(SessionStore::in_memory(&root).unwrap());
            let clock = Arc::new(Steps::default());
            let mut before = BTreeMap::new();
            let mut folder = work.clone();
            for _ in 0..depth {
                folder.push("n");
                for name in beside {
                    let file = folder.join(name);
                    let below = file.ancestors().take_while(|path| *path != folder);
                    before
                        .extend(below.map(|path| (path.to_owned(), State::Absent { folders: 0 })));
                    fs::create_dir_all(file.parent().unwrap()).unwrap();
                    fs::write(file, "made").unwrap();
                }
                before.insert(folder.clone(), State::Absent { folders: 0 });
            }
            let paths = before.len();
            let record = Record::Files(FileChange {
                cause: FileCause::Run(MessageId::from("run")),
                at: clock.now(),
                before: before.into_iter().collect(),
                unseen: Vec::new(),
            });
            store.append(vec![record]).await.unwrap();
            let files = Files::new(store, clock, vec![work]);
            OPENED.set(0);
            let way = files.undo().await.unwrap().unwrap();
            assert_eq!((way.changes.len(), way.skipped.len()), (paths, 0));
            let opened = OPENED.get();
            assert!(
                opened <= 4 * paths,
                "{opened} for {paths} paths, {depth} deep"
            );
        }
    }
}
