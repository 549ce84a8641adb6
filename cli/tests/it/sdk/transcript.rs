//! The transcript files that the SDKs list and read.

use std::fs;
use std::path::PathBuf;

use ah_testkit::script::{Turn, says, uses};
use ah_testkit::server::Server;
use serde_json::{Value, json};

use super::host::Host;
use crate::support::binary::World;

/// All files below the project and the home, except those that a test created.
fn files(world: &World) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut folders = vec![world.project(), world.home()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => folders.push(path),
                false => files.push(path),
            }
        }
    }
    files.sort();
    files
}

fn transcripts(world: &World) -> Vec<PathBuf> {
    let is_one = |path: &PathBuf| path.extension().is_some_and(|ending| ending == "jsonl");
    files(world).into_iter().filter(is_one).collect()
}

fn rows(path: &PathBuf) -> Vec<Value> {
    let text = fs::read_to_string(path).unwrap();
    let rows = text
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok());
    rows.collect()
}

/// Runs one prompt and returns the session's id.
fn talk(world: &World, server: &Server, arguments: &[&str], prompt: &str) -> String {
    let mut host = Host::new(world, server, arguments);
    host.prompt(prompt);
    let id = host.result()["session_id"].as_str().unwrap().to_owned();
    assert_eq!(host.end().code, Some(0));
    id
}

#[test]
fn the_conversation_stands_where_the_sdks_look_for_it() {
    let world = World::new();
    let server = Server::new([
        uses("Bash", json!({"command": "echo hello"})),
        says("One."),
        says("Two."),
        says("Three."),
    ]);
    let id = talk(&world, &server, &[], "first");
    let [path] = &transcripts(&world)[..] else {
        panic!("{:?}", transcripts(&world));
    };
    assert_eq!(path.file_stem().unwrap().to_str(), Some(&*id));
    assert!(path.starts_with(world.home().join(".claude/projects")));
    // A line truncated by a crash is kept and does no harm.
    let text = fs::read_to_string(path).unwrap();
    fs::write(path, format!("{text}{{\"type\":\"us")).unwrap();
    assert_eq!(talk(&world, &server, &["--resume", &id], "second"), id);
    let told: Vec<_> = rows(path)
        .iter()
        .map(|row| format!("{} {}", row["type"], row["message"]["content"]))
        .collect();
    assert_eq!(told.len(), 6, "{told:#?}");
    assert_eq!(
        [&told[0], &told[4]],
        ["\"user\" \"first\"", "\"user\" \"second\""]
    );
    let chain = rows(path);
    for pair in chain.windows(2) {
        assert_eq!(pair[1]["parentUuid"], pair[0]["uuid"]);
        assert_eq!(pair[1]["sessionId"], json!(id));
    }
    // A fork has a complete copy under its own id, and the original is unchanged.
    let fork = talk(
        &world,
        &server,
        &["--resume", &id, "--fork-session"],
        "third",
    );
    assert_ne!(fork, id);
    assert_eq!(rows(path), chain);
    let forked = rows(&path.with_file_name(format!("{fork}.jsonl")));
    assert_eq!(forked.len(), 8);
    assert!(forked.iter().all(|row| row["sessionId"] == json!(fork)));
}

/// The texts and ids of the messages that are in the transcript, without prompts.
fn told(lines: &[Value]) -> Vec<(String, String)> {
    let is_told = |line: &&Value| line["type"] == "assistant" || line["type"] == "user";
    let lines = lines.iter().filter(is_told).filter(|line| {
        let content = &line["message"]["content"];
        content.is_array()
    });
    let name = |line: &Value| line["uuid"].as_str().unwrap().to_owned();
    lines
        .map(|line| (line["message"]["content"].to_string(), name(line)))
        .collect()
}

