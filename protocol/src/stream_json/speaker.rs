//! A run as the host sees it: each event and each part of the conversation becomes a line, or none.

mod below;
mod hook;

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use ah_agent::hooks::HookCall;
use ah_agent::{Frontend, SessionUpdate};
use ah_conversation::{
    ContentBlock, Event, EventKind, Message, MessageId, Origin, PermissionMode, Role, StopReason,
    StreamEvent, ToolResult, ToolUseId, Usage,
};
use async_trait::async_trait;
use serde_json::{Value, json};

use hook::said;

use super::Wanted;
use super::link::Link;
use super::message::{content, details, head, piece, status_kind, timestamp, tool_result};
use crate::transcript::unwritten;
use crate::{TranscriptFile, names};

/// Shows a run as lines to the host, and asks the host.
pub(crate) struct Speaker {
    pub(crate) link: Arc<Link>,
    pub(crate) wanted: Wanted,
    /// Where the conversation is written for the SDKs to list.
    pub(crate) transcript: OnceLock<TranscriptFile>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    session_id: String,
    /// Whether the host has been told of the session; before that, all waits.
    has_begun: bool,
    notices: Vec<String>,
    max_retries: u32,
    /// The answer that is arriving.
    answer: Arriving,
    /// Calls whose results the host has seen already.
    answered: HashSet<ToolUseId>,
    /// The host's name for the prompt at hand.
    prompt_uuid: Option<String>,
    /// The host's names for prompts, where it has named them.
    named: HashMap<String, MessageId>,
    /// The permission mode that the host knows of.
    mode: Option<PermissionMode>,
    /// Why the summary is made that is being made.
    trigger: &'static str,
    context_tokens: u64,
    /// The answers of subagents that are arriving, by their ids.
    below: HashMap<String, Arriving>,
    /// Whether the host wants to hear what they say, and not only what they do.
    forwards_words: bool,
}

#[derive(Default)]
struct Arriving {
    id: String,
    model: String,
    usage: Usage,
    /// How many blocks the host has seen, calls left out.
    told: usize,
    /// The UUID of the message that it becomes.
    uuid: String,
    /// How many blocks the host has seen, those of failed attempts among them.
    blocks: usize,
    /// Which of them were calls.
    calls: HashMap<ToolUseId, usize>,
}

impl Speaker {
    pub(crate) fn new(link: Arc<Link>, wanted: Wanted) -> Self {
        Self {
            link,
            wanted,
            transcript: OnceLock::new(),
            state: Mutex::new(State {
                trigger: "auto",
                ..State::default()
            }),
        }
    }

    /// Names the session, once it is open.
    pub(crate) fn name(&self, session_id: &str, max_retries: u32) {
        let mut state = self.lock();
        session_id.clone_into(&mut state.session_id);
        state.max_retries = max_retries;
    }

    /// Tells that a prompt begins, and then what waited to be told.
    pub(crate) fn begin(&self, init: Value, mode: PermissionMode, prompt_uuid: Option<String>) {
        self.say(init);
        let notices = {
            let mut state = self.lock();
            state.has_begun = true;
            state.mode = Some(mode);
            state.prompt_uuid = prompt_uuid;
            std::mem::take(&mut state.notices)
        };
        notices.iter().for_each(|notice| self.notice(notice));
    }

    /// Tells which permission mode holds, where the host does not know.
    pub(crate) fn mode(&self, mode: PermissionMode) {
        let known = self.lock().mode.replace(mode);
        if known != Some(mode) {
            self.system(
                "status",
                json!({"status": null, "permissionMode": mode.as_str()}),
            );
        }
    }

    /// Says why the next summary is made.
    pub(crate) fn set_trigger(&self, trigger: &'static str) {
        self.lock().trigger = trigger;
    }

    /// How many tokens the last answer took, with all that it was made from.
    pub(crate) fn context_tokens(&self) -> u64 {
        self.lock().context_tokens
    }

    /// Tells how busy the session is, to hosts that want to know.
    pub(crate) fn state(&self, state: &str) {
        if self.wanted.session_state {
            self.system(
                "session_state_changed",
                json!({"state": state, "sdk_host_only": true}),
            );
        }
    }

