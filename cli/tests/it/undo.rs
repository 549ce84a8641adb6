//! Undo of file changes, by a user on the command line and by a host of the Agent SDKs.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use ah_testkit::script::{says, uses};
use ah_testkit::server::Server;
use serde_json::{Value, json};

use crate::sandbox::is_missing;
use crate::sdk::host::Host;
use crate::support::binary::World;
use crate::support::shown::shown;

/// A repository in which two runs changed files, tracked and untracked.
fn changed() -> World {
    let world = World::new();
    let script = world.write("run.sh", "echo one\necho two\n");
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    world.write("old.txt", "old\n");
    for arguments in [&["init", "-q"][..], &["add", "run.sh"]] {
        let mut git = Command::new("git");
        let done = git.args(arguments).current_dir(world.project());
        assert!(done.status().unwrap().success());
    }
    let edit = |old, new| {
        let input = json!({"path": "run.sh", "old_string": old, "new_string": new});
        uses("edit", input)
    };
    let first = [
        uses("read", json!({"path": "run.sh"})),
        edit("one", "1"),
        uses("write", json!({"path": "deep/new.txt", "content": "new\n"})),
        uses("bash", json!({"command": "echo more > old.txt"})),
        says("Done."),
    ];
    let second = [edit("two", "2"), says("Done again.")];
    for (name, turns) in [("first", &first[..]), ("second", &second)] {
        let model = world.scenario(name, turns.iter().cloned());
        let mode = ["--permission-mode", "bypassPermissions"];
        world
            .ah(["-m", &model].into_iter().chain(mode).chain(["Do it."]))
            .run()
            .expect(0);
    }
    world
}

fn run(world: &World, line: &str) -> String {
    format!(
        "$ ah {line}\n{}",
        shown(world, &world.ah(line.split(' ')).run())
    )
}

/// The content of the files that the runs changed.
fn state(world: &World) -> String {
    let text = |name: &str| fs::read_to_string(world.file(name)).ok();
    let script = fs::metadata(world.file("run.sh")).unwrap();
    format!(
        "{:?} {:?} {:?} {:o}",
        text("run.sh"),
        text("deep/new.txt"),
        text("old.txt"),
        script.permissions().mode() & 0o777
    )
}

/// A session that came from somebody else, or was changed by a program, undoes nothing unasked and finishes nothing.
#[test]
fn what_the_user_has_not_recorded_is_shown_and_not_obeyed() {
    let world = changed();
    let before = state(&world);
    let database = world.database();
    let id = database.file_stem().unwrap().to_str().unwrap();
    let stranger = |line: &str| {
        let ah = world.ah(["-r", id].into_iter().chain(line.split(' ')));
        ah.env("AH_HOME", world.home().join("other")).run()
    };
    let told = stranger("undo --dry-run").expect(0);
    assert!(
        told.stdout.contains("not recorded by you"),
        "{}",
        told.stdout
    );
    for line in ["undo", "undo --json", "restore @1"] {
        let ended = stranger(line);
        assert_ne!(ended.code, Some(0), "{line}");
        let told = ended.stderr;
        assert!(
            told.contains("not recorded by you") && told.contains("--dry-run"),
            "{line}: {told}"
        );
        assert_eq!(state(&world), before, "{line}");
    }
    // A control: the user's own record is obeyed.
    world.ah(["undo"]).run().expect(0);
    assert_ne!(state(&world), before);
    world.ah(["redo"]).run().expect(0);
    assert_eq!(state(&world), before);

    // An undo to the beginning that looks as if it had been cut off.
    let forged = "INSERT INTO file_steps SELECT 99, NULL, min(id), 0 FROM file_steps;
        INSERT INTO file_states SELECT 99, path, kind, mode, folders, hash, NULL FROM file_states
            WHERE step = (SELECT min(id) FROM file_steps);
        INSERT INTO file_notes SELECT 99, path, 9223372036854775807, NULL FROM file_states WHERE step = 99;";
    let database = rusqlite::Connection::open(&database).unwrap();
    database.execute_batch(forged).unwrap();
    drop(database);
    let model = world.scenario("third", [says("Hello."), says("Hello.")]);
    for line in [
        &["-c", "-m", &model, "go on"][..],
        &["-p", "-c", "-m", &model, "go on"],
        &["undo"],
    ] {
        let told = world.ah(line.iter().copied()).run().expect(0).stderr;
        let is_told = line.contains(&"-p") || told.contains("not completed");
        assert!(is_told, "{line:?}: {told}");
        assert_eq!(state(&world), before, "{line:?}");
    }
}

