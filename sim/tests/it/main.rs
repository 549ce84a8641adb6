//! Sessions from numbers: all hold, each planted fault is found, and the same number gives the same story.

use ah_sim::{
    Act, DiskEvent, FleetPlan, PlantedFault, Playable as _, Played, Process, Step, Task, search,
    session, story,
};

/// Turns of a usual run; `cargo xtask sim` plays more.
const TURNS: usize = 20_000;
/// Sessions in which a planted fault has to show itself.
const SESSIONS: u64 = 300;

#[test]
fn what_must_hold_holds_whatever_happens() {
    let turns = search(0, TURNS).unwrap_or_else(|failure| panic!("{failure}"));
    assert!(turns >= TURNS);
}

#[test]
fn each_planted_fault_is_found_by_its_law_and_told_as_a_short_story() {
    for (plant, law) in PlantedFault::ALL {
        let breaks = |played: &Played| played.fault.as_ref().is_some_and(|it| it.law == law);
        let seed = (0..SESSIONS).find(|seed| breaks(&story(*seed, Some(plant))));
        let seed = seed.unwrap_or_else(|| panic!("{plant:?} is not found"));
        let found = session(seed, Some(plant)).expect_err("it is found again");
        assert!(breaks(&found.played), "{plant:?}: {found}");
        assert!(found.parts <= 3, "{plant:?}: {found}");
    }
}

#[test]
fn a_number_is_a_session() {
    let faults = PlantedFault::ALL.map(|(plant, _)| Some(plant));
    for (seed, plant) in (0..).zip([None; 20].into_iter().chain(faults)) {
        assert_eq!(story(seed, plant), story(seed, plant), "seed {seed}");
    }
}

/// A change that gives rows back is stored behind the last of them: its failure was not told, and runs were acknowledged that no
/// queue had.
#[test]
fn what_is_acknowledged_is_queued_whichever_operation_of_the_disk_fails() {
    for operation in 0..60 {
        for event in [DiskEvent::Full, DiskEvent::Error, DiskEvent::PowerCut] {
            let process = Process {
                seed: 0,
                server: None,
                act: Act::Nothing,
                mail: Vec::new(),
                injection: None,
                disk: Some((operation, event)),
            };
            let task = Task::Queue(0);
            let steps = vec![Step { task, process }];
            let played = FleetPlan { steps }.play(None);
            assert_eq!(
                played.fault, None,
                "{event:?} at {operation}: {:#?}",
                played.story
            );
        }
    }
}