    /// Sends a line with the ids that every line has.
    pub(crate) fn say(&self, mut line: Value) {
        let session_id = self.lock().session_id.clone();
        line["session_id"] = json!(session_id);
        if line.get("uuid").is_none() {
            line["uuid"] = json!(self.link.ids.fresh());
        }
        self.link.lines.send(line);
    }

    pub(crate) fn system(&self, subtype: &str, more: Value) {
        let mut line = json!({"type": "system", "subtype": subtype});
        add(&mut line, more);
        self.say(line);
    }

    /// Tells something for the person at the other end.
    pub(crate) fn inform(&self, text: &str, level: &str) {
        self.system("informational", json!({"content": text, "level": level}));
    }

    /// A message in a person's place that no person wrote.
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

    /// An answer of ours in the model's place: a request has failed.
    pub(crate) fn failed(&self, text: &str, kind: &str) {
        let mut message = head(&self.link.ids.fresh(), "<synthetic>", &Usage::default());
        message["content"] = json!([{"type": "text", "text": text}]);
        message["stop_reason"] = json!("stop_sequence");
        message["stop_sequence"] = json!("");
        self.say(json!({
            "type": "assistant",
            "message": message,
            "parent_tool_use_id": null,
            "error": kind,
            "timestamp": self.now(),
        }));
    }