/// A user previews the changes, undoes them, and redoes them.
#[test]
fn what_tools_changed_is_taken_back_and_brought_forth() {
    let world = changed();
    let index = fs::read(world.file(".git/index")).unwrap();
    let end = state(&world);
    let told = [
        "diff",
        "undo --dry-run",
        "undo",
        "undo --dry-run",
        "undo",
        "undo",
        "redo",
        "redo",
        "redo",
        "undo --dry-run --json",
    ]
    .map(|line| {
        let before = state(&world);
        let told = run(&world, line);
        assert_eq!(
            before == state(&world),
            line.contains("diff") || line.contains("--dry-run") || told.contains("Nothing to")
        );
        told
    });
    assert_eq!(state(&world), end);
    assert_eq!(fs::read(world.file(".git/index")).unwrap(), index);
    insta::assert_snapshot!(told.join("\n"), @r#"
    $ ah diff
    stdout:
    --- /dev/null
    +++ b/deep/new.txt
    @@ -0,0 +1 @@
    +new
    --- a/old.txt
    +++ b/old.txt
    @@ -1 +1 @@
    -old
    +more
    --- a/run.sh
    +++ b/run.sh
    @@ -1,2 +1,2 @@
    -echo one
    -echo two
    +echo 1
    +echo 2
    exit code 0
    $ ah undo --dry-run
    stdout:
    restore run.sh (+1 -1)
    1 file would change
    exit code 0
    $ ah undo
    stdout:
    restore run.sh (+1 -1)
    1 file changed; `ah redo` reverses this
    exit code 0
    $ ah undo --dry-run
    stdout:
    remove deep/new.txt (+0 -1)
    restore old.txt (+1 -1)
    restore run.sh (+1 -1)
    3 files would change
    exit code 0
    $ ah undo
    stdout:
    remove deep/new.txt (+0 -1)
    restore old.txt (+1 -1)
    restore run.sh (+1 -1)
    3 files changed; `ah redo` reverses this
    exit code 0
    $ ah undo
    stdout:
    Nothing to undo.
    exit code 0
    $ ah redo
    stdout:
    recreate deep/new.txt (+1 -0)
    restore old.txt (+1 -1)
    restore run.sh (+1 -1)
    3 files changed; `ah undo` reverses this
    exit code 0
    $ ah redo
    stdout:
    restore run.sh (+1 -1)
    1 file changed; `ah undo` reverses this
    exit code 0
    $ ah redo
    stdout:
    Nothing to redo.
    exit code 0
    $ ah undo --dry-run --json
    stdout:
    {
      "dry_run": true,
      "changes": [
        {
          "path": "<project>/run.sh",
          "insertions": 1,
          "deletions": 1,
          "is_there": true
        }
      ],
      "left": [],
      "unseen": []
    }
    exit code 0
    "#);
    for _ in 0..2 {
        world.ah(["undo"]).run().expect(0);
    }
    insta::assert_snapshot!(state(&world), @r#"
    Some("echo one\necho two\n") None Some("old\n") 755
    "#);
    assert!(!world.file("deep").exists());
}

/// A host previews rewinding to a prompt, and rewinds; the prompt's id may be the host's own.
#[test]
fn a_host_rewinds_to_a_prompt() {
    let world = World::new();
    world.write("doc.txt", "version 1\n");
    let path = |name: &str| world.file(name).to_string_lossy().into_owned();
    let write =
        |name: &str, text: &str| uses("Write", json!({"file_path": path(name), "content": text}));
    let server = Server::new([
        uses("Read", json!({"file_path": path("doc.txt")})),
        write("doc.txt", "version 2\nand more\n"),
        write("new.txt", "new\n"),
        says("Done."),
        write("doc.txt", "version 3\n"),
        says("Done again."),
    ]);
    let arguments = ["--replay-user-messages", "--permission-mode", "acceptEdits"];
    let mut host = Host::new(&world, &server, &arguments);
    host.prompt("first");
    let replay = host.until(|line| line["isReplay"] == true);
    // Programs look for their prompt as they sent it, to learn its name.
    assert_eq!(replay["message"]["content"], "first");
    host.result();
    host.say(&json!({
        "type": "user",
        "uuid": "11111111-2222-4333-8444-555555555555",
        "message": {"role": "user", "content": "second"},
    }));
    host.result();
    let rewind = |host: &mut Host, to: &Value, dry_run| {
        let asked = json!({"user_message_id": to, "dry_run": dry_run});
        host.ask("rewind_files", &asked)["response"].clone()
    };
    let named = json!("11111111-2222-4333-8444-555555555555");
    let both = [json!(path("doc.txt")), json!(path("new.txt"))];
    assert_eq!(
        rewind(&mut host, &replay["uuid"], true),
        json!({"canRewind": true, "filesChanged": both, "insertions": 1, "deletions": 2})
    );
    assert_eq!(world.text("doc.txt"), "version 3\n");
    let answer = rewind(&mut host, &named, false);
    assert_eq!(answer["filesChanged"], json!([path("doc.txt")]));
    assert_eq!(world.text("doc.txt"), "version 2\nand more\n");
    let answer = rewind(&mut host, &replay["uuid"], false);
    assert_eq!(
        (&answer["canRewind"], &answer["skippedLinks"]),
        (&json!(true), &json!(0))
    );
    assert_eq!(world.text("doc.txt"), "version 1\n");
    assert!(!world.file("new.txt").exists());
    assert_eq!(
        rewind(&mut host, &json!("nobody"), true),
        json!({"canRewind": false, "error": "No file checkpoint found for message nobody"})
    );
    assert_eq!(host.end().code, Some(0));
    let nothing = world.ah(["undo"]).run().expect(0).stdout;
    assert_eq!(nothing, "Nothing to undo.\n");
    world.ah(["redo"]).run().expect(0);
    assert_eq!(world.text("doc.txt"), "version 2\nand more\n");
    // The same by the number of a message.
    let told = world.ah(["restore", "@1", "--dry-run"]).run().expect(0);
    assert!(told.stdout.contains("restore doc.txt"), "{}", told.stdout);
    assert_eq!(world.text("doc.txt"), "version 2\nand more\n");
    let told = world.ah(["restore", "@1"]).run().expect(0).stdout;
    assert!(
        told.ends_with("changed; `ah redo` reverses this\n"),
        "{told}"
    );
    assert_eq!(world.text("doc.txt"), "version 1\n");
    world.ah(["redo"]).run().expect(0);
    assert_eq!(world.text("doc.txt"), "version 2\nand more\n");
    let missing = world.ah(["restore", "@99"]).run().expect(1).stderr;
    assert!(
        missing.contains("message not found on this branch: @99"),
        "{missing}"
    );
}

#[test]
fn all_sessions_of_a_project_keep_no_more_than_the_setting_says() {
    if is_missing() {
        return;
    }
    let world = World::new();
    let settings = world.home().join(".ah/settings.json");
    fs::create_dir_all(settings.parent().unwrap()).unwrap();
    fs::write(&settings, json!({"undoMegabytes": 5}).to_string()).unwrap();
    let collected = || -> serde_json::Value {
        let ended = world.ah(["gc", "--json"]).run().expect(0);
        serde_json::from_str(&ended.stdout).unwrap()
    };
    for (number, kept) in [(1, 3), (2, 3)] {
        let name = format!("big-{number}");
        world.write(&name, vec![b'a' + number; kept << 20]);
        let model = world.scenario(
            "s",
            [
                uses("bash", json!({"command": format!("echo > {name}")})),
                says("Done."),
            ],
        );
        world
            .ah(["-m", &model, "-n", "--sandbox", "go"])
            .run()
            .expect(0);
    }
    // The older one gives way.
    assert_eq!(
        collected()["undo"],
        json!({"kept": 3 << 20, "dropped": 3 << 20})
    );
    assert_eq!(collected()["undo"], json!({"kept": 3 << 20, "dropped": 0}));
    world.ah(["undo"]).run().expect(0);
    assert_eq!(fs::metadata(world.file("big-2")).unwrap().len(), 3 << 20);
    // A session that begins drops what is too much by then. What is left is what the undo took back.
    fs::write(&settings, json!({"undoMegabytes": 1}).to_string()).unwrap();
    let model = world.scenario("s", [says("Done.")]);
    world.ah(["-m", &model, "-n", "go"]).run().expect(0);
    assert_eq!(collected()["undo"], json!({"kept": 1, "dropped": 0}));
}
