//! The editor as a frontend: what happens in a run becomes its notifications.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use agent_client_protocol::Client;
use agent_client_protocol::v1::ConnectionTo;
use agent_client_protocol::v1::schema::{
    ConfigOptionUpdate, ContentChunk, CurrentModeUpdate, Notice, NoticeSeverity, SessionId,
    SessionNotification, SessionUpdate as Told, ToolCallUpdate, UsageUpdate,
};
use ah_agent::{Controls, Frontend, Session, SessionChange, SessionUpdate};
use ah_conversation::{
    BlockStart, ContentBlock, Delta, Event, EventKind, Message, StreamEvent, ToolResult, ToolUse,
    ToolUseId,
};
use async_trait::async_trait;

use crate::call::{Shown, plan};
use crate::choice::Choices;

/// Shows notices to a user whose editor does not: on the error stream.
pub(crate) type Warn = Arc<dyn Fn(&str) + Send + Sync>;

/// The editor's view of one session.
pub(crate) struct Editor {
    /// The connection.
    pub(crate) connection: ConnectionTo<Client>,
    /// Whether it shows notices.
    shows_notices: bool,
    warn: Warn,
    /// The session, once it is open.
    session: OnceLock<SessionId>,
    controls: OnceLock<Controls>,
    state: Mutex<State>,
}

/// What changes while the session is open.
#[derive(Default)]
struct State {
    /// The display of calls, while the session is open: its tools keep the stored session in use.
    shown: Option<Arc<Shown>>,
    /// Calls that run a command.
    commands: HashSet<ToolUseId>,
    /// Mode, model, and what can be chosen.
    choices: Option<Choices>,
    /// Tokens that fit into the context window; 0 if that is not known.
    window: u64,
    /// Number of questions that belong to no call.
    questions: u32,
}

impl Editor {
    pub(crate) fn new(connection: ConnectionTo<Client>, shows_notices: bool, warn: Warn) -> Self {
        Self {
            connection,
            shows_notices,
            warn,
            session: OnceLock::new(),
            controls: OnceLock::new(),
            state: Mutex::default(),
        }
    }

    /// Begins to show the session with this id.
    pub(crate) fn follow(&self, id: SessionId, session: &Session, shown: Shown, choices: Choices) {
        // A session is opened once.
        let _ = self.session.set(id);
        let _ = self.controls.set(session.controls());
        let mut state = self.lock();
        state.shown = Some(Arc::new(shown));
        state.choices = Some(choices);
        state.window = session.model().context_window;
    }

    /// Shows no more calls, since the session is closed.
    pub(crate) fn leave(&self) {
        self.lock().shown = None;
    }

    /// Requests a change of the session, which it takes before its next step.
    pub(crate) fn change(&self, change: SessionChange) {
        if let Some(controls) = self.controls.get() {
            controls.request(change);
        }
    }

    /// Returns the session's id; `None` until it is open.
    pub(crate) fn session(&self) -> Option<&SessionId> {
        self.session.get()
    }

    /// Calls `change` with what can be chosen; returns its result. `None` until the session is open.
    pub(crate) fn choices<T>(&self, change: impl FnOnce(&mut Choices) -> T) -> Option<T> {
        self.lock().choices.as_mut().map(change)
    }

    /// Sets the size of the context window, after another model was chosen.
    pub(crate) fn set_window(&self, window: u64) {
        self.lock().window = window;
    }

    /// Sends a notification. One that cannot be sent is lost with the connection.
    pub(crate) fn tell(&self, update: Told) {
        if let Some(session) = self.session.get() {
            let told = SessionNotification::new(session.clone(), update);
            if let Err(error) = self.connection.send_notification(told) {
                tracing::debug!(%error, "a notification is lost");
            }
        }
    }

    /// Tells mode and model.
    pub(crate) fn tell_choices(&self) {
        if let Some(options) = self.choices(|choices| choices.options()) {
            self.tell(Told::ConfigOptionUpdate(ConfigOptionUpdate::new(options)));
        }
    }

    /// Calls `show` with the display of calls; the result is a notification.
    fn tell_call(&self, show: impl FnOnce(&Shown) -> Told) {
        if let Some(shown) = self.shown() {
            self.tell(show(&shown));
        }
    }