    /// Tells of a hook, to hosts that want to know.
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
        let (mut message, uuid) = {
            let answer = &mut self.lock().answer;
            let index = answer.blocks;
            answer.blocks += 1;
            match block {
                ContentBlock::ToolUse(call) => drop(answer.calls.insert(call.id.clone(), index)),
                ContentBlock::Other { .. } => {}
                _ => answer.told += 1,
            }
            let uuid = names::of_block(&answer.uuid, index);
            (head(&answer.id, &answer.model, &answer.usage), uuid)
        };
        message["content"] = json!([content(block)]);
        let mut line = json!({
            "type": "assistant",
            "message": message,
            "parent_tool_use_id": null,
            "uuid": uuid,
            "timestamp": self.now(),
        });
        if is_cut {
            line["aborted"] = json!(true);
        }
        self.say(line);
    }

    fn piece(&self, event: &StreamEvent) {
        if let StreamEvent::Started { id, usage } = event {
            let id = match id.is_empty() {
                true => format!("msg_{}", self.link.ids.fresh().replace('-', "")),
                false => id.clone(),
            };
            let answer = &mut self.lock().answer;
            answer.id = id;
            answer.usage = *usage;
            answer.told = 0;
        }
        if let StreamEvent::Fallback(notice) = event {
            self.lock().answer.model.clone_from(&notice.model.name);
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
            } = &self.lock().answer;
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
            let mut state = self.lock();
            if !state.answered.insert(result.tool_use_id.clone()) {
                return;
            }
            let Arriving { uuid, calls, .. } = &state.answer;
            let index = calls.get(&result.tool_use_id);
            index.map(|index| names::of_result(uuid, *index))
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
        if let Some(transcript) = self.transcript.get() {
            match transcript.write(message, &*self.link.ids) {
                Ok(rows) => self.mirror(transcript.path(), rows),
                Err(error) => self.notice(&unwritten(transcript.path(), &error)),
            }
        }
        if !self.lock().has_begun {
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
                self.lock().answered.clear();
            }
            (Role::User, Origin::Prompt) => self.prompt_stored(message),
            (Role::User, Origin::Summary { .. }) => self.summary_stored(message),
            (Role::User, _) => self.user(
                &message.text(),
                json!({"isSynthetic": true, "uuid": self.link.ids.of(&message.id)}),
            ),
        }
    }

    /// Tells what was written to the transcript, to hosts that keep it elsewhere as well.
    pub(crate) fn mirror(&self, path: &Path, rows: Vec<Value>) {
        if self.wanted.mirror {
            for row in rows {
                self.link.lines.send(json!({
                    "type": "transcript_mirror",
                    "filePath": path,
                    "entries": [row],
                }));
            }
        }
    }

    /// What was cut off has not come as blocks.
    fn answer_stored(&self, message: &Message) {
        let is_cut = message
            .response
            .as_ref()
            .is_some_and(|it| it.stop_reason == StopReason::Interrupted);
        if is_cut {
            let told = self.lock().answer.told;
            for block in message.content.iter().skip(told) {
                self.assistant(block, true);
            }
        }
    }

    /// Whether the host knows a message by this name.
    pub(crate) fn is(&self, message: &Message, name: &str) -> bool {
        match self.lock().named.get(name) {
            Some(id) => message.id == *id,
            None => self.link.ids.of(&message.id).eq_ignore_ascii_case(name),
        }
    }

    fn prompt_stored(&self, message: &Message) {
        let uuid = {
            let mut state = self.lock();
            let uuid = state.prompt_uuid.take();
            if let Some(uuid) = &uuid {
                state.named.insert(uuid.clone(), message.id.clone());
            }
            uuid
        };
        if !self.wanted.replays {
            return;
        }
        let blocks: Vec<_> = message.content.iter().map(content).collect();
        self.say(json!({
            "type": "user",
            "message": {"role": "user", "content": blocks},
            "parent_tool_use_id": null,
            "isReplay": true,
            "uuid": uuid.unwrap_or_else(|| self.link.ids.of(&message.id)),
            "timestamp": timestamp(message.created_at),
        }));
    }

    fn summary_stored(&self, message: &Message) {
        let (trigger, tokens) = {
            let state = self.lock();
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
        self.user(
            &message.text(),
            json!({"isSynthetic": true, "uuid": self.link.ids.of(&message.id)}),
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

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Frontend for Speaker {
    fn show(&self, event: &Event) {
        match &event.kind {
            EventKind::Retry {
                attempt,
                delay_ms,
                status,
                error,
            } => {
                let max_retries = self.lock().max_retries;
                let more = json!({
                    "attempt": attempt + 1,
                    "max_retries": max_retries,
                    "retry_delay_ms": delay_ms,
                    "error_status": (*status > 0).then_some(status),
                    "error": status_kind(*status),
                    "message": error,
                });
                self.system("api_retry", more);
            }
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
                    "content": format!("{to_model} answers in the place of {from_model}: {error}"),
                }),
            ),
            EventKind::ApiCallEnd {
                input_tokens,
                output_tokens,
                cache_creation_input_tokens,
                cache_read_input_tokens,
                ..
            } => {
                self.lock().context_tokens = input_tokens
                    + output_tokens
                    + cache_creation_input_tokens
                    + cache_read_input_tokens;
            }
            EventKind::CompactionTriggered { .. } => {
                self.system("status", json!({"status": "compacting"}));
            }
            // The rest is said by the messages themselves, or in the result.
            _ => {}
        }
    }

    fn notice(&self, text: &str) {
        {
            let mut state = self.lock();
            if !state.has_begun {
                state.notices.push(text.to_owned());
                return;
            }
        }
        self.inform(text, "warning");
    }

    fn update(&self, update: SessionUpdate<'_>) {
        match update {
            SessionUpdate::Asking { model, message } => {
                let uuid = self.link.ids.of(message);
                self.lock().answer = Arriving {
                    model: model.name.clone(),
                    uuid,
                    ..Arriving::default()
                };
            }
            SessionUpdate::Piece(event) => self.piece(event),
            SessionUpdate::Block(block) => self.assistant(block, false),
            SessionUpdate::Call(call) => self.progress(&call.id, &call.name, 0),
            SessionUpdate::Progress {
                call, elapsed_ms, ..
            } => self.progress(&call.id, &call.name, elapsed_ms),
            SessionUpdate::Result(result) => {
                self.progress(&result.tool_use_id, &result.tool_name, result.duration_ms);
                self.result(result);
            }
            SessionUpdate::Stored(message) => self.stored(message),
            SessionUpdate::Mode(mode) => self.mode(mode),
            SessionUpdate::HookStarted(asked) => self.hook("hook_started", asked, json!({})),
            SessionUpdate::HookEnded(asked, answered) => {
                self.hook("hook_response", asked, said(answered))
            }
            SessionUpdate::Task(task, news) => self.task(task, news),
            SessionUpdate::Subagent(task, part) => self.of_agent(task, part),
        }
    }

    async fn ready(&self) {
        self.link.lines.ready().await;
    }
}

/// Adds the fields of an object to another.
fn add(line: &mut Value, more: Value) {
    if let Value::Object(more) = more {
        for (name, value) in more {
            line[name] = value;
        }
    }
}
