//! Plays a plan of a fleet, and looks at what is there when all is at rest.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::task::Poll;
use std::time::Duration;

use ah_conversation::{MailKind, Message, SessionId, Store as _, StoreError};
use ah_sandbox::sqlite::disk::{Mounted, mount};
use ah_store::fleet::{Fleet, Timing, Wish};
use ah_store::{LocalFleet, OpenError, Sessions, Tree};
use tempfile::TempDir;
use tokio::time::{Instant, sleep, timeout};

use super::client::{Client, SCHEDULED};
use super::life::Life;
use super::local::LocalProcess;
use super::server::{Server, ServerProcess};
use super::shared::{OwnClock, Shared};
use super::{FleetPlan, SESSIONS, Step, Task};
use crate::law::{Fault, Law, unusable};
use crate::laws;
use crate::plant::PlantedFault;
use crate::play::{Playable, Played, simpler};
use crate::process::{TOO_LONG, folder, refused, runtime};
use crate::store::now;
use crate::world::Sent;

/// Slower than usual: a beat is a statement.
const TIMING: Timing = Timing {
    beat: Duration::from_secs(3),
    dead: Duration::from_secs(18),
};
/// Looks whether all is at rest at the end, at most, and the pause between them.
const MOST_LOOKS: usize = 400;
const LOOK: Duration = Duration::from_secs(5);
/// How long an error may come after its cause.
const AFTERMATH: Duration = Duration::from_secs(60);

impl Playable for FleetPlan {
    fn play(&self, plant: Option<PlantedFault>) -> Played {
        play(self, plant)
    }

    fn simpler(&self) -> Vec<Self> {
        let with = |steps| Self {
            steps,
            ..self.clone()
        };
        let mut plans: Vec<_> = simpler(&self.steps, |step| &mut step.process)
            .map(with)
            .collect();
        if self.workers > 1 {
            plans.push(Self {
                workers: self.workers - 1,
                ..self.clone()
            });
        }
        plans
    }

    fn parts(&self) -> usize {
        self.steps.len()
    }
}

fn play(plan: &FleetPlan, plant: Option<PlantedFault>) -> Played {
    let runtime = runtime();
    runtime.block_on(async {
        let mut fleet = Playing::new(plan, plant);
        let played = fleet.play(plan).await;
        if let Err(fault) = played {
            fleet.shared.world(&fleet.ids[0]).state().fail(fault);
        }
        fleet.end();
        fleet.played()
    })
}

/// A fleet that is being played.
struct Playing {
    shared: Arc<Shared>,
    /// PostgreSQL, if it is not over SQLite.
    server: Option<Arc<Server>>,
    lives: Vec<Option<Life>>,
    clocks: Vec<Arc<AtomicI64>>,
    ids: Vec<SessionId>,
    folder: TempDir,
    rest: TempDir,
    mounted: Option<Mounted>,
    _workspace: TempDir,
    /// When the disk or the server has failed last.
    trouble: Option<Instant>,
    schedule: Option<i64>,
}

impl Playing {
    fn new(plan: &FleetPlan, plant: Option<PlantedFault>) -> Self {
        let (folder, rest, workspace) = (folder(), folder(), folder());
        let shared = Shared::new(plan.seed, folder.path(), workspace.path(), plant);
        let ids: Vec<_> = (0..SESSIONS)
            .map(|number| SessionId::from(format!("0000000000000000000000000{number}")))
            .collect();
        for id in &ids {
            shared.world(id);
        }
        Self {
            mounted: Some(mount(folder.path(), shared.disk.clone())),
            shared: Arc::new(shared),
            server: plan.is_remote.then(Arc::default),
            lives: (0..plan.workers).map(|_| None).collect(),
            clocks: (0..plan.workers).map(|_| Arc::default()).collect(),
            ids,
            folder,
            rest,
            _workspace: workspace,
            trouble: None,
            schedule: None,
        }
    }

    /// Returns a process's view of the fleet, whose clock is so far ahead.
    fn connected(&self, ahead: &Arc<AtomicI64>) -> Result<Arc<dyn Fleet>, StoreError> {
        let shared = self.shared.clone();
        let hint = shared.waiter();
        if let Some(server) = &self.server {
            return Ok(Arc::new(ServerProcess {
                shared,
                server: server.clone(),
                timing: TIMING,
                hint,
            }));
        }
        let clock = OwnClock {
            shared: shared.clone(),
            ahead: ahead.clone(),
        };
        let sessions = Sessions::in_folder(self.folder.path());
        let fleet = LocalFleet::with_clock(&sessions, TIMING, Arc::new(clock));
        shared.hear();
        Ok(Arc::new(LocalProcess {
            fleet: Arc::new(fleet?),
            shared,
            hint,
        }))
    }

