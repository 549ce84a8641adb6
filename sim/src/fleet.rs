//! A fleet over SQLite: runs of several sessions are queued, messages are sent to them, and workers take them, die, and go on with
//! what others have left. The queue, the sessions and the agent are real; a worker is the few steps of one, and takes one run at a
//! time.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ah_agent::{RunOutcome, Session, Stop, Toolbox};
use ah_conversation::{Clock as _, MailKind, SessionId, StoreError};
use ah_sandbox::sqlite::disk::{Mounted, mount};
use ah_store::fleet::{End, Fleet as _, NewRun, Run, Timing};
use ah_store::{LocalFleet, Paths, Queue, SessionStore, Sessions};
use tempfile::TempDir;

use crate::chance::Chance;
use crate::disk::SimulatedDisk;
use crate::law::{Fault, Law, unusable};
use crate::plan::{Act, Process};
use crate::plant::PlantedFault;
use crate::play::{Playable, Played, simpler};
use crate::process::{TOO_LONG, folder, ports, runtime, settings, stored};
use crate::store::{SimulatedStore, now};
use crate::world::{Sent, Story, World};
use crate::{laws, tools};

/// Most sessions of a fleet.
const SESSIONS: usize = 3;
/// Most steps of a fleet.
const STEPS: usize = 14;
/// Times that a worker looks for a run at the end, at most.
const MOST_LOOKS: usize = 200;
/// A worker counts as dead at once: only the living take part.
const DEAD: Timing = Timing {
    beat: Duration::ZERO,
    dead: Duration::ZERO,
};

/// What happens to a fleet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FleetPlan {
    /// One after another.
    pub steps: Vec<Step>,
}

/// A process of a fleet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// What it does.
    pub task: Task,
    /// What happens to it, and decides what the model says.
    pub process: Process,
}

/// What a process of a fleet does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Task {
    /// It queues a run of the session with this number.
    Queue(usize),
    /// It sends a message to the session with this number.
    Send(usize, MailKind),
    /// It is a worker, and takes a run.
    Work,
}

impl FleetPlan {
    /// Returns the plan of a seed.
    pub fn new(seed: u64) -> Self {
        let mut chance = Chance::new(seed);
        let sessions = 1 + chance.below(SESSIONS);
        let count = 3 + chance.below(STEPS - 3);
        let mut step = |at| {
            let session = chance.below(sessions);
            let task = match chance.below(6) {
                _ if at == 0 => Task::Queue(session),
                0 => Task::Queue(session),
                1 => Task::Send(session, MailKind::FollowUp),
                2 => Task::Send(session, MailKind::Steer),
                _ => Task::Work,
            };
            let mut process = Process::new(None, &mut chance);
            process.mail.clear();
            process.act = Act::TakeOver;
            if task != Task::Work {
                // It has no run, and so no moments.
                (process.act, process.injection) = (Act::Nothing, None);
            }
            Step { task, process }
        };
        Self {
            steps: (0..count).map(&mut step).collect(),
        }
    }
}

impl Playable for FleetPlan {
    fn play(&self, plant: Option<PlantedFault>) -> Played {
        let runtime = runtime();
        let mut fleet = Fleet::new(plant);
        for step in &self.steps {
            let played = runtime.block_on(fleet.perform(step));
            if let Err(fault) = played {
                fleet.worlds[0].state().fail(fault);
            }
            if fleet.is_broken() {
                return fleet.played();
            }
        }
        if let Err(fault) = runtime.block_on(fleet.finish()) {
            fleet.worlds[0].state().fail(fault);
        }
        fleet.played()
    }

    fn simpler(&self) -> Vec<Self> {
        let plans = simpler(&self.steps, |step| &mut step.process);
        plans.map(|steps| Self { steps }).collect()
    }

    fn parts(&self) -> usize {
        self.steps.len()
    }
}

/// The fleet, and what is around it.
struct Fleet {
    folder: TempDir,
    mounted: Option<Mounted>,
    _workspace: TempDir,
    disk: Arc<SimulatedDisk>,
    worlds: Vec<Arc<World>>,
    ids: Vec<SessionId>,
    /// Number of processes so far.
    processes: usize,
}

impl Fleet {
    fn new(plant: Option<PlantedFault>) -> Self {
        let (folder, workspace) = (folder(), folder());
        let disk = Arc::new(SimulatedDisk::new(plant));
        let story = Story::default();
        let ids: Vec<_> = (0..SESSIONS)
            .map(|number| SessionId::from(format!("0000000000000000000000000{number}")))
            .collect();
        let world = |id: &SessionId| {
            let paths = Paths::of(folder.path().join(format!("{id}.db")));
            let around = (disk.clone(), story.clone());
            Arc::new(World::new(paths, workspace.path(), around, plant))
        };
        Self {
            mounted: Some(mount(folder.path(), disk.clone())),
            worlds: ids.iter().map(world).collect(),
            folder,
            _workspace: workspace,
            disk,
            ids,
            processes: 0,
        }
    }

