//! Subagents that write at the same time: what one overwrites of another is kept, and told.

use std::collections::BTreeSet;
use std::fs;

use ah_testkit::script::{says, uses, uses_all};
use serde_json::{Value, json};

use crate::sandbox::is_missing;
use crate::support::binary::{Ended, World};
use crate::support::random::{Random, rounds};

/// Number of schedules in an ordinary run.
const SCHEDULES: u32 = 1;
/// Subagents of a schedule, and commands of each.
const AGENTS: u64 = 8;
const COMMANDS: u64 = 3;
/// Files that they share.
const FILES: u64 = 6;

/// Runs subagents at the same time, each with these commands.
fn run(world: &World, agents: &[Vec<String>]) -> Ended {
    let mut definitions = json!({});
    let mut calls = Vec::new();
    for (number, commands) in agents.iter().enumerate() {
        let name = format!("w{number}");
        let turns = commands.iter();
        let turns = turns.map(|line| uses("bash", json!({ "command": line })));
        let model = world.scenario(&name, turns.chain([says("Done.")]));
        definitions[&name] =
            json!({"description": "writes", "prompt": "You write.", "model": model});
        calls.push((
            "agent",
            json!({"description": "write", "prompt": "Write.", "subagent_type": name}),
        ));
    }
    let main = world.scenario("main", [uses_all(calls), says("All done.")]);
    let agents = definitions.to_string();
    let options = [
        "-m",
        &main,
        "--sandbox",
        "--agents",
        &agents,
        "--output-format",
        "events",
    ];
    world.ah(options.into_iter().chain(["go"])).run().expect(0)
}

/// Returns the results of calls of the main agent.
fn results(ended: &Ended) -> Vec<String> {
    let events = ended.stdout.lines().map(serde_json::from_str::<Value>);
    let events = events.map(Result::unwrap);
    let ends = events.filter(|event| event["event_type"] == "tool_call_end");
    let texts = ends.filter_map(|event| event["tool_output"].as_str().map(str::to_owned));
    texts.collect()
}

/// Returns the versions that a text names, with their content.
fn versions(text: &str) -> Vec<(String, String)> {
    let lines = text.lines().filter(|line| line.contains(": version of "));
    lines
        .map(|line| {
            let path = line.rsplit(": ").next().unwrap();
            let version = fs::read_to_string(path);
            (
                line.to_owned(),
                version.unwrap_or_else(|error| panic!("{line}: {error}")),
            )
        })
        .collect()
}

/// A command that writes a word into a file, in one of the ways of programs.
fn writes(word: &str, file: &str, random: &mut Random) -> String {
    let wait = format!("sleep 0.0{}", random.below(10));
    match random.below(7) {
        0 => format!("{wait}; echo {word} > {file}"),
        1 => format!("echo {word} > {word}; {wait}; mv {word} {file}"),
        2 => format!("echo {word} > {word}; until cp {word} {file}; do :; done; rm {word}"),
        3 => format!("rm -f {file}; {wait}; echo {word} > {file}"),
        4 => format!("(echo {word}; {wait}; echo more) | tee {file} > /dev/null"),
        5 => format!("echo {word} >> {file}; {wait}"),
        _ => format!("({wait}; echo {word}; {wait}; echo more) > {file}"),
    }
}

#[test]
fn nothing_is_lost_when_subagents_write_at_once() {
    if is_missing() {
        return;
    }
    let mut random = Random::new();
    for _ in 0..rounds("AH_TEST_AGENTS", SCHEDULES) {
        let world = World::new();
        let (mut words, mut agents) = (BTreeSet::new(), Vec::new());
        for agent in 0..AGENTS {
            let first = random.below(FILES);
            let commands = (first..first + COMMANDS).map(|file| {
                let file = file % FILES;
                let word = format!("word-{agent}-{file}");
                let command = writes(&word, &format!("file-{file}"), &mut random);
                // What a call that could not be made would have written is not lost.
                let command = format!("{command}; echo {word} >> done-{agent}");
                words.insert(word);
                command
            });
            agents.push(commands.collect::<Vec<_>>());
        }
        let ended = run(&world, &agents);
        let told = results(&ended).into_iter().flat_map(|text| versions(&text));
        let kept = told.map(|(_, version)| version);
        let left = (0..FILES).map(|file| world.text(&format!("file-{file}")));
        let found: Vec<_> = left.chain(kept).collect();
        let done: String = (0..AGENTS)
            .map(|agent| world.text(&format!("done-{agent}")))
            .collect();
        for word in &words {
            if !done.lines().any(|line| line == *word) {
                let home = world.project();
                std::mem::forget(world);
                fs::write("/tmp/missing.events", &ended.stdout).unwrap();
                panic!("{word} not done: {agents:#?} {home:?}");
            }
            assert!(
                found
                    .iter()
                    .flat_map(|text| text.lines())
                    .any(|line| line == word),
                "{word} is lost: {agents:#?}\n{found:#?}"
            );
        }
        let undone = world.ah(["undo"]).run().expect(0);
        let left = fs::read_dir(world.project()).unwrap().flatten();
        let left = left.map(|entry| entry.file_name().into_string().unwrap());
        let left: Vec<_> = left
            .filter(|name| name.contains("file") || name.contains("word"))
            .collect();
        assert!(
            left.is_empty(),
            "{agents:#?}\nafter undo: {left:?}\n{}",
            undone.stdout
        );
    }
}

/// Two subagents write the same file, the second while the first is still at work. Returns the results of both.
fn one_after_the_other(world: &World, first: &str, second: &str) -> [String; 2] {
    let first =
        format!("echo {first} > shared; touch begun; until [ -e over ]; do sleep 0.01; done");
    let second =
        format!("until [ -e begun ]; do sleep 0.01; done; echo {second} > shared; touch over");
    let ended = run(world, &[vec![first], vec![second]]);
    let results = results(&ended)
        .into_iter()
        .filter(|text| text.contains("Done."));
    let mut results: Vec<_> = results.collect();
    results.sort_by_key(|text| text.contains("Conflict"));
    results.try_into().unwrap()
}

#[test]
fn the_main_agent_is_told_of_both_versions() {
    if is_missing() {
        return;
    }
    let world = World::new();
    let [first, second] = one_after_the_other(&world, "one", "two");
    assert!(!first.contains("Conflict"), "{first}");
    let (line, version) = versions(&second).remove(0);
    assert!(line.starts_with("- "), "{line}");
    assert!(line.contains("/shared: version of "), "{line}");
    assert_eq!(
        [version.as_str(), &world.text("shared")],
        ["one\n", "two\n"]
    );

    let world = World::new();
    let same = one_after_the_other(&world, "one", "one");
    assert!(
        same.iter().all(|text| !text.contains("Conflict")),
        "{same:?}"
    );
}
