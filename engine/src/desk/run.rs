//! A run of a door, on its thread. Prompts, commands and results are those of a host of the Agent SDKs; what happens on the
//! way is watched directly.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use ah_agent::{Ready, SessionUpdate, Watcher};
use ah_config::Error;
use ah_conversation::{
    BlockStart, ContentBlock, Delta, ExitReason, Input, Question, StreamEvent, ToolUse, ToolUseId,
};
use ah_desk::{BegunCall, BlockKind, Ended, Piece, Prompt, RunEvent, Start};
use ah_protocol::stream_json::{Initialize, Messages, Program, Requests, Served};
use ah_protocol::{Message, ResultMessage};
use async_trait::async_trait;
use serde_json::Value;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use super::place::picture;
use super::starts::{Starts, plan, runtime};
use crate::assemble::{HostExtensions, SessionView};
use crate::desk::refusal::refusal;
use crate::person::{Ask, Elsewhere, cut};
use crate::serve::{ServeRequest, serve_program};
use crate::sessions::plan::SessionPlan;

/// Longest step, in characters.
const SHOWN_STEP: usize = 200;

/// A run, on its thread.
pub(super) struct Run {
    starts: Arc<Starts>,
    stop: CancellationToken,
    events: mpsc::UnboundedSender<RunEvent>,
    /// Cancelled once the client knows the session, which is what it answers.
    begun: CancellationToken,
}

impl Run {
    pub(super) fn new(
        starts: Arc<Starts>,
        stop: CancellationToken,
        events: mpsc::UnboundedSender<RunEvent>,
    ) -> Self {
        Self {
            starts,
            stop,
            events,
            begun: CancellationToken::new(),
        }
    }

    /// Runs to the end, which is the last event.
    pub(super) fn perform(self, start: Start, prompt: Prompt) {
        let end = match self.run(start, prompt) {
            Ok(ended) => RunEvent::Ended(ended),
            Err(error) if self.begun.is_cancelled() => RunEvent::Ended(Ended {
                text: refusal(&error).text,
                is_error: true,
                ..Ended::default()
            }),
            Err(error) => RunEvent::Refused(refusal(&error)),
        };
        // The client may be gone.
        let _ = self.events.send(end);
    }

    fn run(&self, start: Start, prompt: Prompt) -> Result<Ended, Error> {
        let is_verbatim = prompt.is_verbatim;
        let prompt = content(prompt)?;
        let config = self.starts.config(&start, |overrides| {
            overrides.run.host.answers_questions = true;
        })?;
        let (plan, fork_at) = plan(start.which);
        let plan = SessionPlan {
            is_impatient: true,
            takes_over: start.resumes,
            ..plan
        };
        let (mut program, requests, messages) = Program::new();
        program.host = Some(Arc::new(Elsewhere {
            ask: AskClient {
                events: self.events.clone(),
                begun: self.begun.clone(),
            },
            described: self.starts.described,
        }));
        program.resumes = start.resumes;
        match start.resumes {
            // The session is opened by it.
            true => drop(requests.initialize(Initialize::default())),
            false if is_verbatim => requests.verbatim_prompt(prompt),
            false => requests.prompt(prompt),
        }
        let (seen, happened) = Seen::new();
        if !config.leaves_mode_open() {
            seen.tell(RunEvent::Mode(config.permission_mode.value));
        }
        let session = seen.session.clone();
        let ends = CancellationToken::new();
        let request = ServeRequest {
            plan: plan.checked()?,
            fork_at,
            config: &config,
            stop: &ends,
            extensions: HostExtensions {
                watch: Some(Arc::new(move |view| seen.clone().of(view))),
                ..HostExtensions::default()
            },
            warn: self.starts.warn.clone(),
        };
        let (served, ended) = runtime()?.block_on(async {
            let told = self.told((messages, requests), (happened, &session));
            tokio::join!(serve_program(program, request), told)
        });
        let (served, refusal) = served?;
        match (served, ended) {
            // Its result has the words, and not what kind of error it is.
            (Served::Refused, _) => Err(refusal),
            (_, Some(ended)) => Ok(ended),
            (Served::Lost(error), None) => Err(error.into()),
            (_, None) => Err(refusal),
        }
    }

