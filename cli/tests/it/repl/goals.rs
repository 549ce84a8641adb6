//! `/goal`: the engine says when the work is done.

use ah_testkit::script::{says, uses};
use serde_json::json;

use crate::support::pseudo_terminal::Seat;
use crate::until::{bash, world};

#[test]
fn a_goal_is_worked_for_until_its_check_passes() {
    let world = world();
    let turns = [
        says("It is done."),
        bash("sed -i 's/-/+/' add.sh"),
        says("Now it is."),
        says("Hello."),
    ];
    let model = world.scenario("s", turns);
    let mut seat = Seat::take(world.ah(["-m", &model]));
    seat.says("/goal");
    seat.sees("no goal is set");
    seat.says("/goal mend add --until sh tests/add.sh");
    seat.sees("did not pass (exit 1); 9 checks left");
    seat.sees("verified: `sh tests/add.sh` passed");
    seat.sees("until `sh tests/add.sh`: verified");
    seat.sees_no_more("interrupts");
    seat.says("/goal off");
    seat.sees("runs end when the model ends its turn");
    seat.sees_no_more("until `sh tests/add.sh`: verified");
    seat.says("hello");
    seat.sees("Hello.");
    seat.sees_no_more("interrupts");
    seat.types("\x04");
    assert_eq!(seat.leaves(), 0);
}

/// The model's tool knows the goal of now.
#[test]
fn the_tool_runs_the_check_in_force() {
    let world = world();
    let check = || uses("check", json!({}));
    let turns = [
        check(),
        says("One."),
        check(),
        says("Two."),
        check(),
        says("Three."),
    ];
    let model = world.scenario("s", turns);
    let mut seat = Seat::take(world.ah(["-m", &model, "--until", "true"]));
    seat.says("first");
    seat.sees("`true` passed: exit 0");
    seat.sees("One.");
    seat.sees_no_more("interrupts");
    seat.says("/goal second --until test -e add.sh");
    seat.sees("`test -e add.sh` passed: exit 0");
    seat.sees("Two.");
    seat.sees_no_more("interrupts");
    seat.says("/goal off");
    seat.sees("runs end when the model ends its turn");
    seat.says("third");
    seat.sees("There is no check any more");
    seat.sees("Three.");
    seat.sees_no_more("interrupts");
    seat.types("\x04");
    assert_eq!(seat.leaves(), 0);
}

/// Nothing of a project is run unasked.
#[test]
fn a_goal_without_a_check_proposes_what_the_project_has() {
    let world = world();
    world.write("Makefile", "test:\n\tsh tests/add.sh\n");
    let turns = [bash("sed -i 's/-/+/' add.sh"), says("Mended.")];
    let model = world.scenario("s", turns);
    let mut seat = Seat::take(world.ah(["-m", &model]));
    seat.says("/goal mend add");
    seat.sees("Makefile: make test");
    seat.sees("Work until all of it passes?");
    seat.says("n");
    seat.sees("a goal needs a check");
    seat.sees_no_more("Work until all of it passes?");
    seat.says("/goal mend add");
    seat.sees("Work until all of it passes?");
    seat.says("y");
    seat.sees("verified: `make test` passed");
    seat.sees_no_more("interrupts");
    seat.types("\x04");
    assert_eq!(seat.leaves(), 0);
    // A program is told what there is.
    let ended = world.ah(["-n", "-m", &model, "--until", "", "go"]).run();
    assert_eq!(ended.code, Some(2), "{}", ended.stderr);
    assert!(
        ended
            .stderr
            .contains("this project has `make test` (Makefile)"),
        "{}",
        ended.stderr
    );
}
