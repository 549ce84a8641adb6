//! Choice of the session, its lifecycle, and its files.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use ah_provider::script::format::Turn;
use ah_testkit::script::{says, uses};
use rusqlite::Connection;
use serde_json::{Value, json};

use crate::support::binary::{Ended, World};
use crate::support::shown::{shown, steady};

/// A model that repeats the prompts of the session.
fn echo() -> Turn {
    Turn {
        repeat: Some(20),
        ..says("<{{user}}>")
    }
}

/// A world with several sessions, listed by their prompts.
struct Talks {
    world: World,
    model: String,
}

impl Talks {
    fn new() -> Self {
        let world = World::new();
        let model = world.scenario("s", [echo()]);
        Self { world, model }
    }

    fn say(&self, arguments: &[&str]) -> Ended {
        let common = ["-m", self.model.as_str(), "--permission-mode", "plan"];
        self.world
            .ah(common.into_iter().chain(arguments.iter().copied()))
            .run()
    }

    /// The prompts of each session, oldest session first.
    fn prompts(&self) -> Vec<String> {
        let prompts = |path| {
            let connection = Connection::open(path).unwrap();
            let sql = "SELECT content FROM content_blocks JOIN messages ON messages.id = message_id \
                       WHERE role = 'user' ORDER BY messages.id";
            let mut statement = connection.prepare(sql).unwrap();
            let texts = statement
                .query_map([], |row| row.get::<_, String>(0))
                .unwrap();
            texts.map(Result::unwrap).collect::<Vec<_>>().join(" ")
        };
        self.world.databases().into_iter().map(prompts).collect()
    }

    fn ids(&self) -> Vec<String> {
        let stems = self.world.databases().into_iter();
        stems
            .map(|path| path.file_stem().unwrap().to_string_lossy().into_owned())
            .collect()
    }

    fn listed(&self) -> Vec<Value> {
        let ended = self.world.ah(["sessions", "--json"]).run().expect(0);
        serde_json::from_str(&ended.stdout).unwrap()
    }
}

#[test]
fn options_choose_the_session() {
    let talks = Talks::new();
    talks.say(&["a1"]).expect(0);
    talks.say(&["a2"]).expect(0);
    talks.say(&["-n", "b1"]).expect(0);
    talks.say(&["--name", "third", "c1"]).expect(0);
    assert_eq!(talks.prompts(), ["a1 a2", "b1", "c1"]);
    let ids = talks.ids();
    let uuid = talks.listed()[1]["uuid"].as_str().unwrap().to_owned();
    talks.say(&["-r", &ids[0], "a3"]).expect(0);
    // The session written last is not the newest one.
    talks.say(&["-c", "a4"]).expect(0);
    talks.say(&["-r", "--plain", "a5"]).expect(0);
    talks.say(&["b-c-newest"]).expect(0);
    talks.say(&["--resume", &uuid, "b2"]).expect(0);
    talks.say(&["-S", "third", "c2"]).expect(0);
    talks.say(&["-r", "third", "c3"]).expect(0);
    talks.say(&["--name", "third", "c4"]).expect(0);
    talks.say(&["--db", "else/where.db", "d1"]).expect(0);
    talks.say(&["--db", "else/where.db", "-n", "d2"]).expect(0);
    assert_eq!(
        talks.prompts(),
        ["a1 a2 a3 a4 a5", "b1 b2", "c1 b-c-newest c2 c3 c4"]
    );
    let elsewhere = Connection::open(talks.world.file("else/where.db")).unwrap();
    let messages: i64 = elsewhere
        .query_row("SELECT count(*) FROM messages", [], |row| row.get(0))
        .unwrap();
    assert_eq!(messages, 4);
}

