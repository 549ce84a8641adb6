//! Bounds of single commands: each line does what it is for without them, and does not within them.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use ah_process::{Bounds, Command, Ending};

use crate::shell::{Scratch, text};

/// Lines that change something in the working directory, each in a way of its own.
const CHANGING: [&str; 21] = [
    "echo x > made",
    "echo x >> old",
    "echo x 1<> old",
    ": > old",
    "touch made",
    "rm old",
    "mv old new",
    "mv old folder/old",
    "ln -s old link",
    "ln old hard",
    "mkdir made",
    "rmdir folder",
    "mkfifo pipe",
    "cp old copy",
    "truncate -s 0 old",
    "dd if=/dev/zero of=old bs=1 count=1 conv=notrunc",
    "chmod 600 old",
    "chmod 700 folder",
    "touch -d 2001-01-01 old",
    "sh -c 'echo x > made'",
    "(setsid sh -c 'echo x > folder/made'; true)",
];

/// Lines that only read, with their output.
const READING: [(&str, &str); 9] = [
    ("cat old", "text\n"),
    ("cat < old", "text\n"),
    ("ls", "folder\nold\n"),
    ("grep -r te . | sort", "./old:text\n"),
    ("echo x > /dev/null; echo $?", "0\n"),
    ("cat <<END\na\nEND\n", "a\n"),
    ("printf 'b\\na\\n' | sort | tr a-z A-Z", "A\nB\n"),
    ("echo a > /dev/stdout", "a\n"),
    ("sh -c 'cd folder && ls ..'", "folder\nold\n"),
];

fn scratch() -> Scratch {
    let scratch = Scratch::new();
    fs::write(scratch.path("old"), "text\n").unwrap();
    fs::create_dir(scratch.path("folder")).unwrap();
    scratch
}

/// Returns everything that a command could change below the folder.
fn state(folder: &Path) -> Vec<(PathBuf, u32, i64, u64, String)> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let metadata = fs::symlink_metadata(&path).unwrap();
            let content = match metadata.is_file() {
                true => fs::read_to_string(&path).unwrap(),
                false => String::new(),
            };
            let (mode, time) = (metadata.mode(), metadata.mtime());
            found.push((path.clone(), mode, time, metadata.nlink(), content));
            folders.extend(metadata.is_dir().then_some(path));
        }
    }
    found.sort();
    found
}

fn bounded(scratch: &Scratch, script: &str, bounds: &Bounds) -> Command {
    Command {
        bounds: Some(bounds.clone()),
        ..scratch.command(script)
    }
}

async fn run(command: Command) -> (Ending, String) {
    text(command.run().await.unwrap())
}

#[tokio::test]
async fn a_command_that_may_only_read_changes_nothing() {
    for line in CHANGING {
        let (free, bound) = (scratch(), scratch());
        let before = [state(free.folder.path()), state(bound.folder.path())];
        let (ending, output) = free.run(line).await;
        assert_eq!(ending, Ending::Exited(0), "{line}: {output}");
        run(bounded(&bound, line, &Bounds::default())).await;
        assert_ne!(state(free.folder.path()), before[0], "{line}");
        assert_eq!(state(bound.folder.path()), before[1], "{line}");
    }
}

#[tokio::test]
async fn a_command_that_may_only_read_reads_and_writes_to_its_output() {
    let scratch = scratch();
    for (line, expected) in READING {
        let (ending, output) = run(bounded(&scratch, line, &Bounds::default())).await;
        assert_eq!((ending, &*output), (Ending::Exited(0), expected), "{line}");
    }
}

#[tokio::test]
async fn a_command_changes_files_of_its_folders_only() {
    for line in CHANGING {
        let (inside, outside) = (scratch(), scratch());
        let bounds = |folder: &Scratch| Bounds {
            writable: vec![folder.folder.path().to_owned()],
            changes_attributes: true,
            ..Bounds::default()
        };
        let (ending, output) = run(bounded(&inside, line, &bounds(&inside))).await;
        assert_eq!(ending, Ending::Exited(0), "{line}: {output}");
        // The kernel cannot limit modes and times to folders.
        if line.starts_with("chmod") || line.starts_with("touch -d") {
            continue;
        }
        let before = state(outside.folder.path());
        run(bounded(&outside, line, &bounds(&inside))).await;
        assert_eq!(state(outside.folder.path()), before, "{line}");
    }
}

#[tokio::test]
async fn a_command_within_bounds_connects_to_nothing() {
    let scratch = scratch();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let line = format!("bash -c ': > /dev/tcp/127.0.0.1/{port}'");
    let (free, _) = scratch.run(&line).await;
    let (bound, output) = run(bounded(&scratch, &line, &Bounds::default())).await;
    assert_eq!(free, Ending::Exited(0));
    assert_ne!(bound, Ending::Exited(0), "{output}");
}

#[tokio::test]
async fn no_command_has_the_terminal() {
    let scratch = scratch();
    let line = "read -r _ _ _ _ _ session _ < /proc/$$/stat; [ $session = $$ ] && echo own";
    assert_eq!(scratch.run(line).await.1, "own\n");
    assert_ne!(scratch.run("cat < /dev/tty").await.0, Ending::Exited(0));
    let (_, output) = run(bounded(&scratch, line, &Bounds::default())).await;
    assert_eq!(output, "own\n");
    let (ending, _) = run(bounded(&scratch, "cat < /dev/tty", &Bounds::default())).await;
    assert_ne!(ending, Ending::Exited(0));
}

#[tokio::test]
async fn hidden_files_cannot_be_read_by_whatever_name() {
    let scratch = scratch();
    let path = |name: &str| scratch.folder.path().canonicalize().unwrap().join(name);
    fs::write(path("folder/key"), "secret").unwrap();
    std::os::unix::fs::symlink("folder", path("link")).unwrap();
    let hiding = |hidden: PathBuf| Bounds {
        hidden: vec![hidden],
        ..Bounds::default()
    };
    for hidden in [path("folder/key"), path("folder")] {
        for line in [
            "cat folder/key",
            "cat link/key",
            "cd folder; cat key",
            "sh -c 'exec cat < folder/key'",
            "cat /proc/self/cwd/folder/key",
            "grep -r secret .",
        ] {
            let (_, output) = scratch.run(line).await;
            assert!(output.contains("secret"), "{line}: {output}");
            let (_, output) = run(bounded(&scratch, line, &hiding(hidden.clone()))).await;
            assert!(!output.contains("secret"), "{line}: {output}");
        }
        let (_, output) = run(bounded(&scratch, "cat old", &hiding(hidden))).await;
        assert_eq!(output, "text\n");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_status_of_a_command_is_its_own_while_another_leaves_processes() {
    let scratch = scratch();
    let anything = Bounds {
        anything_else: true,
        ..Bounds::default()
    };
    for _ in 0..60 {
        let short = || run(bounded(&scratch, "exit 3", &anything));
        let leaving = || {
            run(bounded(
                &scratch,
                "(setsid true &) ; sleep 1000 &",
                &anything,
            ))
        };
        let (_, first, _, second) = tokio::join!(leaving(), short(), leaving(), short());
        assert_eq!([first.0, second.0], [Ending::Exited(3); 2]);
    }
}