    /// Passes on what happens in the run; returns its end. When `stop` is cancelled, or nobody listens, the run is
    /// interrupted.
    async fn told(
        &self,
        (mut messages, requests): (Messages, Requests),
        (mut happened, session): (mpsc::UnboundedReceiver<RunEvent>, &OnceLock<String>),
    ) -> Option<Ended> {
        let (mut ended, mut has_begun, mut is_stopped) = (None, false, false);
        // The session ends once there are no requests to come.
        let mut requests = Some(requests);
        loop {
            let message = tokio::select! {
                biased;
                // What has happened before a message comes before it, and behind the beginning.
                Some(event) = happened.recv(), if has_begun => {
                    // It is seen below if nobody listens.
                    let _ = self.events.send(event);
                    continue;
                }
                message = messages.next() => message?,
                () = self.interrupted(), if !is_stopped => {
                    is_stopped = true;
                    if let Some(requests) = &requests {
                        drop(requests.interrupt());
                    }
                    continue;
                }
            };
            match &message {
                Message::System(system) if system.subtype == "init" && !has_begun => {
                    has_begun = true;
                    let id = session.get().cloned().unwrap_or_default();
                    let _ = self.events.send(RunEvent::Began(id));
                    if let Some(model) = system.data["model"].as_str() {
                        let _ = self.events.send(RunEvent::Model(model.to_owned()));
                    }
                    self.begun.cancel();
                }
                Message::Result(result) => {
                    ended = Some(end(result, is_stopped));
                    requests = None;
                }
                _ => {}
            }
            if requests.is_none() {
                while messages.next().await.is_some() {}
                return ended;
            }
        }
    }

    async fn interrupted(&self) {
        tokio::select! {
            () = self.stop.cancelled() => {}
            () = self.events.closed() => {}
        }
    }
}

/// Returns the content of a prompt: its pictures, what is attached, and its words behind what they are about.
fn content(prompt: Prompt) -> Result<Vec<ContentBlock>, Error> {
    let pictures = prompt.pictures.iter();
    let pictures = pictures.map(|data| Ok(ContentBlock::Image(picture(data)?)));
    let mut content = pictures.collect::<Result<Vec<_>, Error>>()?;
    content.extend(prompt.attached.into_iter().map(ContentBlock::text));
    content.push(ContentBlock::text(prompt.text));
    Ok(content)
}

fn end(result: &ResultMessage, was_stopped: bool) -> Ended {
    let text = match result.result.as_deref() {
        Some(text) if !text.is_empty() => text.to_owned(),
        _ => result.errors.join("\n"),
    };
    let reason = result.exit_reason.as_ref();
    Ended {
        text,
        is_error: result.is_error,
        is_stopped: was_stopped
            || matches!(reason, Some(ExitReason::Interrupted | ExitReason::Aborted)),
        turns: result.num_turns,
        cost_usd: result.total_cost_usd,
        verification: { result.data.get("verification") }
            .and_then(|known| serde_json::from_value(known.clone()).ok()),
    }
}

/// Asks the client, by its run.
struct AskClient {
    events: mpsc::UnboundedSender<RunEvent>,
    begun: CancellationToken,
}

#[async_trait]
impl Ask for AskClient {
    async fn ask(
        &self,
        question: Question,
        _: Option<&ToolUseId>,
    ) -> Option<BTreeMap<String, String>> {
        self.begun.cancelled().await;
        let (answer, answered) = oneshot::channel();
        self.events.send(RunEvent::Asked(question, answer)).ok()?;
        answered.await.ok().flatten()
    }
}