#[test]
fn what_cannot_be_chosen_is_told() {
    let talks = Talks::new();
    let empty = [
        &["-c", "x"] as &[&str],
        &["-r", "--plain", "x"],
        &["-S", "01", "x"],
        &["-r", "01ARZ3NDEKTSV4RRFFQ69G5FAV", "x"],
    ];
    let mut pages: Vec<_> = empty.iter().map(|arguments| talks.say(arguments)).collect();
    assert!(talks.world.databases().is_empty());
    talks.say(&["-n", "one"]).expect(0);
    talks.say(&["-n", "two"]).expect(0);
    let contradictions: [&[&str]; 7] = [
        &["-c", "--no-session-persistence", "x"],
        &["-S", "0", "x"],
        &["-S", "nobody", "x"],
        &["-n", "--name", "x", "x"],
        &[
            "-c",
            "--session-id",
            "123e4567-e89b-12d3-a456-426614174000",
            "x",
        ],
        &["--session-id", "7", "x"],
        &["-n", "--fork-session", "x"],
    ];
    pages.extend(contradictions.iter().map(|arguments| talks.say(arguments)));
    let pages: Vec<_> = pages
        .iter()
        .map(|ended| shown(&talks.world, ended))
        .collect();
    insta::assert_snapshot!(pages.join("\n\n"), @"
stderr:
error: no session to resume
hint: omit `-c` or `-r` to start one
exit code 1

stderr:
error: no session to resume
hint: omit `-c` or `-r` to start one
exit code 1

stderr:
error: cannot choose a session in `<project>/.ah`: no session is named `01`
hint: `ah sessions` lists them
exit code 1

stderr:
error: cannot choose a session in `<project>/.ah`: no session is named `<id>`
hint: `ah sessions` lists them
exit code 1

stderr:
error: `--no-session-persistence` stores nothing, but a stored session was chosen
hint: omit one of them
exit code 2

stderr:
error: cannot choose a session in `<project>/.ah`: `0` matches 2 sessions: <id>, <id>
hint: give more characters of the id
exit code 1

stderr:
error: cannot choose a session in `<project>/.ah`: no session is named `nobody`
hint: `ah sessions` lists them
exit code 1

stderr:
error: the argument `--new` cannot be used with `--name <NAME>`
hint: `ah --help` lists all options and commands
exit code 2

stderr:
error: `--session-id` names a new session, but an existing one was chosen
hint: add `--fork-session` to continue in a copy with that id
exit code 2

stderr:
error: `7` is not a UUID
exit code 2

stderr:
error: `--fork-session` needs a session to copy
hint: add `-c`, or `-r ID`
exit code 2
");
    assert_eq!(talks.prompts(), ["one", "two"]);
}

#[test]
fn a_fork_in_the_session_keeps_both_branches_and_a_forked_session_leaves_the_first_alone() {
    let talks = Talks::new();
    talks.say(&["one"]).expect(0);
    talks.say(&["two"]).expect(0);
    talks.say(&["@1", "another two"]).expect(0);
    insta::assert_snapshot!(talks.world.ah(["tree"]).run().expect(0).stdout, @"
* @0 U one
* @1 A <one>
├─  @2 U two
│   @3 A <two>
└─* @2 U another two
  > @3 A <another two>
");
    let missing = talks.say(&["@77", "never"]);
    insta::assert_snapshot!(shown(&talks.world, &missing), @"
stderr:
error: message not found: @77
hint: `ah scan` lists the messages
exit code 1
");
    let uuid = "123e4567-e89b-12d3-a456-426614174000";
    talks
        .say(&["-c", "--fork-session", "--session-id", uuid, "third"])
        .expect(0);
    assert_eq!(
        talks.prompts(),
        ["one two another two", "one two another two third"]
    );
    assert_eq!(talks.listed()[0]["uuid"], uuid);
    talks.say(&["-r", uuid, "four"]).expect(0);
    assert_eq!(talks.prompts()[1], "one two another two third four");
}

/// What does not begin leaves no session behind, which would be the current one.
#[test]
fn a_session_that_cannot_be_opened_is_not_there() {
    let talks = Talks::new();
    talks.say(&["-n", "one"]).expect(0);
    let before = talks.ids();
    for arguments in [
        &["-c", "--fork-session", "@99", "two"][..],
        &[
            "-c",
            "--fork-session",
            "--json-schema",
            r#"{"type":"array"}"#,
            "two",
        ],
        &["-n", "--json-schema", r#"{"type":"array"}"#, "two"],
        &[
            "-p",
            "-c",
            "--fork-session",
            "--resume-session-at",
            "nope",
            "two",
        ],
    ] {
        let ended = talks.say(arguments);
        assert!(matches!(ended.code, Some(1 | 2)), "{arguments:?} {ended:?}");
        assert_eq!(talks.ids(), before, "{arguments:?}");
    }
    talks.say(&["-c", "and three"]).expect(0);
    assert_eq!(talks.prompts(), ["one and three"]);
}

#[test]
fn a_session_without_persistence_leaves_no_file() {
    let talks = Talks::new();
    let before = fs::read_dir(talks.world.project()).unwrap().count();
    let ended = talks.say(&["--no-session-persistence", "one"]).expect(0);
    assert_eq!(ended.stdout, "<one>\n");
    assert_eq!(fs::read_dir(talks.world.project()).unwrap().count(), before);
    talks
        .say(&["-p", "--no-session-persistence", "one"])
        .expect(0);
    assert_eq!(fs::read_dir(talks.world.project()).unwrap().count(), before);
}

#[test]
fn sessions_are_listed_named_and_removed() {
    let talks = Talks::new();
    insta::assert_snapshot!(shown(&talks.world, &talks.world.ah(["sessions"]).run()), @r#"
stderr:
no sessions in this folder yet
exit code 0
"#);
    talks
        .say(&[
            "-n",
            "a question that goes on for longer than a line of the list has room",
        ])
        .expect(0);
    talks.say(&["-n", "second"]).expect(0);
    let run = |arguments: &[&str]| {
        let ended = talks.world.ah(arguments.iter().copied()).run();
        shown(&talks.world, &ended)
    };
    let first = talks.ids().remove(0);
    insta::assert_snapshot!(run(&["sessions", "rename", &first, "questions"]), @"
stdout:
<id> is now named questions
exit code 0
");
    insta::assert_snapshot!(run(&["sessions"]), @"
stdout:
> <id>  <time>   2 msgs  second
  <id>  <time>   2 msgs  [questions]  a question that goes on for longer than ...
exit code 0
");
    let listed = serde_json::to_string_pretty(&talks.listed()[1]).unwrap();
    insta::assert_snapshot!(steady(&talks.world, &listed), @r#"
{
  "id": "<id>",
  "uuid": "<uuid>",
  "name": "questions",
  "created_at": <time>,
  "last_written": <time>,
  "state": null,
  "messages": 2,
  "tokens": 0,
  "first_text": "a question that goes on for longer than a line of the list has room",
  "folder": "<project>",
  "branch": null,
  "is_known": true,
  "path": "<project>/.ah/<id>.db",
  "problem": null
}
"#);
    let faults: [&[&str]; 4] = [
        &["sessions", "rename", "nobody", "x"],
        &["sessions", "rename", "questions", " "],
        &["sessions", "rm", "questions", "nobody"],
        &["sessions", "rm"],
    ];
    insta::assert_snapshot!(faults.map(run).join("\n\n"), @"
stderr:
error: cannot choose a session in `<project>/.ah`: no session is named `nobody`
hint: `ah sessions` lists them
exit code 1

stderr:
error: the name is empty
exit code 2

stderr:
error: cannot choose a session in `<project>/.ah`: no session is named `nobody`
hint: `ah sessions` lists them
exit code 1

stderr:
error: the following required arguments were not provided: <SESSION>...
hint: `ah sessions rm --help` shows its options
exit code 2
");
    assert_eq!(talks.prompts().len(), 2);
    insta::assert_snapshot!(run(&["sessions", "rm", "questions"]), @"
stdout:
removed <project>/.ah/<id>.db
exit code 0
");
    assert_eq!(talks.prompts(), ["second"]);
    let left: Vec<_> = fs::read_dir(talks.world.file(".ah"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert!(
        !left
            .iter()
            .any(|name| name.to_string_lossy().starts_with(&first)),
        "{left:?}"
    );
}

#[test]
fn what_is_empty_old_or_left_behind_is_cleared_away() {
    let talks = Talks::new();
    talks.say(&["kept"]).expect(0);
    let run = |arguments: &[&str]| {
        let ended = talks.world.ah(arguments.iter().copied()).run();
        shown(&talks.world, &ended)
    };
    insta::assert_snapshot!(run(&["gc"]), @"
stdout:
nothing to remove
exit code 0
");
    let stem = "01ARZ3NDEKTSV4RRFFQ69G5FAV";
    talks.world.write(&format!(".ah/{stem}.queue.db"), "");
    talks.world.write(&format!(".ah/{stem}.lock"), "");
    // Inspecting the lock writes our process id into it, so the size varies.
    let removed = run(&["gc"]);
    assert!(
        removed.contains("removed 0 sessions and 2 other files, "),
        "{removed}"
    );
    assert_eq!(talks.prompts(), ["kept"]);
    let connection = Connection::open(talks.world.database()).unwrap();
    connection
        .execute("UPDATE messages SET created_at = 1000000000", [])
        .unwrap();
    connection
        .execute("UPDATE events SET created_at = 1000000000", [])
        .unwrap();
    drop(connection);
    insta::assert_snapshot!(run(&["gc", "--older-than", "30", "--json"]), @r#"
stdout:
{
  "sessions": [
    "<id>"
  ],
  "files": 0,
  "bytes": 19968,
  "undo": {
    "kept": 0,
    "dropped": 0
  }
}
exit code 0
"#);
}

#[test]
fn files_are_for_their_owner_alone_and_stay_out_of_the_repository() {
    let world = World::new();
    let big = uses(
        "bash",
        json!({"command": "head -c 300000 /dev/zero | tr '\\0' x"}),
    );
    let model = world.scenario("s", [big, says("Big.")]);
    world.ah(["-m", &model, "go"]).run().expect(0);
    world.ah(["--followup", "later"]).run().expect(0);
    let mut lines = Vec::new();
    list(&world.file(".ah"), &mut lines);
    insta::assert_snapshot!(steady(&world, &lines.join("\n")), @"
0700 <project>/.ah
0600 <project>/.ah/.gitignore
0600 <project>/.ah/<id>.db
0600 <project>/.ah/<id>.lock
0700 <project>/.ah/<id>.out
0600 <project>/.ah/<id>.out/toolu_<id>_0
0600 <project>/.ah/<id>.queue.db
");
    insta::assert_snapshot!(world.text(".ah/.gitignore"), @"
/.gitignore
/*.db
/*.db-*
/*.db.*
/*.lock
/*.out/
/*.queue*
/leaving/
/coming/
");
}

/// Appends a file or folder and its content, each with its mode.
fn list(path: &Path, lines: &mut Vec<String>) {
    let metadata = fs::metadata(path).unwrap();
    let mode = metadata.permissions().mode() & 0o7777;
    lines.push(format!("{mode:04o} {}", path.display()));
    if metadata.is_dir() {
        let mut entries: Vec<_> = fs::read_dir(path)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .collect();
        entries.sort();
        entries.iter().for_each(|entry| list(entry, lines));
    }
}
