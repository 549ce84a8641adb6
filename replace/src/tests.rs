use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use ah_beneath::Folder;
use rustix::fs::{XattrFlags, getxattr, setxattr};
use rustix::io::Errno;

use super::*;

/// Opens the folder of a file.
fn around(path: &Path) -> io::Result<Folder> {
    Folder::open(&fs::canonicalize(path.parent().unwrap())?)
}

fn replacement<'a>(folder: &'a Folder, path: &'a Path, content: &'a [u8]) -> Replacement<'a> {
    Replacement {
        folder,
        name: path.file_name().unwrap(),
        content: Content::Bytes(content),
        mode: None,
        draft: OsStr::new(".draft"),
        names: FurtherNames::Stay,
    }
}

fn replace(path: &Path, content: &str) -> io::Result<()> {
    let folder = around(path)?;
    replacement(&folder, path, content.as_bytes()).perform(|| Ok(()))
}

fn read(path: impl AsRef<Path>) -> String {
    fs::read_to_string(path).unwrap()
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().mode() & 0o7777
}

fn names(folder: &Path) -> BTreeSet<String> {
    let names = fs::read_dir(folder).unwrap();
    let name = |entry: io::Result<fs::DirEntry>| entry.unwrap().file_name().into_string();
    names.map(|entry| name(entry).unwrap()).collect()
}

/// Returns an attribute; `None` also where the file system has none.
fn attribute(path: &Path, name: &str) -> Option<Vec<u8>> {
    let mut value = vec![0; 1024];
    let length = getxattr(path, name, &mut *value).ok()?;
    Some(value[..length].to_vec())
}

#[test]
fn a_file_keeps_its_mode_and_its_names() {
    for old_mode in [0o644, 0o600, 0o755, 0o444, 0o666] {
        for names_before in 1..4 {
            for content in ["", "a", "longer than before\n"] {
                let folder = tempfile::tempdir().unwrap();
                let file = folder.path().join("file");
                fs::write(&file, "before").unwrap();
                for number in 1..names_before {
                    fs::hard_link(&file, folder.path().join(format!("name {number}"))).unwrap();
                }
                fs::set_permissions(&file, Permissions::from_mode(old_mode)).unwrap();
                let written = replace(&file, content);
                let case = format!("{old_mode:o}, {names_before} names, {content:?}");
                if written.is_err() {
                    // Others than root cannot write it in place.
                    assert!(old_mode == 0o444 && names_before > 1, "{case}");
                    assert_eq!(read(&file), "before");
                    continue;
                }
                assert_eq!(mode(&file), old_mode, "{case}");
                let all = names(folder.path());
                assert_eq!(all.len(), names_before, "{case}: {all:?}");
                for name in all {
                    assert_eq!(read(folder.path().join(name)), content, "{case}");
                }
            }
        }
    }
}

#[test]
fn further_names_keep_the_old_content_where_that_is_wanted() {
    let folder = tempfile::tempdir().unwrap();
    let [file, other] = ["file", "other"].map(|name| folder.path().join(name));
    fs::write(&file, "before").unwrap();
    fs::hard_link(&file, &other).unwrap();
    let opened = around(&file).unwrap();
    let new = Replacement {
        names: FurtherNames::Part,
        mode: Some(0o640),
        ..replacement(&opened, &file, b"after")
    };
    new.perform(|| Ok(())).unwrap();
    assert_eq!(
        (read(&file), read(&other)),
        ("after".into(), "before".into())
    );
    assert_eq!(mode(&file), 0o640);
}

#[test]
fn a_content_may_be_that_of_a_file() {
    for names in [FurtherNames::Stay, FurtherNames::Part] {
        let folder = tempfile::tempdir().unwrap();
        let [file, other, kept] = ["file", "other", "kept"].map(|name| folder.path().join(name));
        fs::write(&file, "before").unwrap();
        fs::hard_link(&file, &other).unwrap();
        fs::write(&kept, "kept").unwrap();
        let opened = around(&file).unwrap();
        let new = Replacement {
            content: Content::File(&kept),
            mode: Some(0o644),
            names,
            ..replacement(&opened, &file, b"")
        };
        new.perform(|| Ok(())).unwrap();
        assert_eq!((read(&file), read(&kept)), ("kept".into(), "kept".into()));
        let is_same = read(&other) == "kept";
        assert_eq!(is_same, names == FurtherNames::Stay);
    }
}

#[test]
fn attributes_and_access_lists_are_those_of_the_old_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "before").unwrap();
    // Version 2; owner, user 1, group, mask, others.
    let user: &[u8] = &[
        2, 0, 0, 0, 1, 0, 6, 0, 255, 255, 255, 255, 2, 0, 4, 0, 1, 0, 0, 0, 4, 0, 4, 0, 255, 255,
        255, 255, 16, 0, 4, 0, 255, 255, 255, 255, 32, 0, 4, 0, 255, 255, 255, 255,
    ];
    let given = [
        ("user.tag", b"value".as_slice()),
        ("user.empty", b""),
        ("system.posix_acl_access", user),
    ];
    let given: Vec<_> = { given.into_iter() }
        .filter(|(name, value)| setxattr(&file, *name, value, XattrFlags::empty()).is_ok())
        .collect();
    replace(&file, "after").unwrap();
    assert_eq!(read(&file), "after");
    for (name, value) in given {
        assert_eq!(attribute(&file, name).as_deref(), Some(value), "{name}");
    }
    // What a folder gives to new files is not for one that was there before.
    let inherited = setxattr(
        folder.path(),
        "system.posix_acl_default",
        user,
        XattrFlags::empty(),
    );
    let plain = folder.path().join("plain");
    if inherited.is_ok() {
        fs::write(&plain, "before").unwrap();
        let _ = rustix::fs::removexattr(&plain, "system.posix_acl_access");
        fs::set_permissions(&plain, Permissions::from_mode(0o640)).unwrap();
        replace(&plain, "after").unwrap();
        assert_eq!(attribute(&plain, "system.posix_acl_access"), None);
        assert_eq!(mode(&plain), 0o640);
    }
}

