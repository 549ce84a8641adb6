//! What can be played, and what comes of it.

use std::fmt;

use crate::law::Fault;
use crate::plan::Process;
use crate::plant::PlantedFault;

/// Something that is made from a number, and played.
pub trait Playable: Clone + fmt::Debug {
    /// Plays it, and then what nothing comes upon.
    fn play(&self, plant: Option<PlantedFault>) -> Played;

    /// Returns the same with less in it, the simplest first.
    fn simpler(&self) -> Vec<Self>;

    /// Returns how many processes it has.
    fn parts(&self) -> usize;
}

/// Returns the parts of a plan without each of them, and then with less in the process of each.
pub(crate) fn simpler<T: Clone>(
    parts: &[T],
    process: impl Fn(&mut T) -> &mut Process,
) -> impl Iterator<Item = Vec<T>> {
    let mut plans = Vec::new();
    if parts.len() > 2 {
        let (first, last) = parts.split_at(parts.len() / 2);
        plans.extend([first.to_vec(), last.to_vec()]);
    }
    for at in 0..parts.len() {
        let mut fewer = parts.to_vec();
        fewer.remove(at);
        plans.push(fewer);
    }
    for at in 0..parts.len() {
        for less in process(&mut parts[at].clone()).simpler() {
            let mut other = parts.to_vec();
            *process(&mut other[at]) = less;
            plans.push(other);
        }
    }
    plans.into_iter()
}

/// What a session has come to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Played {
    /// Number of requests to the model.
    pub turns: usize,
    /// What happened, a line each: the same for the same plan, on every machine.
    pub story: Vec<String>,
    /// What does not hold; `None` if all does.
    pub fault: Option<Fault>,
}
