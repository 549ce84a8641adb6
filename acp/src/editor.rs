//! The editor as a watcher: what happens in a run becomes its notifications.

use std::collections::{HashMap, VecDeque};
use std::mem;
use std::sync::{Arc, OnceLock};

use agent_client_protocol::v1::schema::{
    ConfigOptionUpdate, ContentChunk, Cost as ToldCost, CurrentModeUpdate, MessageId as ToldId,
    Notice, NoticeSeverity, SessionId, SessionUpdate as Told, ToolCallUpdate, UsageUpdate,
};
use agent_client_protocol::v2::schema as second;
use ah_agent::{Controls, Ready, Session, SessionChange, SessionUpdate, Watcher};
use ah_conversation::{
    BlockStart, ContentBlock, Cost, Delta, EventKind, LiveOutput, Message, MessageId, Origin,
    StreamEvent, ToolResult, ToolUse, ToolUseId,
};
use parking_lot::Mutex;

use crate::call::{Shown, plan};
use crate::choice::Choices;
use crate::terminals::Terminals;
use crate::wire::Wire;

/// Shows notices to a user whose editor does not: on the error stream.
pub(crate) type Warn = Arc<dyn Fn(&str) + Send + Sync>;
/// Learns that a prompt has become the message with this id.
pub(crate) type Inserted = Box<dyn FnOnce(&MessageId) + Send>;

/// The editor's view of one session.
pub(crate) struct Editor {
    /// The connection.
    pub(crate) wire: Arc<Wire>,
    terminals: Arc<Terminals>,
    warn: Warn,
    controls: OnceLock<Controls>,
    state: Mutex<State>,
}

/// What changes while the session is open.
#[derive(Default)]
struct State {
    /// The display of calls, while the session is open: its tools keep the stored session in use.
    shown: Option<Arc<Shown>>,
    /// Whether the editor knows the session.
    is_known: bool,
    /// Notices from before.
    early: Vec<String>,
    /// Commands of calls that run one.
    commands: HashMap<ToolUseId, String>,
    /// Mode, model, and what can be chosen.
    choices: Option<Choices>,
    /// Tokens that fit into the context window; 0 if that is not known.
    window: u64,
    /// Number of questions that belong to no call.
    questions: u32,
    /// The message that the answer becomes which is told.
    answer: Option<MessageId>,
    /// What the session has cost.
    cost: Cost,
    /// Waits for the next prompt to become a message.
    prompt: Option<Inserted>,
    /// Wait for what steers the run to become messages, in this order.
    steering: VecDeque<Inserted>,
}

impl Editor {
    pub(crate) fn new(wire: Wire, warn: Warn) -> Self {
        let wire = Arc::new(wire);
        Self {
            terminals: Arc::new(Terminals::new(wire.clone())),
            wire,
            warn,
            controls: OnceLock::new(),
            state: Mutex::default(),
        }
    }

    /// Begins to show the session with this id.
    pub(crate) fn follow(&self, id: SessionId, session: &Session, shown: Shown, choices: Choices) {
        // A session is opened once.
        self.wire.open(id);
        let _ = self.controls.set(session.controls());
        let responses = session.transcript().messages().iter();
        let responses = responses.filter_map(|message| message.response.as_ref());
        let mut state = self.state.lock();
        state.cost = responses.filter_map(|response| response.cost).sum();
        state.shown = Some(Arc::new(shown));
        state.choices = Some(choices);
        state.window = session.model().context_window;
    }

    /// Tells what was noticed before the editor knew the session.
    pub(crate) fn tell_early(&self) {
        let early = {
            let mut state = self.state.lock();
            state.is_known = true;
            mem::take(&mut state.early)
        };
        early.iter().for_each(|text| self.tell_notice(text));
    }

    fn tell_notice(&self, text: &str) {
        self.wire.tell(match self.wire.abilities.notices {
            true => Told::Notice(Notice::new(NoticeSeverity::Warning, text)),
            // Without a form of its own, it is shown as what the agent thinks.
            false => Told::AgentThoughtChunk(chunk(&format!("{text}\n"), "notice")),
        });
    }

    /// Shows no more calls, since the session is closed.
    pub(crate) fn leave(&self) {
        self.state.lock().shown = None;
    }

