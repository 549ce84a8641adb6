//! Sessions from numbers: all hold, each planted fault is found, and the same number gives the same story.

use ah_sim::{Plan, PlantedFault, play, search, session};

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
        let found = (0..SESSIONS).find_map(|seed| {
            let failure = session(seed, Some(plant)).err()?;
            (failure.played.fault.as_ref()?.law == law).then_some(failure)
        });
        let found = found.unwrap_or_else(|| panic!("{plant:?} is not found"));
        assert!(found.plan.processes.len() <= 3, "{plant:?}: {found}");
    }
}

#[test]
fn a_number_is_a_session() {
    let faults = PlantedFault::ALL.map(|(plant, _)| Some(plant));
    for (seed, plant) in (0..).zip([None; 20].into_iter().chain(faults)) {
        let plan = Plan::new(seed);
        assert_eq!(play(&plan, plant), play(&plan, plant), "seed {seed}");
    }
}