/// Watches the session of a run.
#[derive(Clone)]
struct Seen {
    /// Id of the session, once it is known.
    session: Arc<OnceLock<String>>,
    happened: mpsc::UnboundedSender<RunEvent>,
}

impl Seen {
    /// Returns the watcher, and what it will have seen.
    fn new() -> (Self, mpsc::UnboundedReceiver<RunEvent>) {
        let (happened, receiver) = mpsc::unbounded_channel();
        let session = Arc::default();
        (Self { session, happened }, receiver)
    }

    /// Watches a session. A run that clears its session goes on in another one, and is known by the first.
    fn of(self, view: &SessionView) -> Arc<dyn Watcher> {
        let _ = self.session.set(view.session.clone());
        Arc::new(self)
    }

    fn tell(&self, event: RunEvent) {
        // Nobody listens to a run that has ended.
        let _ = self.happened.send(event);
    }
}

impl Watcher for Seen {
    fn update(&self, update: SessionUpdate<'_>) {
        match update {
            SessionUpdate::Piece(event) => {
                if let Some(event) = piece(event) {
                    self.tell(event);
                }
            }
            SessionUpdate::Mode(mode) => self.tell(RunEvent::Mode(mode)),
            SessionUpdate::Block(ContentBlock::ToolUse(call)) => {
                self.tell(RunEvent::Step(step(call)));
            }
            SessionUpdate::Call(call, output, _) => {
                self.tell(RunEvent::Called(BegunCall {
                    id: call.id.clone(),
                    name: call.name.clone(),
                    about: about(call),
                    output: output.clone(),
                }));
            }
            SessionUpdate::Result(result, _) => {
                self.tell(RunEvent::Returned(result.tool_use_id.clone()));
            }
            // Its answers are no part of this one; its calls are steps of the run.
            SessionUpdate::Subagent(
                _,
                below @ (SessionUpdate::Block(_) | SessionUpdate::Subagent(..)),
            ) => {
                self.update(*below);
            }
            _ => {}
        }
    }

    fn ready(&self) -> Option<Ready<'_>> {
        None
    }
}

/// Returns what an event of a stream shows; `None` if it shows nothing.
fn piece(event: &StreamEvent) -> Option<RunEvent> {
    let (index, kind, text) = match event {
        StreamEvent::Started { .. } => return Some(RunEvent::Answering),
        StreamEvent::BlockStarted { index, block } => match block {
            BlockStart::Text(text) => (index, BlockKind::Text, text.as_str()),
            BlockStart::Thinking(text) => (index, BlockKind::Thinking, text.as_str()),
            BlockStart::RedactedThinking(_) => (index, BlockKind::Thinking, ""),
            BlockStart::ToolUse { name, .. } => (index, BlockKind::Call, name.as_str()),
            BlockStart::Other(raw) => (index, BlockKind::Call, raw["name"].as_str()?),
        },
        StreamEvent::Delta { index, delta } => match delta {
            Delta::Text(text) => (index, BlockKind::Text, text.as_str()),
            Delta::Thinking(text) => (index, BlockKind::Thinking, text.as_str()),
            Delta::Signature(_) | Delta::InputJson(_) | Delta::Other(_) => return None,
        },
        _ => return None,
    };
    Some(RunEvent::Piece(Piece {
        block: *index,
        kind,
        text: text.to_owned(),
    }))
}

/// Returns a call on one line: its tool and the first text of its input.
fn step(call: &ToolUse) -> String {
    let line = format!("{} {}", call.name, about(call));
    cut(line.trim(), SHOWN_STEP)
}

/// Returns the first line of the first text of a call's input.
fn about(call: &ToolUse) -> String {
    let about = match &call.input {
        Input::Object(input) => input.values().find_map(Value::as_str),
        Input::Malformed(_) => None,
    };
    let line = about.unwrap_or_default().lines().next().unwrap_or_default();
    cut(line.trim(), SHOWN_STEP)
}
