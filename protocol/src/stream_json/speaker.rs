//! A host sees a session: updates become messages.

mod below;
mod errors;
mod files;
mod hook;
pub(crate) mod lifecycle;

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;

use ah_agent::hooks::HookCall;
use ah_agent::{Ready, SessionUpdate, Watcher};
use ah_conversation::{
    ContentBlock, EventKind, ExitReason, Host, Message, MessageId, Origin, PermissionMode, Role,
    StopReason, StreamEvent, Time, ToolResult, ToolUse, ToolUseId, Usage,
};
use parking_lot::Mutex;
use serde_json::{Value, json};

use hook::said;

use super::Wanted;
use super::goal;
use super::link::Link;
use super::wire::Prompt;
use ah_transcript::Sidechains;
use ah_transcript::TranscriptFile;
use ah_transcript::parts::{content, details, head, of_block, piece, timestamp, tool_result};
use ah_transcript::unwritten;

/// Sends messages to the host, and asks it for permissions.
pub(crate) struct Speaker {
    pub(crate) link: Arc<Link>,
    pub(crate) wanted: Wanted,
    /// Answers questions in this process, in the place of the link.
    pub(crate) host: Option<Arc<dyn Host>>,
    /// Transcripts for the SDKs.
    files: Mutex<Option<SessionFiles>>,
    state: Mutex<SpeakerState>,
}

/// Transcripts of a session and its subagents.
pub(crate) struct SessionFiles {
    pub(crate) main: TranscriptFile,
    pub(crate) below: Sidechains,
}

#[derive(Default)]
struct SpeakerState {
    session_id: String,
    /// State last reported to the host.
    session_state: &'static str,
    /// Whether the first `init` message was sent; before that, notices wait.
    has_begun: bool,
    notices: Vec<String>,
    max_retries: u32,
    /// Answer being received.
    answer: Arriving,
    /// Calls whose results were sent.
    answered: HashSet<ToolUseId>,
    /// Messages about prompts from before the session had its id.
    early: Vec<Value>,
    /// UUID that the host gave the current prompt.
    prompt: Option<String>,
    /// Whether a message and a piece of its answer were sent.
    has_answered: bool,
    has_streamed: bool,
    /// UUID of the prompt until it is stored.
    prompt_uuid: Option<String>,
    /// Its content as the host sent it.
    prompt_sent: Option<Value>,
    /// Messages by the UUIDs that the host gave its prompts.
    named: HashMap<String, MessageId>,
    /// Permission mode last reported to the host.
    mode: Option<PermissionMode>,
    /// Trigger of the current compaction: `auto` or `manual`.
    trigger: &'static str,
    context_tokens: u64,
    /// When the host was first told of the session's goal.
    goal_since: Option<Time>,
    /// Calls that the host was asked about.
    asked: HashSet<ToolUseId>,
    /// Denied calls of subagents.
    denied_below: Vec<ToolUse>,
    /// Tasks in the background: id, type and description.
    tasks: Vec<(String, &'static str, String)>,
    /// Answers of subagents being received, by task id.
    below: HashMap<String, Arriving>,
    /// Whether the host wants the texts of subagents, not only their tool calls.
    forwards_words: bool,
}

#[derive(Default)]
struct Arriving {
    id: String,
    model: String,
    usage: Usage,
    /// The server's id of the request.
    request_id: Option<String>,
    /// Number of blocks sent, without calls.
    told: usize,
    /// UUID of the message.
    uuid: String,
    /// Number of blocks sent, those of failed attempts included.
    blocks: usize,
    /// Index of each call among them.
    calls: HashMap<ToolUseId, usize>,
}

impl Speaker {
    pub(crate) fn new(link: Arc<Link>, wanted: Wanted, host: Option<Arc<dyn Host>>) -> Self {
        Self {
            link,
            wanted,
            host,
            files: Mutex::default(),
            state: Mutex::new(SpeakerState {
                trigger: "auto",
                ..SpeakerState::default()
            }),
        }
    }

    /// Sets the ids of the open session.
    pub(crate) fn name(&self, session_id: &str, max_retries: u32) {
        let early = {
            let mut state = self.state.lock();
            session_id.clone_into(&mut state.session_id);
            state.max_retries = max_retries;
            std::mem::take(&mut state.early)
        };
        early.into_iter().for_each(|line| self.say(line));
    }

    /// Sends the `init` message of a prompt, then the notices that waited for it.
    pub(crate) fn begin(&self, init: Value, mode: PermissionMode, prompt: Option<&Prompt>) {
        self.say(init);
        let notices = {
            let mut state = self.state.lock();
            state.has_begun = true;
            state.mode = Some(mode);
            state.prompt_uuid = prompt.and_then(|prompt| prompt.uuid.clone());
            state.prompt_sent = prompt.and_then(|prompt| prompt.sent.clone());
            std::mem::take(&mut state.notices)
        };
        notices.iter().for_each(|notice| self.notice(notice));
    }