    /// Calls `inserted` once the next prompt is a message.
    pub(crate) fn expect_prompt(&self, inserted: Inserted) {
        self.state.lock().prompt = Some(inserted);
    }

    /// Calls `inserted` once what was sent to steer the run is a message.
    pub(crate) fn expect_steering(&self, inserted: Inserted) {
        self.state.lock().steering.push_back(inserted);
    }

    /// Requests a change of the session, which it takes before its next step.
    pub(crate) fn change(&self, change: SessionChange) {
        if let Some(controls) = self.controls.get() {
            controls.request(change);
        }
    }

    /// Calls `change` with what can be chosen; returns its result. `None` until the session is open.
    pub(crate) fn choices<T>(&self, change: impl FnOnce(&mut Choices) -> T) -> Option<T> {
        self.state.lock().choices.as_mut().map(change)
    }

    /// Sets the size of the context window, after another model was chosen.
    pub(crate) fn set_window(&self, window: u64) {
        self.state.lock().window = window;
    }

    /// Tells mode and model.
    pub(crate) fn tell_choices(&self) {
        if let Some(options) = self.choices(|choices| choices.options()) {
            self.wire
                .tell(Told::ConfigOptionUpdate(ConfigOptionUpdate::new(options)));
        }
    }

    /// Calls `show` with the display of calls; the result is a notification.
    fn tell_call(&self, show: impl FnOnce(&Shown) -> Told) {
        if let Some(shown) = self.shown() {
            self.wire.tell(show(&shown));
        }
    }

    /// Returns an id for a question that belongs to no call.
    pub(crate) fn question_id(&self) -> String {
        let mut state = self.state.lock();
        state.questions += 1;
        format!("question-{}", state.questions)
    }

    /// Says something at the end of a run.
    pub(crate) fn say(&self, text: &str) {
        let answer = self.state.lock().answer.clone();
        let id = answer.map_or_else(|| "end".to_owned(), |id| format!("{id}-end"));
        self.wire.tell(Told::AgentMessageChunk(chunk(text, &id)));
    }

    /// Shows a call that the model has made.
    pub(crate) fn made(&self, call: &ToolUse) {
        self.tell_call(|shown| {
            if let Some(command) = shown.command(call) {
                let command = command.to_owned();
                self.state.lock().commands.insert(call.id.clone(), command);
            }
            Told::ToolCall(shown.made(call))
        });
    }

    /// Shows that a call has begun, and its output from now on.
    fn begun(&self, call: &ToolUse, output: &LiveOutput) {
        self.tell_call(|shown| Told::ToolCallUpdate(shown.begun(call)));
        let command = self.state.lock().commands.get(&call.id).cloned();
        if let (Some(command), Some(shown)) = (command, self.shown()) {
            self.terminals.begin(call, &command, &shown.folder, output);
        }
    }

    /// Shows the result of a call.
    pub(crate) fn ended(&self, result: &ToolResult) {
        let command = self.state.lock().commands.remove(&result.tool_use_id);
        let Some(shown) = self.shown() else { return };
        let mut update = shown.ended(result, command.is_some());
        if let Some(command) = command {
            let terminal = self.terminals.end(result, &command, &shown.folder);
            update.fields.content = terminal.or(update.fields.content);
        }
        let change = shown.change(result).filter(|_| self.wire.is_second());
        if change.is_some() {
            update.fields.content = None;
        }
        self.wire.tell(Told::ToolCallUpdate(update));
        if let Some((path, is_new, patch)) = change {
            let change = match is_new {
                true => second::DiffChange::add(path),
                false => second::DiffChange::modify(path),
            };
            let change = change.file_type(second::DiffFileType::Text);
            let diff = second::Diff::patch(patch, vec![change]);
            let update = second::ToolCallUpdate::new(result.tool_use_id.as_str());
            let update = update.content(vec![second::ToolCallContent::Diff(diff)]);
            self.wire
                .tell_second(second::SessionUpdate::ToolCallUpdate(update));
        }
        if let Some(plan) = plan(result) {
            self.wire.tell(Told::Plan(plan));
        }
    }

