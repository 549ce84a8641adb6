//! What is ignored, also where the files with patterns are hostile.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use super::*;

fn write(root: &Path, name: &str, text: &str) {
    let path = root.join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

fn laid(files: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        write(folder.path(), name, text);
    }
    folder
}

/// Names that a walk finds, in order.
fn walked(root: &Path, sources: Sources, taken: Taken) -> (String, usize) {
    let ignored = Arc::new(Ignored::new(sources));
    let names = names(&mut ignored.walk(root, taken), root);
    (names, ignored.unread().len())
}

fn names(walk: &mut WalkBuilder, root: &Path) -> String {
    let entries = walk.build().flatten();
    let below = entries.filter_map(|entry| Some(entry.path().strip_prefix(root).ok()?.to_owned()));
    let mut names: Vec<_> = below.map(|path| path.display().to_string()).collect();
    names.sort();
    names.join(" ").trim().to_owned()
}

fn globs(root: &Path, globs: &[&str]) -> Override {
    let mut builder = ignore::overrides::OverrideBuilder::new(root);
    for glob in globs {
        builder.add(glob).unwrap();
    }
    builder.build().unwrap()
}

#[test]
fn the_patterns_of_the_nearest_folder_count_first() {
    let folder = laid(&[
        (".gitignore", "*.pyc\n__pycache__/\n/build\n"),
        ("src/kept/.gitignore", "!*.pyc\n"),
    ]);
    let root = folder.path();
    let ignored = Ignored::new(Sources {
        without_git: true,
        top: Some(root.to_owned()),
        ..Sources::default()
    });
    for (path, is_folder, expected) in [
        ("a.py", false, false),
        ("src/a.pyc", false, true),
        ("src/__pycache__", true, true),
        ("src/__pycache__/deep/a.txt", false, true),
        ("build/x/y", false, true),
        ("src/build", false, false),
        ("src/kept/a.pyc", false, false),
        ("/elsewhere/a.pyc", false, false),
    ] {
        let is = ignored.is_ignored(&root.join(path), is_folder);
        assert_eq!(is, expected, "{path}");
    }
}

#[test]
fn a_walk_leaves_out_what_ripgrep_leaves_out() {
    let files = [
        (".gitignore", "*.log\n!.shown\n"),
        (".ignore", "private\n"),
        (".git/info/exclude", "excluded\n"),
        (".hidden", ""),
        (".shown", ""),
        ("a.log", ""),
        ("a.rs", ""),
        ("excluded", ""),
        ("private", ""),
        ("sub/.gitignore", "!b.log\n"),
        ("sub/b.log", ""),
        ("sub/c.log", ""),
        ("inner/.git/HEAD", ""),
        ("inner/d.log", ""),
    ];
    let folder = laid(&files);
    let root = folder.path();
    let plain = Taken::default;
    let all = Taken {
        hidden: true,
        ..plain()
    };
    let logs = Taken {
        globs: globs(root, &["*.log", "sub/"]),
        ..plain()
    };
    let check = |without_git: bool| {
        for taken in [plain(), all.clone(), logs.clone()] {
            let sources = Sources {
                without_git,
                ..Sources::default()
            };
            #[expect(clippy::disallowed_methods, reason = "it is compared")]
            let mut theirs = WalkBuilder::new(root);
            theirs
                .require_git(!without_git)
                .hidden(!taken.hidden)
                .overrides(taken.globs.clone());
            let (ours, unread) = walked(root, sources, taken);
            assert_eq!((ours, unread), (names(&mut theirs, root), 0));
        }
    };
    // A repository obeys none of the patterns above it.
    let usual = ".shown a.rs inner inner/d.log sub sub/b.log";
    assert_eq!(walked(root, Sources::default(), plain()).0, usual);
    check(false);
    check(true);
    // Outside of repositories, git's patterns do not count unless they are to.
    fs::remove_dir_all(root.join(".git")).unwrap();
    check(false);
    check(true);
}

/// Makes what is no file with patterns.
type Make<'a> = &'a dyn Fn(&Path);

/// In each place where patterns may be: what is no plain file, or too long, has none. Nothing waits, and nothing grows.
#[test]
fn what_is_no_plain_file_has_no_patterns() {
    let long = "x".repeat(MAX_BYTES as usize + 1);
    let make: [(&str, Make<'_>); 5] = [
        ("a pipe", &|path| {
            let mode = rustix::fs::Mode::RWXU;
            let kind = rustix::fs::FileType::Fifo;
            rustix::fs::mknodat(rustix::fs::CWD, path, kind, mode, 0).unwrap();
        }),
        ("a device", &|path| symlink("/dev/zero", path).unwrap()),
        ("a link", &|path| symlink("patterns", path).unwrap()),
        ("a folder", &|path| fs::create_dir(path).unwrap()),
        ("a long file", &|path| fs::write(path, &long).unwrap()),
    ];
    for (what, make) in make {
        for place in [
            ".gitignore",
            ".ignore",
            "sub/.gitignore",
            ".git/info/exclude",
        ] {
            let files = [("patterns", "*\n"), ("sub/a", ""), (".git/info/x", "")];
            let folder = laid(&files);
            make(&folder.path().join(place));
            let found = walked(folder.path(), Sources::default(), Taken::default());
            assert_eq!(
                found,
                ("patterns sub sub/a".to_owned(), 1),
                "{what} as {place}"
            );
        }
        let folder = laid(&[("a", "")]);
        make(&folder.path().join(".git"));
        let found = walked(folder.path(), Sources::default(), Taken::default());
        assert_eq!(found.0, "a", "{what} as .git");
    }
}

/// A linked worktree obeys its repository.
#[test]
fn a_worktree_has_the_patterns_of_its_repository() {
    let folder = laid(&[
        ("main/.git/info/exclude", "excluded\n"),
        ("main/.git/worktrees/w/commondir", "../..\n"),
        ("w/.git", "gitdir: ../main/.git/worktrees/w\n"),
        ("w/excluded", ""),
        ("w/kept", ""),
    ]);
    let found = walked(
        &folder.path().join("w"),
        Sources::default(),
        Taken::default(),
    );
    assert_eq!(found, ("kept".to_owned(), 0));
}
