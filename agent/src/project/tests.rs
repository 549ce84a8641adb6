use std::os::unix::fs::symlink;

use tempfile::TempDir;

use super::*;

fn folder(files: &[(&str, &str)]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    folder
}

/// Returns the files read in `above/root/sub` and the warnings, with paths relative to the folder.
fn show(folder: &TempDir, is_trusted: bool) -> String {
    let path = |name: &str| folder.path().join(name);
    let (files, warnings) = instructions(&InstructionSources {
        user_folders: &[path("home")],
        project: Some((&path("above/root"), &path("above/root/sub"))),
        local: true,
        home: Some(&path("home")),
        is_trusted,
    });
    let files = files
        .iter()
        .map(|file| format!("{}: {}", file.label, file.text));
    let lines: Vec<_> = files.chain(warnings).collect();
    let base = format!("{}/", folder.path().display());
    lines.join("\n").replace(&base, "")
}

#[test]
fn files_are_ordered_from_general_to_specific_without_duplicates() {
    let folder = folder(&[
        ("home/CLAUDE.md", "user"),
        ("above/AGENTS.md", "not of this project"),
        ("above/root/CLAUDE.md", "\u{FEFF}project"),
        ("above/root/.claude/CLAUDE.md", "project, hidden"),
        ("above/root/CLAUDE.local.md", "mine"),
        ("above/root/sub/AGENTS.md", "part"),
        ("above/root/sub/CLAUDE.local.md", "mine, of the part"),
    ]);
    let path = |name: &str| folder.path().join(name);
    symlink("CLAUDE.md", path("above/root/AGENTS.md")).unwrap();
    fs::create_dir_all(path("above/root/sub/CLAUDE.md")).unwrap();
    insta::assert_snapshot!(show(&folder, false), @"
        home/CLAUDE.md: user
        above/root/CLAUDE.md: project
        above/root/.claude/CLAUDE.md: project, hidden
        above/root/CLAUDE.local.md: mine
        above/root/sub/AGENTS.md: part
        above/root/sub/CLAUDE.local.md: mine, of the part
        ");
    let places = InstructionSources {
        user_folders: &[],
        project: None,
        local: true,
        home: None,
        is_trusted: true,
    };
    assert_eq!(instructions(&places).0, []);
}

#[test]
fn imports_are_followed_once_and_to_a_limited_depth() {
    let deep: Vec<_> = (0..8)
        .map(|n| {
            (
                format!("above/root/deep/{n}.md"),
                format!("deep {n} @{}.md", n + 1),
            )
        })
        .collect();
    let mut files: Vec<_> = deep
        .iter()
        .map(|(name, text)| (name.as_str(), text.as_str()))
        .collect();
    files.extend([
        (
            "above/root/CLAUDE.md",
            "root @docs/a.md @missing.md @someone @docs",
        ),
        ("above/root/docs/a.md", "a @b.md @../CLAUDE.md @a.md"),
        ("above/root/docs/b.md", "b @a.md @image"),
        ("above/root/docs/image", "\0"),
        (
            "above/root/sub/CLAUDE.md",
            "sub @../docs/a.md @../deep/0.md",
        ),
    ]);
    insta::assert_snapshot!(show(&folder(&files), false), @"
        above/root/CLAUDE.md: root @docs/a.md @missing.md @someone @docs
        above/root/docs/a.md: a @b.md @../CLAUDE.md @a.md
        above/root/docs/b.md: b @a.md @image
        above/root/sub/CLAUDE.md: sub @../docs/a.md @../deep/0.md
        above/root/deep/0.md: deep 0 @1.md
        above/root/deep/1.md: deep 1 @2.md
        above/root/deep/2.md: deep 2 @3.md
        above/root/deep/3.md: deep 3 @4.md
        above/root/deep/4.md: deep 4 @5.md
        `above/root/docs/image` is not read: not a text file
        `above/root/sub/../deep/5.md` is not read: imports are nested more than 5 levels deep
        ");
}

#[test]
fn an_untrusted_project_imports_no_files_from_outside() {
    let folder = folder(&[
        ("home/CLAUDE.md", "user @notes.md"),
        ("home/notes.md", "notes of the user"),
        ("home/secret", "a secret"),
        ("above/root/CLAUDE.md", "project @~/secret @../outside.md"),
        ("above/outside.md", "outside"),
    ]);
    fs::create_dir_all(folder.path().join("above/root/sub")).unwrap();
    symlink(
        folder.path().join("home/secret"),
        folder.path().join("above/root/AGENTS.md"),
    )
    .unwrap();
    insta::assert_snapshot!(show(&folder, false), @"
        home/CLAUDE.md: user @notes.md
        home/notes.md: notes of the user
        above/root/CLAUDE.md: project @~/secret @../outside.md
        `home/secret` is not read: it is outside of an untrusted project
        `above/root/../outside.md` is not read: it is outside of an untrusted project
        `above/root/AGENTS.md` is not read: it is outside of an untrusted project
        ");
    insta::assert_snapshot!(show(&folder, true), @"
        home/CLAUDE.md: user @notes.md
        home/notes.md: notes of the user
        above/root/CLAUDE.md: project @~/secret @../outside.md
        home/secret: a secret
        above/outside.md: outside
        ");
}

#[test]
fn long_instructions_are_truncated() {
    let long = "words ".repeat(20_000);
    let imports: String = (0..9).map(|n| format!("@{n}.md ")).collect();
    let mut files = vec![("above/root/sub/CLAUDE.md".to_owned(), imports)];
    files.extend((0..9).map(|n| (format!("above/root/sub/{n}.md"), format!("{n}{long}"))));
    let files: Vec<_> = files
        .iter()
        .map(|(name, text)| (name.as_str(), text.as_str()))
        .collect();
    let folder = folder(&files);
    let shown = show(&folder, false);
    assert!(shown.len() < MAX_TOTAL + 2_000, "{}", shown.len());
    assert!(shown.ends_with("`above/root/sub/8.md` is truncated to 0 bytes"));
}