    fn stored(&self, message: &Message) {
        let inserted = match message.origin {
            Origin::Prompt | Origin::FollowUp => self.state.lock().prompt.take(),
            Origin::Steering => self.state.lock().steering.pop_front(),
            _ => None,
        };
        if let Some(inserted) = inserted {
            inserted(&message.id);
        }
        let Some(response) = &message.response else {
            return;
        };
        let (window, cost) = {
            let mut state = self.state.lock();
            state.cost = state.cost + response.cost.unwrap_or_default();
            (state.window, state.cost)
        };
        if window > 0 {
            let usage = UsageUpdate::new(response.usage.total(), window);
            let cost = (cost > Cost::default()).then(|| ToldCost::new(cost.usd(), "USD"));
            self.wire.tell(Told::UsageUpdate(usage.cost(cost)));
        }
    }

    fn piece(&self, piece: &StreamEvent) {
        let answer = self.state.lock().answer.clone();
        let id = answer.as_ref().map_or("answer", MessageId::as_str);
        match piece {
            StreamEvent::BlockStarted {
                block: BlockStart::Text(text),
                ..
            }
            | StreamEvent::Delta {
                delta: Delta::Text(text),
                ..
            } if !text.is_empty() => self.wire.tell(Told::AgentMessageChunk(chunk(text, id))),
            StreamEvent::BlockStarted {
                block: BlockStart::Thinking(text),
                ..
            }
            | StreamEvent::Delta {
                delta: Delta::Thinking(text),
                ..
            } if !text.is_empty() => {
                self.wire
                    .tell(Told::AgentThoughtChunk(chunk(text, &thought(id))));
            }
            _ => {}
        }
    }

    /// Shows the calls of an answer, also of a subagent's.
    fn call(&self, update: &SessionUpdate<'_>) {
        match update {
            SessionUpdate::Block(ContentBlock::ToolUse(call)) => self.made(call),
            SessionUpdate::Call(call, output, _) => self.begun(call, output),
            SessionUpdate::Result(result, _) => self.ended(result),
            SessionUpdate::Subagent(_, update) => self.call(update),
            _ => {}
        }
    }

    fn shown(&self) -> Option<Arc<Shown>> {
        self.state.lock().shown.clone()
    }
}

/// Returns a piece of the message with this id.
pub(crate) fn chunk(text: &str, message: &str) -> ContentChunk {
    ContentChunk::new(text.into()).message_id(ToldId::new(message))
}

/// Returns the id of the reasoning before the answer with this id.
pub(crate) fn thought(message: &str) -> String {
    format!("{message}-thought")
}

impl Watcher for Editor {
    fn update(&self, update: SessionUpdate<'_>) {
        match &update {
            SessionUpdate::Happened(event) => self.event(event),
            SessionUpdate::Notice(text) => self.notice(text),
            SessionUpdate::Asking { message, .. } => {
                self.state.lock().answer = Some((*message).clone());
            }
            SessionUpdate::Piece(piece) => {
                self.piece(piece);
                if matches!(piece, StreamEvent::Retry(_) | StreamEvent::Fallback(_))
                    && let Some(event) = update.event()
                {
                    self.event(&event);
                }
            }
            SessionUpdate::Stored(message) => self.stored(message),
            SessionUpdate::Mode(mode) => {
                self.choices(|choices| choices.mode = *mode);
                let mode = CurrentModeUpdate::new(mode.as_str());
                self.wire.tell(Told::CurrentModeUpdate(mode));
                self.tell_choices();
            }
            SessionUpdate::Denied { call, .. } => {
                // The result follows.
                tracing::debug!(tool = call.name, "denied");
            }
            update => self.call(update),
        }
    }

    fn ready(&self) -> Option<Ready<'_>> {
        None
    }
}

impl Editor {
    fn event(&self, event: &EventKind) {
        match event {
            EventKind::Retry { error, .. } => self.notice(&format!("retrying: {error}")),
            EventKind::Fallback {
                to_model, error, ..
            } => self.notice(&format!("falling back to {to_model}: {error}")),
            _ => {}
        }
    }

    pub(crate) fn notice(&self, text: &str) {
        if !self.wire.abilities.notices {
            (self.warn)(text);
        }
        let mut state = self.state.lock();
        if state.is_known {
            drop(state);
            self.tell_notice(text);
        } else {
            state.early.push(text.to_owned());
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
