//! A session that is shown again tells what its checks have shown, says that it is a record, and runs nothing.

use std::fs;

use ah_provider::script::format::Turn;
use ah_testkit::script::{says, uses};
use serde_json::json;

use super::aimed::{MENDS, results};
use super::{CHECK, JSON, bash, run, world};
use crate::support::binary::World;
use crate::support::pseudo_terminal::Seat;

/// Says of a verdict that it is a record.
const RECORDED: &str = "(as recorded; not checked again)";

/// A world whose run was verified, and whose work is undone.
fn spoilt() -> World {
    let world = world();
    let ended = run(
        &world,
        [bash("sed -i 's/-/+/' add.sh"), says("Done.")],
        &JSON,
    );
    ended.expect(0);
    world.write("add.sh", super::ADD);
    world
}

/// Returns the number of runs of checks.
fn checks(world: &World) -> usize {
    let folder = world.database().with_extension("out");
    fs::read_dir(folder).unwrap().count()
}

/// Returns what of an export is of the session: the page around it has its own words.
fn exported(world: &World, format: &str) -> String {
    let text = world
        .ah(["export", "--format", format])
        .run()
        .expect(0)
        .stdout;
    match text.split_once("id=\"session\">") {
        Some((_, session)) => session.to_owned(),
        None => text,
    }
}

