//! Files written by `write`, and its errors.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::sync::atomic::{AtomicBool, Ordering};

use ah_conversation::{Access, Interface, Tool as _};
use ah_tools::{Workspace, Write};
use serde_json::json;

use crate::folder::{Folder, run, text};

fn write(folder: &Folder, path: &str, content: &str) -> String {
    let tool = Write::new(folder.workspace(), Interface::Native);
    text(&run(&tool, json!({"path": path, "content": content})))
}

#[test]
fn folders_are_made_and_lines_counted() {
    let folder = Folder::new();
    assert_eq!(write(&folder, "a/b/c.txt", "one\ntwo"), "2 lines");
    assert_eq!(folder.get("a/b/c.txt"), "one\ntwo");
    assert_eq!(write(&folder, "a/b/c.txt", ""), "0 lines");
    assert_eq!(folder.get("a/b/c.txt"), "");

    let tool = Write::new(folder.workspace(), Interface::Native);
    let path = folder.workspace().cwd().join("d");
    let details = |content: &str| {
        run(&tool, json!({"path": "d", "content": content}))
            .details
            .unwrap()
    };
    assert_eq!(
        details("é\n"),
        json!({
            "type": "create", "filePath": path.to_str(), "content": "é\n", "structuredPatch": [],
            "originalFile": null, "userModified": false,
        })
    );
    assert_eq!(
        details("e\n"),
        json!({
            "type": "update", "filePath": path.to_str(), "content": "e\n", "originalFile": "é\n", "userModified": false,
            "structuredPatch": [
                {"oldStart": 1, "oldLines": 1, "newStart": 1, "newLines": 1, "lines": ["-é", "+e"]},
            ],
        })
    );
    let access = tool.access(&json!({"path": "d", "content": ""}).into());
    assert_eq!(access, [Access::Write(path)]);
}

#[test]
fn an_existing_file_keeps_its_mode_and_a_new_one_obeys_the_umask() {
    let folder = Folder::with(&[("run.sh", "old"), ("secret", "old")]);
    for (name, mode) in [("run.sh", 0o755), ("secret", 0o600)] {
        fs::set_permissions(folder.path(name), Permissions::from_mode(mode)).unwrap();
        write(&folder, name, "new");
        assert_eq!(
            fs::metadata(folder.path(name)).unwrap().mode() & 0o7777,
            mode
        );
    }
    write(&folder, "fresh", "");
    folder.put("reference", "");
    let mode = |name: &str| fs::metadata(folder.path(name)).unwrap().mode() & 0o7777;
    // The umask applies to 0644 as it does to 0666.
    assert_eq!(mode("fresh"), mode("reference") & 0o644);
}

#[test]
fn a_symbolic_link_stays_and_its_target_is_written() {
    let folder = Folder::with(&[("real/file", "old")]);
    symlink("real/file", folder.path("link")).unwrap();
    symlink("real/fresh", folder.path("dangling")).unwrap();
    write(&folder, "link", "new");
    write(&folder, "dangling", "made");
    assert_eq!(folder.get("real/file"), "new");
    assert_eq!(folder.get("real/fresh"), "made");
    assert!(
        fs::symlink_metadata(folder.path("link"))
            .unwrap()
            .is_symlink()
    );
}

#[test]
fn failed_writes_give_their_reason() {
    let folder = Folder::with(&[("file", "kept"), ("folder/x", "")]);
    for (path, expected) in [
        ("folder", "error: `folder` is a directory"),
        ("", "error: `` is a directory"),
        (
            "/dev/null",
            "error: `/dev/null` is a device, not a regular file",
        ),
        (
            "file/below",
            "error: cannot write `file/below`: `file` is a file",
        ),
        (
            "a\0b",
            "error: cannot open `a\0b`: file name contained an unexpected NUL byte",
        ),
    ] {
        assert_eq!(write(&folder, path, "x"), expected);
    }
    assert_eq!(folder.get("file"), "kept");
    assert_eq!(folder.names(), ["file", "folder"]);
}

#[test]
fn protected_folders_are_never_written() {
    let folder = Folder::with(&[("safe/x", "kept")]);
    symlink("safe", folder.path("link")).unwrap();
    let workspace = Workspace::new(&folder.path(""), None, &["safe".into()]);
    let tool = Write::new(workspace.into(), Interface::Native);
    for path in ["safe/x", "safe/new", "link/x", "a/../safe/y", "safe"] {
        let told = text(&run(&tool, json!({"path": path, "content": ""})));
        assert!(
            told.ends_with("`safe` is protected (AH_PROTECT_DIRS)"),
            "{told}"
        );
    }
    assert_eq!(
        text(&run(&tool, json!({"path": "safety", "content": ""}))),
        "0 lines"
    );
    assert_eq!(folder.get("safe/x"), "kept");
}

#[test]
fn a_reader_never_sees_half_a_file() {
    let folder = Folder::new();
    let contents = ["a".repeat(200_000), "b".repeat(300_000)];
    write(&folder, "f", &contents[0]);
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_done.load(Ordering::Relaxed) {
                let seen = folder.get("f");
                assert!(contents.contains(&seen), "{} bytes", seen.len());
            }
        });
        for round in 0..50 {
            write(&folder, "f", &contents[round % 2]);
        }
        is_done.store(true, Ordering::Relaxed);
    });
    assert_eq!(folder.names(), ["f"]);
}
