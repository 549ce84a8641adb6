//! Watcher of a subagent: passes its updates on to those who watch the parent session.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::sync::Arc;

use ah_conversation::{
    Clock, EventKind, StreamEvent, Task, TaskEnding, TaskKind, TaskSink, TaskUpdate, TaskUsage,
    Time,
};
use parking_lot::Mutex;

use crate::{Audience, Ready, SessionUpdate, Watcher};

/// Watcher that shows a subagent's session as part of the parent session.
pub(super) struct Relay {
    pub(super) outer: Audience,
    pub(super) task: Task,
    /// Name of its definition.
    pub(super) name: String,
    pub(super) sink: TaskSink,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) started: Time,
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
        let state = self.state.lock();
        TaskUsage {
            tokens: state.tokens,
            tool_uses: state.tool_uses,
            duration_ms: self.clock.now().since(self.started),
        }
    }

    /// Reports the commands that still run as stopped: those of tools that only it had end with it.
    pub(super) fn stop_commands(&self) {
        let commands = std::mem::take(&mut self.state.lock().commands);
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
        let commands = &mut self.state.lock().commands;
        match update {
            TaskUpdate::Started if task.kind == TaskKind::Command => commands.push(task.clone()),
            TaskUpdate::Ended { .. } => commands.retain(|known| known.id != task.id),
            TaskUpdate::Started | TaskUpdate::Progress { .. } => {}
        }
    }

    fn write(&self, text: &str) {
        if let Some(log) = &mut self.state.lock().log {
            // A failed write only affects the view of a running subagent.
            let _ = writeln!(log, "{text}");
        }
    }
}

impl Watcher for Relay {
    fn update(&self, update: SessionUpdate<'_>) {
        match update {
            SessionUpdate::Happened(event) => return self.happened(event),
            SessionUpdate::Notice(text) => {
                return self.outer.notice(&format!("{}: {text}", self.name));
            }
            SessionUpdate::Task(task, news) => self.follow(task, news),
            SessionUpdate::Call(call, ..) => {
                self.state.lock().tool_uses += 1;
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
        tell_above(&self.outer, &self.task, update);
        let is_of_request = matches!(
            update,
            SessionUpdate::Stored(_)
                | SessionUpdate::Piece(StreamEvent::Retry(_) | StreamEvent::Fallback(_))
        );
        if is_of_request && let Some(event) = update.event() {
            self.happened(&event);
        }
    }

    fn ready(&self) -> Option<Ready<'_>> {
        Some(Box::pin(self.outer.ready()))
    }
}

impl Relay {
    fn happened(&self, event: &EventKind) {
        match event {
            EventKind::ApiCallEnd {
                input_tokens,
                output_tokens,
                cache_creation_input_tokens,
                cache_read_input_tokens,
                ..
            } => {
                self.state.lock().tokens += input_tokens
                    + output_tokens
                    + cache_creation_input_tokens
                    + cache_read_input_tokens;
            }
            EventKind::Retry { .. }
            | EventKind::Fallback { .. }
            | EventKind::PrefixBroken { .. } => self.outer.update(SessionUpdate::Happened(event)),
            _ => {}
        }
    }
}

/// Tells `outer`, which watches the session above, an update of the session below the call that started `task`.
pub(super) fn tell_above(outer: &Audience, task: &Task, update: SessionUpdate<'_>) {
    match update {
        // Updates of nested subagents already name their task.
        SessionUpdate::Subagent(..)
        | SessionUpdate::Task(..)
        | SessionUpdate::HookStarted(_)
        | SessionUpdate::HookEnded(..) => outer.update(update),
        _ => outer.update(SessionUpdate::Subagent(task, &update)),
    }
}