    async fn play(&mut self, plan: &FleetPlan) -> Result<(), Fault> {
        self.shared
            .disk
            .begin(plan.seed, None, self.folder.path(), self.rest.path());
        self.fill()?;
        for step in &plan.steps {
            self.live(sleep(Duration::from_millis(step.after))).await?;
            if self.shared.below(2) == 0 {
                self.fill()?;
            }
            self.shared.tell(&step.to_string());
            if step.process.disk.is_some() {
                let (folder, rest) = (self.folder.path(), self.rest.path());
                let disk = &self.shared.disk;
                disk.begin(step.process.seed, step.process.disk, folder, rest);
            }
            self.perform(step).await?;
            if self.is_broken() {
                return Ok(());
            }
        }
        self.finish().await
    }

    fn is_broken(&self) -> bool {
        let worlds = self.shared.worlds();
        worlds
            .iter()
            .any(|(_, world)| world.state().fault.is_some())
    }

    /// Starts the workers that there are not.
    fn fill(&mut self) -> Result<(), Fault> {
        for at in 0..self.lives.len() {
            if self.lives[at].is_some() {
                continue;
            }
            match self.connected(&self.clocks[at]) {
                Ok(fleet) => {
                    self.shared.tell(&format!("worker {at} begins"));
                    let life = Life::worker(&self.shared, fleet);
                    self.lives[at] = Some(life);
                }
                Err(error) => self.excused(&error.reason)?,
            }
            if self.shared.disk.is_off() {
                self.black_out();
            }
        }
        Ok(())
    }

    /// An error is one that the disk or the server has caused, or else it must not be.
    fn excused(&mut self, reason: &str) -> Result<(), Fault> {
        if self.shared.disk.has_failed() || self.shared.disk.is_off() {
            self.trouble = Some(Instant::now());
        }
        match self.trouble {
            Some(at) if at.elapsed() < AFTERMATH => {
                self.shared.tell("it fails");
                Ok(())
            }
            _ => Err(Law::Usable.broken(reason)),
        }
    }

    /// Lets all processes live until something has come; `None` if the power has failed before.
    async fn live<T>(&mut self, something: impl Future<Output = T>) -> Result<Option<T>, Fault> {
        let mut something = pin!(something);
        let mut failed = Ok(());
        let come = poll_fn(|context| {
            for at in 0..self.lives.len() {
                let Some(life) = &mut self.lives[at] else {
                    continue;
                };
                if let Poll::Ready(ended) = life.poll(context) {
                    self.shared.tell(&format!("worker {at} ends"));
                    self.kill(at);
                    if let Err(error) = ended
                        && let Err(fault) = self.excused(&error.message)
                    {
                        failed = Err(fault);
                        return Poll::Ready(None);
                    }
                }
                if self.shared.disk.is_off() {
                    return Poll::Ready(None);
                }
            }
            let come = something.as_mut().poll(context).map(Some);
            match self.shared.disk.is_off() {
                true => Poll::Ready(None),
                false => come,
            }
        });
        let come = come.await;
        failed?;
        if self.shared.disk.is_off() {
            self.black_out();
        }
        Ok(come)
    }

    /// A worker is no more: it closes nothing.
    fn kill(&mut self, at: usize) {
        let life = self.lives[at].take();
        self.shared.disk.refuse_all(|| drop(life));
    }

    fn end(&mut self) {
        (0..self.lives.len()).for_each(|at| self.kill(at));
    }

    /// Nobody lives any more, and the files are as the power cut has left them.
    fn black_out(&mut self) {
        self.lives.iter_mut().for_each(|life| drop(life.take()));
        self.shared.hear();
        self.trouble = Some(Instant::now());
        self.mounted = None;
        self.mounted = Some(mount(self.rest.path(), self.shared.disk.clone()));
        self.folder = std::mem::replace(&mut self.rest, folder());
        self.shared.moved(self.folder.path());
        self.shared
            .disk
            .begin(0, None, self.folder.path(), self.rest.path());
    }

    async fn perform(&mut self, step: &Step) -> Result<(), Fault> {
        match step.task {
            Task::Kill(at) => self.kill(at),
            Task::Terminate(at) => {
                if let Some(life) = &self.lives[at] {
                    life.stop.cancel();
                }
            }
            Task::Stall(at, seconds) => {
                if let Some(life) = &mut self.lives[at] {
                    life.stall(Duration::from_secs(seconds));
                }
            }
            Task::Clock(at, seconds) => self.clocks[at].store(seconds * 1_000, Ordering::Relaxed),
            Task::Away(seconds) => {
                let time = Duration::from_secs(seconds);
                if let Some(server) = &self.server {
                    server.leave(time);
                }
                self.trouble = Some(Instant::now() + time);
            }
            Task::PowerCut => {
                self.shared.disk.stop(true);
                self.black_out();
            }
            _ => self.client(step.task).await?,
        }
        Ok(())
    }

    /// Lets somebody do what they want, unless they die meanwhile.
    async fn client(&mut self, task: Task) -> Result<(), Fault> {
        let patience = match self.shared.mishap(10) {
            true => Duration::from_millis(self.shared.below(400) as u64),
            false => TOO_LONG,
        };
        match self.connected(&Arc::default()) {
            Ok(fleet) => self.client_at(fleet, task, patience).await,
            Err(error) => {
                self.excused(&error.reason)?;
                if self.shared.disk.is_off() {
                    self.black_out();
                }
                Ok(())
            }
        }
    }