/// The texts of the conversation in request `number`.
fn sent(server: &Server, number: usize) -> Vec<String> {
    let body = &server.requests()[number].body;
    let messages = body["messages"].as_array().unwrap();
    let blocks = messages.iter().flat_map(|message| {
        let content = message["content"].as_array().unwrap();
        content.iter().map(|block| match block["type"].as_str() {
            Some("text") => block["text"].as_str().unwrap().to_owned(),
            kind => kind.unwrap().to_owned(),
        })
    });
    blocks
        .filter(|text| !text.starts_with("[CONTEXT]\n"))
        .collect()
}

/// The ids of blocks and results on the wire are those in the transcript, and a session can resume after any of them,
/// in place or as a fork.
#[test]
fn a_session_goes_on_behind_the_message_that_a_host_names() {
    let world = World::new();
    let two = Turn {
        text: Some("Both.".into()),
        ..uses("Bash", json!({"command": "echo one"}))
    };
    let server = Server::new([
        two,
        says("One."),
        says("Two."),
        says("Three."),
        says("Four."),
        says("Five."),
        says("Six."),
    ]);
    let mut host = Host::new(&world, &server, &[]);
    for prompt in ["first", "second"] {
        host.prompt(prompt);
        host.result();
    }
    let over = host.end();
    let lines = told(&over.lines);
    let session = over.lines.last().unwrap()["session_id"].as_str().unwrap();
    let [path] = &transcripts(&world)[..] else {
        panic!("{:?}", transcripts(&world));
    };
    assert_eq!(told(&rows(path)), lines);
    let [text, call, result, one, two] = &lines[..] else {
        panic!("{lines:#?}");
    };
    assert!(text.0.contains("Both.") && call.0.contains("tool_use"));
    assert!(result.0.contains("tool_result") && two.0.contains("Two."));

    let resumed = ["--resume", session, "--resume-session-at"];
    let resume = |more: &[&str], at: &str, prompt: &str| {
        let arguments: Vec<_> = resumed.into_iter().chain([at]).collect();
        talk(&world, &server, &[&arguments, more].concat(), prompt)
    };
    let fork = resume(&["--fork-session"], &one.1, "third");
    assert_ne!(fork, session);
    let before = ["first", "Both.", "tool_use", "tool_result", "One."];
    assert_eq!(sent(&server, 3), [&before[..], &["third"]].concat());
    // In place; the results of the calls are kept, whichever line of the answer is named.
    for (number, line) in [text, call, result].into_iter().enumerate() {
        assert_eq!(resume(&[], &line.1, "again"), session);
        assert_eq!(
            sent(&server, 4 + number),
            [&before[..4], &["again"]].concat()
        );
    }
    let ended = world
        .asking(&server, ["-p", "-m", "sonnet"].into_iter().chain(resumed))
        .argument("01234567-89ab-7def-8123-456789abcdef")
        .argument("nowhere")
        .run()
        .expect(1);
    assert!(
        ended.stderr.contains("No message found"),
        "{}",
        ended.stderr
    );
}

/// A host may drop the turn that it names and no other; what it claims to drop is verified.
#[test]
fn what_is_left_out_may_be_a_turn_that_the_host_names_and_no_other() {
    let world = World::new();
    let server = Server::new([says("One."), says("Two."), says("Three."), says("Four.")]);
    let mut host = Host::new(&world, &server, &["--replay-user-messages"]);
    for prompt in ["first", "second", "third"] {
        host.prompt(prompt);
        host.result();
    }
    let over = host.end();
    let session = over.lines.last().unwrap()["session_id"].as_str().unwrap();
    let named = |words: &str| {
        let lines = over.lines.iter();
        let mut named = lines.filter(|line| {
            let content = &line["message"]["content"];
            *content == words || content[0]["text"] == words
        });
        named.next().unwrap()["uuid"].as_str().unwrap()
    };
    let resume = |at: &str, drops: &str| {
        let mut host = Host::new(
            &world,
            &server,
            &[
                "--resume",
                session,
                "--resume-session-at",
                named(at),
                "--resume-drops-turn",
                named(drops),
            ],
        );
        host.prompt("again");
        let said = host.result();
        said["errors"].to_string()
    };
    for (at, drops) in [("One.", "second"), ("One.", "third"), ("Two.", "second")] {
        let said = resume(at, drops);
        assert!(
            said.contains("Resume rejected by --resume-drops-turn:"),
            "{said}"
        );
    }
    assert_eq!(resume("Two.", "third"), "null");
    assert_eq!(
        sent(&server, 3),
        ["first", "One.", "second", "Two.", "again"]
    );
}

