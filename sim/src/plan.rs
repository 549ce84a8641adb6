//! What happens to a session, made from a number: its processes one after another, and how each ends.

use std::fmt;

use ah_conversation::MailKind;

use crate::chance::Chance;

/// Moments of a process: calls of a port, pieces of an answer, beginnings and ends of tools. Most processes have fewer.
const MOMENTS: usize = 60;

/// The processes of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// One after another.
    pub lives: Vec<Life>,
}

/// A process with one run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Life {
    /// Decides what the model and the tools do.
    pub seed: u64,
    /// Whether it takes over what the one before has left, if anything; else it has a prompt.
    pub takes_over: bool,
    /// What other processes queue before it begins.
    pub mail: Vec<MailKind>,
    /// What happens at which of its moments; 0 is the first.
    pub blow: Option<(usize, Blow)>,
}

/// What happens to a process from outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Blow {
    /// It is killed.
    Kill,
    /// The person interrupts the run.
    Interrupt,
    /// Another process queues a message.
    Mail(MailKind),
}

impl Plan {
    /// Returns the plan of a seed.
    pub fn new(seed: u64) -> Self {
        let mut chance = Chance::new(seed);
        let count = 2 + chance.below(7);
        Self {
            lives: (0..count).map(|_| Life::new(&mut chance)).collect(),
        }
    }

    /// Returns plans in which less happens, the simplest first.
    pub fn simpler(&self) -> Vec<Self> {
        let mut plans = Vec::new();
        for at in 0..self.lives.len() {
            let mut plan = self.clone();
            plan.lives.remove(at);
            plans.push(plan);
        }
        for (at, life) in self.lives.iter().enumerate() {
            let mut with = |change: fn(&mut Life)| {
                let mut plan = self.clone();
                change(&mut plan.lives[at]);
                if plan != *self {
                    plans.push(plan);
                }
            };
            with(|life| life.blow = None);
            with(|life| life.mail.clear());
            with(|life| life.takes_over = false);
            if life.blow.is_some_and(|(moment, _)| moment > 0) {
                with(|life| life.blow = life.blow.map(|(moment, blow)| (moment / 2, blow)));
                with(|life| {
                    life.blow = life
                        .blow
                        .map(|(moment, blow)| (moment.saturating_sub(1), blow));
                });
            }
        }
        plans
    }
}

impl Life {
    fn new(chance: &mut Chance) -> Self {
        let mail = |chance: &mut Chance| match chance.one_in(2) {
            true => MailKind::Steer,
            false => MailKind::FollowUp,
        };
        let count = if chance.one_in(3) {
            1 + chance.below(2)
        } else {
            0
        };
        Self {
            seed: chance.next(),
            takes_over: chance.one_in(3),
            mail: (0..count).map(|_| mail(chance)).collect(),
            blow: match chance.below(6) {
                0..=2 => Some((chance.below(MOMENTS), Blow::Kill)),
                3 => Some((chance.below(MOMENTS), Blow::Interrupt)),
                4 => Some((chance.below(MOMENTS), Blow::Mail(mail(chance)))),
                _ => None,
            },
        }
    }
}

impl fmt::Display for Life {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a process, seed {:#x}", self.seed)?;
        if self.takes_over {
            write!(f, ", takes over")?;
        }
        for kind in &self.mail {
            write!(f, ", after mail ({kind:?})")?;
        }
        match self.blow {
            None => Ok(()),
            Some((at, Blow::Kill)) => write!(f, ", killed at moment {at}"),
            Some((at, Blow::Interrupt)) => write!(f, ", interrupted at moment {at}"),
            Some((at, Blow::Mail(kind))) => write!(f, ", mail ({kind:?}) at moment {at}"),
        }
    }
}
