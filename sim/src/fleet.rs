//! Fleets: runs of several sessions are queued, workers take them, several at a time, and die, stall or are stopped, while others send
//! messages, answer questions, interrupt and cancel. The workers, the agents and SQLite are the real ones; PostgreSQL is a model.

mod client;
mod life;
mod local;
mod playing;
mod server;
mod shared;
mod tables;

use std::fmt;

use ah_conversation::MailKind;

use crate::chance::Chance;
use crate::plan::{DiskEvent, Process};

/// Most sessions of a fleet, besides those of its schedule.
const SESSIONS: usize = 3;
/// Most steps of a fleet.
const STEPS: usize = 16;
/// Longest pause before a step, in milliseconds.
const PAUSE: usize = 10_000;
/// Operations of the disk, at one of which something may happen.
const OPERATIONS: usize = 300;
/// How long chaos lasts, in milliseconds.
const CHAOS: u64 = 600_000;

/// What happens to a fleet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FleetPlan {
    /// Decides what comes upon the workers by themselves.
    pub seed: u64,
    /// Whether it is over PostgreSQL, in the place of SQLite.
    pub is_remote: bool,
    /// Workers that there are at once.
    pub workers: usize,
    /// One after another.
    pub steps: Vec<Step>,
}

/// What happens to a fleet at a time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// Milliseconds after the step before.
    pub after: u64,
    /// What happens.
    pub task: Task,
    /// What happens to the disk meanwhile.
    pub process: Process,
}

/// What happens at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Task {
    /// Somebody queues a run of the session with this number.
    Queue(usize),
    /// Somebody sends a message to the session with this number.
    Send(usize, MailKind),
    /// Somebody answers a question of the session with this number.
    Answer(usize),
    /// Somebody interrupts the run of the session with this number.
    Interrupt(usize),
    /// Somebody cancels the runs of the session with this number.
    Cancel(usize),
    /// Somebody has a run queued each minute.
    Schedule,
    /// The worker with this number is killed.
    Kill(usize),
    /// The worker with this number is asked to end.
    Terminate(usize),
    /// The worker with this number does nothing for so many seconds.
    Stall(usize, u64),
    /// The clock of the worker with this number jumps to so many seconds from the right time.
    Clock(usize, i64),
    /// The server is away for so many seconds.
    Away(u64),
    /// The power fails.
    PowerCut,
}

impl FleetPlan {
    /// Returns the plan of a seed.
    pub fn new(seed: u64) -> Self {
        let mut chance = Chance::new(seed);
        let count = 3 + chance.below(STEPS - 3);
        let mut plan = Self::empty(&mut chance);
        let sessions = 1 + chance.below(SESSIONS);
        for at in 0..count {
            let step = plan.step(&mut chance, sessions, at == 0);
            plan.steps.push(step);
        }
        plan
    }

    /// Returns ten minutes of a seed.
    pub fn chaos(seed: u64) -> Self {
        let mut chance = Chance::new(seed);
        let mut plan = Self::empty(&mut chance);
        let mut time = 0;
        while time < CHAOS {
            let step = plan.step(&mut chance, SESSIONS, time == 0);
            time += step.after;
            plan.steps.push(step);
        }
        plan
    }

    fn empty(chance: &mut Chance) -> Self {
        Self {
            seed: chance.next(),
            is_remote: chance.one_in(2),
            workers: 1 + chance.below(3),
            steps: Vec::new(),
        }
    }

    fn step(&self, chance: &mut Chance, sessions: usize, is_first: bool) -> Step {
        let session = chance.below(sessions);
        let worker = chance.below(self.workers);
        let task = match chance.below(24) {
            _ if is_first => Task::Queue(session),
            0..=3 => Task::Queue(session),
            4 => Task::Send(session, MailKind::FollowUp),
            5..=7 => Task::Send(session, MailKind::Steer),
            8..=12 => Task::Answer(session),
            13 => Task::Interrupt(session),
            14 => Task::Cancel(session),
            15 => Task::Schedule,
            16..=17 => Task::Kill(worker),
            18..=19 => Task::Terminate(worker),
            20 => Task::Stall(worker, 10 + chance.below(50) as u64),
            21 => Task::Clock(worker, [-3_600, 3_600, 86_400, 0][chance.below(4)]),
            _ if self.is_remote => Task::Away(1 + chance.below(40) as u64),
            22 => Task::PowerCut,
            _ => Task::Kill(worker),
        };
        let event = match chance.below(24) {
            _ if self.is_remote => None,
            0 => Some(DiskEvent::PowerCut),
            1 => Some(DiskEvent::Full),
            2 => Some(DiskEvent::Error),
            _ => None,
        };
        Step {
            after: chance.below(PAUSE) as u64,
            task,
            process: Process {
                disk: event.map(|event| (chance.below(OPERATIONS), event)),
                ..Process::calm(chance.next())
            },
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.task {
            Task::Queue(session) => write!(f, "a run of session {session} is queued")?,
            Task::Send(session, kind) => write!(f, "mail ({kind:?}) for session {session}")?,
            Task::Answer(session) => write!(f, "an answer for session {session}")?,
            Task::Interrupt(session) => write!(f, "session {session} is to be interrupted")?,
            Task::Cancel(session) => write!(f, "session {session} is to be cancelled")?,
            Task::Schedule => write!(f, "a run each minute")?,
            Task::Kill(worker) => write!(f, "worker {worker} is killed")?,
            Task::Terminate(worker) => write!(f, "worker {worker} is asked to end")?,
            Task::Stall(worker, seconds) => write!(f, "worker {worker} stalls for {seconds} s")?,
            Task::Clock(worker, seconds) => {
                write!(f, "the clock of worker {worker} is {seconds} s ahead")?;
            }
            Task::Away(seconds) => write!(f, "the server is away for {seconds} s")?,
            Task::PowerCut => write!(f, "the power is cut")?,
        }
        match self.process.disk {
            None => Ok(()),
            Some((at, event)) => write!(f, ", {event:?} at operation {at} of the disk"),
        }
    }
}