    /// As [`Self::client`], at a fleet that is open, for so long.
    async fn client_at(
        &mut self,
        fleet: Arc<dyn Fleet>,
        task: Task,
        patience: Duration,
    ) -> Result<(), Fault> {
        let client = Client {
            shared: self.shared.clone(),
            fleet,
            is_remote: self.server.is_some(),
        };
        let (ids, schedule) = (self.ids.clone(), self.schedule);
        let doing = async {
            match task {
                Task::Queue(session) => client.queue(&ids[session]).await?,
                Task::Send(session, kind) => client.send(&ids[session], kind).await?,
                Task::Answer(session) => client.answer(&ids[session]).await?,
                Task::Interrupt(session) => client.wish(&ids[session], Wish::Interrupt).await?,
                Task::Cancel(session) => client.wish(&ids[session], Wish::Cancel).await?,
                Task::Schedule if schedule.is_none() => return client.schedule().await.map(Some),
                _ => {}
            }
            Ok(None)
        };
        match self.live(timeout(patience, doing)).await? {
            Some(Ok(Ok(number))) => {
                self.schedule = number.or(self.schedule);
                Ok(())
            }
            Some(Ok(Err(error))) => {
                let error: StoreError = error;
                self.excused(&error.reason)
            }
            // The power has failed, or they have died.
            Some(Err(_)) | None => Ok(()),
        }
    }

    /// Lets workers work to whom nothing happens, until there is nothing to do, and looks at what is there then.
    async fn finish(&mut self) -> Result<(), Fault> {
        self.shared.tell("nothing happens any more");
        self.shared.calm();
        self.shared.disk.calm();
        self.trouble = Some(Instant::now());
        if let Some(server) = &self.server {
            server.leave(Duration::ZERO);
        }
        if self.lives.is_empty() {
            self.lives.push(None);
            self.clocks.push(Arc::default());
        }
        self.fill()?;
        let fleet = self
            .connected(&Arc::default())
            .map_err(|error| unusable(&error))?;
        if let Some(number) = self.schedule {
            self.live(fleet.unschedule(number)).await?;
        }
        for at in 0..self.ids.len() {
            // Those who were cancelled read what was sent to them.
            let task = Task::Send(at, MailKind::Steer);
            self.client_at(fleet.clone(), task, TOO_LONG).await?;
        }
        for look in 0.. {
            self.fill()?;
            let is_idle = self.live(fleet.is_idle()).await?;
            let is_idle = is_idle.transpose().map_err(|error| unusable(&error))?;
            if is_idle == Some(true) || self.is_broken() {
                break;
            }
            if look == MOST_LOOKS {
                return Err(Law::Ended.broken("there are runs that nobody ends"));
            }
            for at in 0..self.ids.len() {
                let task = Task::Answer(at);
                self.client_at(fleet.clone(), task, TOO_LONG).await?;
            }
            self.live(sleep(LOOK)).await?;
        }
        if self.is_broken() {
            return Ok(());
        }
        self.end();
        self.look(&*fleet.clone(), &fleet).await
    }

    /// Looks at what is there when all is at rest.
    async fn look(&self, port: &dyn Fleet, fleet: &Arc<dyn Fleet>) -> Result<(), Fault> {
        let broken = |error: StoreError| unusable(&error);
        let runs = port.runs(None, 10_000).await.map_err(broken)?;
        for run in runs.iter().filter(|run| !self.ids.contains(&run.session)) {
            // Of a schedule.
            let world = self.shared.world(&run.session);
            let is_known = !world.state().mail.is_empty();
            if is_known {
                return Err(Law::Delivered.broken("a schedule has begun one run twice"));
            }
            world.state().mail.push(Sent {
                kind: MailKind::FollowUp,
                text: SCHEDULED.to_owned(),
                is_run: true,
                is_acknowledged: true,
            });
        }
        for (id, world) in self.shared.worlds() {
            if !world.state().mail.iter().any(|sent| sent.is_acknowledged) {
                continue;
            }
            let all = stored(fleet, &id).await.map_err(broken)?;
            let state = world.state();
            laws::always(&all, &state)?;
            laws::at_rest(&all, &state, true)?;
        }
        Ok(())
    }

    fn played(&self) -> Played {
        let worlds = self.shared.worlds();
        let played = worlds.iter().map(|(_, world)| world.played());
        let mut all = Played {
            turns: 0,
            story: self.shared.story(),
            fault: None,
        };
        for played in played {
            all.turns += played.turns;
            all.fault = all.fault.or(played.fault);
        }
        all
    }
}

/// Returns all messages of a session that nobody has open.
async fn stored(fleet: &Arc<dyn Fleet>, id: &SessionId) -> Result<Vec<Message>, StoreError> {
    let opened = fleet.clone().open(id, "nobody").await;
    let store = match opened {
        Err(OpenError::Busy(_)) if fleet.rest() == TIMING.beat => {
            sleep(2 * TIMING.dead).await;
            fleet.clone().open(id, "nobody").await
        }
        opened => opened,
    };
    let store = store.map_err(refused)?;
    now(store.load())?;
    now(store.read(Tree::messages))
}
