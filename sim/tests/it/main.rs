//! Sessions from numbers: all hold, each planted fault is found, and the same number gives the same story.

use ah_sim::{
    Act, DiskEvent, FleetPlan, Plan, PlantedFault, Playable as _, Played, Process, Step, Task,
    search, session, story,
};

/// Turns of a usual run; `cargo xtask sim` plays more.
const TURNS: usize = 20_000;
/// Sessions in which a planted fault has to show itself.
const SESSIONS: u64 = 300;
/// What a story says of the disk that refuses something.
const EVENTS: [&str; 3] = ["the disk is full", "the disk fails once", "the power fails"];

#[test]
fn what_must_hold_holds_whatever_happens() {
    let turns = search(0, TURNS).unwrap_or_else(|failure| panic!("{failure}"));
    assert!(turns >= TURNS);
}

#[test]
fn each_planted_fault_is_found_by_its_law_and_told_as_a_short_story() {
    for (plant, law) in PlantedFault::ALL {
        let breaks = |played: &Played| played.fault.as_ref().is_some_and(|it| it.law == law);
        // Sessions first: a fleet takes more to tell.
        let (fleets, sessions): (Vec<_>, Vec<_>) = (0..SESSIONS).partition(|seed| seed % 4 == 3);
        let mut seeds = match plant.is_of_fleet() {
            true => fleets.into_iter().chain(Vec::new()),
            false => sessions.into_iter().chain(fleets),
        };
        let seed = seeds.find(|seed| breaks(&story(*seed, Some(plant))));
        let seed = seed.unwrap_or_else(|| panic!("{plant:?} is not found"));
        let found = session(seed, Some(plant)).expect_err("it is found again");
        assert!(breaks(&found.played), "{plant:?}: {found}");
        assert!(found.parts <= 4, "{plant:?}: {found}");
    }
}

#[test]
fn a_number_is_a_session() {
    let faults = PlantedFault::ALL.map(|(plant, _)| Some(plant));
    for (seed, plant) in (0..).zip([None; 20].into_iter().chain(faults)) {
        assert_eq!(story(seed, plant), story(seed, plant), "seed {seed}");
    }
}

/// A change that gives a row back is stored behind that row: its failure was not told, and runs were acknowledged that no queue had.
#[test]
fn what_is_acknowledged_is_there_whichever_operation_of_the_disk_fails() {
    let process = |operation, event| Process {
        seed: 0,
        is_calm: false,
        server: None,
        act: Act::Nothing,
        mail: Vec::new(),
        injection: None,
        disk: Some((operation, event)),
    };
    for event in [DiskEvent::Full, DiskEvent::Error, DiskEvent::PowerCut] {
        let holds = |operation, played: &Played| {
            let story = &played.story;
            assert_eq!(played.fault, None, "{event:?} at {operation}: {story:#?}");
        };
        for operation in 0..120 {
            let processes = vec![process(operation, event)];
            holds(operation, &Plan { processes }.play(None));
        }
        let queued = (0..).take_while(|operation| {
            let steps = vec![Step {
                task: Task::Queue(0),
                process: process(*operation, event),
            }];
            let played = FleetPlan { steps }.play(None);
            holds(*operation, &played);
            played
                .story
                .iter()
                .any(|line| EVENTS.contains(&line.as_str()))
        });
        assert!(queued.count() > 20, "{event:?}");
    }
}
