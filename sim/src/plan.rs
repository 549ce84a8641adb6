//! What happens to a session, made from a number: its processes one after another, and how each ends.

use std::fmt;

use ah_conversation::MailKind;

use crate::around::Around;
use crate::chance::Chance;
use crate::servers;

/// Moments of a process: calls of a port, pieces of an answer, beginnings and ends of tools. Most processes have fewer.
const MOMENTS: usize = 60;
/// Operations of a process on the disk. Most processes have fewer.
const OPERATIONS: usize = 300;

/// The processes of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// One after another.
    pub processes: Vec<Process>,
}

/// A process with one run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Process {
    /// Decides what the model and the tools do.
    pub seed: u64,
    /// Its model is there, and ends what it says.
    pub is_calm: bool,
    /// Number of the server of its model; `None` for a model that needs none.
    pub server: Option<usize>,
    /// Who and what takes part in it.
    pub around: Around,
    /// What is done before its prompt.
    pub act: Act,
    /// What other processes queue before it begins.
    pub mail: Vec<MailKind>,
    /// What happens at which of its moments; 0 is the first.
    pub injection: Option<(usize, Injection)>,
    /// What happens at which of its operations on the disk.
    pub disk: Option<(usize, DiskEvent)>,
}

/// What is done in a process before its prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Act {
    /// Nothing.
    Nothing,
    /// It takes over the run that the one before has left. It has a prompt only if there is none.
    TakeOver,
    /// The conversation is summarized.
    Summary,
    /// It goes on behind the message at this part of a thousand of the way.
    Back(usize),
    /// It goes on with a copy of the session.
    Fork,
    /// All files go back to the beginning of the session, and perhaps forth again.
    Rewind(bool),
}

/// What happens to a process from outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Injection {
    /// It is killed.
    Kill,
    /// The power fails: it is killed, and what was not synced may be lost.
    PowerCut,
    /// The person interrupts the run.
    Interrupt,
    /// Its host hangs up.
    HangUp,
    /// Another process queues a message.
    Mail(MailKind),
}

/// What happens to the disk of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DiskEvent {
    /// The power fails.
    PowerCut,
    /// It is full from now on.
    Full,
    /// It refuses an operation.
    Error,
}

impl Plan {
    /// Returns the plan of a seed.
    pub fn new(seed: u64) -> Self {
        let mut chance = Chance::new(seed);
        let count = 2 + chance.below(7);
        let server = |chance: &mut Chance| {
            Some(chance.below(2 * servers::count())).filter(|at| *at < servers::count())
        };
        let usual = server(&mut chance);
        let mut process = || {
            let server = match chance.one_in(8) {
                true => server(&mut chance),
                false => usual,
            };
            Process::new(server, &mut chance)
        };
        Self {
            processes: (0..count).map(|_| process()).collect(),
        }
    }
}

impl Process {
    /// Returns a process that nothing comes upon.
    pub(crate) fn calm(seed: u64) -> Self {
        Self {
            seed,
            is_calm: true,
            server: None,
            around: Around::default(),
            act: Act::Nothing,
            mail: Vec::new(),
            injection: None,
            disk: None,
        }
    }

    /// Returns the same with less that comes upon it.
    pub(crate) fn simpler(&self) -> Vec<Self> {
        let mut simpler = Vec::new();
        for around in self.around.simpler() {
            simpler.push(Self {
                around,
                ..self.clone()
            });
        }
        let mut with = |change: fn(&mut Self)| {
            let mut process = self.clone();
            change(&mut process);
            if process != *self {
                simpler.push(process);
            }
        };
        with(|process| process.injection = None);
        with(|process| process.disk = None);
        with(|process| process.mail.clear());
        with(|process| process.act = Act::Nothing);
        with(|process| process.server = None);
        with(|process| process.is_calm = true);
        with(|process| process.inject_earlier(|moment| moment / 2));
        with(|process| process.inject_earlier(|moment| moment.saturating_sub(1)));
        simpler
    }

    fn inject_earlier(&mut self, earlier: fn(usize) -> usize) {
        if let Some((moment, _)) = &mut self.injection {
            *moment = earlier(*moment);
        }
        if let Some((operation, _)) = &mut self.disk {
            *operation = earlier(*operation);
        }
    }

    pub(crate) fn new(server: Option<usize>, chance: &mut Chance) -> Self {
        let mail = |chance: &mut Chance| match chance.one_in(2) {
            true => MailKind::Steer,
            false => MailKind::FollowUp,
        };
        let count = if chance.one_in(3) {
            1 + chance.below(2)
        } else {
            0
        };
        let mut process = Self {
            seed: chance.next(),
            is_calm: false,
            server,
            around: Around::new(chance),
            act: match chance.below(16) {
                0..=5 => Act::TakeOver,
                6 => Act::Summary,
                7 => Act::Back(chance.below(1_000)),
                8 => Act::Fork,
                9 => Act::Rewind(chance.one_in(2)),
                _ => Act::Nothing,
            },
            mail: (0..count).map(|_| mail(chance)).collect(),
            injection: match chance.below(8) {
                0..=1 => Some((chance.below(MOMENTS), Injection::Kill)),
                2..=3 => Some((chance.below(MOMENTS), Injection::PowerCut)),
                4 => Some((chance.below(MOMENTS), Injection::Interrupt)),
                5 => Some((chance.below(MOMENTS), Injection::Mail(mail(chance)))),
                6 => Some((chance.below(MOMENTS), Injection::HangUp)),
                _ => None,
            },
            disk: match chance.below(12) {
                0..=1 => Some((chance.below(OPERATIONS), DiskEvent::PowerCut)),
                2 => Some((chance.below(OPERATIONS), DiskEvent::Full)),
                3 => Some((chance.below(OPERATIONS), DiskEvent::Error)),
                _ => None,
            },
        };
        process.around.host |= matches!(process.injection, Some((_, Injection::HangUp)));
        process
    }
}

impl fmt::Display for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a process, seed {:#x}", self.seed)?;
        if self.is_calm {
            write!(f, ", calm")?;
        }
        if let Some(server) = self.server {
            write!(f, ", at {}", servers::name(server))?;
        }
        self.around.fmt(f)?;
        match self.act {
            Act::Nothing => {}
            Act::TakeOver => write!(f, ", takes over")?,
            Act::Summary => write!(f, ", with a summary")?,
            Act::Back(part) => write!(f, ", goes back to {part} of 1000")?,
            Act::Fork => write!(f, ", in a copy")?,
            Act::Rewind(_) => write!(f, ", after a rewind")?,
        }
        for kind in &self.mail {
            write!(f, ", after mail ({kind:?})")?;
        }
        match self.injection {
            None => {}
            Some((at, Injection::Kill)) => write!(f, ", killed at moment {at}")?,
            Some((at, Injection::PowerCut)) => write!(f, ", power cut at moment {at}")?,
            Some((at, Injection::Interrupt)) => write!(f, ", interrupted at moment {at}")?,
            Some((at, Injection::HangUp)) => write!(f, ", its host hangs up at moment {at}")?,
            Some((at, Injection::Mail(kind))) => write!(f, ", mail ({kind:?}) at moment {at}")?,
        }
        match self.disk {
            None => Ok(()),
            Some((at, DiskEvent::PowerCut)) => {
                write!(f, ", power cut at operation {at} of the disk")
            }
            Some((at, DiskEvent::Full)) => write!(f, ", disk full from operation {at} on"),
            Some((at, DiskEvent::Error)) => write!(f, ", disk refuses operation {at}"),
        }
    }
}