/// A host with a transcript store of its own receives each row before the prompt's result.
#[test]
fn the_transcript_is_told_row_by_row() {
    let world = World::new();
    let server = Server::new([uses("Bash", json!({"command": "echo hello"})), says("One.")]);
    let mut host = Host::new(&world, &server, &["--session-mirror"]);
    host.prompt("first");
    host.result();
    let told = host
        .seen
        .iter()
        .filter(|line| line["type"] == "transcript_mirror");
    let told: Vec<_> = told.map(|line| &line["entries"][0]).cloned().collect();
    let [path] = &transcripts(&world)[..] else {
        panic!("{:?}", transcripts(&world));
    };
    assert_eq!(told, rows(path));
    assert_eq!(told.len(), 4);
    let mirror = |line: &&Value| line["type"] == "transcript_mirror";
    let first = host.seen.iter().find(mirror).unwrap();
    assert_eq!(first["filePath"], json!(path));
}

/// `--continue` resumes the session of the folder that was written last, and begins one if there is none.
#[test]
fn a_folder_goes_on_with_a_session_of_its_own() {
    let world = World::new();
    let server = Server::new(["A.", "B.", "C.", "D.", "E."].map(says));
    let say = |folder: &str, arguments: &[&str]| {
        let folder = world.file(folder);
        fs::create_dir_all(&folder).unwrap();
        let all = ["-p", "-m", "sonnet"].into_iter();
        let ah = world.asking(&server, all.chain(arguments.iter().copied()));
        ah.within(folder).run()
    };
    say("one", &["first"]).expect(0);
    say("two", &["second"]).expect(0);
    say("one", &["-c", "third"]).expect(0);
    assert_eq!(sent(&server, 2), ["first", "A.", "third"]);
    say("two", &["-c", "fourth"]).expect(0);
    assert_eq!(sent(&server, 3), ["second", "B.", "fourth"]);
    say("three", &["-c", "fifth"]).expect(0);
    assert_eq!(sent(&server, 4), ["fifth"]);
}

/// A session of more than a thousand messages of which only the transcript exists is restored in full, under its id,
/// and resumes.
#[test]
fn a_session_of_more_than_a_thousand_messages_goes_on() {
    let world = World::new();
    let server = Server::new([says("One."), says("Two."), says("Three.")]);
    let first = talk(&world, &server, &[], "first");
    let [path] = &transcripts(&world)[..] else {
        panic!("{:?}", transcripts(&world));
    };
    let id = "0fb1d2c3-0000-4000-8000-000000000000";
    let uuid = |number: usize| format!("0fb1d2c3-0000-4000-8000-{number:012}");
    let row = |number: usize| {
        let (kind, message) = match number % 2 {
            1 => (
                "user",
                json!({"role": "user", "content": format!("Say {number}.")}),
            ),
            _ => {
                let content = json!([{"type": "text", "text": format!("Said {number}.")}]);
                let message = format!("msg_{number}");
                let model = "claude-sonnet-4-5";
                (
                    "assistant",
                    json!({"id": message, "role": "assistant", "model": model, "content": content}),
                )
            }
        };
        let parent = (number > 1).then(|| uuid(number - 1));
        json!({
            "type": kind,
            "uuid": uuid(number),
            "parentUuid": parent,
            "sessionId": id,
            "isSidechain": false,
            "timestamp": "2026-01-02T03:04:05.678Z",
            "message": message,
        })
    };
    // With a line of another kind, one of a subagent, and a truncated one.
    let mut text = json!({"type": "custom-title", "customTitle": "Long"}).to_string();
    for number in 1..=1200 {
        text.push_str(&format!("\n{}", row(number)));
    }
    let mut aside = row(1201);
    aside["isSidechain"] = json!(true);
    text.push_str(&format!("\n{aside}\n{{\"type\":\"user\",\"uu"));
    let long = path.with_file_name(format!("{id}.jsonl"));
    fs::write(&long, &text).unwrap();
    assert_eq!(talk(&world, &server, &["--resume", id], "second"), id);
    let words = sent(&server, 1);
    assert_eq!(words.len(), 1201);
    assert_eq!(
        [&words[0], &words[1199], &words[1200]],
        ["Say 1.", "Said 1200.", "second"]
    );
    // It has a database now, and its transcript is appended to.
    assert_eq!(talk(&world, &server, &["--resume", id], "third"), id);
    assert_eq!(sent(&server, 2).len(), 1203);
    let after = fs::read_to_string(&long).unwrap();
    assert!(after.starts_with(&text));
    let added = rows(&long).into_iter().skip(1202).collect::<Vec<_>>();
    assert_eq!(added[0]["parentUuid"], json!(uuid(1200)));
    assert_eq!(added.len(), 4);
    assert_ne!(first, id);
}

