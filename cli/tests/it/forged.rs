//! A session that a stranger has made, or changed, opened through every door: it is read and continued, and no file is changed or
//! removed for it. The control is a session of the user's whose undo was cut off, which each door finishes.

use std::fs;
use std::path::PathBuf;

use ah_testkit::script::{says, uses};
use ah_testkit::server::Server;
use serde_json::{Value, json};

use crate::sdk::host::Host;
use crate::serve::client::Client;
use crate::support::binary::{Running, World};

/// What the model answers through each door.
const ANSWER: &str = "I have read it.";
/// SHA-256 of what the stranger would write, and of the name of a file that he would remove.
const EVIL: &str = "886b67480dbe73b406ad83a1dd6d9596f93089d90c220ccfc91944c95f1c68c4";
const BIG: &str = "819c197f74557ae999c540e30476e67dc9010dfb997f5f68a1beb19414c6f8fb";

/// Whose session it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Made {
    /// The user's; their undo was killed.
    User,
    /// The user's; a program has noted that their undo was cut off.
    UserAndChanged,
    /// A stranger's.
    Stranger,
}

/// A way to a session. It returns when the answer is there.
type Door = fn(&World, &Server, &str);

const DOORS: [(&str, Door); 6] = [
    ("the command line", |world, server, id| {
        let ended = world
            .asking(server, ["-m", "sonnet", "-r", id, "go on"])
            .run()
            .expect(0);
        assert!(ended.stdout.contains(ANSWER), "{ended:?}");
    }),
    ("-p", |world, server, id| {
        let arguments = ["-p", "-m", "sonnet", "-r", id, "go on"];
        let ended = world.asking(server, arguments).run().expect(0);
        assert!(ended.stdout.contains(ANSWER), "{ended:?}");
    }),
    ("a host of the Agent SDKs", |world, server, id| {
        let mut host = Host::new(world, server, &["--resume", id]);
        host.prompt("go on");
        assert_eq!(host.result()["result"], ANSWER);
        assert_eq!(host.end().code, Some(0));
    }),
    ("the page", |world, server, id| {
        let free = ["--no-sandbox", "--dangerously-skip-permissions"];
        let serve = free.into_iter().chain(["-m", "sonnet", "serve"]);
        let client = Client::of(world.asking(server, serve).start());
        let place = |what: &str| format!("/v1/sessions/{id}{what}");
        let begun = client.post(&place("/prompt"), &json!({"prompt": "go on"}));
        assert!(begun.status < 300, "{begun:?}");
        let events = client.events(&place("/events"), None).until_idle();
        let last = &events.last().unwrap().data["ended"];
        assert_eq!(last["text"], ANSWER);
        client.end();
    }),
    ("an editor", |world, server, id| {
        let arguments = ["-m", "sonnet", "--no-sandbox", "acp"];
        let ah = world.asking_as_typed(server, arguments);
        let mut ah = ah.with_silent_stdin().start();
        let folder = world.project();
        let text = json!([{"type": "text", "text": "go on"}]);
        for (method, params) in [
            ("initialize", json!({"protocolVersion": 1})),
            (
                "session/load",
                json!({"sessionId": id, "cwd": folder, "mcpServers": []}),
            ),
            ("session/prompt", json!({"sessionId": id, "prompt": text})),
        ] {
            request(&mut ah, method, &params);
        }
        leave(ah);
    }),
    ("another agent", |world, server, id| {
        let arguments = ["-m", "sonnet", "--no-sandbox", "mcp", "serve"];
        let ah = world.asking_as_typed(server, arguments);
        let mut ah = ah.with_silent_stdin().start();
        let info = json!({"name": "test", "version": "1"});
        let hello =
            json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info});
        request(&mut ah, "initialize", &hello);
        ah.say(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}).to_string());
        let run = json!({"name": "run", "arguments": {"prompt": "go on", "session": id}});
        request(&mut ah, "tools/call", &run);
        leave(ah);
    }),
];

/// Sends a request with its method as the id, and waits for the answer.
fn request(ah: &mut Running, method: &str, params: &Value) {
    let request = json!({"jsonrpc": "2.0", "id": method, "method": method, "params": params});
    ah.say(&request.to_string());
    ah.wait_for_output(&format!("\"id\":\"{method}\""));
}

