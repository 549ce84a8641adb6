//! Sessions from numbers: all hold, each planted fault is found, and the same number gives the same story.

use ah_sim::{Plan, Plant, play, search, session};

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
fn each_planted_fault_is_found_and_told_as_a_short_story() {
    for plant in Plant::ALL {
        let found = (0..SESSIONS).find_map(|seed| session(seed, Some(plant)).err());
        let found = found.unwrap_or_else(|| panic!("{plant:?} is not found"));
        assert!(found.plan.lives.len() <= 2, "{plant:?}: {found}");
    }
}

#[test]
fn a_number_is_a_session() {
    for seed in 0..40 {
        let plan = Plan::new(seed);
        assert_eq!(play(&plan, None), play(&plan, None), "seed {seed}");
    }
}
