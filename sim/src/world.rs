//! What outlives the processes of a session, and what comes upon them.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ah_conversation::{MailKind, MessageId, ToolUseId};
use ah_store::SessionStore;
use ah_testkit::world::Steps;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::chance::Chance;
use crate::plan::{Blow, Life};
use crate::plant::Plant;

/// What a session has come to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Played {
    /// Number of requests to the model.
    pub turns: usize,
    /// What happened, a line each: the same for the same plan, on every machine.
    pub story: Vec<String>,
    /// What does not hold; `None` if all does.
    pub fault: Option<String>,
}

/// Everything beside the agent.
pub(crate) struct World {
    state: Mutex<State>,
    pub(crate) clock: Steps,
    /// The process is killed.
    pub(crate) killed: Notify,
}

/// What has happened so far.
pub(crate) struct State {
    pub(crate) chance: Chance,
    plant: Option<Plant>,
    pub(crate) turns: usize,
    /// Number of calls of the model.
    pub(crate) calls: usize,
    /// Answers in the present run.
    pub(crate) rounds: usize,
    /// Messages of the last request.
    pub(crate) requested: Vec<MessageId>,
    /// Calls that have had an effect.
    pub(crate) ledger: Vec<ToolUseId>,
    /// Messages whose write was acknowledged.
    pub(crate) acknowledged: Vec<MessageId>,
    /// Results of calls whose end was acknowledged.
    pub(crate) ended: Vec<(ToolUseId, String)>,
    /// What other processes have queued.
    pub(crate) mail: Vec<(MailKind, String)>,
    /// Moments of the present process so far.
    moments: usize,
    blow: Option<(usize, Blow)>,
    /// Whether the process is still to be killed or interrupted.
    pub(crate) will_be_stopped: bool,
    pub(crate) interrupt: CancellationToken,
    store: Option<Arc<SessionStore>>,
    story: Vec<String>,
    pub(crate) fault: Option<String>,
}

impl State {
    pub(crate) fn tell(&mut self, line: String) {
        self.story.push(line);
    }

    /// Notes what does not hold. The first counts.
    pub(crate) fn fail(&mut self, fault: String) {
        self.fault.get_or_insert(fault);
    }

    /// Returns whether a fault is planted, and shows itself now: once in `times`.
    pub(crate) fn planted(&mut self, plant: Plant, times: usize) -> bool {
        self.plant == Some(plant) && self.chance.one_in(times)
    }

    /// Returns words with a number of their own.
    pub(crate) fn said(&mut self, verb: &str, words: usize) -> String {
        format!("{verb} {}", words * self.turns)
    }
}

impl World {
    pub(crate) fn new(plant: Option<Plant>) -> Self {
        let state = State {
            chance: Chance::new(0),
            plant,
            turns: 0,
            calls: 0,
            rounds: 0,
            requested: Vec::new(),
            ledger: Vec::new(),
            acknowledged: Vec::new(),
            ended: Vec::new(),
            mail: Vec::new(),
            moments: 0,
            blow: None,
            will_be_stopped: false,
            interrupt: CancellationToken::new(),
            store: None,
            story: Vec::new(),
            fault: None,
        };
        Self {
            state: Mutex::new(state),
            clock: Steps::default(),
            killed: Notify::new(),
        }
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A moment of the process, at which something may come upon it.
    pub(crate) async fn moment(&self) {
        let is_now = {
            let mut state = self.state();
            let now = state.moments;
            state.moments += 1;
            state.blow.is_some_and(|(at, _)| at == now)
        };
        if is_now {
            self.strike().await;
        }
    }

    /// Lets come what is to come upon the process, unless it has.
    pub(crate) async fn strike(&self) {
        let (blow, store) = {
            let mut state = self.state();
            (state.blow.take(), state.store.clone())
        };
        match blow {
            None => {}
            Some((_, Blow::Kill)) => {
                self.state().tell("it is killed".to_owned());
                self.killed.notify_one();
                std::future::pending::<()>().await;
            }
            Some((_, Blow::Interrupt)) => {
                let mut state = self.state();
                state.will_be_stopped = false;
                state.tell("it is interrupted".to_owned());
                state.interrupt.cancel();
            }
            Some((_, Blow::Mail(kind))) => {
                if let Some(store) = store {
                    self.queue(&store, kind).await;
                }
            }
        }
    }

    /// Queues a message, as another process does.
    pub(crate) async fn queue(&self, store: &SessionStore, kind: MailKind) {
        let text = format!("mail-{}.", self.state().mail.len() + 1);
        match store.send(kind, text.clone()).await {
            Ok(_) => {
                let mut state = self.state();
                state.tell(format!("{text} is queued ({kind:?})"));
                state.mail.push((kind, text));
            }
            Err(error) => self.state().fail(format!("mail cannot be queued: {error}")),
        }
    }

    /// Begins a process that has the session open.
    pub(crate) fn begin(&self, life: &Life, store: &Arc<SessionStore>) {
        let mut state = self.state();
        state.tell(life.to_string());
        state.chance = Chance::new(life.seed);
        state.rounds = 0;
        state.moments = 0;
        state.blow = life.blow;
        state.will_be_stopped = matches!(life.blow, Some((_, Blow::Kill | Blow::Interrupt)));
        state.interrupt = CancellationToken::new();
        state.store = Some(store.clone());
    }

    /// Ends the process: it has nothing open any more.
    pub(crate) fn end(&self) {
        self.state().store = None;
    }

    /// Returns what the session has come to.
    pub(crate) fn played(&self) -> Played {
        let state = self.state();
        Played {
            turns: state.turns,
            story: state.story.clone(),
            fault: state.fault.clone(),
        }
    }
}
