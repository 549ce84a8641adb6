pub(crate) mod interfered;

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

use super::*;

/// A root with a file in a folder, beside a folder that is nobody's business.
fn laid() -> (tempfile::TempDir, PathBuf, Folder) {
    let folder = tempfile::tempdir().unwrap();
    let root = fs::canonicalize(folder.path()).unwrap();
    for name in ["root/a/b", "outside/b"] {
        fs::create_dir_all(root.join(name)).unwrap();
    }
    fs::write(root.join("root/a/b/file"), "inside").unwrap();
    fs::write(root.join("outside/b/file"), "outside").unwrap();
    let opened = Folder::open(&root.join("root")).unwrap();
    (folder, root, opened)
}

#[test]
fn a_path_of_names_is_taken_and_any_other_is_refused() {
    for (path, expected) in [
        ("a", Some(1)),
        ("a/b/c", Some(3)),
        ("a//b", Some(2)),
        ("", Some(0)),
        ("...", Some(1)),
        ("a/./b", Some(2)),
        ("..", None),
        ("a/../b", None),
        ("a/..", None),
        ("./a", None),
        ("/", None),
        ("/a", None),
        ("a\0b", None),
    ] {
        let found = names(Path::new(path)).ok().map(|names| names.len());
        assert_eq!(found, expected, "{path:?}");
    }
}

#[test]
fn only_names_are_names_of_files() {
    let (_folder, _root, root) = laid();
    for name in ["", ".", "..", "a/b", "/a", "a/", "a\0"] {
        let name = OsStr::new(name);
        assert!(root.status(name).is_err(), "{name:?}");
        assert!(root.create_file(name, 0o600).is_err(), "{name:?}");
        assert!(root.remove_file(name).is_err(), "{name:?}");
    }
    assert!(root.status(OsStr::new("a")).unwrap().unwrap().is_folder());
}

#[test]
fn a_link_on_the_way_is_refused_and_named() {
    let (_folder, path, root) = laid();
    for target in [path.join("outside"), "../outside".into(), "a".into()] {
        symlink(&target, path.join("root/link")).unwrap();
        for way in ["link", "link/b", "link/missing/b"] {
            for error in [
                root.folder(Path::new(way)).unwrap_err(),
                root.make_folders(Path::new(way), 0o777).unwrap_err(),
                root.look(&Path::new(way).join("file")).unwrap_err(),
            ] {
                assert!(has_link(&error), "{way}: {error}");
                let text = error.to_string();
                assert_eq!(text, "`link` in its path is a symbolic link");
            }
        }
        let name = OsStr::new("link");
        assert!(root.status(name).unwrap().unwrap().is_link());
        assert_eq!(root.read_link(name).unwrap(), target);
        assert!(root.open_file(name, OFlags::RDONLY).is_err());
        assert!(root.set_mode(name, 0o777).is_err());
        fs::remove_file(path.join("root/link")).unwrap();
    }
    assert!(!path.join("outside/missing").exists());
}

#[test]
fn an_open_folder_is_the_same_one_after_another_took_its_path() {
    let (_folder, path, root) = laid();
    let (folder, name) = root.entry(Path::new("a/b/file")).unwrap();
    fs::rename(path.join("root/a"), path.join("root/moved")).unwrap();
    symlink(path.join("outside"), path.join("root/a")).unwrap();
    folder.set_mode(name, 0o640).unwrap();
    folder
        .create_link(Path::new("x"), OsStr::new("new"))
        .unwrap();
    folder.rename(OsStr::new("new"), name).unwrap();
    folder.create_folder(OsStr::new("folder"), 0o700).unwrap();
    folder.remove_folder(OsStr::new("folder")).unwrap();
    drop(folder.create_file(OsStr::new("made"), 0o600).unwrap());
    let place = folder.place(OsStr::new("made")).unwrap();
    assert_eq!(fs::read(place).unwrap(), b"");
    let mut names = folder.list().unwrap();
    names.sort();
    assert_eq!(names, ["file", "made"]);
    let outside = path.join("outside/b/file");
    assert_eq!(fs::read_to_string(&outside).unwrap(), "outside");
    let mode = fs::metadata(&outside).unwrap().permissions().mode();
    assert_ne!(mode & 0o777, 0o640);
    assert!(path.join("root/moved/b/file").is_symlink());
}

#[test]
fn what_is_missing_is_counted_and_made() {
    let (_folder, path, root) = laid();
    for (way, missing) in [
        ("", 0),
        ("a/b", 0),
        ("a/x", 1),
        ("a/x/y/z", 3),
        ("a/b/file/x", 2),
    ] {
        let (_, found) = root.descend(Path::new(way)).unwrap();
        assert_eq!(found, missing, "{way}");
    }
    assert_eq!(root.look(Path::new("a/x/y")).unwrap(), None);
    root.make_folders(Path::new("a/x/y/z"), 0o777).unwrap();
    assert!(path.join("root/a/x/y/z").is_dir());
    assert!(root.make_folders(Path::new("a/b/file/x"), 0o777).is_err());
    assert!(root.make_folders(Path::new("a/../../x"), 0o777).is_err());
    assert!(!path.join("x").exists());
}

#[test]
fn a_changed_file_is_another_one_and_a_filled_folder_is_not() {
    let (_folder, path, root) = laid();
    let look = |name: &str| root.look(Path::new(name)).unwrap().unwrap();
    let (file, folder) = (look("a/b/file"), look("a/b"));
    fs::write(path.join("root/a/b/other"), "").unwrap();
    assert!(look("a/b").is_same(&folder) && look("a/b/file").is_same(&file));
    fs::write(path.join("root/a/b/file"), "longer than before").unwrap();
    assert!(!look("a/b/file").is_same(&file));
    fs::rename(path.join("root/a/b"), path.join("root/a/c")).unwrap();
    fs::create_dir(path.join("root/a/b")).unwrap();
    assert!(!look("a/b").is_same(&folder) && look("a/c").is_same(&folder));
}

#[test]
fn a_path_longer_than_one_call_takes_leads_to_its_end_and_tells_where_it_ends() {
    let (_folder, _path, root) = laid();
    let names = ["deep"; 2_000];
    let path: PathBuf = names.iter().collect();
    root.make_folders(&path, 0o777).unwrap();
    let (bottom, missing) = root.descend(&path).unwrap();
    assert_eq!(missing, 0);
    bottom
        .create_link(Path::new(".."), OsStr::new("link"))
        .unwrap();
    assert_eq!(root.descend(&path.join("no/such")).unwrap().1, 2);
    let behind = root.folder(&path.join("link/x"));
    assert!(has_link(&behind.unwrap_err()));
    root.remove_all(OsStr::new("deep")).unwrap();
    assert_eq!(root.list().unwrap(), ["a"]);
}

#[test]
fn a_tree_goes_with_all_that_is_in_it_and_no_link_leads_out() {
    let (_folder, path, root) = laid();
    for name in ["a/b/.removed-1/x", "a/empty", "a/c/d"] {
        fs::create_dir_all(path.join("root").join(name)).unwrap();
    }
    fs::write(path.join("root/a/c/d/file"), "").unwrap();
    symlink(path.join("outside"), path.join("root/a/c/link")).unwrap();
    symlink(path.join("outside"), path.join("root/link")).unwrap();
    for name in ["a", "link", "missing"] {
        root.remove_all(OsStr::new(name)).unwrap();
    }
    assert_eq!(root.list().unwrap(), Vec::<PathBuf>::new());
    let outside = path.join("outside/b/file");
    assert_eq!(fs::read_to_string(outside).unwrap(), "outside");
}