#[test]
fn exports_tell_what_was_recorded() {
    let world = spoilt();
    let before = checks(&world);
    let page = exported(&world, "md");
    let told = page.lines().find(|line| line.contains("verified: "));
    let told = told.unwrap_or_else(|| panic!("{page}"));
    assert!(
        told.starts_with("*verified: `sh tests/add.sh` passed in "),
        "{told}"
    );
    assert!(told.ends_with(&format!("{RECORDED}*")), "{told}");
    for format in ["jsonl", "html"] {
        let text = exported(&world, format);
        assert_eq!(
            text.matches(r#""evidence":"verified""#).count(),
            1,
            "{text}"
        );
        assert_eq!(text.matches(r#""is_replayed":true"#).count(), 1, "{text}");
    }
    assert_eq!(checks(&world), before);
}

/// The check of a recorded run is not run again with it, whatever it would say now.
#[test]
fn a_recording_that_is_replayed_gives_the_recorded_verdict() {
    let plays = |world: &World, model: &str, check: &str, options: &[&str]| {
        let words = ["-n", "-m", model, "--until", check].into_iter();
        let words = words.chain(options.iter().copied());
        world.as_typed(words.chain(["mend add"])).run()
    };
    for (options, verified, record) in [
        (&[][..], "verified: `sh tests/add.sh` passed", RECORDED),
        (&JSON, r#""evidence":"verified""#, r#""is_replayed":true"#),
    ] {
        let recorded = world();
        let turns = [
            says("It is done."),
            uses("check", json!({})),
            bash("sed -i 's/-/+/' add.sh"),
            says("Now it is."),
        ];
        let scenario = recorded.home().join("run.yaml");
        let file = scenario.to_str().unwrap();
        let model = recorded.scenario("s", turns);
        let recording = [options, &["--record", file]].concat();
        let ended = plays(&recorded, &model, CHECK, &recording).expect(0);
        let all = format!("{}{}", ended.stdout, ended.stderr);
        assert!(all.contains(verified) && !all.contains(record), "{all}");
        let text = fs::read_to_string(&scenario).unwrap();
        let checks = text.matches("command: sh tests/add.sh").count();
        assert_eq!(checks, 3, "{text}");
        let model = format!("script:{file}");
        let replayed = world();
        replayed.write("tests/add.sh", "exit 1");
        let ended = plays(&replayed, &model, CHECK, options).expect(0);
        let all = format!("{}{}", ended.stdout, ended.stderr);
        assert!(all.contains(verified) && all.contains(record), "{all}");
        assert!(!all.contains("sealed for the check"), "{all}");
        let undone = replayed.as_typed(["undo"]).run();
        assert!(!undone.stderr.contains("passed with"), "{}", undone.stderr);
        // Another check is none that was recorded.
        replayed.write("add.sh", super::ADD);
        let ended = plays(&replayed, &model, "false", options);
        let all = format!("{}{}", ended.stdout, ended.stderr);
        assert!(!all.contains(verified), "{all}");
    }
}

/// Turns in which a goal is worked for, and, once it was ended, set again.
pub fn turns_of_goals() -> [Turn; 4] {
    [
        says("It is done."),
        bash(MENDS),
        says("Now it is."),
        says("Still."),
    ]
}

/// Plays a session once to record it, and then its recording where no check would pass. `plays` is told whether it is the
/// recording, and the model and the options; what it returns of the first one has no word of a record, and of the second it has.
pub fn goals_are_replayed(plays: impl Fn(&World, bool, &[&str]) -> String) {
    let recorded = world();
    let file = recorded.home().join("run.yaml");
    let file = file.to_str().unwrap();
    let model = recorded.scenario("s", turns_of_goals());
    let told = plays(&recorded, false, &["-m", &model, "--record", file]);
    assert!(
        told.contains("verified") && !told.contains("replayed"),
        "{told}"
    );
    let text = fs::read_to_string(file).unwrap();
    let checks = text.matches("command: sh tests/add.sh").count();
    assert_eq!(checks, 3, "{text}");
    let replayed = world();
    replayed.write("tests/add.sh", "touch was-run; exit 1");
    let told = plays(&replayed, true, &["-m", &format!("script:{file}")]);
    assert!(told.contains("verified"), "{told}");
    assert!(!replayed.file("was-run").exists());
}

/// A check that a prompt sets is recorded, too; one that is set again goes on with the next verdict.
#[test]
fn goals_of_a_host_are_replayed() {
    let goal = json!(format!("/goal mend add --until {CHECK}"));
    goals_are_replayed(|world, is_replayed, options| {
        let options = [&JSON[..2], options].concat();
        let results = results(
            world,
            &options,
            &[goal.clone(), json!("/goal off"), goal.clone()],
        );
        for result in [&results[0], &results[2]] {
            let known = &result["verification"];
            assert_eq!(known["evidence"], "verified", "{result}");
            let is_record = known["is_replayed"] == true;
            assert_eq!(is_record, is_replayed, "{result}");
        }
        results[0]["verification"].to_string()
    });
}

#[test]
fn goals_of_a_terminal_are_replayed() {
    goals_are_replayed(|world, is_replayed, options| {
        let free = ["--dangerously-skip-permissions"];
        let mut seat = Seat::take(world.ah(free.iter().chain(options).copied()));
        let goal = format!("/goal mend add --until {CHECK}");
        seat.says(&goal);
        seat.sees("verified: `sh tests/add.sh` passed");
        if is_replayed {
            seat.sees("recorded; not checked");
        }
        seat.sees_no_more("interrupts");
        let shown = seat.scrollback();
        seat.says("/goal off");
        seat.sees("runs end when the model ends its turn");
        seat.says(&goal);
        seat.sees("Still.");
        seat.sees_no_more("interrupts");
        seat.sees("until `sh tests/add.sh`: verified");
        seat.types("\x04");
        assert_eq!(seat.leaves(), 0);
        shown
    });
}

#[test]
fn without_a_check_an_export_has_no_word_of_it() {
    let world = World::new();
    let model = world.scenario("s", [says("It is done.")]);
    world.ah(["-n", "-m", &model, "go"]).run().expect(0);
    for format in ["md", "jsonl", "html"] {
        let text = exported(&world, format);
        assert!(text.contains("It is done."), "{text}");
        assert!(!text.contains("verif"), "{text}");
    }
}

#[test]
fn a_session_that_is_opened_again_tells_what_was_recorded() {
    let world = spoilt();
    let before = checks(&world);
    let model = world.scenario("again", [says("Hello.")]);
    let mut seat = Seat::take(world.ah(["-c", "-m", &model]));
    seat.sees("verified: `sh tests/add.sh` passed");
    seat.sees("recorded; not checked");
    seat.types("\x04");
    assert_eq!(seat.leaves(), 0);
    assert_eq!(checks(&world), before);
}
