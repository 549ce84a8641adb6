//! A session and its loop: does each step that [`next`] names, stores what it gave, and asks again.
//!
//! A feature that wants a new `if` in the loop belongs elsewhere: it is a step, a tool, a rule inside `next`, or
//! something that [`finish`](crate::finish) may still owe.

use std::path::PathBuf;
use std::sync::Arc;

use ah_conversation::{
    CallState, Clock, ContentBlock, Event, EventKind, ExitReason, Limits, LoopAction, Message,
    MessageId, Model, ModelUsage, Origin, PermissionMode, Permissions, Provider, ProviderError,
    Record, Repetition, Response, Role, Rulebook, Sampling, Skip, Step, Store, StoreError,
    Thinking, Time, ToolUse, Transcript, Usage, close_open_calls, next, text_of,
};

use serde_json::Value;

use crate::background::Background;
use crate::hooks::Hooks;
use crate::request::Sent;
use crate::{AnswerForm, Controls, Frontend, SessionUpdate, Stop, Toolbox};

/// What a session reaches the outside through.
#[derive(Clone)]
pub struct Ports {
    /// The model.
    pub provider: Arc<dyn Provider>,
    /// The model that summarises older messages; usually the same.
    pub summarizer: Arc<dyn Provider>,
    /// Where the conversation is kept.
    pub store: Arc<dyn Store>,
    /// Time and fresh ids.
    pub clock: Arc<dyn Clock>,
    /// Where the run is shown.
    pub frontend: Arc<dyn Frontend>,
    /// Where rules are kept that are to last.
    pub rules: Arc<dyn Rulebook>,
    /// Who is told what happens, and may have a say in it.
    pub hooks: Hooks,
}

/// How a session works.
#[derive(Debug, Clone)]
pub struct SessionSettings {
    /// The system prompt, part by part.
    pub system: Arc<[String]>,
    /// What bounds a run; `deadline` is set when the run begins, from `timeout_ms`.
    pub limits: Limits,
    /// How long a run may take.
    pub timeout_ms: Option<u64>,
    /// What is allowed.
    pub permissions: Permissions,
    /// Which tool calls of one answer run together.
    pub concurrency: ToolConcurrency,
    /// How many messages the model is shown at most (`maxConversationMessages`).
    pub max_messages: Option<usize>,
    /// How many characters of one tool's output the model is shown at most, from the beginning on, in the place of
    /// the tool's own truncation (`maxToolResultChars`).
    pub max_result_chars: Option<usize>,
    /// A file that must exist when the run ends (`--must-produce`).
    pub must_produce: Option<PathBuf>,
    /// The form that the answer must have (`--json-schema`); its tool is among the tools.
    pub answer_form: Option<AnswerForm>,
    /// How much the model may think.
    pub thinking: Thinking,
    /// How the model chooses its words.
    pub sampling: Sampling,
}

/// Which tool calls of one answer run together. Results always come in the order of the calls.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ToolConcurrency {
    /// Neighbours that only read run together; every other call waits for those before it and holds those after it.
    #[default]
    Auto,
    /// One after the other.
    Serial,
    /// All together.
    Parallel,
}

/// How a run ended.
#[derive(Debug)]
pub struct RunOutcome {
    /// Why.
    pub reason: ExitReason,
    /// What went wrong, where the reason is [`ExitReason::Error`].
    pub failure: Option<RunFailure>,
    /// The last words of the model in this run.
    pub answer: String,
    /// Model calls of the run.
    pub turns: usize,
    /// Their tokens.
    pub usage: Usage,
    /// What each of the models that were asked took, in the order in which they were.
    pub models: Vec<ModelUsage>,
    /// The time spent waiting for them, in milliseconds.
    pub api_ms: u64,
    /// From the prompt to the end, in milliseconds.
    pub duration_ms: u64,
    /// Calls that were not allowed.
    pub denials: Vec<ToolUse>,
    /// The answer in the form that was asked for.
    pub structured: Option<Value>,
}

/// Why a run could not go on.
#[derive(Debug, thiserror::Error)]
pub enum RunFailure {
    /// The conversation could not be kept.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The model could not be asked.
    #[error(transparent)]
    Provider(#[from] ProviderError),
    /// The conversation does not fit, and a summary would not help.
    #[error("the conversation needs {needed} tokens, the model holds {window}")]
    Overflow {
        /// Tokens that the next request and its answer need.
        needed: u64,
        /// Tokens that the model can hold.
        window: u64,
    },
    /// The model refused; its words are in the answer.
    #[error("the model refused: {0}")]
    Refusal(String),
    /// A file that was demanded is not there.
    #[error("the run ended without producing `{}`", .0.display())]
    NotProduced(PathBuf),
}

impl RunFailure {
    /// What the user can do about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Store(error) => error.hint.clone(),
            Self::Provider(error) => error.hint.clone(),
            Self::Overflow { .. } => Some(
                "start a new session with `--new`, or use a model with a larger window".to_owned(),
            ),
            Self::Refusal(_) => Some(
                "say it differently, or fork the conversation before this point with `@N`"
                    .to_owned(),
            ),
            Self::NotProduced(_) => None,
        }
    }
}

