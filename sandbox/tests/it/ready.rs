//! A launcher gets the sandbox ready before there is a command, which finds the project as it is by then.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{Read as _, Seek as _};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use ah_sandbox::{
    Allowlist, Bounds, Child, Confinement, Grant, Invocation, Proxy, Sandbox, SetupError, Streams,
    Terminal, Tier,
};
use tempfile::TempDir;

use crate::attacks::ordinary_user;
use crate::tiers::strongest;

/// Longest wait for a launcher.
const HANG: Duration = Duration::from_secs(60);
/// Protected files of the project: at its top, in a folder, and two that are missing.
const TOP: &str = ".vscode/settings.json";
const BELOW: &str = "sub/.vscode/settings.json";
const MISSING: &str = ".mcp.json";
const MISSING_BELOW: &str = "sub/.mcp.json";
/// Files of a folder that commands can read, and those that are hidden there.
const DATA: [&str; 4] = ["a", "b", "sub/c", "deep/down/d"];
const HIDDEN: [&str; 4] = ["secret", "sub/key", "deep/down/key", BESIDE];
/// One in a folder that commands cannot read.
const BESIDE: &str = "../beside/key";
/// What a person wrote, and later wrote.
const FIRST: &str = "first";
const SECOND: &str = "second";

/// A project with its sandbox.
pub(crate) struct Project {
    pub(crate) at: PathBuf,
    sandbox: Sandbox,
    /// Folder around it, which the sandbox does not show.
    around: TempDir,
}

impl Project {
    pub(crate) fn new() -> Self {
        Self::of(Tier::Full)
    }

    pub(crate) fn of(tier: Tier) -> Self {
        let around = TempDir::with_prefix("ah-ready-").unwrap();
        let root = fs::canonicalize(around.path()).unwrap();
        let at = root.join("project");
        for path in [TOP, BELOW] {
            fs::create_dir_all(at.join(path).parent().unwrap()).unwrap();
            fs::write(at.join(path), FIRST).unwrap();
        }
        for name in ["home", "kept"] {
            fs::create_dir(root.join(name)).unwrap();
        }
        let data = root.join("data");
        for name in DATA.iter().chain(&HIDDEN) {
            let path = data.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, name).unwrap();
        }
        let mut confinement = Confinement::new(at.clone(), Some(root.join("home")));
        confinement.tier = tier;
        confinement.hidden = HIDDEN.map(|name| data.join(name)).to_vec();
        let access = "r".parse().unwrap();
        confinement.grants = vec![Grant { path: data, access }];
        confinement.protect_names([".vscode", ".mcp.json"], &at);
        let launcher = env!("CARGO_BIN_EXE_attack").into();
        let sandbox = Sandbox::new(confinement, Proxy::new(Allowlist::default()), launcher);
        let sandbox = sandbox.with_scratch(&root.join("kept"), ()).unwrap();
        Self {
            at,
            sandbox,
            around,
        }
    }

    /// Runs a command, and returns what it wrote.
    pub(crate) fn run(&self, command: &str) -> String {
        self.try_to_run(command).unwrap()
    }

    /// Runs a command if the project holds still long enough.
    pub(crate) fn try_to_run(&self, command: &str) -> Result<String, SetupError> {
        let output = self.around.path().join("output");
        let mut child = self.start(command, File::create(&output).unwrap())?;
        child.process.wait().unwrap();
        child.guard.quarantine();
        Ok(fs::read_to_string(output).unwrap())
    }

    /// Starts a command that writes to this file.
    pub(crate) fn start(&self, command: &str, file: File) -> Result<Child, SetupError> {
        self.start_within(command, file, None)
    }

    /// The same within bounds.
    pub(crate) fn start_within(
        &self,
        command: &str,
        file: File,
        bounds: Option<Bounds>,
    ) -> Result<Child, SetupError> {
        let arguments = ["-c", command].map(OsString::from);
        let streams = Streams {
            stdin: OwnedFd::from(File::open("/dev/null").unwrap()),
            stdout: file.try_clone().unwrap().into(),
            stderr: file.into(),
        };
        let invocation = Invocation {
            program: "sh".as_ref(),
            arguments: &arguments,
            cwd: &self.at,
            environment: ah_sandbox::variables(std::env::vars(), &[], self.sandbox.proxy_port()),
            streams,
            terminal: Terminal::None,
            bounds,
        };
        self.sandbox.spawn(invocation)
    }

    /// Waits until a launcher of this process has everything ready: the process inside has its filter and has forked the
    /// one that becomes the command, which is last. Returns the three.
    pub(crate) fn until_ready(&self) -> [String; 3] {
        let filtered = |pid: &String| {
            let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
            status.lines().any(|line| line == "Seccomp:\t2")
        };
        let find = || {
            self.launchers().into_iter().find_map(|launcher| {
                let inside = children(&launcher).into_iter().find(filtered)?;
                let command = children(&inside).into_iter().next()?;
                Some([launcher, inside, command])
            })
        };
        wait_for("no launcher is ready", find)
    }

    /// Returns the launchers of this project.
    pub(crate) fn launchers(&self) -> Vec<String> {
        let workspace = self.at.to_str().unwrap();
        let is_own = |pid: &String| {
            let line = fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            line.contains(workspace)
        };
        children("self").into_iter().filter(is_own).collect()
    }
}