#[test]
fn what_is_stopped_or_fails_leaves_the_old_content_and_nothing_else() {
    for further in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        fs::write(&file, "before").unwrap();
        if further {
            fs::hard_link(&file, folder.path().join("other")).unwrap();
        }
        let before = names(folder.path());
        let opened = around(&file).unwrap();
        let new = replacement(&opened, &file, b"after");
        let stopped = new.perform(|| Err(io::Error::other("stop")));
        assert_eq!(stopped.unwrap_err().to_string(), "stop");
        assert_eq!(read(&file), "before");
        assert_eq!(names(folder.path()), before);
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("missing/file");
    let error = replace(&file, "text").unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::NotFound);
}

#[test]
fn a_new_file_is_made_and_a_link_is_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let [file, link, target] = ["file", "link", "target"].map(|name| folder.path().join(name));
    fs::write(&target, "target").unwrap();
    symlink(&target, &link).unwrap();
    // Left behind by a process that was killed.
    fs::write(folder.path().join(".draft"), "half").unwrap();
    for path in [&file, &link] {
        replace(path, "text").unwrap();
        assert_eq!(read(path), "text");
        assert!(fs::symlink_metadata(path).unwrap().is_file());
    }
    assert_eq!(read(&target), "target");
    assert_eq!(names(folder.path()).len(), 3);
}

/// Runs the test `name` again in a folder with mounts of its own, made by `script`. Returns the folder inside, and
/// `None` outside, or where no such namespace can be made.
fn with_mounts(name: &str, script: &str) -> Option<PathBuf> {
    const FOLDER: &str = "AH_TEST_MOUNTS";
    if let Some(folder) = std::env::var_os(FOLDER) {
        return Some(folder.into());
    }
    let folder = tempfile::tempdir().unwrap();
    let command = format!("set -e; cd \"${FOLDER}\"; {script}; exec \"$0\" \"$@\"");
    let unshare = |words: &[&std::ffi::OsStr]| {
        let mut unshare = Command::new("unshare");
        unshare.args(["-rm", "sh", "-c"]).args(words);
        unshare.env(FOLDER, folder.path()).output()
    };
    let mounts = unshare(&["mount -t tmpfs none \"$AH_TEST_MOUNTS\"".as_ref()]);
    if !mounts.is_ok_and(|output| output.status.success()) {
        return None;
    }
    let program = std::env::current_exe().unwrap();
    let arguments = ["--exact", name].map(OsStr::new);
    let words = [&[command.as_ref(), program.as_os_str()], &arguments[..]].concat();
    let output = unshare(&words).unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("1 passed"), "{said}");
    None
}

#[test]
fn a_mount_point_and_a_file_in_a_folder_that_cannot_be_changed_are_written_in_place() {
    let name =
        "tests::a_mount_point_and_a_file_in_a_folder_that_cannot_be_changed_are_written_in_place";
    let script = "mount -t tmpfs none .; cd .; cd \"$AH_TEST_MOUNTS\"; mkdir folder fixed; \
                  echo before >source; touch folder/file fixed/file; \
                  mount --bind source folder/file; mount --bind fixed fixed; \
                  mount --bind source fixed/file; mount -o remount,bind,ro fixed";
    let Some(folder) = with_mounts(name, script) else {
        return;
    };
    for (number, file) in ["folder/file", "fixed/file"].into_iter().enumerate() {
        for content in ["longer than before\n", "short"] {
            let content = format!("{number} {content}");
            replace(&folder.join(file), &content).unwrap();
            assert_eq!(read(folder.join("source")), content, "{file}");
        }
        // As an undo does it.
        let path = folder.join(file);
        let opened = around(&path).unwrap();
        let new = Replacement {
            mode: Some(0o600),
            names: FurtherNames::Part,
            ..replacement(&opened, &path, b"undone")
        };
        new.perform(|| Ok(())).unwrap();
        assert_eq!(read(folder.join("source")), "undone", "{file}");
        assert_eq!(mode(&folder.join("source")), 0o600);
    }
    let error = replace(&folder.join("fixed/new"), "text").unwrap_err();
    assert_eq!(error.raw_os_error(), Some(Errno::ROFS.raw_os_error()));
}

#[test]
fn a_full_disk_costs_no_content() {
    let name = "tests::a_full_disk_costs_no_content";
    let script = "mount -t tmpfs -o size=64k none .; cd \"$AH_TEST_MOUNTS\"; \
                  mkdir links; echo before >file; echo before >links/a; ln links/a links/b";
    let Some(folder) = with_mounts(name, script) else {
        return;
    };
    for file in ["file", "links/a"] {
        let file = folder.join(file);
        let error = replace(&file, &"x".repeat(1 << 20)).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(Errno::NOSPC.raw_os_error()));
        assert_eq!(read(&file), "before\n");
        replace(&file, "after").unwrap();
        assert_eq!(read(&file), "after");
    }
    assert_eq!(read(folder.join("links/b")), "after");
}
