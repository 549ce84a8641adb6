//! A teammate's place in its team, as long as its conversation is open in this process.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ah_conversation::{ContentBlock, Interface, Store, Task, TaskSink, Tool};
use parking_lot::Mutex;
use serde_json::json;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::state::{LEAD, Member};
use super::tools::{Speaker, TeamTool};
use super::{Place, Team, blocked, call};
use crate::Session;
use crate::hooks::HookEvent;

/// A teammate's place. When it is dropped, others can no longer call the teammate.
pub(crate) struct Seat {
    team: Arc<Team>,
    name: String,
    place: Arc<Place>,
}

impl Team {
    /// Takes a place for a teammate, which reports to `sink` as `task`. One whose name is known goes on with its own
    /// conversation only.
    ///
    /// # Errors
    ///
    /// If the name is taken or unusable, or the team cannot be stored.
    pub(crate) async fn join(
        self: &Arc<Self>,
        member: Member,
        task: &Task,
        sink: &TaskSink,
    ) -> Result<Seat, String> {
        let name = member.name.clone();
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        if name.is_empty() || name == LEAD || !name.chars().all(is_plain) {
            return Err(format!(
                "`{name}` cannot be a teammate's name: use letters, digits, `-`, `_` and `.`"
            ));
        }
        self.edit(|state| match state.member(&name) {
            Some(known) if known.agent_id == member.agent_id => Ok(()),
            Some(_) => Err(format!(
                "there is a teammate `{name}` already: write to it, or choose another name"
            )),
            None => {
                state.members.push(member);
                Ok(())
            }
        })
        .await?;
        let place = Arc::new(Place {
            task: task.clone(),
            sink: sink.clone(),
            rests: Mutex::new(false),
            leaves: AtomicBool::new(false),
            called: Notify::new(),
        });
        self.seats().insert(name.clone(), place.clone());
        Ok(Seat {
            team: self.clone(),
            name,
            place,
        })
    }
}

impl Seat {
    /// Returns the teammate's name.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Returns the store with which the teammate receives messages.
    pub(crate) fn store(&self, store: Arc<dyn Store>) -> Arc<dyn Store> {
        self.team.addressed(&self.name, store)
    }

    /// Returns the tools by which the teammate takes part, for a session with these ports.
    pub(crate) fn tools(&self, interface: Interface, ports: &crate::Ports) -> Vec<Arc<dyn Tool>> {
        let speaker = Speaker::Member {
            name: self.name.clone(),
            place: self.place.clone(),
            hooks: ports.hooks.clone(),
            audience: ports.audience.clone(),
        };
        TeamTool::all(interface, &self.team, &speaker)
    }

    /// Returns what a teammate is told beside its first prompt.
    pub(crate) fn introduction(&self, interface: Interface) -> ContentBlock {
        let [send, .., list, update] = TeamTool::names(interface);
        ContentBlock::text(format!(
            "You are `{}` in a team led by `{LEAD}`. Your answers reach only the lead, at the end of your turn; to others, and \
             before that, write with {send}. When you have no work left, look with {list} for a task that is pending and not \
             blocked, take it with {update} (in_progress), and complete it. Then end your turn: you are called when somebody \
             writes to you.",
            self.name
        ))
    }

    /// Asks the hooks of an idle teammate; returns why it is to go on working.
    pub(crate) async fn demand(&self, session: &Session) -> Option<ContentBlock> {
        let (hooks, audience) = (&session.ports.hooks, &session.ports.audience);
        let more = json!({"teammate_name": self.name, "team_name": hooks.team_name()});
        let reason = blocked(hooks, audience, HookEvent::TeammateIdle, more).await?;
        Some(ContentBlock::text(format!("[TEAMMATE HOOK] {reason}")))
    }

    /// Frees the name. If that cannot be stored it stays taken, and the next change of the team says why.
    async fn leave(&self) {
        let left = self.team.edit(|state| {
            state.members.retain(|member| member.name != self.name);
            state.letters.retain(|letter| letter.to != self.name);
            Ok(())
        });
        let _ = left.await;
    }

    /// Ends a turn, which `report` reports, and waits until somebody writes. Returns whether the teammate goes on.
    pub(crate) async fn rest(&self, stop: &CancellationToken, report: impl FnOnce()) -> bool {
        if self.place.leaves.load(Ordering::Relaxed) {
            self.leave().await;
            report();
            return false;
        }
        {
            let shared = self.team.shared.lock().await;
            *self.place.rests() = true;
            report();
            let mut letters = shared.state.letters.iter();
            if letters.any(|letter| letter.to == self.name) {
                call(&self.place);
            }
        }
        tokio::select! {
            biased;
            () = stop.cancelled() => false,
            () = self.place.called.notified() => true,
        }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut seats = self.team.seats();
        // The name may be another one's by now.
        if seats
            .get(&self.name)
            .is_some_and(|place| Arc::ptr_eq(place, &self.place))
        {
            seats.remove(&self.name);
        }
    }
}
