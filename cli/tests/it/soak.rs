//! A long run in small; `cargo xtask bench soak` has 10,000 turns, with subagents and summaries.

use std::fs;

use ah_testkit::script::{says, uses};
use rusqlite::Connection;
use serde_json::json;

use crate::support::binary::World;

const TURNS: usize = 300;
/// Threads that may be there at one moment and not at another.
const PASSING: u32 = 3;

/// The numbers in what a command said of its parent: the size of its table of open files, and its threads.
fn held(output: &str) -> [u32; 2] {
    let number = |label: &str| {
        let line = output.lines().find_map(|line| line.strip_prefix(label));
        line.unwrap().trim().parse().unwrap()
    };
    [number("FDSize:"), number("Threads:")]
}

#[test]
fn files_threads_and_what_is_kept_stay_flat_in_a_long_run() {
    let world = World::new();
    let turn = |at: usize| {
        let more = format!("head -c {} /dev/zero | tr '\\0' x", at % 10 * 1_000);
        let command = format!(": {at}; grep -E '^(FDSize|Threads):' /proc/$PPID/status; {more}");
        uses("bash", json!({"command": command}))
    };
    let model = world.scenario("long", (0..TURNS).map(turn).chain([says("Done.")]));
    world.ah(["-n", "--model", &model, "go"]).run().expect(0);

    let database = Connection::open(world.database()).unwrap();
    let sql = "SELECT tool_output FROM content_blocks WHERE block_type = 'tool_result' ORDER BY id";
    let mut statement = database.prepare(sql).unwrap();
    let outputs = statement.query_map([], |row| row.get(0)).unwrap();
    let outputs: Vec<String> = outputs.map(Result::unwrap).collect();
    // The other answers were given to requests for summaries.
    assert!(outputs.len() > TURNS / 10 * 9, "{}", outputs.len());
    let [files, threads] = held(&outputs[TURNS / 10]);
    let [files_late, threads_late] = held(outputs.last().unwrap());
    assert_eq!(files_late, files);
    assert!(
        threads_late <= threads + PASSING,
        "{threads_late} > {threads}"
    );

    let said: usize = outputs.iter().map(String::len).sum();
    let kept: u64 = fs::read_dir(world.file(".ah"))
        .unwrap()
        .map(|entry| entry.unwrap().metadata().unwrap().len())
        .sum();
    assert!(kept <= 3 * said as u64, "{kept} bytes are kept of {said}");
}
