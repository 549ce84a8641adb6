//! Port: the outside of a run. What happens is told to watchers beside one another, questions go to one host, and the
//! files of one editor are worked on. Terminal, JSON lines, the Agent-SDK protocol, transcripts and traces watch the same
//! run.

mod event;

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Weak};

use ah_conversation::{
    ContentBlock, Editor, EventKind, Host, LiveOutput, Message, MessageId, Model, Nobody,
    PermissionMode, Progress, StreamEvent, Task, TaskUpdate, ToolResult, ToolUse,
};

use crate::hooks::{HookAnswer, HookCall};

/// Watches a session. Called in order, from the task that drives the session; must not block for long.
pub trait Watcher: Send + Sync {
    /// Learns what has happened.
    fn update(&self, update: SessionUpdate<'_>);

    /// Returns what to wait for before the watcher can take more, so that the run waits for a slow reader; `None` if it
    /// always can.
    fn ready(&self) -> Option<Ready<'_>>;
}

/// The time at which a watcher can take more.
pub type Ready<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

/// Those outside who see a session and are asked by it.
#[derive(Clone)]
pub struct Audience {
    watchers: Arc<[Arc<dyn Watcher>]>,
    /// Answers questions.
    pub host: Arc<dyn Host>,
    /// Has unsaved texts of files, if the user works in an editor.
    pub editor: Option<Arc<dyn Editor>>,
}

impl Audience {
    /// Returns an audience of `watcher` alone, in which nobody can be asked.
    pub fn watching(watcher: Arc<dyn Watcher>) -> Self {
        Self {
            watchers: Arc::new([watcher]),
            host: Arc::new(Nobody),
            editor: None,
        }
    }

    /// Returns an audience of one who watches and is asked.
    pub fn of<T: Watcher + Host + 'static>(both: Arc<T>) -> Self {
        Self {
            host: both.clone(),
            ..Self::watching(both)
        }
    }

    /// Has this host answer the questions.
    #[must_use]
    pub fn with_host(self, host: Arc<dyn Host>) -> Self {
        Self { host, ..self }
    }

    /// Has this editor give unsaved texts; nobody if `None`.
    #[must_use]
    pub fn with_editor(self, editor: Option<Arc<dyn Editor>>) -> Self {
        Self { editor, ..self }
    }

    /// Adds a watcher, which learns of everything before the others.
    #[must_use]
    pub fn with_first(self, watcher: Arc<dyn Watcher>) -> Self {
        let others = self.watchers.iter().cloned();
        Self {
            watchers: [watcher].into_iter().chain(others).collect(),
            ..self
        }
    }

    /// Tells all watchers.
    pub fn update(&self, update: SessionUpdate<'_>) {
        for watcher in &*self.watchers {
            watcher.update(update);
        }
    }

    /// Tells all watchers something that is not part of the conversation.
    pub fn notice(&self, text: &str) {
        self.update(SessionUpdate::Notice(text));
    }

    /// Returns what gives notices as long as there are watchers, and does not keep them.
    pub fn notices(&self) -> impl Fn(&str) + Clone + Send + Sync + 'static {
        let watchers: Arc<[Weak<_>]> = self.watchers.iter().map(Arc::downgrade).collect();
        move |text: &str| {
            let there = watchers.iter().filter_map(Weak::upgrade);
            there.for_each(|watcher| watcher.update(SessionUpdate::Notice(text)));
        }
    }

    /// Returns when all watchers can take more.
    pub async fn ready(&self) {
        for watcher in &*self.watchers {
            if let Some(ready) = watcher.ready() {
                ready.await;
            }
        }
    }
}

/// The place of a call among those of its answer.
#[derive(Debug, Clone, Copy)]
pub struct CallPlace<'a> {
    /// The argument that stands for the call on a display, or an empty text.
    pub key: &'a str,
    /// 1-based number of the call.
    pub index: usize,
    /// Number of calls.
    pub count: usize,
}

/// An update of a session. Some are events for programs and the log as well ([`event`](Self::event)).
#[derive(Debug, Clone, Copy)]
pub enum SessionUpdate<'a> {
    /// An event that has no other form.
    Happened(&'a EventKind),
    /// A notice to the user that is not part of the conversation: a lowered limit, omitted messages.
    Notice(&'a str),
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
    Call(&'a ToolUse, &'a LiveOutput, CallPlace<'a>),
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
    Result(&'a ToolResult, CallPlace<'a>),
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
