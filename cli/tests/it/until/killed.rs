//! `kill -9` at every commit of a run with a check: what was done is not done again, and what the check says is asked anew.

use std::fs;

use ah_provider::script::format::Turn;
use ah_testkit::script::says;
use ah_testkit::server::Server;
use rustix::process::Signal;
use serde_json::Value;

use super::bash;
use crate::support::binary::World;

/// An upper bound of the conversation's commits.
const MANY: u32 = 200;
/// The check passes once the second piece of work is done.
const OPTIONS: [&str; 9] = [
    "--no-sandbox",
    "--dangerously-skip-permissions",
    "-m",
    "sonnet",
    "--until",
    "echo checked; grep -q mended effects",
    "--seal",
    "!**",
    "-p",
];

/// The server picks each turn by the number of answers already in the request.
fn turns() -> [Turn; 5] {
    [
        bash("echo done >> effects"),
        says("Done."),
        bash("echo mended >> effects"),
        says("Mended."),
        Turn {
            repeat: Some(9),
            ..says("As before.")
        },
    ]
}

/// Returns the messages of the session, as a list has them.
fn stored(world: &World) -> Vec<Value> {
    let listed = world.ah(["scan", "--json"]).run();
    serde_json::from_str(&listed.stdout).unwrap_or_default()
}

/// Returns the number of times that the check has run.
fn checks(world: &World) -> usize {
    let databases = world.databases();
    let folders = databases.iter().map(|path| path.with_extension("out"));
    let count = |folder| {
        fs::read_dir(folder).map_or(0, |entries| {
            let names = entries.flatten().map(|entry| entry.file_name());
            names
                .filter(|name| name.to_string_lossy().starts_with("check-"))
                .count()
        })
    };
    folders.map(count).sum()
}

/// Returns the work that was done, a line for each piece.
fn effects(world: &World) -> String {
    fs::read_to_string(world.file("effects")).unwrap_or_default()
}

/// Whether the last message is an answer that ended a turn.
fn is_answered(messages: &[Value]) -> bool {
    let last = messages.last().map(Value::to_string).unwrap_or_default();
    ["Done.", "Mended."].iter().any(|text| last.contains(text))
}

#[test]
fn a_kill_before_any_commit_repeats_the_check_and_not_the_work() {
    kill_at_every_commit("before");
}

#[test]
fn a_kill_after_any_commit_repeats_the_check_and_not_the_work() {
    kill_at_every_commit("after");
}

fn kill_at_every_commit(side: &str) {
    // Kills between a check and what follows from it in the session.
    let mut between = 0;
    for commit in 1..MANY {
        let world = World::new();
        let server = Server::by_history(turns());
        let ended = world
            .asking(&server, OPTIONS.into_iter().chain(["go"]))
            .env("AH_FAULT", format!("{side}:{commit}"))
            .run();
        if ended.signal != Some(Signal::KILL.as_raw()) {
            ended.expect(0);
            assert!(commit > 10, "there are only {commit} commits");
            assert!(between > 0, "no kill came between a check and its message");
            return;
        }
        let (messages, before) = (stored(&world), checks(&world));
        let owes_check = is_answered(&messages);
        between += usize::from(owes_check && before > 0);
        let work = effects(&world);
        // Where only the check is left, no prompt is needed.
        let more: &[&str] = match (owes_check, messages.is_empty()) {
            (true, _) => &["-c"],
            (false, false) => &["-c", "go on"],
            (false, true) => &["go on"],
        };
        let words = OPTIONS.into_iter().chain(["--output-format", "json"]);
        let ended = world
            .asking(&server, words.chain(more.iter().copied()))
            .run()
            .without_panic();
        let at = format!("{side}:{commit}: {}", ended.stdout);
        let result: Value = serde_json::from_str(&ended.stdout).unwrap();
        let after = effects(&world);
        // A piece of work that was cut off is not done again unasked, and nobody says that it was.
        let expected = match after.contains("mended") {
            true => "verified",
            false => "claimed",
        };
        assert_eq!(result["verification"]["evidence"], expected, "{at}");
        assert!(checks(&world) > before, "{at}");
        assert!(after.starts_with(&work), "{at}");
        for line in ["done\n", "mended\n"] {
            assert!(after.matches(line).count() <= 1, "{after} {at}");
        }
        assert_eq!(server.refusals(), Vec::<String>::new());
    }
    panic!("there are more than {MANY} commits");
}
