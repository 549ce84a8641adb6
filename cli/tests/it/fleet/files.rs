//! The files of sessions that go from machine to machine. A machine is a home of its own.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use ah_testkit::git::git;
use ah_testkit::script::{says, uses};
use rustix::process::Signal;
use serde_json::json;

use super::Fleet;
use crate::support::binary::Ah;

/// All files below a folder but those of git and of sessions: kind and mode, and content.
fn files(folder: &Path) -> BTreeMap<PathBuf, (String, Vec<u8>)> {
    fn collect(top: &Path, below: &Path, found: &mut BTreeMap<PathBuf, (String, Vec<u8>)>) {
        for entry in fs::read_dir(top.join(below)).unwrap() {
            let entry = entry.unwrap();
            let path = below.join(entry.file_name());
            let metadata = fs::symlink_metadata(entry.path()).unwrap();
            if metadata.is_dir() {
                if entry.file_name() != ".git" && entry.file_name() != ".ah" {
                    collect(top, &path, found);
                }
            } else if metadata.is_symlink() {
                let target = fs::read_link(entry.path()).unwrap();
                let target = target.into_os_string().into_encoded_bytes();
                found.insert(path, ("link".to_owned(), target));
            } else {
                let mode = metadata.permissions().mode() & 0o100;
                let content = fs::read(entry.path()).unwrap();
                found.insert(path, (format!("file {mode:o}"), content));
            }
        }
    }
    let mut found = BTreeMap::new();
    collect(folder, Path::new(""), &mut found);
    found
}

/// Makes the project a clone with a commit that the remote lacks, and files of all kinds that no commit has.
fn prepare(fleet: &Fleet) {
    let project = fleet.world.project();
    let remote = project.with_file_name("remote.git");
    git(
        project.parent().unwrap(),
        &["init", "--quiet", "--bare", "-b", "main", "remote.git"],
    );
    git(&project, &["init", "--quiet", "-b", "main"]);
    fleet.world.write("kept.txt", "one\ntwo\n");
    fleet.world.write("gone.txt", "will be deleted\n");
    fleet.world.write("dos.txt", "a\r\nb\r\n");
    fleet.world.write(
        ".gitattributes",
        "*.txt text eol=lf\n*.x filter=evil ident\n",
    );
    fleet.world.write(".gitignore", "ignored/\n.ah/\n");
    git(&project, &["add", "-A"]);
    git(&project, &["commit", "--quiet", "-m", "first"]);
    git(
        &project,
        &["remote", "add", "origin", remote.to_str().unwrap()],
    );
    git(&project, &["push", "--quiet", "origin", "main"]);
    fleet
        .world
        .write("local.txt", "in a commit of this machine\n");
    git(&project, &["add", "-A"]);
    git(&project, &["commit", "--quiet", "-m", "second"]);
    fleet.world.write("kept.txt", "one\nchanged\n");
    fs::remove_file(fleet.world.file("gone.txt")).unwrap();
    fleet.world.write("new/deep.bin", [0, 255, 10, 13, 0]);
    fleet.world.write("named.x", "$Id$\n");
    let script = fleet.world.write("run.sh", "#!/bin/sh\n");
    fs::set_permissions(script, fs::Permissions::from_mode(0o755)).unwrap();
    symlink("kept.txt", fleet.world.file("link")).unwrap();
    symlink("/nowhere", fleet.world.file("dangling")).unwrap();
    fleet.world.write("ignored/secret", "stays");
}

/// A machine: a home, and nothing of the project. The user's own folder is shared, since a folder's queue is there.
fn on(fleet: &Fleet, machine: &str, ah: Ah) -> Ah {
    let root = fleet.world.project().with_file_name(machine);
    fs::create_dir_all(&root).unwrap();
    ah.env("HOME", root)
        .env("AH_HOME", fleet.world.home().join(".ah"))
}

fn workspace(fleet: &Fleet, machine: &str, session: &str) -> PathBuf {
    let root = fleet.world.project().with_file_name(machine);
    root.join(".local/state/ah/workspaces")
        .join(session)
        .join("files")
}

/// A scenario that changes, adds and commits files, waits for `wait` with `.go`, changes files again and writes `wait`, and
/// goes on.
fn changes(fleet: &Fleet, wait: Option<&Path>) -> String {
    let commit = "git -c user.name=M -c user.email=m@example.org commit -qam third";
    let first = format!(
        "echo first > made; rm local.txt; echo more >> kept.txt; {commit}; git rev-parse HEAD"
    );
    let mut turns = vec![uses("bash", json!({"command": first}))];
    if let Some(wait) = wait {
        let stuck = format!(
            "until [ -e {0}.go ]; do sleep 0.05; done; echo lost > lost; echo > {0}; sleep 600",
            wait.display()
        );
        turns.push(uses("bash", json!({"command": stuck})));
    }
    turns.push(uses(
        "bash",
        json!({"command": "cat made; ls; printf '\\000\\377' > second.bin"}),
    ));
    // For the run, and for one after it.
    turns.extend([says("Done."), says("Done.")]);
    let scenario = serde_json::to_string(&ah_testkit::script::scenario(turns)).unwrap();
    let path = fleet.world.project().with_file_name("model.json");
    fs::write(&path, scenario).unwrap();
    format!("script:{}", path.display())
}