/// Ends what was served, and checks that the model has answered.
fn leave(mut ah: Running) {
    ah.say_no_more();
    let ended = ah.wait().without_panic();
    assert!(ended.stdout.contains(ANSWER), "{ended:?}");
}

/// A project with the session of a run that wrote a file. Its database says that an undo of that was cut off, and, if a stranger
/// made it, much more. Returns also its id.
fn laid(made: Made) -> (World, String) {
    let world = World::new();
    world.write("notes", "first\n");
    fs::create_dir(world.home().join(".ssh")).unwrap();
    fs::write(world.home().join("precious"), "the user's").unwrap();
    let ah = |arguments: &[&str]| {
        let ah = world.ah(arguments.iter().copied());
        match made {
            Made::User | Made::UserAndChanged => ah,
            Made::Stranger => ah.env("AH_HOME", world.home().join("../stranger")),
        }
    };
    let write = uses("write", json!({"path": "notes", "content": "second\n"}));
    let read = uses("read", json!({"path": "notes"}));
    let model = world.scenario("laid", [read, write, says("Done.")]);
    ah(&["-m", &model, "Write it."]).run().expect(0);
    let database = world.database();
    let connection = rusqlite::Connection::open(&database).unwrap();
    let is_cut_off = || -> bool {
        let query = "SELECT EXISTS (SELECT 1 FROM file_notes WHERE until_ms = 9223372036854775807)";
        connection.query_row(query, [], |row| row.get(0)).unwrap()
    };
    if made == Made::User {
        for commit in 1.. {
            let fault = format!("after:{commit}");
            let killed = ah(&["undo"]).env("AH_FAULT", fault).run();
            assert_eq!(killed.code, None, "it was not killed in time");
            if is_cut_off() {
                break;
            }
        }
    } else {
        ah(&["undo"]).run().expect(0);
        // Without the notes of the run, nobody seems to have changed the file since.
        let cut_off = "DELETE FROM file_notes WHERE step < (SELECT max(id) FROM file_steps);
            UPDATE file_notes SET until_ms = 9223372036854775807 WHERE path NOT NULL";
        connection.execute_batch(cut_off).unwrap();
        assert!(is_cut_off());
        world.write("notes", "second\n");
    }
    if made == Made::Stranger {
        forge(&world, &connection);
    }
    drop(connection);
    let id = database.file_stem().unwrap().to_str().unwrap().to_owned();
    (world, id)
}

/// Has each step of a session name files everywhere, and says that it was cut off.
fn forge(world: &World, database: &rusqlite::Connection) {
    let below = |folder: PathBuf, name: &str| folder.join(name).display().to_string();
    let (project, home) = (world.project(), world.home());
    let upwards = below(project.clone(), "x/../../home/.ssh/authorized_keys");
    for (path, kind, hash, content) in [
        (below(project.clone(), "notes"), "file", EVIL, "evil\n"),
        (below(project.clone(), "new"), "file", EVIL, "evil\n"),
        (upwards, "file", EVIL, "evil\n"),
        (below(home, ".ssh/config"), "file", EVIL, "evil\n"),
        (below(project, "big"), "big", BIG, "../../home/precious"),
    ] {
        let insert = "INSERT INTO file_states (step, path, kind, mode, hash, content)
            SELECT id, CAST(?1 AS BLOB), ?2, 420, ?3, CAST(?4 AS BLOB) FROM file_steps";
        let row = [&*path, kind, hash, content];
        database.execute(insert, row).unwrap();
        let note = "INSERT OR REPLACE INTO file_notes (step, path, until_ms)
            SELECT max(id), CAST(? AS BLOB), 9223372036854775807 FROM file_steps";
        database.execute(note, [&path]).unwrap();
    }
}

/// The files of the project and of the home that matter.
fn files(world: &World) -> [Option<String>; 7] {
    let (project, home) = (world.project(), world.home());
    [
        project.join("notes"),
        project.join("notes.restored"),
        project.join("new"),
        project.join("big"),
        home.join(".ssh/authorized_keys"),
        home.join(".ssh/config"),
        home.join("precious"),
    ]
    .map(|path| fs::read_to_string(path).ok())
}

