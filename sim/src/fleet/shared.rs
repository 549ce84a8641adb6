//! What the processes of a fleet share: the time, the disk, hints to each other, and what becomes of each session.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use ah_conversation::{Clock, MessageId, SessionId, Time};
use ah_store::Paths;
use ah_testkit::world::Steps;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep};

use crate::chance::Chance;
use crate::disk::SimulatedDisk;
use crate::plant::PlantedFault;
use crate::world::{Story, World};

/// 2026-01-01, midnight in Greenwich.
const START: i64 = 1_767_225_600_000;
/// Longest pause before and after a statement, in milliseconds.
const PAUSE: usize = 200;
/// Longest pause at each moment of an agent, in milliseconds.
const PACE: usize = 400;

/// What the processes share.
pub(crate) struct Shared {
    pub(crate) disk: Arc<SimulatedDisk>,
    pub(crate) plant: Option<PlantedFault>,
    story: Story,
    workspace: PathBuf,
    folder: Mutex<PathBuf>,
    worlds: Mutex<Vec<(SessionId, Arc<World>)>>,
    chance: Mutex<Chance>,
    ids: Steps,
    began: Instant,
    /// Nothing comes upon anybody any more.
    is_calm: AtomicBool,
    waiting: Mutex<Vec<Weak<Notify>>>,
}

impl Shared {
    pub(crate) fn new(
        seed: u64,
        folder: &Path,
        workspace: &Path,
        plant: Option<PlantedFault>,
    ) -> Self {
        Self {
            disk: Arc::new(SimulatedDisk::new(plant)),
            plant,
            story: Story::default(),
            workspace: workspace.to_owned(),
            folder: Mutex::new(folder.to_owned()),
            worlds: Mutex::default(),
            chance: Mutex::new(Chance::new(seed)),
            ids: Steps::default(),
            began: Instant::now(),
            is_calm: AtomicBool::new(false),
            waiting: Mutex::default(),
        }
    }

    /// Returns the time in milliseconds by a clock that is right.
    pub(crate) fn now(&self) -> i64 {
        START + i64::try_from(self.began.elapsed().as_millis()).unwrap_or(i64::MAX)
    }

    /// Returns an id that no session has, and no other call.
    pub(crate) fn message_id(&self) -> MessageId {
        format!("9{}", &self.ids.message_id().as_str()[1..]).into()
    }

    pub(crate) fn tell(&self, line: &str) {
        let seconds = self.began.elapsed().as_secs_f64();
        let mut story = self.story.lock().unwrap_or_else(PoisonError::into_inner);
        story.push(format!("{seconds:.1} s: {line}"));
    }

    pub(crate) fn story(&self) -> Vec<String> {
        self.story
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    pub(crate) fn below(&self, limit: usize) -> usize {
        let mut chance = self.chance.lock().unwrap_or_else(PoisonError::into_inner);
        chance.below(limit)
    }

    /// Returns whether something comes upon somebody, once in `times`.
    pub(crate) fn mishap(&self, times: usize) -> bool {
        !self.is_calm() && self.below(times) == 0
    }

    pub(crate) fn planted(&self, plant: PlantedFault, times: usize) -> bool {
        self.plant == Some(plant) && self.below(times) == 0
    }

    pub(crate) fn is_calm(&self) -> bool {
        self.is_calm.load(Ordering::Relaxed)
    }

    /// From now on, nothing comes upon anybody.
    pub(crate) fn calm(&self) {
        self.is_calm.store(true, Ordering::Relaxed);
        for (_, world) in self.worlds() {
            world.state().is_calm = true;
        }
    }

    pub(crate) async fn pause(&self) {
        sleep(Duration::from_millis(self.below(PAUSE) as u64)).await;
    }

    /// Returns the sessions, each with what becomes of it.
    pub(crate) fn worlds(&self) -> Vec<(SessionId, Arc<World>)> {
        let worlds = self.worlds.lock();
        worlds.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns what becomes of a session, which may be a new one.
    pub(crate) fn world(&self, id: &SessionId) -> Arc<World> {
        let paths = self.paths(id);
        let mut worlds = self.worlds.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, world)) = worlds.iter().find(|(known, _)| known == id) {
            return world.clone();
        }
        let around = (self.disk.clone(), self.story.clone());
        let world = Arc::new(World::new(paths, &self.workspace, around, self.plant));
        world.state().pace = PACE;
        world.state().asks = true;
        worlds.push((id.clone(), world.clone()));
        world
    }

    /// Returns the number of a session for stories.
    pub(crate) fn number(&self, id: &SessionId) -> usize {
        let mut worlds = self.worlds().into_iter();
        worlds.position(|(known, _)| known == *id).unwrap_or(0)
    }

    pub(crate) fn folder(&self) -> PathBuf {
        self.folder
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    pub(crate) fn paths(&self, id: &SessionId) -> Paths {
        Paths::of(self.folder().join(format!("{id}.db")))
    }

    /// The files are in another folder now.
    pub(crate) fn moved(&self, folder: &Path) {
        *self.folder.lock().unwrap_or_else(PoisonError::into_inner) = folder.to_owned();
        for (id, world) in self.worlds() {
            world.moved(self.paths(&id));
        }
    }

    /// Tells what the disk has done.
    pub(crate) fn hear(&self) {
        if let Some((_, world)) = self.worlds().first() {
            world.hear();
        }
    }

    /// Returns what wakes a process, if hints reach it.
    pub(crate) fn waiter(&self) -> Arc<Notify> {
        let notify = Arc::new(Notify::new());
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.retain(|one| one.strong_count() > 0);
        waiting.push(Arc::downgrade(&notify));
        notify
    }

    /// Hints to all who wait that there may be something to do. Some hints are lost.
    pub(crate) fn hint(&self) {
        let waiting = self.waiting.lock();
        let waiting = waiting.unwrap_or_else(PoisonError::into_inner).clone();
        for notify in waiting.iter().filter_map(Weak::upgrade) {
            if !self.mishap(4) {
                notify.notify_one();
            }
        }
    }
}

/// The clock of a process, which may be wrong.
pub(crate) struct OwnClock {
    pub(crate) shared: Arc<Shared>,
    /// How far it is ahead, in milliseconds.
    pub(crate) ahead: Arc<std::sync::atomic::AtomicI64>,
}

impl Clock for OwnClock {
    fn now(&self) -> Time {
        Time(self.shared.now() + self.ahead.load(Ordering::Relaxed))
    }

    fn message_id(&self) -> MessageId {
        self.shared.message_id()
    }
}
