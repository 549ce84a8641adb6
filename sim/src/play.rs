//! What can be played, and what comes of it.

use std::fmt;

use crate::law::Fault;
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
