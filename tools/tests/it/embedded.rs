//! Files embedded in the program are read like any others, and never written.

use std::borrow::Cow;
use std::sync::Arc;

use ah_conversation::{Embedded, EmbeddedFile, Interface, Tool};
use ah_tools::{Edit, Glob, Grep, Read, Workspace, Write};
use serde_json::{Value, json};

use crate::folder::{Folder, run, text};

fn workspace(folder: &Folder) -> Arc<Workspace> {
    let mut embedded = Embedded::default();
    for (path, content) in [
        ("skills/tea/SKILL.md", "# Tea\nBoil water.\n"),
        ("skills/tea/leaves.csv", "green,80\nblack,95\n"),
        ("sys/skills/write/SKILL.md", "# Write\nWater it down.\n"),
    ] {
        let file = EmbeddedFile {
            content: Cow::Borrowed(content.as_bytes()),
            is_executable: false,
        };
        embedded.insert(path, file).unwrap();
    }
    let workspace = Workspace::new(&folder.path(""), None, &[]);
    Arc::new(workspace.with_embedded(Arc::new(embedded)))
}

/// Built-in and embedded files can be read, searched and found under their own root.
#[test]
fn embedded_files_are_read_searched_and_found_by_name() {
    let folder = Folder::with(&[("water", "water")]);
    std::os::unix::fs::symlink("/zip/embed/skills", folder.path("link")).unwrap();
    let workspace = workspace(&folder);
    let read = |input| {
        text(&run(
            &Read::new(workspace.clone(), Interface::Native),
            input,
        ))
    };
    let grep = |input| {
        text(&run(
            &Grep::new(workspace.clone(), Interface::Native),
            input,
        ))
    };
    let glob = |input| {
        text(&run(
            &Glob::new(workspace.clone(), Interface::Native),
            input,
        ))
    };
    let pages = [
        read(json!({"path": "/zip/embed/skills/tea/SKILL.md"})),
        read(json!({"path": "/zip/embed/skills/../sys/skills/write/SKILL.md", "offset": 2})),
        read(json!({"path": "link/tea/leaves.csv"})),
        read(json!({"path": "/zip/embed/skills/tea"})),
        read(json!({"path": "/zip/embed"})),
        read(json!({"path": "/zip/embed/skills/te/SKILL.md"})),
        read(json!({"path": "/zip/embed/../etc"})),
        grep(json!({"pattern": "(?i)water", "path": "/zip/embed"})),
        grep(json!({"pattern": "water", "path": "/zip/embed/skills", "output_mode": "content"})),
        grep(
            json!({"pattern": "a", "path": "/zip/embed", "glob": "*.csv", "output_mode": "count"}),
        ),
        grep(json!({"pattern": "a", "path": "/zip/embed", "type": "md"})),
        grep(
            json!({"pattern": "80", "path": "/zip/embed/skills/tea/leaves.csv", "output_mode": "content"}),
        ),
        grep(json!({"pattern": "a", "path": "/zip/embed/none"})),
        glob(json!({"pattern": "*.md", "path": "/zip/embed"})),
        glob(json!({"pattern": "/zip/embed/sys/**"})),
        glob(json!({"pattern": "*", "path": "/zip/embed/skills/tea/SKILL.md"})),
        glob(json!({"pattern": "*", "path": "/zip/embed/none"})),
    ];
    let root = folder.path("").canonicalize().unwrap();
    let page = pages.join("\n---\n");
    insta::assert_snapshot!(page.replace(&root.display().to_string(), "<folder>"), @"
        1	# Tea
        2	Boil water.
        ---
        2	Water it down.
        ---
        1	green,80
        2	black,95
        ---
        `/zip/embed/skills/tea` is a directory with 2 entries
        SKILL.md
        leaves.csv
        ---
        `/zip/embed` is a directory with 2 entries
        skills/
        sys/
        ---
        error: no file `/zip/embed/skills/te/SKILL.md`; did you mean `/zip/embed/skills/tea/SKILL.md` or `/zip/embed/sys/skills/write/SKILL.md`?
        ---
        error: no file `/zip/embed/../etc`; did you mean `/etc`?
        ---
        /zip/embed/skills/tea/SKILL.md
        /zip/embed/sys/skills/write/SKILL.md
        ---
        /zip/embed/skills/tea/SKILL.md:2:Boil water.
        ---
        /zip/embed/skills/tea/leaves.csv:1
        ---
        /zip/embed/skills/tea/SKILL.md
        /zip/embed/sys/skills/write/SKILL.md
        ---
        1:green,80
        ---
        error: no file `/zip/embed/none` (the working directory is `<folder>`)
        ---
        /zip/embed/skills/tea/SKILL.md
        /zip/embed/sys/skills/write/SKILL.md
        ---
        /zip/embed/sys/skills/write/SKILL.md
        ---
        error: `/zip/embed/skills/tea/SKILL.md/` is not a folder
        ---
        error: no file `/zip/embed/none/` (the working directory is `<folder>`)
        ");
    // A search of the working directory does not include them.
    assert_eq!(grep(json!({"pattern": "(?i)water"})), "water");
}

#[test]
fn embedded_files_are_never_written() {
    let folder = Folder::new();
    let workspace = workspace(&folder);
    let write: &dyn Tool = &Write::new(workspace.clone(), Interface::Native);
    let edit: &dyn Tool = &Edit::new(workspace, Interface::Native);
    for (tool, path, rest) in [
        (
            write,
            "/zip/embed/skills/tea/SKILL.md",
            json!({"content": "x"}),
        ),
        (write, "/zip/embed/new", json!({"content": "x"})),
        (write, "/zip/../zip/embed/new", json!({"content": "x"})),
        (
            edit,
            "/zip/embed/skills/tea/SKILL.md",
            json!({"old_string": "Tea", "new_string": "x"}),
        ),
    ] {
        let mut input = rest;
        input["path"] = Value::from(path);
        let answer = text(&run(tool, input));
        assert!(
            answer.contains("which can only be read"),
            "{path}: {answer}"
        );
    }
}
