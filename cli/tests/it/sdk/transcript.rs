//! The conversation as the SDKs list and read it: row S6 of the feature table, port 11 e, i and j.

use std::fs;
use std::path::PathBuf;

use ah_testkit::script::{says, uses};
use ah_testkit::server::Server;
use serde_json::{Value, json};

use super::host::Host;
use crate::binary::World;

/// All files below the project and the home, but for what a test has put there.
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

/// A talk of one prompt; gives the id of the session.
fn talk(world: &World, server: &Server, arguments: &[&str], prompt: &str) -> String {
    let mut host = Host::new(world, server, arguments);
    host.prompt(prompt);
    let id = host.result()["session_id"].as_str().unwrap().to_owned();
    assert_eq!(host.end().code, Some(0));
    id
}

#[test]
fn row_s6_port_11_j_the_conversation_stands_where_the_sdks_look_for_it() {
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
    // A line that a crash cut off is left as it is, and hurts nobody.
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
    // A fork has all of it under its own name, and the original stays as it was.
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

/// Port 11 i: nothing is left behind, in no folder.
#[test]
fn port_11_i_without_persistence_no_file_is_written() {
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
