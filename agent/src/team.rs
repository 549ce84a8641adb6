//! Teams: named subagents that go on working beside the lead, write to each other and share a list of tasks.
//!
//! A teammate is a subagent in the background whose conversation goes on when somebody writes to it. A session has one team,
//! led by its own agent. What the team shares is a note of the session, written with each change; messages between its agents
//! arrive as queued messages do (`addressed`), so the loop knows no teams.

mod addressed;
mod seat;
mod state;
mod tools;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use ah_conversation::{
    Clock, Mail, MessageId, PermissionMode, Record, Store, StoreError, Task, TaskSink, TaskUpdate,
    json,
};
use parking_lot::{Mutex as StdMutex, MutexGuard as StdMutexGuard};
use serde_json::{Value, json};
use tokio::sync::{Mutex, MutexGuard, Notify};

pub(crate) use self::seat::Seat;
pub(crate) use self::state::Member;
use self::state::{LEAD, Letter, TeamState};
pub(crate) use self::tools::{TeamLead, TeamTool};
use crate::hooks::{HookEvent, HookMoment, Hooks};
use crate::{Audience, Ports};

/// Key of the note with the team's state.
const NOTE: &str = "team";

/// The team of a session.
#[derive(Default)]
pub(crate) struct Team {
    shared: Mutex<Shared>,
    /// The teammates whose conversations are open in this process, by name.
    seats: StdMutex<HashMap<String, Arc<Place>>>,
}

/// State of a team, and where it is kept.
#[derive(Default)]
struct Shared {
    state: TeamState,
    /// `None` before the lead's session is open.
    kept: Option<(Arc<dyn Store>, Arc<dyn Clock>)>,
}

/// A teammate at work, or waiting for messages.
struct Place {
    task: Task,
    sink: TaskSink,
    /// Whether it waits. It changes only while the team's state is locked, so no message falls between.
    rests: StdMutex<bool>,
    /// Whether it leaves the team at the end of its turn.
    leaves: AtomicBool,
    called: Notify,
}

impl Place {
    fn rests(&self) -> StdMutexGuard<'_, bool> {
        self.rests.lock()
    }
}

impl Shared {
    /// Stores and takes over a state.
    async fn keep(&mut self, state: TeamState) -> Result<(), StoreError> {
        if let Some((store, _)) = &self.kept {
            store.append(vec![record(&state)]).await?;
        }
        self.state = state;
        Ok(())
    }
}

fn record(state: &TeamState) -> Record {
    Record::Note(NOTE.to_owned(), json!(state).to_string())
}

impl Team {
    /// Opens the team of the session with these ports, whose agent leads it; returns the ports with which it also receives
    /// the team's messages.
    ///
    /// # Errors
    ///
    /// If the store cannot be read.
    pub(crate) async fn led_with(self: &Arc<Self>, ports: Ports) -> Result<Ports, StoreError> {
        let note = ports.store.note(NOTE).await?;
        let mut shared = self.shared.lock().await;
        // A team of a later version of this program starts anew.
        shared.state = note
            .and_then(|note| json::from_str(&note).ok())
            .unwrap_or_default();
        shared.kept = Some((ports.store.clone(), ports.clock.clone()));
        Ok(Ports {
            store: self.addressed(LEAD, ports.store),
            ..ports
        })
    }

    /// Returns the teammate with this name.
    pub(crate) async fn member(&self, name: &str) -> Option<Member> {
        self.shared.lock().await.state.member(name).cloned()
    }

    /// Whether the conversation with this id is that of a teammate at work here.
    pub(crate) fn has_seat(&self, agent_id: &str) -> bool {
        self.seats().values().any(|place| place.task.id == agent_id)
    }

    /// Changes the state, durably.
    async fn edit<T>(
        &self,
        change: impl FnOnce(&mut TeamState) -> Result<T, String>,
    ) -> Result<T, String> {
        let mut shared = self.shared.lock().await;
        let mut state = shared.state.clone();
        let made = change(&mut state)?;
        let kept = shared.keep(state).await;
        kept.map_err(|error| error.to_string())?;
        Ok(made)
    }

    /// Sends a message; returns the names of its recipients. Those that wait go on working.
    async fn send(&self, from: &str, to: &str, text: &str) -> Result<Vec<String>, String> {
        let mut shared = self.shared.lock().await;
        let to = shared.state.recipients(from, to)?;
        let mut state = shared.state.clone();
        let (_, clock) = shared.kept.clone().ok_or("the session is not open")?;
        state.letters.extend(to.iter().map(|to| Letter {
            id: clock.message_id(),
            to: to.clone(),
            text: format!("[from {from}] {text}"),
            sent_at: clock.now(),
        }));
        let kept = shared.keep(state).await;
        kept.map_err(|error| error.to_string())?;
        for name in &to {
            // A lead that waits for its teammates looks for messages whenever one of them does something.
            let seat = if name == LEAD { from } else { name };
            if let Some(place) = self.seats().get(seat) {
                match name == LEAD {
                    true => place.sink.report(&place.task, &written_to_lead()),
                    false => call(place),
                }
            }
        }
        Ok(to)
    }

    /// Returns the messages for this agent that it has not read yet.
    async fn letters(&self, name: &str) -> Vec<Mail> {
        let shared = self.shared.lock().await;
        let own = shared
            .state
            .letters
            .iter()
            .filter(|letter| letter.to == name);
        let mail = own.map(|letter| Mail {
            id: letter.id.clone(),
            content: letter.text.clone(),
            created_at: letter.sent_at,
        });
        mail.collect()
    }

    /// Returns the state without the messages with these ids, locked; `None` if none of them is one of the team's.
    async fn without(&self, ids: &[&MessageId]) -> Option<(MutexGuard<'_, Shared>, TeamState)> {
        let shared = self.shared.lock().await;
        let is_read = |letter: &Letter| ids.contains(&&letter.id);
        if !shared.state.letters.iter().any(is_read) {
            return None;
        }
        let mut state = shared.state.clone();
        state.letters.retain(|letter| !is_read(letter));
        Some((shared, state))
    }

    fn seats(&self) -> StdMutexGuard<'_, HashMap<String, Arc<Place>>> {
        self.seats.lock()
    }
}

/// Lets a teammate that waits go on. That is reported at once, so that nobody takes its team to be done meanwhile.
fn call(place: &Place) {
    if std::mem::replace(&mut *place.rests(), false) {
        place.sink.report(&place.task, &TaskUpdate::Started);
        place.called.notify_one();
    }
}

fn written_to_lead() -> TaskUpdate {
    TaskUpdate::Progress {
        doing: format!("Writing to {LEAD}"),
        last_tool: None,
        usage: ah_conversation::TaskUsage::default(),
    }
}

/// Calls the hooks of an event of a team; returns why they block it.
async fn blocked(
    hooks: &Hooks,
    audience: &Audience,
    event: HookEvent,
    more: Value,
) -> Option<String> {
    let moment = HookMoment {
        event,
        kind: "",
        mode: None::<PermissionMode>,
        call: None,
        more,
    };
    let verdict = hooks.ask(moment, audience).await;
    verdict.block.or(verdict.stop_reason)
}
