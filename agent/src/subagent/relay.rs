//! The frontend of a subagent: it shows what happens as a part of the session above it, and whoever is asked there is
//! asked.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ah_conversation::{
    Clock, Event, EventKind, Host, HostPermission, PermissionAnswer, PermissionRequest, Task,
    TaskSink, TaskUpdate, TaskUsage, Time,
};
use async_trait::async_trait;

use crate::{Controls, Frontend, SessionChange, SessionUpdate};

/// Shows a subagent's conversation as a part of the one above it.
pub(super) struct Relay {
    pub(super) outer: Arc<dyn Frontend>,
    pub(super) task: Task,
    /// The name of its definition.
    pub(super) name: String,
    pub(super) sink: TaskSink,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) started: Time,
    /// The session above, to which what somebody allows is passed on.
    pub(super) controls: Controls,
    pub(super) state: Mutex<State>,
}

/// What a subagent has done so far.
#[derive(Default)]
pub(super) struct State {
    tokens: u64,
    tool_uses: usize,
    /// Where what is said is written, for who asks before the end.
    log: Option<File>,
}

impl State {
    /// Writes what is said into the file `path`.
    pub(super) fn writing(path: &Path) -> Self {
        let folder = path.parent().map_or(Ok(()), fs::create_dir_all);
        let log = folder.and_then(|()| File::create(path));
        Self {
            // Without it, what comes of the subagent is told all the same.
            log: log.ok(),
            ..Self::default()
        }
    }
}

impl Relay {
    /// What the subagent took so far.
    pub(super) fn usage(&self) -> TaskUsage {
        let state = self.lock();
        TaskUsage {
            tokens: state.tokens,
            tool_uses: state.tool_uses,
            duration_ms: self.clock.now().since(self.started),
        }
    }

    fn write(&self, text: &str) {
        if let Some(log) = &mut self.lock().log {
            // What cannot be written is missed by nobody but who looks early.
            let _ = writeln!(log, "{text}");
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Host for Relay {
    /// In the background nobody is asked: whoever sits there speaks with somebody else.
    async fn permission(&self, question: &PermissionRequest) -> PermissionAnswer {
        if self.task.is_background {
            return PermissionAnswer::nobody(question);
        }
        let agent = (self.task.id.clone(), self.name.clone());
        let question = PermissionRequest {
            agent: question.agent.clone().or(Some(agent)),
            ..question.clone()
        };
        let answer = self.outer.permission(&question).await;
        if let PermissionAnswer::Allow { updates, .. } = &answer {
            for update in updates {
                self.controls
                    .request(SessionChange::Permissions(update.clone()));
            }
        }
        answer
    }

    async fn new_host(&self, host: &str) -> HostPermission {
        self.outer.new_host(host).await
    }
}

#[async_trait]
impl Frontend for Relay {
    fn show(&self, event: &Event) {
        match &event.kind {
            EventKind::ApiCallEnd {
                input_tokens,
                output_tokens,
                cache_creation_input_tokens,
                cache_read_input_tokens,
                ..
            } => {
                self.lock().tokens += input_tokens
                    + output_tokens
                    + cache_creation_input_tokens
                    + cache_read_input_tokens;
            }
            EventKind::Retry { .. } | EventKind::Fallback { .. } => self.outer.show(event),
            _ => {}
        }
    }

    fn notice(&self, text: &str) {
        self.outer.notice(&format!("{}: {text}", self.name));
    }

    fn update(&self, update: SessionUpdate<'_>) {
        match update {
            // Of those below, each says itself whose they are.
            SessionUpdate::Subagent(..)
            | SessionUpdate::Task(..)
            | SessionUpdate::HookStarted(_)
            | SessionUpdate::HookEnded(..) => {
                return self.outer.update(update);
            }
            SessionUpdate::Call(call) => {
                self.lock().tool_uses += 1;
                self.write(&format!("→ {}", call.name));
                let news = TaskUpdate::Progress {
                    doing: format!("Running {}", call.name),
                    last_tool: Some(call.name.clone()),
                    usage: self.usage(),
                };
                self.sink.tell(&self.task, &news);
            }
            SessionUpdate::Stored(message) if message.response.is_some() => {
                self.write(&message.text())
            }
            _ => {}
        }
        self.outer
            .update(SessionUpdate::Subagent(&self.task, &update));
    }

    async fn ready(&self) {
        self.outer.ready().await;
    }
}