    fn is_broken(&self) -> bool {
        let mut worlds = self.worlds.iter();
        worlds.any(|world| world.state().fault.is_some())
    }

    fn played(&self) -> Played {
        let mut played = self.worlds[0].played();
        for world in &self.worlds[1..] {
            let other = world.played();
            played.turns += other.turns;
            played.fault = played.fault.or(other.fault);
        }
        played
    }

    /// Lets a process do its task; if it dies, the next one finds the files as it has left them.
    async fn perform(&mut self, step: &Step) -> Result<(), Fault> {
        self.processes += 1;
        let rest = folder();
        let process = &step.process;
        let worker = format!("worker-{}", self.processes);
        { &self.disk }.begin(process.seed, process.disk, self.folder.path(), rest.path());
        self.worlds[0].state().tell(step.to_string());
        let done = match step.task {
            Task::Queue(session) => self.queue(session).await,
            Task::Send(session, kind) => self.send(session, kind).await,
            Task::Work => self.work(process, &worker).await,
        };
        self.worlds[0].hear();
        let (is_off, has_failed) = (self.disk.is_off(), self.disk.has_failed());
        self.disk.calm();
        if is_off {
            self.mounted = None;
            self.mounted = Some(mount(rest.path(), self.disk.clone()));
            self.folder = rest;
            for (world, id) in self.worlds.iter().zip(&self.ids) {
                world.moved(Paths::of(self.folder.path().join(format!("{id}.db"))));
            }
            return Ok(());
        }
        match done {
            Err(Trouble::Store(error)) if !has_failed => Err(unusable(&error)),
            Err(Trouble::Fault(fault)) => Err(fault),
            Ok(()) | Err(Trouble::Store(_)) => Ok(()),
        }
    }

    fn open(&self) -> Result<LocalFleet, StoreError> {
        LocalFleet::open(&Sessions::in_folder(self.folder.path()), DEAD)
    }

    /// Notes a message that was sent to a session, and whether that was acknowledged.
    fn sent<T>(&self, session: usize, kind: MailKind, text: String, sent: &Result<T, StoreError>) {
        let is_acknowledged = sent.is_ok() && !self.disk.is_off();
        let mut state = self.worlds[session].state();
        let how = if is_acknowledged { "is" } else { "may be" };
        state.tell(format!("{text} {how} queued for session {session}"));
        state.mail.push(Sent {
            kind,
            text,
            is_run: false,
            is_acknowledged,
        });
    }

    fn text(&self, session: usize) -> String {
        format!("mail-{}.", self.worlds[session].state().mail.len() + 1)
    }

    async fn queue(&self, session: usize) -> Result<(), Trouble> {
        let world = &self.worlds[session];
        let text = self.text(session);
        let run = NewRun {
            session: self.ids[session].clone(),
            message: world.clock.message_id(),
            prompt: text.clone(),
            command: Vec::new(),
            folder: PathBuf::from("/"),
            model: None,
            priority: 0,
            delay: Duration::ZERO,
            attempts: 1_000,
            answer_within: None,
        };
        let is_forgotten = world.state().planted(PlantedFault::RunForgotten, 2);
        let queued = match is_forgotten {
            true => { Queue::open(&world.paths()) }
                .and_then(|queue| queue.send_as(&run.message, MailKind::FollowUp, &text)),
            false => self
                .open()
                .and_then(|fleet| now(fleet.enqueue(&run)).map(drop)),
        };
        self.sent(session, MailKind::FollowUp, text, &queued);
        if let Some(sent) = world.state().mail.last_mut() {
            sent.is_run = true;
        }
        Ok(queued?)
    }

    async fn send(&self, session: usize, kind: MailKind) -> Result<(), Trouble> {
        let world = &self.worlds[session];
        let is_run = |sent: &Sent| sent.is_run && sent.is_acknowledged;
        if !world.state().mail.iter().any(is_run) {
            // A message waits for the next run.
            return Ok(());
        }
        let text = self.text(session);
        let wakes = !world.state().planted(PlantedFault::MailWakesNobody, 1);
        let sent = match wakes {
            true => { self.open() }
                .and_then(|fleet| now(fleet.send(&self.ids[session], kind, &text)).map(drop)),
            false => {
                { Queue::open(&world.paths()) }.and_then(|queue| queue.send(kind, &text).map(drop))
            }
        };
        self.sent(session, kind, text, &sent);
        Ok(sent?)
    }