/// Returns the files and folders at `path` and below that other users can read.
fn readable_by_others(path: &Path) -> Vec<PathBuf> {
    let mode = fs::metadata(path).unwrap().permissions().mode();
    let mut found = Vec::from_iter((mode & 0o077 != 0).then(|| path.to_owned()));
    if path.is_dir() {
        for entry in fs::read_dir(path).unwrap() {
            found.extend(readable_by_others(&entry.unwrap().path()));
        }
    }
    found
}

#[test]
fn files_go_to_another_machine_and_come_home() {
    for fleet in Fleet::all() {
        prepare(&fleet);
        let model = changes(&fleet, None);
        let before = files(&fleet.world.project());
        let ended = fleet
            .ah(&["enqueue", "-m", &model, "--carry", "make it"])
            .run()
            .expect(0);
        let session = ended.stdout.trim();
        assert!(
            ended.stderr.contains("left behind: ignored: `"),
            "{}",
            ended.stderr
        );
        assert!(
            ended.stderr.contains("other machines must reach"),
            "{}",
            ended.stderr
        );
        assert_eq!(files(&fleet.world.project()), before, "it only looks");

        on(&fleet, "second", fleet.ah(&["worker", "--until-idle"]))
            .run()
            .expect(0);
        let watched = fleet.watch(session);
        assert!(watched.ends_with("Done.\n"), "{watched}");
        assert_eq!(
            files(&fleet.world.project()),
            before,
            "the folder is the user's"
        );
        let made = workspace(&fleet, "second", session);
        let mut there = files(&made);
        assert!(there.contains_key(Path::new("second.bin")));
        assert!(!there.contains_key(Path::new("ignored/secret")));
        assert_eq!(there[Path::new("named.x")], before[Path::new("named.x")]);
        assert_eq!(there[Path::new("dos.txt")], before[Path::new("dos.txt")]);
        let head = git(&made, &["rev-parse", "HEAD"]);

        // Home: the folder is as the session left it, so it may be brought up to date.
        // Cut off when the files are there and the session is not, it is finished by the same command.
        let cut_off = fleet.ah(&["move", session]).env("AH_FAULT", "before:1");
        assert!(cut_off.run().signal.is_some());
        assert_eq!(fleet.world.databases(), Vec::<PathBuf>::new());
        fleet.ah(&["move", session]).run().expect(0);
        there.insert(
            "ignored/secret".into(),
            before[Path::new("ignored/secret")].clone(),
        );
        assert_eq!(files(&fleet.world.project()), there);
        let project = fleet.world.project();
        assert_eq!(git(&project, &["rev-parse", "main"]), head);
        assert_eq!(
            git(&project, &["log", "--format=%s"]),
            "third\nsecond\nfirst"
        );
        let status = git(
            &project,
            &[
                "status",
                "--porcelain",
                "gone.txt",
                "local.txt",
                "second.bin",
            ],
        );
        assert_eq!(status, "?? second.bin");
        // The session is here alone.
        assert_eq!(fleet.runs().len(), 0);
        let database = fleet.world.database();
        assert_eq!(database.file_stem().unwrap().to_str(), Some(session));
        let resumed = ["-r", session, "-m", &model, "go on"];
        fleet.ah(&resumed).run().expect(0);
    }
}

/// Ends a worker in the midst of a command and lets another machine finish the run; returns the conversation and the files
/// there.
fn taken_over(fleet: &Fleet, signal: Signal) -> (String, BTreeMap<PathBuf, (String, Vec<u8>)>) {
    prepare(fleet);
    let wait = fleet.world.project().with_file_name("stuck");
    let model = changes(fleet, Some(&wait));
    let ended = fleet
        .ah(&["enqueue", "-m", &model, "--carry", "make it"])
        .run()
        .expect(0);
    let session = ended.stdout.trim();
    let worker = on(fleet, "second", fleet.ah(&["worker"])).start();
    let made = workspace(fleet, "second", session);
    let kept = made.with_file_name("git");
    ah_testkit::wait::until("a layer with what the first command made", || {
        let shown = Command::new("git")
            .arg(format!("--git-dir={}", kept.display()))
            .args(["show", "refs/ah/here:made"])
            .output();
        shown.unwrap().stdout == b"first\n"
    });
    fs::write(wait.with_extension("go"), "").unwrap();
    crate::support::binary::wait_for_file(&wait);
    let head = git(&made, &["rev-parse", "HEAD"]);
    worker.signal(signal);
    worker.wait();
    on(fleet, "third", fleet.ah(&["worker", "--until-idle"]))
        .run()
        .expect(0);
    let watched = fleet.watch(session);
    assert!(watched.ends_with("Done.\n"), "{watched}");
    let made = workspace(fleet, "third", session);
    assert_eq!(git(&made, &["rev-parse", "HEAD"]), head);
    let there = files(&made);
    assert_eq!(there[Path::new("made")].1, b"first\n");
    assert!(there.contains_key(Path::new("second.bin")));
    (watched, there)
}