#[test]
fn no_door_obeys_what_the_user_has_not_recorded() {
    for (name, door) in DOORS {
        for made in [Made::Stranger, Made::UserAndChanged] {
            let (world, id) = laid(made);
            let before = files(&world);
            door(&world, &Server::new([says(ANSWER)]), &id);
            assert_eq!(files(&world), before, "{name}, {made:?}");
        }
    }
}

#[test]
fn each_door_finishes_what_the_user_has_begun() {
    for (name, door) in DOORS {
        let (world, id) = laid(Made::User);
        assert_eq!(files(&world)[0].as_deref(), Some("second\n"));
        door(&world, &Server::new([says(ANSWER)]), &id);
        assert_eq!(files(&world)[0].as_deref(), Some("first\n"), "{name}");
    }
}

/// Commands that look at sessions, and those that clean up.
#[test]
fn no_command_obeys_the_session_of_a_stranger() {
    let small = json!({"undoMegabytes": 0}).to_string();
    for line in [
        "sessions",
        "gc",
        "gc --older-than 1",
        "-r ID undo",
        "-r ID undo --dry-run",
        "-r ID redo",
        "-r ID restore @1",
        "-r ID diff",
        "-r ID show",
        "-r ID export --format jsonl",
        "-r ID checkout @1",
        "doctor --offline",
        "sessions rm ID",
    ] {
        let (world, id) = laid(Made::Stranger);
        let before = files(&world);
        let line = line.replace("ID", &id);
        let words = ["--settings", &small].into_iter();
        let ended = world.as_typed(words.chain(line.split(' '))).run();
        ended.without_panic();
        assert_eq!(files(&world), before, "{line}");
    }
}

/// On the page a session that came with a folder is not taken for one of the user's until they have continued it.
#[test]
fn the_session_of_a_stranger_is_listed_as_such() {
    for (made, is_strange) in [(Made::Stranger, true), (Made::UserAndChanged, false)] {
        let (world, id) = laid(made);
        let server = Server::new([says(ANSWER)]);
        let free = ["--no-sandbox", "--dangerously-skip-permissions"];
        let serve = free.into_iter().chain(["-m", "sonnet", "serve"]);
        let client = Client::of(world.asking(&server, serve).start());
        let says_strange = || {
            let listed = client.get("/v1/sessions").json;
            let sessions = listed["sessions"].as_array().unwrap();
            let session = sessions.iter().find(|it| it["id"] == *id).unwrap();
            let title = session["title"].as_str().unwrap();
            let is_marked = title.contains("not made by you");
            assert_eq!(session["is_yours"], !is_marked, "{title}");
            is_marked
        };
        assert_eq!(says_strange(), is_strange, "{made:?}");
        let place = |what: &str| format!("/v1/sessions/{id}{what}");
        let begun = client.post(&place("/prompt"), &json!({"prompt": "go on"}));
        assert!(begun.status < 300, "{begun:?}");
        client.events(&place("/events"), None).until_idle();
        assert!(!says_strange(), "{made:?}");
        client.end();
    }
}

/// Who has made a session does not give the answers: its model is no file, which would have come with it.
#[test]
fn the_model_of_a_session_is_no_file() {
    for made in [Made::Stranger, Made::UserAndChanged] {
        for door in [&["-r"][..], &["-p", "-r"]] {
            let (world, id) = laid(made);
            let touch = uses("bash", json!({"command": "touch ran"}));
            let model = world.scenario("theirs", [touch, says("Done.")]);
            let database = rusqlite::Connection::open(world.database()).unwrap();
            let set = "INSERT OR REPLACE INTO context VALUES ('session_model', ?)";
            database.execute(set, [&model]).unwrap();
            drop(database);
            let server = Server::new([says(ANSWER)]);
            let free = ["--no-sandbox", "--dangerously-skip-permissions"];
            let words = free.iter().chain(door).copied().chain([&*id, "go on"]);
            let ended = world.asking_as_typed(&server, words).run().expect(0);
            assert!(ended.stdout.contains(ANSWER), "{ended:?}");
            let told = "the session names a file as its model, which does not count";
            assert!(ended.stderr.contains(told), "{ended:?}");
            assert!(!world.file("ran").exists());
        }
    }
}

/// What has become of a session before it goes on.
#[derive(Debug, Clone, Copy)]
enum Before {
    Nothing,
    Failed,
    Moved,
    Renamed,
}