    /// Takes a run, if there is one, and runs it.
    async fn work(&self, process: &Process, worker: &str) -> Result<(), Trouble> {
        let fleet = Arc::new(self.open()?);
        let Some(run) = now(fleet.claim(worker))? else {
            return Ok(());
        };
        let session = { self.ids.iter() }
            .position(|id| *id == run.session)
            .unwrap_or_default();
        let world = &self.worlds[session];
        world
            .state()
            .tell(format!("{worker} has session {session}"));
        world.enter(process);
        if self.disk.is_off() {
            return Ok(());
        }
        let attempt = self.attempt(&fleet, world, &run, (worker, process));
        let attempt = tokio::time::timeout(TOO_LONG, attempt);
        let ended = tokio::select! {
            biased;
            () = world.killed.notified() => return Ok(()),
            ended = attempt => ended.map_err(|_| Law::Ended.broken("nothing happens any more")),
        };
        ended.map_err(Trouble::Fault)??;
        if self.disk.is_off() || self.disk.has_failed() {
            return Ok(());
        }
        // Who looks now is nobody.
        self.disk.calm();
        let (all, state) = (
            stored(&world.paths()).map_err(Trouble::Fault)?,
            world.state(),
        );
        laws::always(&all, &state).map_err(Trouble::Fault)
    }

    /// Goes on with the session of a run, and says how it has ended.
    async fn attempt(
        &self,
        fleet: &Arc<LocalFleet>,
        world: &Arc<World>,
        run: &Run,
        (worker, process): (&str, &Process),
    ) -> Result<(), StoreError> {
        let store = Arc::new(SessionStore::open(&world.paths()).map_err(crate::process::refused)?);
        let outcome = resumed(world, store, process).await;
        world.hear();
        if self.disk.is_off() {
            world.gone().await;
        }
        world.moment().await;
        let end = match outcome {
            Ok(outcome) if outcome.as_ref().is_none_or(|it| it.failure.is_none()) => {
                End::Done(None)
            }
            // The next one goes on at once.
            Ok(_) => End::HandedOn(Duration::ZERO),
            Err(_) if self.disk.has_failed() => End::HandedOn(Duration::ZERO),
            Err(error) => return Err(error),
        };
        now(fleet.end(run.id, worker, &end))?;
        world.hear();
        if self.disk.is_off() {
            world.gone().await;
        }
        Ok(())
    }

    /// Lets workers work to whom nothing happens, until there is nothing to do, and looks at what is there then.
    async fn finish(&mut self) -> Result<(), Fault> {
        for look in 0..MOST_LOOKS {
            let is_idle = self.open().and_then(|fleet| now(fleet.is_idle()));
            if is_idle.map_err(|error| unusable(&error))? || self.is_broken() {
                break;
            }
            if look + 1 == MOST_LOOKS {
                return Err(Law::Ended.broken("there are runs that nobody ends"));
            }
            let calm = Step {
                task: Task::Work,
                process: Process::calm(look as u64),
            };
            self.perform(&calm).await?;
        }
        for world in &self.worlds {
            if world.paths().database().exists() {
                let (all, state) = (stored(&world.paths())?, world.state());
                laws::always(&all, &state)?;
                laws::at_rest(&all, &state, true)?;
            }
        }
        Ok(())
    }
}

/// Takes over what was left of the session, with the mail that is there.
async fn resumed(
    world: &Arc<World>,
    store: Arc<SessionStore>,
    process: &Process,
) -> Result<Option<RunOutcome>, StoreError> {
    let simulated = Arc::new(SimulatedStore {
        world: world.clone(),
        store: store.clone(),
        session: store,
    });
    let ports = ports(world, simulated, process);
    let tools = Toolbox::new(tools::SimulatedTool::all(world));
    let stop = Stop::interrupt(world.state().interrupt.clone());
    let mut session = Session::take_over(ports, tools, settings(world)).await?;
    let outcome = session.resume(&stop).await?;
    session.close("other").await?;
    Ok(outcome)
}

/// Why a task was not done.
enum Trouble {
    Store(StoreError),
    Fault(Fault),
}

impl From<StoreError> for Trouble {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.task {
            Task::Queue(session) => write!(f, "a run of session {session}: ")?,
            Task::Send(session, _) => write!(f, "mail for session {session}: ")?,
            Task::Work => write!(f, "a worker: ")?,
        }
        self.process.fmt(f)
    }
}
