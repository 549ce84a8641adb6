//! Files that are withheld from a command without a sandbox: each line does what it is for otherwise.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use ah_process::{Bounds, Command, Ending, Withheld};

use crate::shell::{Scratch, text};

/// Lines that show the content of `folder/key`.
const READING: [&str; 24] = [
    "cat folder/key",
    "cat link/key",
    "cd folder; cat key",
    "cd folder && cat ../folder/./key",
    "exec 3< folder/key; cat <&3",
    "cat 0<> folder/key",
    "cat /proc/self/cwd/folder/key",
    "cat /proc/$$/root/$PWD/folder/key",
    "cat /proc/$PPID/cwd/folder/key",
    "grep -ra secret .",
    "find . -name key -exec cat {} +",
    "tar c folder | tar xO",
    "python3 -c 'print(open(\"folder/key\").read())'",
    "ln folder/key second; cat second",
    "mv folder moved; cat moved/key",
    "mv folder/key moved; cat moved",
    "cp -a folder copy; cat copy/key",
    "cd ..; p=$OLDPWD; mv \"$p\" \"$p.t\" && cat \"$p.t/folder/key\"; mv \"$p.t\" \"$p\"",
    "umount folder/key folder; umount -l folder; cat folder/key",
    "unshare -rm sh -c 'umount folder/key; umount folder; umount -l .; cat folder/key'",
    "mkdir b; unshare -rm sh -c 'mount --bind . b; cat b/folder/key'",
    "mkdir b; mount --bind . b; cat b/folder/key",
    "nsenter -t $PPID -m cat $PWD/folder/key",
    "chmod 777 folder/key; unlink folder/key || cat folder/key",
];

/// Lines that change `folder/key`.
const EDITING: [&str; 16] = [
    "echo x > folder/key",
    "echo x >> folder/key",
    "echo x 1<> folder/key",
    "echo x | tee folder/key",
    "sed -i s/secret/x/ folder/key",
    "python3 -c 'open(\"folder/key\",\"w\").write(\"x\")'",
    "rm -f folder/key",
    "mv folder/key away",
    "echo x > new; mv -f new folder/key",
    "ln -f old folder/key",
    "rm -rf folder; mkdir -p folder; echo x > folder/key",
    "mv folder away; mkdir folder; echo x > folder/key",
    "cd ..; p=$OLDPWD; mv \"$p\" \"$p.t\"; mkdir -p \"$p/folder\"; echo x > \"$p/folder/key\"",
    "truncate -s 0 folder/key",
    "unshare -rm sh -c 'mount -o remount,bind,rw folder/key; echo x > folder/key'",
    "mount -o remount,bind,rw folder/key; echo x > folder/key",
];

/// Lines that run `program`.
const RUNNING: [&str; 9] = [
    "./program",
    "exec ./program",
    "ln -s program other; ./other",
    "ln program other; ./other",
    "sh -c ./program",
    "PATH=$PWD; program",
    "env ./program",
    "python3 -c 'import os; os.execv(\"./program\", [\"x\"])'",
    "mv program other; ./other",
];

fn scratch() -> Scratch {
    let scratch = Scratch::new();
    fs::write(scratch.path("old"), "text\n").unwrap();
    fs::create_dir(scratch.path("folder")).unwrap();
    fs::write(scratch.path("folder/key"), "secret\n").unwrap();
    std::os::unix::fs::symlink("folder", scratch.path("link")).unwrap();
    fs::copy("/bin/echo", scratch.path("program")).unwrap();
    scratch
}

fn place(scratch: &Scratch, name: &str) -> PathBuf {
    scratch.folder.path().canonicalize().unwrap().join(name)
}

async fn run(scratch: &Scratch, line: &str, withheld: Withheld) -> (Ending, String) {
    let command = Command {
        bounds: Some(Bounds {
            anything_else: true,
            withheld,
            ..Bounds::default()
        }),
        ..scratch.command(line)
    };
    text(command.run().await.unwrap())
}

#[tokio::test]
async fn files_that_are_withheld_cannot_be_read_by_whatever_program() {
    for line in READING {
        for hidden in ["folder/key", "folder"] {
            let scratch = scratch();
            let reading = vec![place(&scratch, hidden)];
            let withheld = Withheld {
                reading,
                ..Withheld::default()
            };
            let (_, output) = run(&scratch, line, withheld.clone()).await;
            assert!(!output.contains("secret"), "{line}: {output}");
            // Nor by the next command.
            let (_, output) = run(&scratch, "grep -ra secret .", withheld).await;
            assert!(!output.contains("secret"), "{line}: {output}");
            let key = fs::read_to_string(scratch.path("folder/key"));
            assert_eq!(key.unwrap(), "secret\n", "{line}");
        }
    }
}

#[tokio::test]
async fn files_that_are_withheld_cannot_be_changed_by_whatever_program() {
    for line in EDITING {
        for kept in ["folder/key", "folder"] {
            let scratch = scratch();
            let editing = vec![place(&scratch, kept)];
            let withheld = Withheld {
                editing,
                ..Withheld::default()
            };
            run(&scratch, line, withheld.clone()).await;
            let key = fs::read_to_string(scratch.path("folder/key"));
            assert_eq!(key.unwrap(), "secret\n", "{line}");
            let (_, output) = run(&scratch, "cat folder/key", withheld).await;
            assert_eq!(output, "secret\n", "{line}");
        }
    }
}

#[tokio::test]
async fn programs_that_are_withheld_cannot_be_run_by_whatever_name() {
    for line in RUNNING {
        let (free, bound) = (scratch(), scratch());
        let withheld = Withheld {
            running: vec![place(&bound, "program")],
            ..Withheld::default()
        };
        let (ending, _) = free.run(line).await;
        assert_eq!(ending, Ending::Exited(0), "{line}");
        let (ending, output) = run(&bound, line, withheld).await;
        assert_ne!(ending, Ending::Exited(0), "{line}: {output}");
    }
}

#[tokio::test]
async fn a_command_does_all_else_as_without() {
    let line = "cat old; echo x > made; mkdir -p a/b; mv made a/b; rm -r a; chmod 700 folder; \
                chown \"$(id -u)\" old; ln old hard; id -u; stat -c %U /etc/passwd; ls";
    let (free, bound) = (scratch(), scratch());
    let withheld = Withheld {
        reading: vec![place(&bound, "folder/key"), place(&bound, "missing")],
        ..Withheld::default()
    };
    let (ending, output) = run(&bound, line, withheld).await;
    assert_eq!(ending, Ending::Exited(0), "{output}");
    if output.contains("root\n") {
        assert_eq!(output, free.run(line).await.1);
    }
    let mode = fs::metadata(bound.path("folder")).unwrap().permissions();
    assert_eq!(mode.mode() & 0o777, 0o700);
}
