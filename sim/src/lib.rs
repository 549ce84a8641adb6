//! Whole sessions from one number: what the model says, what tools do, when the process is killed or interrupted and when mail
//! comes is made from a seed. The agent and its store, SQLite included, are the real ones.
//!
//! What must hold is said once, in [`laws`], and is looked at with each request and after each process. A session in which
//! something does not hold is made shorter until nothing can be left out, and printed as a story. [`Plant`] puts faults into the
//! ports, to show that they are found. `docs/simulation.md` says what is simulated and what is not.

mod chance;
mod disk;
mod laws;
mod model;
mod plan;
mod plant;
mod process;
mod tools;
mod world;

use std::fmt;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread;

pub use plan::{Blow, Life, Plan};
pub use plant::Plant;
pub use process::play;
pub use world::Played;

/// A session in which something does not hold, as short as it can be.
#[derive(Debug, Clone)]
pub struct Failure {
    /// The seed that found it.
    pub seed: u64,
    /// The processes that are needed for it.
    pub plan: Plan,
    /// What happens in them.
    pub played: Played,
}

/// Plays the session of `seed`; returns its number of turns, or how it fails.
///
/// # Errors
///
/// If something does not hold.
pub fn session(seed: u64, plant: Option<Plant>) -> Result<usize, Box<Failure>> {
    let plan = Plan::new(seed);
    let played = play(&plan, plant);
    if played.fault.is_none() {
        return Ok(played.turns);
    }
    let (plan, played) = shortened(plan, played, plant);
    Err(Box::new(Failure { seed, plan, played }))
}

/// Plays the sessions from the number `first` on until they have so many turns; returns how many turns they had.
///
/// # Errors
///
/// If something does not hold in one of them.
pub fn search(first: u64, turns: usize) -> Result<usize, Box<Failure>> {
    let seeds = AtomicU64::new(first);
    let played = AtomicUsize::new(0);
    let play = || {
        while played.load(Ordering::Relaxed) < turns {
            let seed = seeds.fetch_add(1, Ordering::Relaxed);
            match session(seed, None) {
                Ok(more) => played.fetch_add(more, Ordering::Relaxed),
                Err(failure) => return Err(failure),
            };
        }
        Ok(())
    };
    let cores = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        let workers: Vec<_> = (0..cores).map(|_| scope.spawn(play)).collect();
        let ended = workers.into_iter().map(|worker| match worker.join() {
            Ok(ended) => ended,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        ended
            .collect::<Vec<_>>()
            .into_iter()
            .collect::<Result<(), _>>()
    })?;
    Ok(played.into_inner())
}

/// Leaves out of a failing session what is not needed for it.
fn shortened(mut plan: Plan, mut played: Played, plant: Option<Plant>) -> (Plan, Played) {
    'again: loop {
        for simpler in plan.simpler() {
            let short = play(&simpler, plant);
            if short.fault.is_some() {
                (plan, played) = (simpler, short);
                continue 'again;
            }
        }
        return (plan, played);
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fault = self.played.fault.as_deref().unwrap_or_default();
        writeln!(f, "seed {}: {fault}", self.seed)?;
        self.played
            .story
            .iter()
            .try_for_each(|line| writeln!(f, "  {line}"))
    }
}
