//! Whole sessions from one number: what the model says, what tools do, when the process is killed or interrupted and when mail
//! comes is made from a seed. The agent and its store, SQLite included, are the real ones.
//!
//! What must hold is said once, in `laws.rs`, and is looked at with each request and after each process. A session in which
//! something does not hold is made shorter until nothing can be left out, and printed as a story. [`PlantedFault`] puts faults into the
//! ports, to show that they are found. `docs/simulation.md` says what is simulated and what is not.

mod acts;
mod agents;
mod around;
mod chance;
mod disk;
mod fleet;
mod hooks;
mod hosts;
mod law;
mod laws;
mod model;
mod opening;
mod permits;
mod plan;
mod plant;
mod play;
mod process;
mod program;
mod remote;
mod servers;
mod store;
mod tools;
mod vendor;
mod workspace;
mod world;

use std::fmt;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

pub use around::Around;
pub use fleet::{FleetPlan, Step, Task};
pub use law::{Fault, Law};
pub use plan::{Act, DiskEvent, Injection, Plan, Process};
pub use plant::PlantedFault;
pub use play::{Playable, Played};
pub use servers::count as servers;

/// A play in which something does not hold, as short as it can be.
#[derive(Debug, Clone)]
pub struct Failure {
    /// The seed that found it.
    pub seed: u64,
    /// The number of processes that are needed for it.
    pub parts: usize,
    /// What happens in them.
    pub played: Played,
}

/// Every so many numbers there is a fleet; the others are sessions.
const FLEETS: u64 = 8;

/// Plays what `seed` is: a session or a fleet; returns its number of turns, or how it fails.
///
/// # Errors
///
/// If something does not hold.
pub fn session(seed: u64, plant: Option<PlantedFault>) -> Result<usize, Box<Failure>> {
    match seed % FLEETS == FLEETS - 1 {
        true => whole(seed, FleetPlan::new(seed), plant),
        false => whole(seed, Plan::new(seed), plant),
    }
}

/// Plays what `seed` is; returns what happens.
pub fn story(seed: u64, plant: Option<PlantedFault>) -> Played {
    match seed % FLEETS == FLEETS - 1 {
        true => FleetPlan::new(seed).play(plant),
        false => Plan::new(seed).play(plant),
    }
}

fn whole(
    seed: u64,
    plan: impl Playable,
    plant: Option<PlantedFault>,
) -> Result<usize, Box<Failure>> {
    let played = plan.play(plant);
    match played.fault {
        None => Ok(played.turns),
        Some(_) => Err(Box::new(shortened(seed, plan, played, plant))),
    }
}

/// Plays the numbers from `first` on until they have so many turns; returns how many turns they had.
///
/// # Errors
///
/// If something does not hold in one of them: the failure with the smallest number of those that were found.
pub fn search(first: u64, turns: usize) -> Result<usize, Box<Failure>> {
    side_by_side(first, |seed, played| {
        (played < turns).then(|| session(seed, None))
    })
}

/// Plays ten minutes of a fleet for each of so many numbers from `first` on; returns how many turns they had.
///
/// # Errors
///
/// As [`search`].
pub fn chaos(first: u64, count: u64) -> Result<usize, Box<Failure>> {
    side_by_side(first, |seed, _| {
        (seed < first + count).then(|| whole(seed, FleetPlan::chaos(seed), None))
    })
}

/// Plays numbers from `first` on, one on each core, while there is something to `play`: a number, after so many turns.
fn side_by_side(
    first: u64,
    play: impl Fn(u64, usize) -> Option<Result<usize, Box<Failure>>> + Sync,
) -> Result<usize, Box<Failure>> {
    let seeds = AtomicU64::new(first);
    let played = AtomicUsize::new(0);
    let failure = Mutex::new(None::<Box<Failure>>);
    let found = || failure.lock().unwrap_or_else(PoisonError::into_inner);
    let play_all = || {
        while found().is_none() {
            let seed = seeds.fetch_add(1, Ordering::Relaxed);
            match play(seed, played.load(Ordering::Relaxed)) {
                None => break,
                Some(Ok(more)) => {
                    played.fetch_add(more, Ordering::Relaxed);
                }
                Some(Err(failed)) => {
                    let mut found = found();
                    if found.as_ref().is_none_or(|other| failed.seed < other.seed) {
                        *found = Some(failed);
                    }
                }
            }
        }
    };
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(play_all);
        }
    });
    let found = failure.into_inner().unwrap_or_else(PoisonError::into_inner);
    found.map_or(Ok(played.into_inner()), Err)
}

/// Leaves out of a failing play what is not needed to break the same law.
fn shortened(
    seed: u64,
    mut plan: impl Playable,
    mut played: Played,
    plant: Option<PlantedFault>,
) -> Failure {
    let law = |played: &Played| played.fault.as_ref().map(|fault| fault.law);
    let broken = law(&played);
    let (mut at, mut needed) = (0, 0);
    loop {
        let mut simpler = plan.simpler();
        if needed == simpler.len() {
            return Failure {
                seed,
                parts: plan.parts(),
                played,
            };
        }
        // What was needed before is looked at again when all else is left out.
        at %= simpler.len();
        let without = simpler.swap_remove(at);
        let other = without.play(plant);
        if law(&other) == broken {
            (plan, played, needed) = (without, other, 0);
        } else {
            (at, needed) = (at + 1, needed + 1);
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(fault) = &self.played.fault {
            writeln!(f, "seed {}: {fault}", self.seed)?;
        }
        self.played
            .story
            .iter()
            .try_for_each(|line| writeln!(f, "  {line}"))
    }
}