/// Without persistence no file is written anywhere.
#[test]
fn without_persistence_no_file_is_written() {
    let world = World::new();
    let server = Server::new([uses("Bash", json!({"command": "true"})), says("One.")]);
    let before = files(&world);
    let mut host = Host::new(&world, &server, &["--no-session-persistence"]);
    host.prompt("first");
    host.result();
    assert_eq!(files(&world), before);
    assert_eq!(host.end().code, Some(0));
    assert_eq!(files(&world), before);
    assert!(!world.file(".ah").exists());
}

/// Readers of usage count the rows of one request once, and the SDKs list subagents by their files.
#[test]
fn rows_name_their_request_and_subagents_have_files_of_their_own() {
    let world = World::new();
    let ask = json!({
        "description": "look",
        "prompt": "Look around.",
        "subagent_type": "general-purpose",
        "run_in_background": false,
    });
    let both = Turn {
        text: Some("I ask.".into()),
        ..uses("Agent", ask)
    };
    let server = Server::new([
        both,
        uses("Bash", json!({"command": "echo hello"})),
        says("Seen."),
        says("Done."),
    ]);
    let id = talk(&world, &server, &[], "first");
    let all = transcripts(&world);
    let (mains, below): (Vec<_>, Vec<_>) = { all.iter() }
        .partition(|path| path.file_stem().and_then(|name| name.to_str()) == Some(&*id));
    let ([main], [below]) = (&mains[..], &below[..]) else {
        panic!("{all:?}");
    };
    let folder = main.with_extension("").join("subagents");
    assert_eq!(below.parent(), Some(&*folder));
    let agent = rows(below)[0]["agentId"].as_str().unwrap().to_owned();
    assert_eq!(
        below.file_name().unwrap().to_str(),
        Some(&*format!("agent-{agent}.jsonl"))
    );
    for (path, is_below) in [(main, false), (below, true)] {
        let mut requests = Vec::new();
        for row in rows(path) {
            assert_eq!(row["isSidechain"], is_below, "{row}");
            assert_eq!(row["sessionId"], json!(id), "{row}");
            assert_eq!(row["entrypoint"], "sdk-cli", "{row}");
            assert_eq!(row["gitBranch"], "HEAD", "{row}");
            if row["type"] == "assistant" {
                requests.push((row["message"]["id"].clone(), row["requestId"].clone()));
            }
        }
        assert!(requests.iter().all(|(_, request)| request.is_string()));
        requests.dedup();
        assert_eq!(requests.len(), 2, "{requests:?}");
    }
    assert_eq!(rows(below)[0]["message"]["content"], "Look around.");
    let meta = fs::read_to_string(below.with_extension("meta.json")).unwrap();
    let meta: Value = serde_json::from_str(&meta).unwrap();
    assert_eq!(
        (&meta["agentType"], &meta["toolUseId"].is_string()),
        (&json!("general-purpose"), &true)
    );
}