    /// Returns an id for a question that belongs to no call.
    pub(crate) fn question_id(&self) -> String {
        let mut state = self.lock();
        state.questions += 1;
        format!("question-{}", state.questions)
    }

    /// Shows a call that the model has made.
    pub(crate) fn made(&self, call: &ToolUse) {
        self.tell_call(|shown| {
            if shown.is_command(call) {
                self.lock().commands.insert(call.id.clone());
            }
            Told::ToolCall(shown.made(call))
        });
    }

    /// Shows the result of a call.
    pub(crate) fn ended(&self, result: &ToolResult) {
        let is_command = self.lock().commands.remove(&result.tool_use_id);
        self.tell_call(|shown| Told::ToolCallUpdate(shown.ended(result, is_command)));
        if let Some(plan) = plan(result) {
            self.tell(Told::Plan(plan));
        }
    }

    fn stored(&self, message: &Message) {
        let Some(response) = &message.response else {
            return;
        };
        let window = self.lock().window;
        if window > 0 {
            let used = response.usage.total();
            self.tell(Told::UsageUpdate(UsageUpdate::new(used, window)));
        }
    }

    fn piece(&self, piece: &StreamEvent) {
        match piece {
            StreamEvent::BlockStarted {
                block: BlockStart::Text(text),
                ..
            }
            | StreamEvent::Delta {
                delta: Delta::Text(text),
                ..
            } if !text.is_empty() => self.tell(Told::AgentMessageChunk(chunk(text))),
            StreamEvent::BlockStarted {
                block: BlockStart::Thinking(text),
                ..
            }
            | StreamEvent::Delta {
                delta: Delta::Thinking(text),
                ..
            } if !text.is_empty() => self.tell(Told::AgentThoughtChunk(chunk(text))),
            _ => {}
        }
    }

    /// Shows the calls of an answer, also of a subagent's.
    fn call(&self, update: &SessionUpdate<'_>) {
        match update {
            SessionUpdate::Block(ContentBlock::ToolUse(call)) => self.made(call),
            SessionUpdate::Call(call, _) => {
                self.tell_call(|shown| Told::ToolCallUpdate(shown.begun(call)));
            }
            SessionUpdate::Result(result) => self.ended(result),
            SessionUpdate::Subagent(_, update) => self.call(update),
            _ => {}
        }
    }

    fn shown(&self) -> Option<Arc<Shown>> {
        self.lock().shown.clone()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns a piece of text.
pub(crate) fn chunk(text: &str) -> ContentChunk {
    ContentChunk::new(text.into())
}

#[async_trait]
impl Frontend for Editor {
    fn show(&self, event: &Event) {
        match &event.kind {
            EventKind::Retry { error, .. } => self.notice(&format!("retrying: {error}")),
            EventKind::Fallback {
                to_model, error, ..
            } => self.notice(&format!("falling back to {to_model}: {error}")),
            _ => {}
        }
    }

    fn notice(&self, text: &str) {
        if self.shows_notices && self.session.get().is_some() {
            self.tell(Told::Notice(Notice::new(NoticeSeverity::Warning, text)));
        } else {
            (self.warn)(text);
        }
    }

    fn update(&self, update: SessionUpdate<'_>) {
        match &update {
            SessionUpdate::Piece(piece) => self.piece(piece),
            SessionUpdate::Stored(message) => self.stored(message),
            SessionUpdate::Mode(mode) => {
                self.choices(|choices| choices.mode = *mode);
                let mode = CurrentModeUpdate::new(mode.as_str());
                self.tell(Told::CurrentModeUpdate(mode));
                self.tell_choices();
            }
            SessionUpdate::Denied { call, .. } => {
                // The result follows.
                tracing::debug!(tool = call.name, "denied");
            }
            update => self.call(update),
        }
    }
}

impl Editor {
    /// Returns the call as shown in a question.
    pub(crate) fn asked(
        &self,
        call: &ToolUse,
        written: Option<&std::path::Path>,
    ) -> ToolCallUpdate {
        let written = written.map(|path| (path, !path.exists()));
        self.shown().unwrap_or_default().asked(call, written)
    }
}
