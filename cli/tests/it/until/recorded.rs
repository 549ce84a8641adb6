//! A session that is shown again tells what its checks have shown, says that it is a record, and runs nothing.

use std::fs;

use ah_testkit::script::says;

use super::{JSON, bash, run, world};
use crate::binary::World;
use crate::seat::Seat;

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
