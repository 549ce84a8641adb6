//! Frontend of a subagent: passes its updates and permission requests on to the parent session's frontend.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ah_conversation::{
    Clock, Event, EventKind, Host, PermissionAnswer, PermissionRequest, Task, TaskEnding, TaskKind,
    TaskSink, TaskUpdate, TaskUsage, Time, ToolUse,
};
use async_trait::async_trait;

use crate::{AGENT, Controls, Frontend, SessionUpdate};

/// Frontend that shows a subagent's session as part of the parent session.
pub(super) struct Relay {
    pub(super) outer: Arc<dyn Frontend>,
    pub(super) task: Task,
    /// Name of its definition.
    pub(super) name: String,
    pub(super) sink: TaskSink,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) started: Time,
    /// Controls of the parent session, which receives permission updates.
    pub(super) controls: Controls,
    pub(super) state: Mutex<RelayState>,
}

/// Statistics and log of a subagent.
#[derive(Default)]
pub(super) struct RelayState {
    tokens: u64,
    tool_uses: usize,
    /// Log of its output, readable before it ends.
    log: Option<File>,
    /// Its commands in the background that run.
    commands: Vec<Task>,
}

impl RelayState {
    /// Logs the output to the file `path`.
    pub(super) fn with_log(path: &Path) -> Self {
        let folder = path.parent().map_or(Ok(()), fs::create_dir_all);
        let log = folder.and_then(|()| {
            let mut options = File::options();
            options
                .write(true)
                .create(true)
                .truncate(true)
                .mode(0o600)
                .open(path)
        });
        Self {
            // Without a log, the result is still reported.
            log: log.ok(),
            ..Self::default()
        }
    }
}

impl Relay {
    /// Returns the usage so far.
    pub(super) fn usage(&self) -> TaskUsage {
        let state = self.lock();
        TaskUsage {
            tokens: state.tokens,
            tool_uses: state.tool_uses,
            duration_ms: self.clock.now().since(self.started),
        }
    }

    /// Reports the commands that still run as stopped: those of tools that only it had end with it.
    pub(super) fn stop_commands(&self) {
        let commands = std::mem::take(&mut self.lock().commands);
        for task in commands {
            let stopped = TaskUpdate::Ended {
                ending: TaskEnding::Stopped,
                summary: "it was stopped with its subagent".to_owned(),
                output_file: None,
                usage: TaskUsage::default(),
                spent: Vec::new(),
            };
            self.outer.update(SessionUpdate::Task(&task, &stopped));
        }
    }

    /// Takes notice of a task that it has started.
    fn follow(&self, task: &Task, update: &TaskUpdate) {
        let commands = &mut self.lock().commands;
        match update {
            TaskUpdate::Started if task.kind == TaskKind::Command => commands.push(task.clone()),
            TaskUpdate::Ended { .. } => commands.retain(|known| known.id != task.id),
            TaskUpdate::Started | TaskUpdate::Progress { .. } => {}
        }
    }

    fn write(&self, text: &str) {
        if let Some(log) = &mut self.lock().log {
            // A failed write only affects the view of a running subagent.
            let _ = writeln!(log, "{text}");
        }
    }

    fn lock(&self) -> MutexGuard<'_, RelayState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Host for Relay {
    /// Background subagents do not ask: the user is busy with the main conversation.
    async fn permission(&self, request: &PermissionRequest) -> PermissionAnswer {
        if self.task.is_background {
            return PermissionAnswer::nobody(request);
        }
        let agent = (self.task.id.clone(), self.name.clone());
        let request = PermissionRequest {
            agent: request.agent.clone().or(Some(agent)),
            ..request.clone()
        };
        let answer = self.outer.permission(&request).await;
        self.controls.learn(&answer);
        answer
    }

    fn inner_host(&self) -> Option<&dyn Host> {
        Some(&*self.outer)
    }
}

impl Frontend for Relay {
    fn inner_frontend(&self) -> Option<&dyn Frontend> {
        Some(&*self.outer)
    }

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
            EventKind::Retry { .. }
            | EventKind::Fallback { .. }
            | EventKind::PrefixBroken { .. } => self.outer.show(event),
            _ => {}
        }
    }

    fn notice(&self, text: &str) {
        self.outer.notice(&format!("{}: {text}", self.name));
    }

    fn variables(&self, call: &ToolUse) -> Vec<(String, String)> {
        let mut variables = self.outer.variables(call);
        // Of nested subagents, the innermost one.
        variables.retain(|(name, _)| name != AGENT);
        variables.push((AGENT.to_owned(), self.task.id.clone()));
        variables
    }

    fn update(&self, update: SessionUpdate<'_>) {
        if let SessionUpdate::Task(task, news) = update {
            self.follow(task, news);
        }
        match update {
            // Updates of nested subagents already name their task.
            SessionUpdate::Subagent(..)
            | SessionUpdate::Task(..)
            | SessionUpdate::HookStarted(_)
            | SessionUpdate::HookEnded(..) => {
                return self.outer.update(update);
            }
            SessionUpdate::Call(call, _) => {
                self.lock().tool_uses += 1;
                self.write(&format!("→ {}", call.name));
                let progress = TaskUpdate::Progress {
                    doing: format!("Running {}", call.name),
                    last_tool: Some(call.name.clone()),
                    usage: self.usage(),
                };
                self.sink.report(&self.task, &progress);
            }
            SessionUpdate::Stored(message) if message.response.is_some() => {
                self.write(&message.text());
            }
            _ => {}
        }
        self.outer
            .update(SessionUpdate::Subagent(&self.task, &update));
    }
}

#[cfg(test)]
mod tests {
    use ah_testkit::world::Steps;

    use super::*;
    use crate::frontend::tests::{Told, passed_on, task};

    #[tokio::test]
    async fn the_frontend_of_a_subagent_passes_everything_on() {
        let told = Arc::new(Told::default());
        let relay = Relay {
            outer: told.clone(),
            task: task(),
            name: "agent".to_owned(),
            sink: TaskSink::default(),
            clock: Arc::new(Steps::default()),
            started: Time(0),
            controls: Controls::default(),
            state: Mutex::default(),
        };
        let variables = passed_on(&relay, &told).await;
        assert_eq!(
            variables,
            [Told::variable(), (AGENT.to_owned(), "task".to_owned())]
        );
    }
}
