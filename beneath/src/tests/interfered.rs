//! Whatever another process does between any two calls of the system: nothing outside of the folder is read or changed.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use proptest::collection::vec;
use proptest::prelude::*;
use rustix::fs::{CWD, OFlags, RenameFlags, renameat_with};

use crate::Folder;

/// Paths below the folder, some of which are there at the beginning.
const PATHS: [&str; 9] = [
    "a",
    "a/b",
    "a/b/c",
    "a/b/c/file",
    "d",
    "d/e",
    "d/e/file",
    "new",
    "new/x/file",
];
/// What is in each file outside.
const SECRET: &str = "the user's";

thread_local! {
    static OTHER: RefCell<Option<Box<dyn FnMut()>>> = const { RefCell::new(None) };
}

/// Lets the other process act, if there is one.
pub(crate) fn interfere() {
    let other = OTHER.with(|other| other.borrow_mut().take());
    if let Some(mut act) = other {
        act();
        OTHER.with(|other| *other.borrow_mut() = Some(act));
    }
}

/// What the other process does at one path, or at two.
#[derive(Debug, Clone, Copy)]
enum Act {
    Nothing,
    Swap,
    Rename,
    Link(usize),
    Close,
    Remove,
    Fill,
}

fn act(root: &Path, (act, one, other): (Act, usize, usize)) {
    let (one, other) = (root.join(PATHS[one]), root.join(PATHS[other]));
    // Folders on the way may be links: an attacker follows no link out of the folder, since that would be his own change.
    let is_within = |path: &PathBuf| {
        let above = path.parent().and_then(|above| fs::canonicalize(above).ok());
        above.is_some_and(|above| above.starts_with(root))
    };
    if !is_within(&one) || !is_within(&other) {
        return;
    }
    let gone = |path: &Path| fs::remove_dir_all(path).or_else(|_| fs::remove_file(path));
    let _ = match act {
        Act::Nothing => Ok(()),
        Act::Swap => {
            renameat_with(CWD, &one, CWD, &other, RenameFlags::EXCHANGE).map_err(io::Error::from)
        }
        Act::Rename => fs::rename(&one, &other),
        Act::Link(target) => {
            let _ = gone(&one);
            let target = ["../outside", "..", "/", "../outside/b/file", "a"][target];
            symlink(target, &one)
        }
        Act::Close if one.is_symlink() => Ok(()),
        Act::Close => fs::set_permissions(&one, fs::Permissions::from_mode(0o500)),
        Act::Remove => gone(&one),
        Act::Fill if one.is_symlink() => Ok(()),
        Act::Fill => {
            fs::create_dir(&one).or_else(|_| fs::File::create_new(one.join("file")).map(drop))
        }
    };
}

/// Does something with the folder, and returns what was read. What fails, fails.
fn step(root: &Folder, (kind, one, other): (u8, usize, usize)) -> io::Result<String> {
    let (one, other) = (Path::new(PATHS[one]), Path::new(PATHS[other]));
    let nothing = Ok(String::new());
    match kind {
        0 => root.make_folders(one, 0o777).map(drop)?,
        1 => {
            let (around, name) = root.entry(one)?;
            return io::read_to_string(around.open_file(name, OFlags::RDONLY)?);
        }
        2 => {
            let (around, name) = root.entry(one)?;
            around.create_file(name, 0o600)?.write_all(b"ours")?;
        }
        3 => {
            let (around, name) = root.entry(one)?;
            around.remove_all(name)?;
        }
        4 => {
            let (around, name) = root.entry(one)?;
            around.set_mode(name, 0o711)?;
        }
        5 => {
            let ((from, name), (to, new)) = (root.entry(one)?, root.entry(other)?);
            from.move_to(name, &to, new)?;
        }
        6 => {
            let (around, name) = root.entry(one)?;
            let mut file = around.open_file(name, OFlags::WRONLY | OFlags::APPEND)?;
            file.write_all(b"ours")?;
        }
        7 => {
            let (around, name) = root.entry(one)?;
            around.create_link(Path::new("/nowhere"), name)?;
        }
        8 => {
            let (around, name) = root.entry(one)?;
            let folder = root.make_folders(other, 0o777)?;
            folder.add_name(&around.place(name)?, OsStr::new("linked"))?;
        }
        _ => {
            let folder = root.folder(one)?;
            for name in folder.files()? {
                let found = io::read_to_string(folder.open_file(&name, OFlags::RDONLY)?)?;
                folder.remove_file(&name)?;
                if found == SECRET {
                    return Ok(found);
                }
            }
        }
    }
    nothing
}

/// Returns all that is outside: paths with modes, contents and numbers of names.
fn outside(path: &Path, found: &mut BTreeMap<PathBuf, (u32, String, u64)>) {
    use std::os::unix::fs::MetadataExt as _;

    let metadata = fs::symlink_metadata(path).unwrap();
    let content = fs::read_to_string(path).unwrap_or_default();
    let names = if metadata.is_dir() {
        0
    } else {
        metadata.nlink()
    };
    found.insert(path.to_owned(), (metadata.mode(), content, names));
    for entry in fs::read_dir(path).into_iter().flatten().flatten() {
        outside(&entry.path(), found);
    }
}

fn an_act() -> impl Strategy<Value = (Act, usize, usize)> {
    let kind = prop_oneof![
        3 => Just(Act::Nothing),
        2 => Just(Act::Swap),
        2 => Just(Act::Rename),
        4 => (0..5_usize).prop_map(Act::Link),
        1 => Just(Act::Close),
        1 => Just(Act::Remove),
        1 => Just(Act::Fill),
    ];
    (kind, 0..PATHS.len(), 0..PATHS.len())
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 200, failure_persistence: None, ..ProptestConfig::default()
    })]

    #[test]
    fn nothing_outside_is_read_or_changed(
        steps in vec((0..10_u8, 0..PATHS.len(), 0..PATHS.len()), 1..12),
        acts in vec(an_act(), 1..60),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let top = fs::canonicalize(folder.path()).unwrap();
        let root = top.join("root");
        for name in ["root/a/b/c", "root/d/e", "outside/b/c", "outside/e"] {
            fs::create_dir_all(top.join(name)).unwrap();
        }
        for name in ["root/a/b/c/file", "root/d/e/file"] {
            fs::write(top.join(name), "ours").unwrap();
        }
        for name in ["outside/b/file", "outside/b/c/file", "outside/e/file", "outside/file"] {
            fs::write(top.join(name), SECRET).unwrap();
        }
        let look = || {
            let mut found = BTreeMap::new();
            outside(&top.join("outside"), &mut found);
            found
        };
        let before = look();
        let open = Folder::open(&root).unwrap();
        let mut acts = acts.into_iter();
        let other = move || acts.next().into_iter().for_each(|next| act(&root, next));
        OTHER.with(|it| *it.borrow_mut() = Some(Box::new(other)));
        let read: Vec<_> = steps.into_iter().map(|next| step(&open, next)).collect();
        OTHER.with(|it| it.borrow_mut().take());
        for text in read.into_iter().flatten() {
            prop_assert_ne!(text, SECRET);
        }
        prop_assert_eq!(look(), before);
        let tops: Vec<_> = fs::read_dir(&top).unwrap().flatten().map(|it| it.file_name()).collect();
        prop_assert_eq!(tops.len(), 2, "{:?}", tops);
    }
}