    /// Reports the permission mode if it has changed.
    pub(crate) fn mode(&self, mode: PermissionMode) {
        let known = self.state.lock().mode.replace(mode);
        if known != Some(mode) {
            self.system(
                "status",
                json!({"status": null, "permissionMode": mode.as_str()}),
            );
        }
    }

    /// Sets the trigger of the next compaction.
    pub(crate) fn set_trigger(&self, trigger: &'static str) {
        self.state.lock().trigger = trigger;
    }

    /// Returns the tokens of the last answer and its request.
    pub(crate) fn context_tokens(&self) -> u64 {
        self.state.lock().context_tokens
    }

    /// Reports the state of the session if it has changed and the host asked for it.
    pub(crate) fn state(&self, state: &'static str) {
        let known = std::mem::replace(&mut self.state.lock().session_state, state);
        if self.wanted.session_state && known != state {
            self.system(
                "session_state_changed",
                json!({"state": state, "sdk_host_only": true}),
            );
        }
    }

    /// Sends a message with the ids that every message has.
    pub(crate) fn say(&self, mut line: Value) {
        self.identify(&mut line);
        self.link.sink.send(line);
    }

    /// Sends the result of a prompt; `exit_reason` is `None` where no run began.
    pub(crate) fn say_result(&self, mut line: Value, exit_reason: Option<ExitReason>) {
        self.identify(&mut line);
        self.link.sink.send_result(line, exit_reason);
    }

    fn identify(&self, line: &mut Value) {
        self.attribute(line);
        let session_id = self.state.lock().session_id.clone();
        line["session_id"] = json!(session_id);
        if line.get("uuid").is_none() {
            line["uuid"] = json!(self.link.ids.fresh());
        }
    }

    pub(crate) fn system(&self, subtype: &str, more: Value) {
        let mut line = json!({"type": "system", "subtype": subtype});
        add(&mut line, more);
        self.say(line);
    }

    /// Sends a text for the user.
    pub(crate) fn inform(&self, text: &str, level: &str) {
        self.system("informational", json!({"content": text, "level": level}));
    }

    /// Sends a user message that no person wrote.
    pub(crate) fn user(&self, text: &str, more: Value) {
        let mut line = json!({
            "type": "user",
            "message": {"role": "user", "content": [{"type": "text", "text": text}]},
            "parent_tool_use_id": null,
            "timestamp": self.now(),
        });
        add(&mut line, more);
        self.say(line);
    }

    /// Sends the output of a command that was carried out here.
    pub(crate) fn output(&self, text: &str) {
        let content = format!("<local-command-stdout>{text}</local-command-stdout>");
        let message = json!({"role": "user", "content": content});
        self.user("", json!({"message": message, "isReplay": true}));
    }

    /// Reports a hook call, if the host asked for them.
    fn hook(&self, subtype: &str, asked: &HookCall, more: Value) {
        if !self.wanted.hooks {
            return;
        }
        let event = asked.event.as_str();
        let mut line = json!({
            "hook_id": format!("hook_run_{}", asked.number),
            "hook_name": match asked.kind.as_str() {
                "" => event.to_owned(),
                kind => format!("{event}:{kind}"),
            },
            "hook_event": event,
        });
        add(&mut line, more);
        self.system(subtype, line);
    }

    fn now(&self) -> Value {
        timestamp(self.link.ids.now())
    }

    fn assistant(&self, block: &ContentBlock, is_cut: bool) {
        let (message, uuid, request_id) = {
            let answer = &mut self.state.lock().answer;
            let index = answer.blocks;
            answer.blocks += 1;
            match block {
                ContentBlock::ToolUse(call) => drop(answer.calls.insert(call.id.clone(), index)),
                ContentBlock::Other { .. } => {}
                _ => answer.told += 1,
            }
            let uuid = ah_transcript::of_block(&answer.uuid, index);
            let Arriving {
                id, model, usage, ..
            } = answer;
            let message = of_block(id, model, usage, &content(block));
            (message, uuid, answer.request_id.clone())
        };
        let mut line = json!({
            "type": "assistant",
            "message": message,
            "parent_tool_use_id": null,
            "uuid": uuid,
            "timestamp": self.now(),
        });
        if let Some(id) = request_id {
            line["request_id"] = json!(id);
        }
        if is_cut {
            line["aborted"] = json!(true);
        }
        self.say(line);
    }

