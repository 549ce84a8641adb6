//! Tools in extreme cases, through a whole run: the model's view, the stored results, memory use, and processes left
//! behind.

use std::time::Instant;

use ah_provider::script::format::{ScriptedCall, Turn};
use ah_testkit::script::{says, uses};
use ah_testkit::server::Server;
use rusqlite::Connection;
use serde_json::{Value, json};

use crate::interrupted_again_and_again::{blocks, open_sound};
use crate::support::binary::{Ended, HANG, World};

/// Writes the program's peak memory, in KiB, to the file `peak`.
const PEAK: &str = "grep VmHWM /proc/$PPID/status >peak";

fn bash(command: &str) -> Turn {
    uses("bash", json!({"command": command}))
}

fn run(world: &World, server: &Server, prompt: &str) -> Ended {
    world
        .asking(server, ["-m", "sonnet", prompt])
        .run()
        .expect(0)
}

/// The last tool result in the last request.
fn last_result(server: &Server) -> Value {
    let requests = server.requests();
    let told = blocks(&requests.last().unwrap().body);
    let mut results = told
        .into_iter()
        .rev()
        .filter(|(_, block)| block["type"] == "tool_result");
    results.next().unwrap().1
}

/// The recorded peak memory in MiB; `None` if the kernel does not report it.
fn peak(world: &World) -> Option<u64> {
    let text = world.text("peak");
    let kib: u64 = text.split_whitespace().nth(1)?.parse().ok()?;
    Some(kib / 1024)
}

#[test]
fn commands_that_hold_on_keep_nobody_waiting_and_leave_nothing_behind() {
    for command in [
        "sleep 1000 & echo held",
        "setsid sleep 1000 & echo held",
        "(setsid sh -c 'exec sleep 1000' &); echo held",
        "sh -c 'trap \"\" TERM; while :; do sleep 0.05; done' & echo held",
        "yes >/dev/null & echo held",
    ] {
        let world = World::new();
        let server = Server::new([bash(command), says("Done.")]);
        let started = Instant::now();
        let ended = run(&world, &server, "go");
        assert!(started.elapsed() < HANG);
        assert_eq!(ended.stdout, "Done.\n", "{command}");
        assert!(
            last_result(&server).to_string().contains("held"),
            "{command}"
        );
        world.assert_nothing_runs();
    }
}

#[test]
fn a_command_that_ignores_its_time_is_ended() {
    let world = World::new();
    let command = "trap '' TERM; echo before; while :; do sleep 0.05; done";
    let call = uses("bash", json!({"command": command, "timeout": 3000}));
    let server = Server::new([call, says("Done.")]);
    run(&world, &server, "go");
    let result = last_result(&server);
    assert_eq!(result["is_error"], json!(true));
    assert!(result.to_string().contains("before"), "{result}");
    world.assert_nothing_runs();
}

/// The todo list follows the conversation, in the next run and on another branch.
#[test]
fn a_list_of_todos_is_that_of_its_branch() {
    let listing = |content: &str| {
        uses(
            "todo",
            json!({"todos": [{"content": content, "status": "pending"}]}),
        )
    };
    let turns = ["one", "two", "three"].map(|content| [listing(content), says("Done.")]);
    let world = World::new();
    let server = Server::new(turns.concat());
    run(&world, &server, "go");
    run(&world, &server, "go on");
    world
        .asking(&server, ["-m", "sonnet", "@0", "again"])
        .run()
        .expect(0);
    let connection = open_sound(&world.database());
    let sql = "SELECT details ->> '$.oldTodos[0].content', details ->> '$.newTodos[0].content'
               FROM content_blocks WHERE block_type = 'tool_result' ORDER BY rowid";
    let mut statement = connection.prepare(sql).unwrap();
    let pair = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?));
    let lists: Vec<(Option<String>, String)> = statement
        .query_map([], pair)
        .unwrap()
        .map(Result::unwrap)
        .collect();
    let expected = [(None, "one"), (Some("one"), "two"), (None, "three")];
    let told = lists
        .iter()
        .map(|(old, new)| (old.as_deref(), new.as_str()));
    assert_eq!(told.collect::<Vec<_>>(), expected);
}

#[test]
fn a_job_ends_with_its_run() {
    let world = World::new();
    let job = uses(
        "bash",
        json!({"command": "sleep 1000", "run_in_background": true}),
    );
    let server = Server::new([job, says("Done.")]);
    run(&world, &server, "go");
    world.assert_nothing_runs();
}

