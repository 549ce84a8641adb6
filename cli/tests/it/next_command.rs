//! A launcher waits for the next command, which finds the machine as it is then.

use ah_testkit::script::{says, uses};
use serde_json::json;

use crate::binary::World;
use crate::sandbox::is_missing;

/// Starts the program, and when its first command runs and a launcher waits, mounts something in the project.
const MOUNT_MEANWHILE: &str = r#"
"$@" & pid=$!
until [ -e started ] && [ "$(cat /proc/$pid/task/*/children | wc -w)" -ge 2 ]; do :; done
mkdir late && mount -t tmpfs none late && echo 'mounted since' > late/file
touch go
wait $pid
"#;

#[test]
fn the_next_command_sees_what_was_mounted_since() {
    if is_missing() {
        return;
    }
    let world = World::new();
    let wait = "touch started; until [ -e go ]; do sleep 0.01; done";
    let model = world.scenario(
        "s",
        [
            uses("bash", json!({ "command": wait })),
            uses("bash", json!({ "command": "cat late/file" })),
            says("Done."),
        ],
    );
    let ah = world.ah(["-m", &model, "--sandbox", "--output-format", "events", "go"]);
    let ended = ah
        .through(
            "unshare",
            ["-U", "-r", "-m", "sh", "-c", MOUNT_MEANWHILE, "sh"],
        )
        .run()
        .expect(0);
    assert!(ended.stdout.contains("mounted since"), "{}", ended.stdout);
}

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