/// A conversation being worked on.
pub struct Session {
    pub(crate) ports: Ports,
    pub(crate) tools: Toolbox,
    pub(crate) settings: SessionSettings,
    pub(crate) transcript: Transcript,
    pub(crate) sent: Sent,
    /// Events that ride along with the next thing stored.
    pending: Vec<Record>,
    pub(crate) denials: Vec<ToolUse>,
    /// What hooks want the model to be told with the next message.
    pub(crate) context: Vec<String>,
    /// Whether hooks know that the session has begun.
    pub(crate) has_begun: bool,
    pub(crate) controls: Controls,
    /// The mode that the frontend knows of.
    pub(crate) shown_mode: PermissionMode,
    pub(crate) background: Background,
    /// The prompt on whose account files change, where it is one of a conversation above.
    pub(crate) origin_prompt: Option<MessageId>,
}

impl Session {
    /// Takes up the conversation that the store holds. Calls that an earlier process left open are answered here,
    /// from the journal; none of them runs again.
    ///
    /// # Errors
    /// When the store cannot be read or written.
    pub async fn open(
        ports: Ports,
        tools: Toolbox,
        settings: SessionSettings,
    ) -> Result<Self, StoreError> {
        let transcript = ports.store.load().await?;
        let mut session = Self {
            shown_mode: settings.permissions.mode,
            ports,
            tools,
            settings,
            transcript,
            sent: Sent::default(),
            pending: Vec::new(),
            denials: Vec::new(),
            context: Vec::new(),
            has_begun: false,
            controls: Controls::default(),
            background: Background::default(),
            origin_prompt: None,
        };
        session.close_calls().await?;
        Ok(session)
    }

    /// Takes up what the store holds now: another message has become the current one. Calls that are open there are
    /// answered.
    ///
    /// # Errors
    /// When the store cannot be read or written.
    pub async fn reload(&mut self) -> Result<(), StoreError> {
        self.transcript = self.ports.store.load().await?;
        self.sent = Sent::default();
        self.close_calls().await
    }

    /// The tools, as the model was told of them last.
    pub fn tools(&self) -> &Toolbox {
        &self.tools
    }

    /// Waits for servers that are just starting, as the first request would, and takes up their tools.
    pub async fn prepare_tools(&mut self) {
        self.tools.catch_up().await;
    }

    /// How it works now.
    pub fn settings(&self) -> &SessionSettings {
        &self.settings
    }

    /// The model that is asked now.
    pub fn model(&self) -> &Model {
        self.ports.provider.model()
    }

    /// The conversation so far.
    pub fn transcript(&self) -> &Transcript {
        &self.transcript
    }

    /// Runs `prompt` to its end, or until `stop`.
    ///
    /// # Errors
    /// When the conversation cannot be kept; every other failure is a [`RunOutcome`].
    pub async fn run(
        &mut self,
        prompt: Vec<ContentBlock>,
        stop: &Stop,
    ) -> Result<RunOutcome, StoreError> {
        let (started, stop) = self.begin_time(stop);
        let prompt = match self.admit(prompt, &stop).await {
            Ok(prompt) => prompt,
            Err(refusal) => return Ok(self.refused(refusal, started)),
        };
        self.announce(text_of(&prompt));
        self.append(Origin::Prompt, prompt).await?;
        self.go_on(started, &stop).await
    }

    /// When a run begins, and what stops it.
    pub(crate) fn begin_time(&mut self, stop: &Stop) -> (Time, Stop) {
        let started = self.ports.clock.now();
        let timeout = self.settings.timeout_ms;
        self.settings.limits.deadline = timeout.map(|timeout| started.plus(timeout));
        (started, stop.at(self.settings.limits.deadline))
    }

    /// From the stored prompt to the end of its run.
    pub(crate) async fn go_on(
        &mut self,
        started: Time,
        stop: &Stop,
    ) -> Result<RunOutcome, StoreError> {
        let (reason, failure) = match self.drive(stop).await {
            Ok(reason) => self.checked(reason),
            Err(RunFailure::Store(error)) => return Err(error),
            Err(failure) => (ExitReason::Error, Some(failure)),
        };
        let outcome = self.outcome(reason, failure, self.ports.clock.now().since(started));
        self.end(&outcome).await?;
        Ok(outcome)
    }

