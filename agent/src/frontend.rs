//! Port: the display of a run. Terminal, JSON lines and the Agent-SDK protocol are frontends of the same run.

use ah_conversation::{
    ContentBlock, Event, Host, LiveOutput, Message, MessageId, Model, PermissionMode, Progress,
    StreamEvent, Task, TaskUpdate, ToolResult, ToolUse,
};
use async_trait::async_trait;

use crate::hooks::{HookAnswer, HookCall};

/// The display of a run. Called in order, from the task that drives the session; must not block for long.
///
/// One that wraps another one names it in [`inner_frontend`](Self::inner_frontend), and in [`Host::inner_host`].
#[async_trait]
pub trait Frontend: Host {
    /// Returns the frontend that this one wraps, if it wraps one.
    fn inner_frontend(&self) -> Option<&dyn Frontend> {
        None
    }

    /// Shows an event.
    fn show(&self, event: &Event);

    /// Shows a notice to the user that is not part of the conversation: a lowered limit, omitted messages.
    fn notice(&self, text: &str);

    /// Receives an update of the session, for frontends based on messages rather than events.
    fn update(&self, update: SessionUpdate<'_>) {
        if let Some(frontend) = self.inner_frontend() {
            frontend.update(update);
        }
    }

    /// Returns environment variables for the commands that a call starts, beside those that all commands see.
    fn variables(&self, call: &ToolUse) -> Vec<(String, String)> {
        let inner = self.inner_frontend();
        inner.map_or_else(Vec::new, |frontend| frontend.variables(call))
    }

    /// Returns when the frontend can take more, so that the run waits for a slow reader.
    async fn ready(&self) {
        if let Some(frontend) = self.inner_frontend() {
            frontend.ready().await;
        }
    }
}

/// An update of a session.
#[derive(Debug, Clone, Copy)]
pub enum SessionUpdate<'a> {
    /// A request for an answer is about to be sent.
    Asking {
        /// The model.
        model: &'a Model,
        /// Id of the message that the answer becomes.
        message: &'a MessageId,
    },
    /// A streamed event of the model's answer.
    Piece(&'a StreamEvent),
    /// A complete block of the answer; the event that ends it follows.
    Block(&'a ContentBlock),
    /// A call has started; its output so far can be read at any time.
    Call(&'a ToolUse, &'a LiveOutput),
    /// Progress of a running call.
    Progress {
        /// The call.
        call: &'a ToolUse,
        /// Its progress.
        progress: &'a Progress,
        /// Milliseconds since it started.
        elapsed_ms: u64,
    },
    /// Result of a call. The message that contains it follows when all calls of the answer have ended.
    Result(&'a ToolResult),
    /// A message was stored.
    Stored(&'a Message),
    /// A call was denied.
    Denied {
        /// The call.
        call: &'a ToolUse,
        /// Why; `None` if a hook before the call denied it.
        reason: Option<&'a str>,
    },
    /// The permission mode has changed.
    Mode(PermissionMode),
    /// A hook is about to be called.
    HookStarted(&'a HookCall),
    /// The hook has answered, or failed.
    HookEnded(&'a HookCall, &'a HookAnswer),
    /// Update of a task below a call or in the background.
    Task(&'a Task, &'a TaskUpdate),
    /// Update of a subagent's session.
    Subagent(&'a Task, &'a SessionUpdate<'a>),
}

#[cfg(test)]
pub(crate) mod tests {
    use std::sync::Arc;

    use ah_conversation::{Input, TaskKind};
    use ah_testkit::asked::{ALL, Asked, ask_all};

    use super::*;
    use crate::hooks::{HookSession, HookedElicitations, Hooks};

    /// A frontend that notes which methods are called.
    #[derive(Default)]
    pub(crate) struct Told {
        pub(crate) asked: Asked,
    }

    impl Told {
        pub(crate) fn variable() -> (String, String) {
            ("NAME".to_owned(), "value".to_owned())
        }
    }

    /// A task whose frontend is tried.
    pub(crate) fn task() -> Task {
        Task {
            id: "task".to_owned(),
            call: "call".into(),
            description: String::new(),
            kind: TaskKind::Command,
            is_background: false,
        }
    }

    /// Checks that `frontend`, which wraps `told`, passes everything on; returns the variables that it gives to a call.
    pub(crate) async fn passed_on(frontend: &dyn Frontend, told: &Told) -> Vec<(String, String)> {
        ask_all(frontend).await;
        assert_eq!(told.asked.take(), ALL);
        frontend.ready().await;
        let variables = frontend.variables(&ToolUse {
            id: "call".into(),
            name: "tool".to_owned(),
            input: Input::default(),
        });
        assert_eq!(told.asked.take(), ["ready", "variables"]);
        variables
    }

    impl Host for Told {
        fn inner_host(&self) -> Option<&dyn Host> {
            Some(&self.asked)
        }
    }

    #[async_trait]
    impl Frontend for Told {
        fn show(&self, _: &Event) {}

        fn notice(&self, _: &str) {}

        fn variables(&self, _: &ToolUse) -> Vec<(String, String)> {
            self.asked.note("variables");
            vec![Self::variable()]
        }

        async fn ready(&self) {
            self.asked.note("ready");
        }
    }

    #[tokio::test]
    async fn a_host_with_hooks_before_elicitations_passes_everything_on() {
        let told = Arc::new(Told::default());
        let hooks = Hooks::new(Vec::new(), HookSession::default());
        ask_all(&HookedElicitations::new(hooks, told.clone())).await;
        assert_eq!(told.asked.take(), ALL);
    }
}