#[test]
fn a_worker_elsewhere_goes_on_with_the_last_layer() {
    for fleet in Fleet::all() {
        let (watched, there) = taken_over(&fleet, Signal::KILL);
        assert!(watched.contains("as they were some steps ago"), "{watched}");
        assert!(!there.contains_key(Path::new("lost")));
    }
}

#[test]
fn what_a_call_has_told_is_in_the_files_of_the_next_worker() {
    const CALLS: usize = 12;
    for (seed, fleet) in Fleet::all().into_iter().enumerate() {
        fleet.world.write("kept.txt", "kept");
        let line = |n: usize| format!("echo line{n} >> log");
        let turns = (1..=CALLS).map(|n| uses("bash", json!({"command": line(n)})));
        let turns = turns.chain([says("Done.")]);
        let model = fleet.world.project().with_file_name("model.json");
        let scenario = serde_json::to_string(&ah_testkit::script::scenario(turns)).unwrap();
        fs::write(&model, scenario).unwrap();
        let model = format!("script:{}", model.display());
        let ended = fleet
            .ah(&["enqueue", "-m", &model, "--carry", "count"])
            .run()
            .expect(0);
        let session = ended.stdout.trim();
        // Wherever in a call it ends: each machine makes the files anew.
        for machine in 0..3 {
            let name = format!("machine{machine}");
            let worker = on(&fleet, &name, fleet.ah(&["worker"])).start();
            let log = workspace(&fleet, &name, session).join("log");
            let until = 2 + machine * 3 + seed;
            ah_testkit::wait::until("some lines", || {
                fs::read_to_string(&log).is_ok_and(|text| text.lines().count() >= until)
            });
            worker.signal(Signal::KILL);
            worker.wait();
        }
        on(&fleet, "last", fleet.ah(&["worker", "--until-idle"]))
            .run()
            .expect(0);
        let watched = fleet.watch(session);
        assert!(watched.ends_with("Done.\n"), "{watched}");
        let log = fs::read_to_string(workspace(&fleet, "last", session).join("log")).unwrap();
        let shown: Vec<_> = watched.lines().collect();
        let mut cut_off = 0;
        for number in 1..=CALLS {
            let call = format!("echo line{number} >>");
            let at = shown.iter().position(|line| line.contains(&call)).unwrap();
            let is_done = !shown[at + 1].contains("may have run");
            cut_off += usize::from(!is_done);
            let is_there = log.lines().any(|line| line == format!("line{number}"));
            assert!(is_there || !is_done, "{number}: {log}\n{watched}");
        }
        assert!(cut_off <= 3, "{watched}");
    }
}

#[test]
fn a_worker_that_is_terminated_hands_on_all_files() {
    for fleet in Fleet::all() {
        let (watched, there) = taken_over(&fleet, Signal::TERM);
        assert!(
            !watched.contains("as they were some steps ago"),
            "{watched}"
        );
        assert_eq!(there[Path::new("lost")].1, b"lost\n");
    }
}

#[test]
fn a_session_goes_into_a_file_and_comes_out_of_it() {
    // Where a store is set, it is looked for in the folder, too.
    for fleet in &Fleet::all() {
        goes_into_a_file_and_comes_out_of_it(fleet);
    }
}

