//! Edits with `edit`, what they leave alone, and their errors.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt as _, symlink};

use ah_conversation::Interface;
use ah_tools::{Edit, Workspace};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::folder::{Folder, run, text};

fn edit(folder: &Folder, input: Value) -> String {
    text(&run(
        &Edit::new(folder.workspace(), Interface::Native),
        input,
    ))
}

/// Returns the content after the edit, or the error.
fn edited(content: &str, old: &str, new: &str, all: bool) -> String {
    let folder = Folder::with(&[("f", content)]);
    let told = edit(
        &folder,
        json!({"path": "f", "old_string": old, "new_string": new, "replace_all": all}),
    );
    if told.starts_with("error: ") {
        assert_eq!(folder.get("f"), content, "a failed edit changes nothing");
        return told;
    }
    folder.get("f")
}

#[test]
fn the_only_occurrence_is_replaced() {
    for (content, old, new, expected) in [
        ("a b c", "b", "x", "a x c"),
        ("a b c", "b ", "", "a c"),
        ("a", "a", "", ""),
        ("one\ntwo\n", "one\ntwo", "1\n2", "1\n2\n"),
        ("$1 .*", ".*", "$0", "$1 $0"),
        // The file's line endings are kept, whichever the model writes.
        (
            "one\r\ntwo\r\nthree\r\n",
            "one\ntwo",
            "1\n2",
            "1\r\n2\r\nthree\r\n",
        ),
        ("one\r\ntwo\r\n", "two", "2\n3", "one\r\n2\r\n3\r\n"),
        ("one\r\ntwo\r\n", "one\r\ntwo", "1\n2", "1\r\n2\r\n"),
        ("a\r\nb\r\nc\nd\n", "c\nd", "C\nD", "a\r\nb\r\nC\nD\n"),
        ("one\ntwo\n", "two", "2\r\n", "one\n2\r\n\n"),
    ] {
        assert_eq!(
            edited(content, old, new, false),
            expected,
            "{content:?} {old:?}"
        );
    }
}

proptest! {
    #[test]
    fn edits_replace_as_strings_do(content in "[ab\nä]{0,30}", old in "[ab\nä]{1,3}", new in "[abc\n]{0,3}") {
        prop_assume!(old != new);
        let count = content.matches(&old).count();
        let all = edited(&content, &old, &new, true);
        let one = edited(&content, &old, &new, false);
        match count {
            0 => prop_assert!(one.starts_with("error: old_string is not in `f`") && all == one),
            _ => prop_assert_eq!(all, content.replace(&old, &new)),
        }
        if count == 1 {
            prop_assert_eq!(one, content.replacen(&old, &new, 1));
        } else if count > 1 {
            let told = format!("error: old_string is {count} times in `f`, at lines ");
            prop_assert!(one.starts_with(&told), "{}", one);
        }
    }
}

#[test]
fn bytes_that_are_not_utf8_stay_as_they_are() {
    let folder = Folder::new();
    folder.put("f", b"caf\xe9 one");
    edit(
        &folder,
        json!({"path": "f", "old_string": "one", "new_string": "two"}),
    );
    assert_eq!(fs::read(folder.path("f")).unwrap(), b"caf\xe9 two");
}

#[test]
fn mode_and_link_are_kept() {
    let folder = Folder::with(&[("run.sh", "a")]);
    fs::set_permissions(folder.path("run.sh"), Permissions::from_mode(0o751)).unwrap();
    symlink("run.sh", folder.path("link")).unwrap();
    edit(
        &folder,
        json!({"path": "link", "old_string": "a", "new_string": "b"}),
    );
    assert_eq!(folder.get("run.sh"), "b");
    let mode = fs::metadata(folder.path("run.sh")).unwrap().permissions();
    assert_eq!(mode.mode() & 0o7777, 0o751);
    assert!(
        fs::symlink_metadata(folder.path("link"))
            .unwrap()
            .is_symlink()
    );
}

#[test]
fn a_change_is_reported_in_lines_and_hunks() {
    let folder = Folder::with(&[("f", "1\n2\n3\n4\n5\nx = 1\n7\n8\n9\n10\n")]);
    let tool = Edit::new(folder.workspace(), Interface::Native);
    let output = run(
        &tool,
        json!({"path": "f", "old_string": "5\nx = 1", "new_string": "5\nx = 2\ny = 3"}),
    );
    assert_eq!(text(&output), "- 5\n- x = 1\n+ 5\n+ x = 2\n+ y = 3");
    assert_eq!(
        output.details.unwrap(),
        json!({
            "filePath": folder.workspace().cwd().join("f").to_str(),
            "oldString": "5\nx = 1",
            "newString": "5\nx = 2\ny = 3",
            "originalFile": "1\n2\n3\n4\n5\nx = 1\n7\n8\n9\n10\n",
            "structuredPatch": [{
                "oldStart": 3, "oldLines": 7, "newStart": 3, "newLines": 8,
                "lines": [" 3", " 4", " 5", "-x = 1", "+x = 2", "+y = 3", " 7", " 8", " 9"],
            }],
            "userModified": false,
            "replaceAll": false,
        })
    );
    let told = edit(
        &folder,
        json!({"path": "f", "old_string": "\n", "new_string": ";", "replace_all": true}),
    );
    assert_eq!(told, "- \n+ ;\n[11 occurrences]");
}