    fn piece(&self, event: &StreamEvent) {
        if let StreamEvent::Accepted { request_id } = event {
            self.state.lock().answer.request_id = Some(request_id.clone());
        }
        if let StreamEvent::Started { id, usage } = event {
            let id = if id.is_empty() {
                format!("msg_{}", self.link.ids.fresh().replace('-', ""))
            } else {
                id.clone()
            };
            let answer = &mut self.state.lock().answer;
            answer.id = id;
            answer.usage = *usage;
            answer.told = 0;
        }
        if let StreamEvent::Fallback(notice) = event {
            self.state
                .lock()
                .answer
                .model
                .clone_from(&notice.model.name);
        }
        if !self.wanted.partial_messages {
            return;
        }
        if matches!(event, StreamEvent::Sent { .. }) {
            self.system("status", json!({"status": "requesting"}));
        }
        let head = || {
            let Arriving {
                id, model, usage, ..
            } = &self.state.lock().answer;
            head(id, model, usage)
        };
        if let Some(event) = piece(event, head) {
            self.say(json!({
                "type": "stream_event",
                "event": event,
                "parent_tool_use_id": null,
            }));
        }
    }

    fn result(&self, result: &ToolResult) {
        let uuid = {
            let mut state = self.state.lock();
            if !state.answered.insert(result.tool_use_id.clone()) {
                return;
            }
            let Arriving { uuid, calls, .. } = &state.answer;
            let index = calls.get(&result.tool_use_id);
            index.map(|index| ah_transcript::of_result(uuid, *index))
        };
        self.say(json!({
            "type": "user",
            "message": {"role": "user", "content": [tool_result(result)]},
            "parent_tool_use_id": null,
            "tool_use_result": details(result),
            "uuid": uuid.unwrap_or_else(|| self.link.ids.fresh()),
            "timestamp": self.now(),
        }));
    }

    fn stored(&self, message: &Message) {
        if let Some(files) = &*self.files.lock() {
            match files.main.write(message, &*self.link.ids) {
                Ok(rows) => self.mirror(files.main.path(), rows),
                Err(error) => self.notice(&unwritten(files.main.path(), &error)),
            }
        }
        if !self.state.lock().has_begun {
            return;
        }
        match (&message.role, &message.origin) {
            (Role::Assistant, _) => self.answer_stored(message),
            (Role::User, Origin::Results) => {
                for block in &message.content {
                    if let ContentBlock::ToolResult(result) = block {
                        self.result(result);
                    }
                }
                self.state.lock().answered.clear();
            }
            (Role::User, Origin::Prompt) => self.prompt_stored(message),
            (Role::User, Origin::Summary { .. }) => self.summary_stored(message),
            // What the engine adds to requests is of no concern to a host.
            (Role::User, Origin::Update(_)) => {}
            (Role::User, _) => self.user(
                &message.text(),
                json!({"isSynthetic": true, "uuid": self.link.ids.of(&message.id)}),
            ),
        }
    }

    /// Sends rows of the transcript, if the host asked for them.
    pub(crate) fn mirror(&self, path: &Path, rows: Vec<Value>) {
        if self.wanted.mirror {
            for row in rows {
                self.link.sink.send(json!({
                    "type": "transcript_mirror",
                    "filePath": path,
                    "entries": [row],
                }));
            }
        }
    }

    /// Sends the blocks of an interrupted answer, which did not arrive as whole blocks.
    fn answer_stored(&self, message: &Message) {
        let is_cut = message
            .response
            .as_ref()
            .is_some_and(|it| it.stop_reason == StopReason::Interrupted);
        if is_cut {
            let told = self.state.lock().answer.told;
            for block in message.content.iter().skip(told) {
                self.assistant(block, true);
            }
        }
    }

    /// Whether `name` is the host's or our UUID of a message.
    pub(crate) fn is(&self, message: &Message, name: &str) -> bool {
        match self.state.lock().named.get(name) {
            Some(id) => message.id == *id,
            None => self.link.ids.of(&message.id).eq_ignore_ascii_case(name),
        }
    }

    fn prompt_stored(&self, message: &Message) {
        let (uuid, sent) = {
            let mut state = self.state.lock();
            let uuid = state.prompt_uuid.take();
            if let Some(uuid) = &uuid {
                state.named.insert(uuid.clone(), message.id.clone());
            }
            (uuid, state.prompt_sent.take())
        };
        if !self.wanted.replays {
            return;
        }
        let stored = || message.content.iter().map(content).collect();
        self.say(json!({
            "type": "user",
            "message": {"role": "user", "content": sent.unwrap_or_else(stored)},
            "parent_tool_use_id": null,
            "isReplay": true,
            "uuid": uuid.unwrap_or_else(|| self.link.ids.of(&message.id)),
            "timestamp": timestamp(message.created_at),
        }));
    }