/// Waits until something is found.
pub(crate) fn wait_for<T>(or: &str, find: impl Fn() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(found) = find() {
            return found;
        }
        assert!(began.elapsed() < HANG, "{or}");
        thread::yield_now();
    }
}

/// Returns the child processes of all threads of a process.
pub(crate) fn children(pid: &str) -> Vec<String> {
    let threads = fs::read_dir(format!("/proc/{pid}/task"))
        .into_iter()
        .flatten();
    let lists = threads
        .flatten()
        .map(|thread| thread.path().join("children"));
    let lists = lists.filter_map(|list| fs::read_to_string(list).ok());
    lists
        .flat_map(|list| {
            list.split_whitespace()
                .map(str::to_owned)
                .collect::<Vec<_>>()
        })
        .collect()
}

/// Returns whether this machine has no sandbox with mounts. CI has one.
pub(crate) fn is_missing() -> bool {
    let is_missing = strongest("this", ordinary_user()).as_deref() != Some("full");
    let is_ci = std::env::var_os("CI").is_some();
    assert!(!(is_missing && is_ci), "no sandbox, though CI is set");
    is_missing
}

/// Replaces a file as editors do.
fn replace(path: &Path, text: &str) {
    let draft = path.with_extension("draft");
    fs::write(&draft, text).unwrap();
    fs::rename(draft, path).unwrap();
}

/// What somebody does between two commands; the files that are protected afterwards, each with its content, and `None`
/// for a missing one.
type Change = (
    &'static str,
    fn(&Path),
    &'static [(&'static str, Option<&'static str>)],
);

const CHANGES: &[Change] = &[
    ("nothing", |_| (), &[(TOP, Some(FIRST)), (MISSING, None)]),
    (
        "writes a protected file",
        |at| fs::write(at.join(TOP), SECOND).unwrap(),
        &[(TOP, Some(SECOND)), (BELOW, Some(FIRST))],
    ),
    (
        "puts another in its place",
        |at| replace(&at.join(TOP), SECOND),
        &[(TOP, Some(SECOND))],
    ),
    (
        "does so in a folder below, several times",
        |at| (0..4).for_each(|_| replace(&at.join(BELOW), SECOND)),
        &[(BELOW, Some(SECOND)), (TOP, Some(FIRST))],
    ),
    (
        "puts another folder in the place of the one around it",
        |at| {
            fs::rename(at.join("sub"), at.join("away")).unwrap();
            fs::create_dir_all(at.join("sub/.vscode")).unwrap();
            fs::write(at.join(BELOW), SECOND).unwrap();
        },
        &[
            (BELOW, Some(SECOND)),
            ("away/.vscode/settings.json", Some(FIRST)),
        ],
    ),
    (
        "moves the folder around it away and back",
        |at| {
            fs::rename(at.join("sub"), at.join("away")).unwrap();
            fs::create_dir_all(at.join("sub/.vscode")).unwrap();
            fs::remove_dir_all(at.join("sub")).unwrap();
            fs::rename(at.join("away"), at.join("sub")).unwrap();
        },
        &[(BELOW, Some(FIRST)), (MISSING_BELOW, None)],
    ),
    (
        "removes it",
        |at| fs::remove_dir_all(at.join(".vscode")).unwrap(),
        &[(TOP, None), (BELOW, Some(FIRST))],
    ),
    (
        "makes one that was missing",
        |at| fs::write(at.join(MISSING), FIRST).unwrap(),
        &[(MISSING, Some(FIRST)), (TOP, Some(FIRST))],
    ),
    (
        "puts a link in its place",
        |at| {
            fs::remove_dir_all(at.join(".vscode")).unwrap();
            symlink("sub/.vscode", at.join(".vscode")).unwrap();
        },
        &[(TOP, Some(FIRST)), (BELOW, Some(FIRST))],
    ),
    (
        "puts another project in the place of this",
        |at| {
            fs::rename(at, at.with_file_name("old")).unwrap();
            fs::create_dir_all(at.join(TOP).parent().unwrap()).unwrap();
            fs::write(at.join(TOP), SECOND).unwrap();
        },
        &[(TOP, Some(SECOND)), (BELOW, None)],
    ),
];