#[test]
fn bytes_that_are_no_text_are_kept_as_they_came_and_told_as_text() {
    let bytes = b"\xff\xfe\x00\x1b[31mred\xed\xa0\x80end";
    let octal: String = bytes.iter().map(|byte| format!("\\{byte:03o}")).collect();
    let world = World::new();
    let server = Server::new([
        bash(&format!("printf '{octal}'")),
        says("Done."),
        says("Done."),
    ]);
    let ended = run(&world, &server, "go");
    run(&world, &server, "go on");
    assert_eq!(server.refusals(), Vec::<String>::new());
    assert!(last_result(&server).to_string().contains("red"));
    assert!(!ended.stderr.contains('\u{1b}'), "{ended:#?}");
    let connection = open_sound(&world.database());
    let sql =
        "SELECT CAST(tool_output AS BLOB) FROM content_blocks WHERE block_type = 'tool_result'";
    let stored: Vec<u8> = connection.query_row(sql, [], |row| row.get(0)).unwrap();
    assert_eq!(stored, bytes);
}

#[test]
fn an_endless_nesting_of_arguments_is_a_fault_of_the_call_and_not_of_the_program() {
    let deep = "[".repeat(100_000);
    let closed = format!("{}{}", deep, "]".repeat(100_000));
    for json in [
        deep,
        closed.clone(),
        format!("{{\"command\":{closed}}}"),
        format!("{{\"command\":\"echo ran >ran\",\"more\":{closed}}}"),
        "{\"command\":\"echo ran >ran".to_owned(),
        "null".to_owned(),
    ] {
        let world = World::new();
        let call = ScriptedCall {
            name: "bash".to_owned(),
            input_json: Some(json.clone()),
            ..ScriptedCall::default()
        };
        let turn = Turn {
            tool: Some(call),
            ..Turn::default()
        };
        let server = Server::new([turn, says("Done."), says("Done.")]);
        run(&world, &server, "go");
        run(&world, &server, "go on");
        assert_eq!(server.refusals(), Vec::<String>::new());
        assert_eq!(
            last_result(&server)["is_error"],
            json!(true),
            "{}",
            &json[..30.min(json.len())]
        );
        assert_eq!(world.text("ran"), "");
        for command in [
            &["show"][..],
            &["export"],
            &["export", "--format", "jsonl"],
            &["scan"],
        ] {
            world.ah(command.iter().copied()).run().expect(0);
        }
    }
}

#[test]
fn a_very_long_output_stays_out_of_memory() {
    let megabytes = crate::support::random::rounds("AH_TEST_OUTPUT_MB", 80);
    let world = World::new();
    let long = format!("yes 0123456789abcde | head -c {megabytes}000000");
    let server = Server::new([bash(&long), bash(PEAK), says("Done.")]);
    run(&world, &server, "go");
    assert_eq!(server.refusals(), Vec::<String>::new());
    assert!(server.requests().last().unwrap().bytes < 200_000);
    if let Some(peak) = peak(&world) {
        assert!(peak < 150, "{peak} MiB");
    }
    open_sound(&world.database());
}

#[test]
fn a_session_of_very_many_messages_opens_without_them() {
    let world = World::new();
    let server = Server::new([says("Hello."), bash(PEAK), says("Done.")]);
    run(&world, &server, "go");
    let mut connection = Connection::open(world.database()).unwrap();
    add_branch(&mut connection, 50_000);
    connection.close().unwrap();
    run(&world, &server, "go on");
    assert_eq!(blocks(&server.requests()[1].body).len(), 3);
    if let Some(peak) = peak(&world) {
        assert!(peak < 100, "{peak} MiB");
    }
}

/// Adds a branch of this many messages that does not contain the current message.
fn add_branch(connection: &mut Connection, messages: u32) {
    let transaction = connection.transaction().unwrap();
    let sql = "SELECT id FROM messages WHERE parent_id IS NULL";
    let mut parent: String = transaction.query_row(sql, [], |row| row.get(0)).unwrap();
    for n in 1..=messages {
        let id = format!("branch{n:020}");
        let role = ["user", "assistant"][(n % 2) as usize];
        let mut insert = transaction
            .prepare_cached("INSERT INTO messages (id, parent_id, role, seq, created_at) VALUES (?, ?, ?, ?, 1)")
            .unwrap();
        insert.execute((&id, &parent, role, n)).unwrap();
        let mut insert = transaction
            .prepare_cached("INSERT INTO content_blocks (message_id, block_type, seq, content) VALUES (?, 'text', 0, ?)")
            .unwrap();
        insert.execute((&id, "words ".repeat(40))).unwrap();
        parent = id;
    }
    transaction.commit().unwrap();
}