    fn summary_stored(&self, message: &Message) {
        let (trigger, tokens) = {
            let state = self.state.lock();
            (state.trigger, state.context_tokens)
        };
        self.system(
            "status",
            json!({"status": null, "compact_result": "success"}),
        );
        self.system(
            "compact_boundary",
            json!({"compact_metadata": {"trigger": trigger, "pre_tokens": tokens}}),
        );
        let told = json!({"role": "user", "content": message.text()});
        let uuid = self.link.ids.of(&message.id);
        self.user(
            "",
            json!({"message": told, "isSynthetic": true, "uuid": uuid}),
        );
    }

    fn progress(&self, call: &ToolUseId, name: &str, elapsed_ms: u64) {
        #[expect(clippy::cast_precision_loss, reason = "tools do not run for millennia")]
        let seconds = elapsed_ms as f64 / 1000.0;
        self.say(json!({
            "type": "tool_progress",
            "tool_use_id": call,
            "tool_name": name,
            "parent_tool_use_id": null,
            "elapsed_time_seconds": seconds,
        }));
    }
}

impl Watcher for Speaker {
    fn update(&self, update: SessionUpdate<'_>) {
        match update {
            SessionUpdate::Happened(event) => self.event(event),
            SessionUpdate::Notice(text) => self.notice(text),
            SessionUpdate::Asking { model, message } => {
                let uuid = self.link.ids.of(message);
                self.state.lock().answer = Arriving {
                    model: model.name.clone(),
                    uuid,
                    ..Arriving::default()
                };
            }
            SessionUpdate::Piece(event) => self.piece(event),
            SessionUpdate::Block(block) => self.assistant(block, false),
            SessionUpdate::Call(call, ..) => self.progress(&call.id, &call.name, 0),
            SessionUpdate::Progress {
                call, elapsed_ms, ..
            } => self.progress(&call.id, &call.name, elapsed_ms),
            SessionUpdate::Result(result, _) => {
                self.progress(&result.tool_use_id, &result.tool_name, result.duration_ms);
                self.result(result);
            }
            SessionUpdate::Stored(message) => self.stored(message),
            SessionUpdate::Denied { call, reason } => self.denied(call, reason, None),
            SessionUpdate::Mode(mode) => self.mode(mode),
            SessionUpdate::HookStarted(asked) => self.hook("hook_started", asked, json!({})),
            SessionUpdate::HookEnded(asked, answered) => {
                self.hook("hook_response", asked, said(answered));
            }
            SessionUpdate::Task(task, news) => self.task(task, news),
            SessionUpdate::Subagent(task, part) => self.of_agent(task, part),
        }
        let is_of_request = matches!(
            update,
            SessionUpdate::Stored(_)
                | SessionUpdate::Piece(StreamEvent::Retry(_) | StreamEvent::Fallback(_))
        );
        if is_of_request && let Some(event) = update.event() {
            self.event(&event);
        }
    }

    fn ready(&self) -> Option<Ready<'_>> {
        Some(Box::pin(self.link.sink.ready()))
    }
}

impl Speaker {
    fn event(&self, event: &EventKind) {
        match event {
            EventKind::Retry {
                attempt,
                delay_ms,
                status,
                error,
            } => self.retried(*attempt, *delay_ms, *status, error),
            EventKind::Fallback {
                from_model,
                to_model,
                error,
            } => self.system(
                "model_fallback",
                json!({
                    "trigger": "overloaded",
                    "original_model": from_model,
                    "fallback_model": to_model,
                    "content": format!("falling back from {from_model} to {to_model}: {error}"),
                }),
            ),
            EventKind::ApiCallEnd {
                input_tokens,
                output_tokens,
                cache_creation_input_tokens,
                cache_read_input_tokens,
                reason: None,
                ..
            } => {
                self.state.lock().context_tokens = input_tokens
                    + output_tokens
                    + cache_creation_input_tokens
                    + cache_read_input_tokens;
            }
            EventKind::Checked { verification, .. } => {
                let now = self.link.ids.now();
                let since = *self.state.lock().goal_since.get_or_insert(now);
                self.say(goal::active(verification, since));
            }
            EventKind::CompactionTriggered { .. } => {
                self.system("status", json!({"status": "compacting"}));
            }
            // All else is in the messages themselves or in the result.
            _ => {}
        }
    }

    /// Tells the host something that is not part of the conversation.
    pub(crate) fn notice(&self, text: &str) {
        {
            let mut state = self.state.lock();
            if !state.has_begun {
                state.notices.push(text.to_owned());
                return;
            }
        }
        self.inform(text, "warning");
    }
}

/// Adds the fields of one object to another.
fn add(line: &mut Value, more: Value) {
    if let Value::Object(more) = more {
        for (name, value) in more {
            line[name] = value;
        }
    }
}
