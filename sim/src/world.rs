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
use crate::permits::Permits;
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
    /// The main conversation, and those of subagents by their ids.
    pub(crate) conversations: BTreeMap<Option<String>, Conversation>,
    /// The conversation of each message that was to be stored.
    pub(crate) owners: BTreeMap<MessageId, Option<String>>,
    /// The conversation whose answer comes now.
    pub(crate) asking: Option<String>,
    /// What servers have given in answers that were read whole, by their names.
    pub(crate) given: BTreeMap<&'static str, Given>,
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
    /// The host hangs up.
    pub(crate) hang_up: CancellationToken,
    pub(crate) permits: Permits,
    /// What the host of the present process was told.
    pub(crate) told: Vec<ah_protocol::Message>,
    /// Whether there are subagents.
    pub(crate) has_agents: bool,
    /// Whether there is an MCP server.
    pub(crate) has_servers: bool,
    /// Ids of subagents.
    pub(crate) agents: Vec<String>,
    /// The call in which each call of a subagent was made, and the id of the subagent.
    pub(crate) below: BTreeMap<ToolUseId, (ToolUseId, String)>,
    /// Most tokens of the run.
    pub(crate) budget: Option<u64>,
    /// Tokens of the answers of the run that were stored.
    pub(crate) spent: u64,
    /// Whether the model of the present process is there, and ends what it says.
    pub(crate) is_calm: bool,
    /// Where the session is.
    paths: Paths,
    story: Story,
    pub(crate) fault: Option<Fault>,
}

/// What is known of a conversation.
#[derive(Default)]
pub(crate) struct Conversation {
    /// Messages of the last request.
    pub(crate) requested: Arc<Vec<Arc<Message>>>,
    /// Server and model that it went to.
    pub(crate) asked: (String, String),
    /// The answer that is read, with its server, its id and its model.
    pub(crate) giving: Option<(&'static str, Turn, String, String)>,
    /// Whether a summary is asked for.
    pub(crate) is_summary: bool,
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

    /// Returns the id of a subagent that there was, now and then.
    pub(crate) fn known_agent(&mut self) -> Option<String> {
        let wants = self.chance.one_in(3);
        let at = self.chance.below(self.agents.len() + 1);
        { self.agents.get(at) }.filter(|_| wants).cloned()
    }

    /// Returns the conversation whose answer comes now.
    pub(crate) fn asking(&mut self) -> &mut Conversation {
        let asking = self.asking.clone();
        self.conversations.entry(asking).or_default()
    }

    /// An answer has been read whole: its server expects what it has given.
    pub(crate) fn read_whole(&mut self) {
        if let Some((server, turn, id, model)) = self.asking().giving.take() {
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

/// Gives way, so that a host is heard before anything else happens.
async fn heard() {
    for _ in 0..3 {
        tokio::task::yield_now().await;
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
            conversations: BTreeMap::new(),
            owners: BTreeMap::new(),
            asking: None,
            given: BTreeMap::new(),
            looked: None,
            ledger: Vec::new(),
            acknowledged: Vec::new(),
            shown: Vec::new(),
            acknowledged_before: 0,
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
            hang_up: CancellationToken::new(),
            permits: Permits::default(),
            has_agents: false,
            has_servers: false,
            agents: Vec::new(),
            below: BTreeMap::new(),
            budget: None,
            spent: 0,
            told: Vec::new(),
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
                self.stopped("it is interrupted", |state| &state.interrupt);
                heard().await;
            }
            Some((_, Injection::HangUp)) => {
                self.stopped("its host hangs up", |state| &state.hang_up);
                // Nobody wants any more what it has asked for.
                self.state().interrupt.cancel();
                heard().await;
            }
            Some((_, Injection::Mail(kind))) => self.queue(kind),
        }
    }

    /// Somebody wants no more.
    fn stopped(&self, how: &str, token: fn(&State) -> &CancellationToken) {
        let mut state = self.state();
        state.will_be_stopped = false;
        state.tell(how.to_owned());
        token(&state).cancel();
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
        state.asking = None;
        state.shown.clear();
        state.workspace.begin();
        state.acknowledged_before = state.acknowledged.len();
        state.moments = 0;
        state.injection = process.injection;
        state.will_be_stopped = match process.injection {
            Some((_, Injection::Kill | Injection::PowerCut | Injection::Interrupt)) => true,
            Some((_, Injection::HangUp)) => process.around.host,
            Some((_, Injection::Mail(_))) | None => false,
        };
        state.interrupt = CancellationToken::new();
        state.hang_up = CancellationToken::new();
        state.permits = Permits::of(process.around);
        state.has_agents = process.around.agents;
        state.has_servers = process.around.servers;
        state.budget = process.around.tokens;
        state.spent = 0;
        state.told.clear();
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