    /// Answers the calls that an earlier process left open.
    async fn close_calls(&mut self) -> Result<(), StoreError> {
        let results = close_open_calls(&self.transcript);
        if results.is_empty() {
            return Ok(());
        }
        let has_result = |id| matches!(self.transcript.call(id), Some(CallState::Finished(_)));
        let ids = results.iter().map(|result| &result.tool_use_id);
        let lost = ids.filter(|id| !has_result(id)).count();
        let content = results.into_iter().map(ContentBlock::ToolResult).collect();
        self.append(Origin::Results, content).await?;
        let told = match lost {
            0 => return Ok(()),
            1 => "1 tool call of an earlier process has no result".to_owned(),
            lost => format!("{lost} tool calls of an earlier process have no result"),
        };
        let told = format!("{told}; the model is told, and nothing runs again by itself");
        self.ports.frontend.notice(&told);
        Ok(())
    }

    /// The loop.
    async fn drive(&mut self, stop: &Stop) -> Result<ExitReason, RunFailure> {
        loop {
            self.take_changes();
            let now = self.ports.clock.now();
            if let Some(reason) = stop.reason(now) {
                return Ok(reason);
            }
            match next(&self.transcript, &self.settings.limits, now) {
                Step::CallModel if self.take_steering().await? => {}
                Step::CallModel => self.call_model(stop).await?,
                Step::RunTools(calls) => self.run_tools(calls, stop).await?,
                Step::SkipTools(calls, skip) => self.skip_tools(&calls, skip).await?,
                Step::Nudge(repetition) => self.nudge(&repetition).await?,
                Step::Continue => self.ask_to_continue().await?,
                Step::Compact => self.compact(stop).await?,
                Step::Overflow { needed, window } => {
                    return Err(RunFailure::Overflow { needed, window });
                }
                Step::Finish(reason)
                    if reason.is_end_of_turn() && self.keeps_going(stop).await? => {}
                Step::Finish(reason) => return Ok(reason),
            }
        }
    }

    /// Tells that a run begins.
    pub(crate) fn announce(&mut self, prompt: String) {
        let start = EventKind::AgentStart {
            model: self.ports.provider.model().name.clone(),
            prompt,
            parent_id: self.transcript.last().map(|last| last.id.clone()),
        };
        self.emit(start);
        self.emit_state("idle", "processing");
    }

    /// What the driver's reason means once what the run owed is looked at.
    fn checked(&self, reason: ExitReason) -> (ExitReason, Option<RunFailure>) {
        if reason == ExitReason::Refusal {
            let words = self
                .transcript
                .last()
                .map(|last| last.text())
                .unwrap_or_default();
            return (reason, Some(RunFailure::Refusal(words)));
        }
        match &self.settings.must_produce {
            Some(file) if reason.is_end_of_turn() && !file.exists() => (
                ExitReason::Error,
                Some(RunFailure::NotProduced(file.clone())),
            ),
            _ => (reason, None),
        }
    }

    async fn end(&mut self, outcome: &RunOutcome) -> Result<(), StoreError> {
        let error = outcome.failure.as_ref().map(ToString::to_string);
        if let Some(error) = &error {
            self.emit(EventKind::Error {
                error: error.clone(),
            });
        }
        match outcome.reason {
            ExitReason::BudgetExceeded => self.emit(EventKind::BudgetExceeded {
                total_input_tokens: outcome.usage.effective_input(),
                total_output_tokens: outcome.usage.output_tokens,
                max_tokens: self
                    .settings
                    .limits
                    .max_tokens
                    .or(self.settings.limits.max_context_tokens)
                    .unwrap_or_default(),
            }),
            ExitReason::LoopDetected => {
                if let Some(repetition) = ah_conversation::repetition(self.transcript.run()) {
                    self.emit_loop(&repetition, LoopAction::Break);
                }
            }
            _ => {}
        }
        self.emit_state("processing", "idle");
        self.emit(EventKind::AgentEnd {
            stop_reason: outcome.reason.clone(),
            total_input_tokens: outcome.usage.effective_input(),
            total_output_tokens: outcome.usage.output_tokens,
            total_cache_read_tokens: outcome.usage.cache_read_input_tokens,
            error,
        });
        self.store(Vec::new()).await
    }

