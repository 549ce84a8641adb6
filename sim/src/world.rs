//! What outlives the processes of a session, and what comes upon them.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ah_conversation::{Clock as _, MailKind, Message, MessageId, Record, ToolUseId};
use ah_provider::script::format::Turn;
use ah_store::{Paths, Queue};
use ah_testkit::server::given::Given;
use ah_testkit::world::Steps;
use futures_util::FutureExt as _;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use crate::chance::Chance;
use crate::disk::SimulatedDisk;
use crate::law::{Fault, Law};
use crate::plan::{Injection, Process};
use crate::plant::PlantedFault;
use crate::play::Played;
use crate::workspace::Workspace;

/// Everything beside the agent.
pub(crate) struct World {
    state: Mutex<State>,
    pub(crate) clock: Steps,
    pub(crate) disk: Arc<SimulatedDisk>,
    /// The process is killed.
    pub(crate) killed: Notify,
}

/// What has happened so far.
pub(crate) struct State {
    pub(crate) chance: Chance,
    plant: Option<PlantedFault>,
    pub(crate) turns: usize,
    /// Number of calls of the model.
    pub(crate) calls: usize,
    /// Answers in the present run.
    pub(crate) rounds: usize,
    /// Messages of the last request.
    pub(crate) requested: Arc<Vec<Arc<Message>>>,
    /// Server and model that it went to.
    pub(crate) asked: (String, String),
    /// What servers have given in answers that were read whole, by their names.
    pub(crate) given: BTreeMap<&'static str, Given>,
    /// The answer that is read, with its server, its id and its model.
    pub(crate) giving: Option<(&'static str, Turn, String, String)>,
    /// The call that looked last.
    pub(crate) looked: Option<ToolUseId>,
    /// Calls that have had an effect.
    pub(crate) ledger: Vec<ToolUseId>,
    /// Messages whose write was acknowledged.
    pub(crate) acknowledged: Vec<MessageId>,
    /// Messages that watchers of the present process were shown.
    pub(crate) shown: Vec<Arc<Message>>,
    /// Acknowledged messages before the present process.
    pub(crate) acknowledged_before: usize,
    /// Whether a summary is asked for.
    pub(crate) is_summary: bool,
    pub(crate) workspace: Workspace,
    /// Results of calls whose end was acknowledged.
    pub(crate) ended: Vec<(ToolUseId, String)>,
    /// Records that a planted fault writes later.
    pub(crate) late: Vec<Record>,
    /// What other processes have queued.
    pub(crate) mail: Vec<Sent>,
    /// What was answered to questions.
    pub(crate) answers: Vec<Answered>,
    /// When somebody wanted a run to stop last.
    pub(crate) stopped: Option<Instant>,
    /// Whether the model has questions.
    pub(crate) asks: bool,
    /// Longest time that a moment takes, in milliseconds.
    pub(crate) pace: usize,
    /// Processes that have come to the session so far.
    pub(crate) entered: usize,
    /// Moments of the present process so far.
    moments: usize,
    injection: Option<(usize, Injection)>,
    /// Whether the process is still to be killed or interrupted.
    pub(crate) will_be_stopped: bool,
    pub(crate) interrupt: CancellationToken,
    /// Whether the model of the present process is there, and ends what it says.
    pub(crate) is_calm: bool,
    /// Where the session is.
    paths: Paths,
    story: Story,
    pub(crate) fault: Option<Fault>,
}

/// What happens, a line each.
pub(crate) type Story = Arc<Mutex<Vec<String>>>;

/// An answer to a question.
pub(crate) struct Answered {
    pub(crate) text: String,
    /// It is acknowledged, and has to be in the conversation.
    pub(crate) is_due: bool,
    /// Its run was about to be stopped.
    pub(crate) is_excused: bool,
}

/// A queued message.
pub(crate) struct Sent {
    pub(crate) kind: MailKind,
    pub(crate) text: String,
    /// Whether it is the prompt of a run of a fleet.
    pub(crate) is_run: bool,
    /// Else the disk has failed, or the power.
    pub(crate) is_acknowledged: bool,
}

impl State {
    pub(crate) fn tell(&mut self, line: String) {
        self.story
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(line);
    }

    /// Notes what does not hold. The first counts.
    pub(crate) fn fail(&mut self, fault: Fault) {
        self.fault.get_or_insert(fault);
    }

    /// An answer has been read whole: its server expects what it has given.
    pub(crate) fn read_whole(&mut self) {
        if let Some((server, turn, id, model)) = self.giving.take() {
            let given = self.given.entry(server).or_default();
            given.note(&turn, &id, &model);
        }
    }

    /// Returns whether something comes upon the model, once in `times`.
    pub(crate) fn mishap(&mut self, times: usize) -> bool {
        self.chance.one_in(times) && !self.is_calm
    }

