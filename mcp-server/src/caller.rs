//! The client of a call: how it is asked back, and told what goes on.

use std::sync::atomic::{AtomicU32, Ordering};

use ah_conversation::Question;
use rmcp::RoleServer;
use rmcp::model::{
    ElicitResult, InputRequest, ProgressNotificationParam, ProgressToken, ProtocolVersion,
};
use rmcp::service::{Peer, RequestContext};
use rmcp::task_manager::TaskContext;

use crate::question;

/// Ways to ask the user of a client.
pub(crate) enum Way {
    /// By a request of ours while the call waits, as clients up to 2025-11-25 have it.
    Request(Peer<RoleServer>),
    /// In the state of a task.
    Task(TaskContext),
    /// By an answer that asks, after which the client calls again.
    Rounds,
    /// Not at all.
    No,
}

/// The client of a call.
pub(crate) struct Caller {
    pub(crate) way: Way,
    progress: Option<(Peer<RoleServer>, ProgressToken)>,
    steps: AtomicU32,
}

impl Caller {
    /// Returns the client of a call that is answered when it is done.
    pub(crate) fn of_call(context: &RequestContext<RoleServer>) -> Self {
        let version = context.protocol_version();
        let is_new =
            version.is_some_and(|it| it.as_str() >= ProtocolVersion::V_2026_07_28.as_str());
        let way = match (fills_in_forms(context), is_new) {
            (false, _) => Way::No,
            (true, true) => Way::Rounds,
            (true, false) => Way::Request(context.peer.clone()),
        };
        let token = context.meta.get_progress_token();
        Self {
            way,
            progress: token.map(|token| (context.peer.clone(), token)),
            steps: AtomicU32::new(0),
        }
    }

    /// Returns the client of a call that has become a task.
    pub(crate) fn of_task(context: &RequestContext<RoleServer>, task: TaskContext) -> Self {
        Self {
            way: match fills_in_forms(context) {
                true => Way::Task(task),
                false => Way::No,
            },
            progress: None,
            steps: AtomicU32::new(0),
        }
    }

    /// Asks while the call waits; `None` if nobody has answered.
    pub(crate) async fn ask(&self, asked: &Question, number: u32) -> Option<ElicitResult> {
        let form = question::form(asked)?;
        match &self.way {
            Way::Request(peer) => peer.create_elicitation(form).await.ok(),
            Way::Task(task) => {
                let request = InputRequest::Elicitation(rmcp::model::ElicitRequest::new(form));
                let answer = task
                    .request_input(format!("question{number}"), request)
                    .await;
                serde_json::from_value(answer.ok()?).ok()
            }
            Way::Rounds | Way::No => None,
        }
    }

    /// Tells a step.
    pub(crate) async fn tell(&self, step: &str, task: Option<&TaskContext>) {
        if let Some(task) = task {
            task.set_status_message(step);
        }
        let Some((peer, token)) = &self.progress else {
            return;
        };
        let number = self.steps.fetch_add(1, Ordering::Relaxed) + 1;
        let param =
            ProgressNotificationParam::new(token.clone(), f64::from(number)).with_message(step);
        // A client that is gone needs none.
        let _ = peer.notify_progress(param).await;
    }
}

/// Whether the client shows forms to its user.
fn fills_in_forms(context: &RequestContext<RoleServer>) -> bool {
    let capabilities = context.client_capabilities();
    let elicitation = capabilities.and_then(|it| it.elicitation);
    // Without a mode it means forms: the capability is older than the other mode.
    elicitation.is_some_and(|it| it.form.is_some() || it.url.is_none())
}