    fn outcome(
        &mut self,
        reason: ExitReason,
        failure: Option<RunFailure>,
        duration_ms: u64,
    ) -> RunOutcome {
        let run = self.transcript.run();
        let responses: Vec<&Response> = run
            .iter()
            .filter_map(|message| message.response.as_ref())
            .collect();
        let answer = run
            .iter()
            .rev()
            .find(|message| message.role == Role::Assistant)
            .map(|last| last.text());
        let mut models = ModelUsage::of(responses.iter().copied());
        let noted = run.iter().flat_map(|message| message.tool_results());
        let aside = self.background.take_spent();
        for share in noted.flat_map(ModelUsage::recorded_in).chain(aside) {
            ModelUsage::add(&mut models, share);
        }
        RunOutcome {
            reason,
            failure,
            answer: answer.unwrap_or_default(),
            turns: self.transcript.turns(),
            usage: responses
                .iter()
                .fold(Usage::default(), |sum, response| sum + response.usage),
            models,
            api_ms: responses.iter().map(|response| response.latency_ms).sum(),
            duration_ms,
            denials: std::mem::take(&mut self.denials),
            structured: (self.settings.answer_form.as_ref()).and_then(|form| form.answer(run)),
        }
    }

    async fn nudge(&mut self, repetition: &Repetition) -> Result<(), StoreError> {
        self.emit_loop(repetition, LoopAction::Warn);
        let text = format!(
            "[LOOP DETECTED] The last {} turns asked for exactly the same: {}. You may be stuck. Change your approach, \
             or say what you need to go on.",
            repetition.count,
            repetition.signature.chars().take(400).collect::<String>(),
        );
        self.append(Origin::Nudge, vec![ContentBlock::text(text)])
            .await
    }

    async fn ask_to_continue(&mut self) -> Result<(), StoreError> {
        let text = "Your last answer was cut off by the output limit. Go on exactly where it stopped, in smaller steps.";
        self.append(Origin::Continuation, vec![ContentBlock::text(text)])
            .await
    }

    pub(crate) async fn skip_tools(
        &mut self,
        calls: &[ToolUse],
        skip: Skip,
    ) -> Result<(), StoreError> {
        let results = calls
            .iter()
            .map(|call| ah_conversation::ToolResult::error(call, skip.reason()));
        self.append(
            Origin::Results,
            results.map(ContentBlock::ToolResult).collect(),
        )
        .await
    }

    /// Shows an event, and stores it with the next message if it is of those that are kept.
    pub(crate) fn emit(&mut self, kind: EventKind) {
        let event = self.event(kind);
        self.ports.frontend.show(&event);
        self.keep(event);
    }

    pub(crate) fn event(&self, kind: EventKind) -> Event {
        Event {
            kind,
            timestamp: self.ports.clock.now().seconds(),
        }
    }

    pub(crate) fn keep(&mut self, event: Event) {
        if event.kind.is_stored() {
            self.pending.push(Record::Event(event));
        }
    }

    fn emit_state(&mut self, from: &str, to: &str) {
        self.emit(EventKind::StateChange {
            from_state: from.to_owned(),
            to_state: to.to_owned(),
        });
    }

    fn emit_loop(&mut self, repetition: &Repetition, action: LoopAction) {
        self.emit(EventKind::LoopDetected {
            consecutive_count: repetition.count,
            turn_signature: repetition.signature.clone(),
            action,
        });
    }

    /// Stores a user message of ours and adds it to the transcript.
    pub(crate) async fn append(
        &mut self,
        origin: Origin,
        content: Vec<ContentBlock>,
    ) -> Result<(), StoreError> {
        let message = self.message(Role::User, origin, content);
        self.append_with(message, Vec::new()).await
    }

    /// A message that follows the present one.
    pub(crate) fn message(
        &self,
        role: Role,
        origin: Origin,
        content: Vec<ContentBlock>,
    ) -> Message {
        self.message_of(self.ports.clock.message_id(), role, origin, content)
    }

    /// The same, with an id that it was given before.
    pub(crate) fn message_of(
        &self,
        id: MessageId,
        role: Role,
        origin: Origin,
        content: Vec<ContentBlock>,
    ) -> Message {
        let last = self.transcript.last();
        Message {
            id,
            parent: last.map(|last| last.id.clone()),
            seq: last.map_or(0, |last| last.seq + 1),
            role,
            origin,
            created_at: self.ports.clock.now(),
            content,
            response: None,
        }
    }

    /// Stores `message` and whatever belongs with it in one transaction, then adds it to the transcript.
    pub(crate) async fn append_with(
        &mut self,
        message: Message,
        mut with: Vec<Record>,
    ) -> Result<(), StoreError> {
        let message = Arc::new(message);
        with.push(Record::Message(message.clone()));
        self.store(with).await?;
        self.ports.frontend.update(SessionUpdate::Stored(&message));
        self.transcript.push(message);
        Ok(())
    }

    /// Stores `records` in one transaction, with the events that waited.
    pub(crate) async fn store(&mut self, mut records: Vec<Record>) -> Result<(), StoreError> {
        records.append(&mut self.pending);
        if records.is_empty() {
            Ok(())
        } else {
            self.ports.store.append(records).await
        }
    }
}