/// Makes a change between two commands, and lets the second one write all that is protected.
fn play((what, change, expected): &Change, is_ready: bool) {
    let project = Project::new();
    assert_eq!(project.run("echo one"), "one\n");
    if is_ready {
        project.until_ready();
    }
    change(&project.at);
    let what = format!("somebody {what}, ready: {is_ready}");
    for (path, content) in *expected {
        let seen = project.run(&format!("cat {path}"));
        if let Some(content) = content {
            assert_eq!(seen, *content, "{what}: {path} is seen");
        }
        project.run(&format!(
            "mkdir -p $(dirname {path}); echo evil > {path}; echo evil >> {path}; \
             echo evil > x; mv x {path}; rm -f {path}; ln x {path}"
        ));
        let found = fs::read_to_string(project.at.join(path)).ok();
        assert_eq!(found.as_deref(), *content, "{what}: {path} is left alone");
    }
}

#[test]
fn what_changed_since_it_was_ready_is_protected() {
    if is_missing() {
        return;
    }
    for change in CHANGES {
        for is_ready in [true, false] {
            play(change, is_ready);
        }
    }
}

/// A command swaps a folder with a protected file for another one while the next launcher gets ready; the command after
/// it must not find the file writable.
#[test]
fn a_command_that_swaps_folders_meanwhile_gains_nothing() {
    if is_missing() {
        return;
    }
    let project = Project::new();
    let below = project.at.join(BELOW);
    let mut original = File::open(&below).unwrap();
    let number = original.metadata().unwrap().ino();
    for _ in 0..20 {
        project.run("mkdir -p other/.vscode; echo evil > other/.vscode/settings.json");
        let swap = "mv -T sub away; mv -T other sub; mv -T sub other; mv -T away sub";
        thread::scope(|scope| {
            scope.spawn(|| project.run(&format!("for i in $(seq 30); do {swap}; done")));
            let _ = project.try_to_run("true");
        });
        // The loop may have ended in between, and what it left may have been moved aside.
        let moved = find(&project.at, number).expect("the file is in the project");
        if moved != below {
            let _ = fs::remove_file(&below);
            fs::create_dir_all(below.parent().unwrap()).unwrap();
            fs::rename(moved, &below).unwrap();
        }
        project.run(&format!("echo evil > {BELOW}"));
        let mut found = String::new();
        original.rewind().unwrap();
        original.read_to_string(&mut found).unwrap();
        assert_eq!(found, FIRST);
    }
}