/// A call that a hook has put off is decided about when the session goes on. One that a stranger has left is not run.
#[test]
fn what_others_have_left_to_be_run_is_not_run() {
    let fork = &["--fork-session", "-r"][..];
    for (made, door, before, runs) in [
        (Made::User, &["-r"][..], Before::Nothing, true),
        (Made::Stranger, &["-r"], Before::Nothing, false),
        (Made::Stranger, &["-p", "-r"], Before::Nothing, false),
        (Made::Stranger, fork, Before::Nothing, false),
        (Made::Stranger, &["-r"], Before::Failed, false),
        (Made::Stranger, &["-r"], Before::Moved, false),
        (Made::Stranger, &["--db"], Before::Renamed, false),
    ] {
        let world = World::new();
        let touch = uses("bash", json!({"command": "touch ran"}));
        let model = world.scenario("laid", [touch, says("Done.")]);
        let first = world.as_typed(["--permission-mode", "plan", "-m", &model, "Do it."]);
        let first = match made {
            Made::Stranger => first.env("AH_HOME", world.home().join("../stranger")),
            Made::User | Made::UserAndChanged => first,
        };
        first.run().expect(0);
        let database = world.database();
        let connection = rusqlite::Connection::open(&database).unwrap();
        let left_open = "DELETE FROM content_blocks WHERE message_id IN (SELECT id FROM messages WHERE seq > 1);
            DELETE FROM messages WHERE seq > 1;
            UPDATE context SET value = (SELECT id FROM messages WHERE seq = 1) WHERE key = 'current_message';
            INSERT OR REPLACE INTO context SELECT 'note.deferred_calls', json_array(tool_id) FROM content_blocks
                WHERE block_type = 'tool_use'";
        connection.execute_batch(left_open).unwrap();
        drop(connection);
        let id = database.file_stem().unwrap().to_str().unwrap();
        let mut name = id.to_owned();
        match before {
            Before::Nothing => {}
            // Nobody is asked without a key.
            Before::Failed => {
                let ended = world.as_typed(["-m", "sonnet", "-r", id, "go on"]).run();
                assert_ne!(ended.code, Some(0), "{ended:?}");
            }
            Before::Moved => {
                let [one, two] =
                    ["one", "two"].map(|name| world.home().join(name).display().to_string());
                for words in [&[id, "--to", &one][..], &[&one, "--to", &two], &[&two]] {
                    let words = ["move"].iter().chain(words).copied();
                    world.as_typed(words).run().expect(0);
                }
            }
            Before::Renamed => {
                name = "theirs.db".to_owned();
                fs::rename(&database, world.file(&name)).unwrap();
            }
        }
        let server = Server::new([says(ANSWER)]);
        let free = ["--no-sandbox", "--dangerously-skip-permissions"];
        let model = ["-m", "sonnet"];
        let words = free.iter().chain(&model).chain(door).copied();
        let ended = world.asking_as_typed(&server, words.chain([&name, "go on"]));
        let ended = ended.run().expect(0);
        assert!(ended.stdout.contains(ANSWER), "{ended:?}");
        let case = format!("{made:?} {door:?} {before:?}");
        assert_eq!(world.file("ran").exists(), runs, "{case}");
        if matches!(before, Before::Failed) {
            assert!(
                ended
                    .stderr
                    .contains("was not made by you; it now counts as one of yours"),
                "{ended:?}"
            );
        }
    }
}

/// A message that waits in the queue of a session is said for the user when the session goes on; not one that came with it.
#[test]
fn what_others_have_queued_is_not_said() {
    for (made, is_said) in [(Made::User, true), (Made::Stranger, false)] {
        for (name, door) in DOORS {
            let world = World::new();
            let ah = |arguments: &[&str]| {
                let ah = world.ah(arguments.iter().copied());
                match made {
                    Made::Stranger => ah.env("AH_HOME", world.home().join("../stranger")),
                    Made::User | Made::UserAndChanged => ah,
                }
            };
            let model = world.scenario("laid", [says("Done.")]);
            ah(&["-m", &model, "Begin."]).run().expect(0);
            ah(&["--steer", "queued-steer", "--followup", "queued-later"])
                .run()
                .expect(0);
            let database = world.database();
            let id = database.file_stem().unwrap().to_str().unwrap();
            let server = Server::new([says(ANSWER), says(ANSWER), says(ANSWER)]);
            door(&world, &server, id);
            // It is the user's now, and still nothing of it waits.
            let ended = world
                .asking(&server, ["-m", "sonnet", "-r", id, "And?"])
                .run();
            ended.expect(0);
            let requests = server.requests();
            let last = requests.last().unwrap().body["messages"].to_string();
            for text in ["queued-steer", "queued-later"] {
                assert_eq!(last.contains(text), is_said, "{name}, {made:?}: {last}");
            }
        }
    }
}