fn goes_into_a_file_and_comes_out_of_it(fleet: &Fleet) {
    prepare(fleet);
    let model = changes(fleet, None);
    let arguments = [
        "-m",
        &model,
        "--no-sandbox",
        "--dangerously-skip-permissions",
        "make it",
    ];
    fleet.world.as_typed(arguments).run().expect(0);
    let database = fleet.world.database();
    let session = database.file_stem().unwrap().to_str().unwrap().to_owned();
    let before = files(&fleet.world.project());
    fleet
        .ah(&["move", &session, "--to", "../it.session"])
        .run()
        .expect(0);
    assert_eq!(fleet.world.databases(), Vec::<PathBuf>::new());
    assert_eq!(files(&fleet.world.project()), before);
    let packed = fleet.world.project().with_file_name("it.session");
    assert_eq!(readable_by_others(&packed), Vec::<PathBuf>::new());

    let file = fleet.world.project().with_file_name("it.session");
    let content = fs::read(&file).unwrap();
    // A file that was changed anywhere is refused, and nothing is made of it.
    for place in (0..content.len()).step_by(content.len() / 40) {
        let mut changed = content.clone();
        changed[place] ^= 0x41;
        let hostile = file.with_file_name("hostile.session");
        fs::write(&hostile, changed).unwrap();
        let ended = fleet
            .ah(&["move", "../hostile.session", "--folder", "../unpacked"])
            .run();
        if ended.without_panic().code == Some(0) {
            // Padding.
            fs::remove_dir_all(file.with_file_name("unpacked")).unwrap();
        }
    }
    let _ = fs::remove_dir_all(file.with_file_name("unpacked"));
    on(
        fleet,
        "second",
        fleet.ah(&["move", "../it.session", "--folder", "../unpacked"]),
    )
    .run()
    .expect(0);
    assert!(!file.exists(), "it was moved");
    let mut there = before.clone();
    there.remove(Path::new("ignored/secret"));
    let unpacked = file.with_file_name("unpacked");
    assert_eq!(files(&unpacked), there);
    assert!(unpacked.join(format!(".ah/{session}.db")).exists());
    assert_eq!(
        readable_by_others(&unpacked.join(".ah")),
        Vec::<PathBuf>::new()
    );
    assert!(unpacked.join(".ah/.gitignore").exists());
    // Back, into a folder that has what it had then; other files are not overwritten.
    let moved = on(
        fleet,
        "second",
        fleet.ah(&["move", &session, "--to", "../it.session"]),
    );
    moved.within(&unpacked).run().expect(0);
    fleet.world.write("kept.txt", "mine");
    let refused = fleet.ah(&["move", "../it.session"]).run().expect(1);
    assert!(refused.stderr.contains("differ from those of the session"));
    assert!(!fleet.world.file(".ah/coming").exists());
    fs::rename(&file, fleet.world.file("it.session")).unwrap();
    let refused = fleet.ah(&["move", "it.session"]).run().expect(1);
    let hint = "/it.session` is one; move it out of the folder first";
    assert!(refused.stderr.contains(hint), "{}", refused.stderr);
    fs::rename(fleet.world.file("it.session"), &file).unwrap();
    assert_eq!(fleet.world.text("kept.txt"), "mine");
    fleet
        .world
        .write("kept.txt", &before[Path::new("kept.txt")].1);
    fleet.ah(&["move", "../it.session"]).run().expect(0);
    assert_eq!(files(&fleet.world.project()), before);
    assert_eq!(fleet.world.database(), database);
}

#[test]
fn a_session_goes_into_a_store_and_comes_back_with_all_that_it_has() {
    for fleet in Fleet::all()
        .into_iter()
        .filter(|fleet| fleet.store.is_some())
    {
        prepare(&fleet);
        let big = uses("bash", json!({"command": "seq 1 100000"}));
        let told = fleet.world.project().with_file_name("told.json");
        let turns = [big, says("Counted."), says("Once more.")];
        let scenario = serde_json::to_string(&ah_testkit::script::scenario(turns)).unwrap();
        fs::write(&told, scenario).unwrap();
        let model = format!("script:{}", told.display());
        let before = files(&fleet.world.project());
        fleet.ah(&["-m", &model, "count"]).run().expect(0);
        let session = fleet.world.database();
        let session = session.file_stem().unwrap().to_str().unwrap().to_owned();
        let store = fleet.store.clone().unwrap();
        fleet
            .ah(&["move", &session, "--to", &store])
            .run()
            .expect(0);
        assert_eq!(fleet.world.databases(), Vec::<PathBuf>::new());
        let watched = fleet.watch(&session);
        assert!(watched.contains("> count\n"), "{watched}");
        assert!(watched.ends_with("Counted.\n"), "{watched}");
        let more = ["enqueue", "--session", &session, "-m", &model, "again"];
        fleet.ah(&more).run().expect(0);
        on(&fleet, "second", fleet.ah(&["worker", "--until-idle"]))
            .run()
            .expect(0);
        assert!(fleet.watch(&session).ends_with("Once more.\n"));
        fleet.ah(&["move", &session]).run().expect(0);
        assert_eq!(files(&fleet.world.project()), before);
        let database = fleet.world.database();
        let outputs = database.with_extension("out");
        let largest = fs::read_dir(outputs).unwrap().flatten();
        let sizes = largest.map(|entry| entry.metadata().unwrap().len());
        assert!(sizes.max() > Some(500_000), "the full output is there");
        fleet.ah(&["watch", &session]).run().expect(1);
    }
}