/// Does something to the files that commands can read, chosen by a number.
fn stir(data: &Path, number: u64) {
    let mut names: Vec<_> = DATA.iter().chain(&HIDDEN).copied().collect();
    names.extend(["new", "sub/new", "sub", "deep", "deep/down"]);
    let name = |number: u64| data.join(names[usize::try_from(number).unwrap() % names.len()]);
    let (from, to) = (name(number / 8), name(number / 128));
    let beside = data.join(BESIDE);
    // Much of it is not possible.
    let _ = match number % 8 {
        0..3 => fs::rename(from, to),
        3..5 => fs::hard_link(from, to),
        5 => fs::remove_file(from),
        6 => {
            fs::write(data.join("draft"), "draft").and_then(|()| fs::rename(data.join("draft"), to))
        }
        _ => fs::remove_file(&beside).and_then(|()| fs::hard_link(from, beside)),
    };
}

/// Returns the number of a command, and what it can read of them.
fn readable(project: &Project) -> (String, String) {
    let data = project.around.path().canonicalize().unwrap().join("data");
    let said = project.run(&format!(
        "echo $$; cd {}; find . -type f | sort | while read f; do echo $f $(cat $f 2> /dev/null); done",
        data.display()
    ));
    let (number, read) = said.split_once('\n').unwrap();
    (number.to_owned(), read.to_owned())
}

/// A command may read as much as if its launcher had been made for it.
#[test]
fn what_changed_since_it_was_ready_can_be_read_as_by_a_new_one() {
    if is_missing() {
        return;
    }
    let mut random = 1_u64;
    let mut next = || {
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        random >> 33
    };
    let projects: Vec<_> = (0..32).map(|_| Project::of(Tier::Landlock)).collect();
    // A folder that has just changed may change again at the same time.
    let settled = Instant::now() + Duration::from_millis(2100);
    wait_for("time stands still", || {
        (Instant::now() > settled).then_some(())
    });
    let mut used = 0;
    for (at, project) in projects.iter().enumerate() {
        project.run("true");
        let [.., command] = project.until_ready();
        let data = project.around.path().join("data");
        let changes: Vec<_> = match at {
            // No folder that can be read is another one after it.
            1 => vec![7],
            _ => (0..at.div_ceil(4)).map(|_| next()).collect(),
        };
        changes.iter().for_each(|number| stir(&data, *number));
        let (number, read) = readable(project);
        used += usize::from(number == command);
        assert_eq!(read, readable(project).1, "{changes:?}");
    }
    // Where nothing was changed, it is used.
    assert!((1..projects.len()).contains(&used), "{used}");
}

/// Returns the path below a folder of the file with this inode number.
fn find(folder: &Path, number: u64) -> Option<PathBuf> {
    let entries = fs::read_dir(folder).ok()?.flatten();
    entries.map(|entry| entry.path()).find_map(|path| {
        let found = fs::symlink_metadata(&path).ok()?;
        if found.is_dir() {
            return find(&path, number);
        }
        (found.ino() == number).then_some(path)
    })
}

/// Set in the process that has mounts of its own.
const INSIDE: &str = "AH_TEST_OWN_MOUNTS";

#[test]
fn what_few_may_read_outside_is_an_error_within() {
    if is_missing() {
        return;
    }
    let said = Project::new().run("ls /etc/shadow && cat /etc/shadow 2> /dev/null || echo refused");
    assert_eq!(said, "/etc/shadow\nrefused\n");
}

#[test]
fn the_next_command_sees_what_was_mounted_since() {
    if std::env::var_os(INSIDE).is_none() {
        if is_missing() {
            return;
        }
        let name = "ready::the_next_command_sees_what_was_mounted_since";
        let inner = Command::new("unshare")
            .args(["-U", "-r", "-m"])
            .arg(std::env::current_exe().unwrap())
            .args(["--exact", name, "--nocapture"])
            .env(INSIDE, "1")
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&inner.stdout);
        assert!(
            said.contains("1 passed"),
            "{said}\n{}",
            String::from_utf8_lossy(&inner.stderr)
        );
        return;
    }
    let project = Project::new();
    project.run("true");
    project.until_ready();
    let late = project.at.join("late");
    fs::create_dir(&late).unwrap();
    let mounted = Command::new("mount")
        .args(["-t", "tmpfs", "none"])
        .arg(&late)
        .status();
    assert!(mounted.unwrap().success());
    fs::write(late.join("file"), "mounted since").unwrap();
    assert_eq!(project.run("cat late/file"), "mounted since");
}