#[test]
fn several_occurrences_are_located() {
    assert_eq!(
        edited("a\nb\na a\n", "a", "x", false),
        "error: old_string is 3 times in `f`, at lines 1, 3, 3: give more of the lines around it, or set replace_all"
    );
}

#[test]
fn a_miss_names_the_likely_mistake() {
    let source = "fn main() {\n    let count = items.len();\n    println!(\"{count}\");\n}\n";
    for (old, new, expected) in [
        (
            "  let count = items.len();\n  println!(\"{count}\");",
            "",
            ": lines 2-3 differ only in white space\n2\t    let count = items.len();\n3\t    println!(\"{count}\");",
        ),
        (
            "let count=items.len();",
            "",
            ": line 2 differs only in white space\n2\t    let count = items.len();",
        ),
        (
            "2\t    let count = items.len();\n3\t    println!(\"{count}\");",
            "",
            ": it has the line numbers of `read` in it, leave them out",
        ),
        (
            "    let number = items.len();\n    println!(\"{number}\");",
            "",
            ": lines 2-3 come nearest\n2\t    let count = items.len();\n3\t    println!(\"{count}\");",
        ),
        (
            "let total = 0;",
            "let count = items.len();",
            ", but new_string is, at line 2: the edit may have been made already",
        ),
        (
            "#include <stdio.h>",
            "",
            " nor anything like it: read the file again",
        ),
        ("\n\n\n", "", " nor anything like it: read the file again"),
    ] {
        assert_eq!(
            edited(source, old, new, false),
            format!("error: old_string is not in `f`{expected}")
        );
    }
    assert_eq!(
        edited("", "x", "y", false),
        "error: old_string is not in `f` nor anything like it: read the file again"
    );
}

#[test]
fn a_file_of_another_encoding_gets_no_second_one() {
    for (content, new, is_edited) in [
        (&b"caf\xe9 here"[..], "there", true),
        (b"caf\xe9 here", "\u{e9}", false),
        ("caf\u{e9} here".as_bytes(), "\u{e9}", true),
        // A text in UTF-8 with a byte that is none of it.
        (b"caf\xc3\xa9 \xff here", "\u{e9}", true),
        (b"here", "\u{e9}", true),
    ] {
        let folder = Folder::with(&[("f", "")]);
        folder.put("f", content);
        let input = json!({"path": "f", "old_string": "here", "new_string": new});
        let told = edit(&folder, input);
        let after = fs::read(folder.path("f")).unwrap();
        let end = if is_edited { new } else { "here" };
        assert!(after.ends_with(end.as_bytes()), "{content:?}: {told}");
        assert_eq!(told.contains("is not UTF-8"), !is_edited, "{told}");
    }
}

#[test]
fn failed_edits_give_their_reason() {
    let folder = Folder::with(&[("file", "a"), ("folder/safe.rs", "a")]);
    let workspace = Workspace::new(&folder.path(""), None, &["folder".into()]);
    let tool = Edit::new(workspace.into(), Interface::Native);
    for (path, old, new, expected) in [
        ("fill", "a", "b", "no file `fill`; did you mean `file`?"),
        (
            "folder",
            "a",
            "b",
            "cannot write `folder`: `folder` is protected (AH_PROTECT_DIRS)",
        ),
        (
            "folder/safe.rs",
            "a",
            "b",
            "cannot write `folder/safe.rs`: `folder` is protected (AH_PROTECT_DIRS)",
        ),
        (".", "a", "b", "`.` is a directory"),
        (
            "/dev/zero",
            "a",
            "b",
            "`/dev/zero` is a device, not a regular file",
        ),
        (
            "file",
            "",
            "b",
            "old_string is empty: give the text to replace, or write the file",
        ),
        ("file", "a", "a", "old_string and new_string are the same"),
    ] {
        let told = text(&run(
            &tool,
            json!({"path": path, "old_string": old, "new_string": new}),
        ));
        assert_eq!(told, format!("error: {expected}"));
    }
    assert_eq!(folder.names(), ["file", "folder"]);
}