    /// Returns whether a fault is planted, and shows itself now: once in `times`.
    pub(crate) fn planted(&mut self, plant: PlantedFault, times: usize) -> bool {
        self.plant == Some(plant) && self.chance.one_in(times)
    }
}

impl World {
    /// A world for the session at `paths` whose files are on `disk`. It adds to a story.
    pub(crate) fn new(
        paths: Paths,
        workspace: &Path,
        (disk, story): (Arc<SimulatedDisk>, Story),
        plant: Option<PlantedFault>,
    ) -> Self {
        let state = State {
            chance: Chance::new(0),
            plant,
            turns: 0,
            calls: 0,
            rounds: 0,
            requested: Arc::default(),
            asked: Default::default(),
            given: BTreeMap::new(),
            giving: None,
            looked: None,
            ledger: Vec::new(),
            acknowledged: Vec::new(),
            shown: Vec::new(),
            acknowledged_before: 0,
            is_summary: false,
            workspace: Workspace::at(workspace),
            ended: Vec::new(),
            late: Vec::new(),
            mail: Vec::new(),
            answers: Vec::new(),
            stopped: None,
            asks: false,
            pace: 0,
            entered: 0,
            moments: 0,
            injection: None,
            will_be_stopped: false,
            interrupt: CancellationToken::new(),
            is_calm: false,
            paths,
            story,
            fault: None,
        };
        Self {
            state: Mutex::new(state),
            clock: Steps::default(),
            disk,
            killed: Notify::new(),
        }
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A moment of the process, at which something may come upon it.
    pub(crate) async fn moment(&self) {
        let (is_now, pause) = {
            let mut state = self.state();
            let now = state.moments;
            state.moments += 1;
            let pause = match state.pace {
                0 => None,
                pace => Some(Duration::from_millis(state.chance.below(pace) as u64)),
            };
            (state.injection.is_some_and(|(at, _)| at == now), pause)
        };
        if let Some(pause) = pause {
            sleep(pause).await;
        }
        if is_now {
            self.inject().await;
        }
    }

    /// Lets come what is to come upon the process, unless it has.
    pub(crate) async fn inject(&self) {
        let injection = self.state().injection.take();
        match injection {
            None => {}
            Some((_, Injection::Kill)) => {
                self.disk.stop(false);
                self.gone().await;
            }
            Some((_, Injection::PowerCut)) => {
                self.disk.stop(true);
                self.gone().await;
            }
            Some((_, Injection::Interrupt)) => {
                let mut state = self.state();
                state.will_be_stopped = false;
                state.tell("it is interrupted".to_owned());
                state.interrupt.cancel();
            }
            Some((_, Injection::Mail(kind))) => self.queue(kind),
        }
    }

    /// The process is dead: nothing that it waits for comes.
    pub(crate) async fn gone(&self) {
        self.killed.notify_one();
        std::future::pending::<()>().await;
    }

    /// Queues a message, as another process does.
    pub(crate) fn queue(&self, kind: MailKind) {
        let (paths, text) = {
            let state = self.state();
            let text = format!("mail-{}.", state.mail.len() + 1);
            (state.paths.clone(), text)
        };
        let id = self.clock.message_id();
        let sent = Queue::open(&paths).and_then(|queue| queue.send_as(&id, kind, &text));
        self.hear();
        let mut state = self.state();
        let is_acknowledged = sent.is_ok();
        match sent {
            Ok(()) => state.tell(format!("{text} is queued ({kind:?})")),
            Err(_) if self.disk.has_failed() || self.disk.is_off() => {
                state.tell(format!("{text} may be queued ({kind:?})"));
            }
            Err(error) => {
                let what = format!("{}: {}", error.action, error.reason);
                state.fail(Law::Usable.broken(what));
            }
        }
        state.mail.push(Sent {
            kind,
            text,
            is_run: false,
            is_acknowledged,
        });
    }

    /// Tells what the disk has done.
    pub(crate) fn hear(&self) {
        let (told, unknown) = self.disk.take_told();
        let mut state = self.state();
        told.into_iter().for_each(|line| state.tell(line));
        if let Some(what) = unknown {
            state.fail(Law::Usable.broken(what));
        }
    }

    /// Begins a process, whose files go to `rest` if it does not end by itself.
    pub(crate) fn begin(&self, process: &Process, rest: &Path) {
        let folder = self.paths().folder().to_owned();
        { &self.disk }.begin(process.seed, process.disk, &folder, rest);
        self.state().tell(process.to_string());
        self.enter(process);
    }

    /// A process that has begun comes to this session.
    pub(crate) fn enter(&self, process: &Process) {
        // Calls side by side may have died together.
        let _ = self.killed.notified().now_or_never();
        let mut state = self.state();
        state.chance = Chance::new(process.seed);
        state.is_calm = process.is_calm;
        state.entered += 1;
        state.rounds = 0;
        state.late.clear();
        state.is_summary = false;
        state.shown.clear();
        state.workspace.begin();
        state.acknowledged_before = state.acknowledged.len();
        state.moments = 0;
        state.injection = process.injection;
        state.will_be_stopped = matches!(
            process.injection,
            Some((
                _,
                Injection::Kill | Injection::PowerCut | Injection::Interrupt
            ))
        );
        state.interrupt = CancellationToken::new();
    }

    pub(crate) fn paths(&self) -> Paths {
        self.state().paths.clone()
    }

    /// Says where the next process finds the session.
    pub(crate) fn moved(&self, paths: Paths) {
        self.state().paths = paths;
    }

    /// Returns what the session has come to.
    pub(crate) fn played(&self) -> Played {
        let state = self.state();
        Played {
            turns: state.turns,
            story: { state.story.lock() }
                .unwrap_or_else(PoisonError::into_inner)
                .clone(),
            fault: state.fault.clone(),
        }
    }
}
