//! A launcher waits for the next command, to which nothing of the one before comes.

use ah_testkit::script::{says, uses};
use serde_json::json;

use crate::sandbox::is_missing;
use crate::support::binary::World;

#[test]
fn nothing_of_one_command_reaches_the_next() {
    if is_missing() {
        return;
    }
    let world = World::new();
    let command = "echo \"$OWN|$(umask)|$(ulimit -n)|$(ls /proc/self/fd | wc -l)\"; export OWN=1; umask 0; ulimit -n 9";
    let same = || uses("bash", json!({ "command": command }));
    let model = world.scenario("s", [same(), same(), same(), says("Done.")]);
    let ended = world
        .ah(["-m", &model, "--sandbox", "--output-format", "events", "go"])
        .run()
        .expect(0);
    let results: Vec<_> = { ended.stdout.lines() }
        .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok())
        .filter(|event| event["event_type"] == "tool_call_end")
        .map(|event| event["tool_output"].to_string())
        .collect();
    assert_eq!(results.len(), 3, "{}", ended.stdout);
    assert!(
        results.iter().all(|result| *result == results[0]),
        "{results:?}"
    );
}

/// A launcher that is killed with its command leaves a process that nobody has waited for, and with it the processes of the
/// session.
#[test]
fn a_command_that_had_to_be_killed_does_not_delay_the_end() {
    if is_missing() {
        return;
    }
    let world = World::new();
    let deaf = json!({"command": "trap '' TERM; while :; do sleep 1; done", "timeout": 1});
    let next = json!({"command": "echo next"});
    let model = world.scenario("s", [uses("bash", deaf), uses("bash", next), says("Done.")]);
    let ended = world
        .ah(["-m", &model, "--sandbox", "--output-format", "events", "go"])
        .run()
        .expect(0);
    assert!(ended.stdout.contains("next\\n"), "{}", ended.stdout);
}