/// A queue that comes later, beside a session of the user's, is no more theirs than one that came with it. What they send stays.
#[test]
fn what_others_have_written_to_a_queue_of_the_user_is_not_said() {
    let insert =
        "INSERT INTO queue_messages (id, message_type, content, created_at) VALUES (?1, ?2, ?3, 1)";
    for (name, door) in DOORS {
        let world = World::new();
        let model = world.scenario("laid", [says("Done.")]);
        world.ah(["-m", &model, "Begin."]).run().expect(0);
        world.ah(["--steer", "my-own"]).run().expect(0);
        let id = world
            .database()
            .file_stem()
            .unwrap()
            .to_str()
            .unwrap()
            .to_owned();
        let queue = world.file(&format!(".ah/{id}.queue.db"));
        let queue = rusqlite::Connection::open(queue).unwrap();
        for kind in ["steer", "followup"] {
            let text = format!("their-{kind}");
            queue
                .execute(insert, [&format!("01{kind}"), kind, &text])
                .unwrap();
        }
        // Nor is what the user has sent, with other words.
        let changed = "INSERT INTO queue_messages SELECT '01copy', message_type, 'their-copy', created_at, consumed_at, seal
            FROM queue_messages WHERE content = 'my-own'";
        queue.execute(changed, []).unwrap();
        drop(queue);
        let server = Server::new([says(ANSWER), says(ANSWER), says(ANSWER)]);
        door(&world, &server, &id);
        let words = ["-m", "sonnet", "-r", &*id, "And?"];
        world.asking(&server, words).run().expect(0);
        let requests = server.requests();
        let last = requests.last().unwrap().body["messages"].to_string();
        assert!(
            last.contains("my-own") && !last.contains("their-"),
            "{name}: {last}"
        );
    }
}

/// A pipe in the place of a session's file: nobody waits for the other end.
#[test]
fn no_command_waits_for_a_pipe_among_the_sessions() {
    for ending in ["db", "db-wal", "db-journal", "queue.db", "lock"] {
        let (world, id) = laid(Made::Stranger);
        let path = world.file(&format!(".ah/{id}.{ending}"));
        let _ = fs::remove_file(&path);
        let (kind, mode) = (rustix::fs::FileType::Fifo, rustix::fs::Mode::RWXU);
        rustix::fs::mknodat(rustix::fs::CWD, &path, kind, mode, 0).unwrap();
        for line in [
            "sessions",
            "gc",
            "gc --older-than 1",
            "-r ID show",
            "-r ID undo",
            "doctor --offline",
        ] {
            let line = line.replace("ID", &id);
            world.as_typed(line.split(' ')).run().without_panic();
        }
    }
}

/// The queue of tasks is the user's. Where a clone brings one, a worker runs none of it.
#[test]
fn a_queue_that_came_with_a_folder_is_not_run() {
    let world = World::new();
    let touch = uses("bash", json!({"command": "touch ran"}));
    let model = world.scenario("queued", [touch, says("Done.")]);
    let free = ["--no-sandbox", "--dangerously-skip-permissions"];
    let work = || {
        let words = free.into_iter().chain(["worker", "--until-idle"]);
        world.as_typed(words).run().expect(0)
    };
    let laid = || {
        let arguments = ["enqueue", "-m", &model, "Do it."];
        world.as_typed(arguments).run().expect(0);
        let queues = world.home().join(".ah/queues");
        let own = fs::read_dir(queues).unwrap().next().unwrap().unwrap();
        own.path().join("runs.queue")
    };
    let queue = laid();
    // What an older version has left, or a stranger has put there.
    fs::copy(&queue, world.file(".ah/runs.queue")).unwrap();
    fs::remove_dir_all(queue.parent().unwrap()).unwrap();
    work();
    assert!(!world.file("ran").exists());
    // A control: in its place it is run.
    laid();
    work();
    assert!(world.file("ran").exists());
}
