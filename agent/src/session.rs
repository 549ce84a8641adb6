//! A session and its loop: performs each step that [`next`] returns, stores the result, and asks again.
//!
//! A feature that wants a new `if` in the loop belongs elsewhere: it is a step, a tool, a rule inside `next`, or a
//! reason to continue in [`finish`](crate::finish).

use std::sync::Arc;

use ah_conversation::{
    CallState, ContentBlock, Event, EventKind, ExitReason, LoopAction, Message, MessageId, Model,
    ModelUsage, Origin, PermissionMode, Prefix, Record, Repetition, Role, Skip, Step, StoreError,
    Time, ToolResult, ToolUse, ToolUseId, Transcript, Verification, close_open_calls, next,
    said_in,
};

use crate::background::Background;
use crate::finish::{Silence, silence};
use crate::hooks::LineHooks;
use crate::prompt::SystemPrompt;
use crate::request::SentRequest;
use crate::spending::Spending;
use crate::{
    Controls, Ports, RunFailure, RunOutcome, SessionSettings, SessionUpdate, Stop, Toolbox,
};

/// A running conversation.
pub struct Session {
    pub(crate) ports: Ports,
    pub(crate) tools: Toolbox,
    pub(crate) settings: SessionSettings,
    pub(crate) transcript: Transcript,
    pub(crate) sent: SentRequest,
    /// Events to store with the next records.
    pending: Vec<Record>,
    pub(crate) denials: Vec<ToolUse>,
    /// The call that a hook has left to a later run.
    pub(crate) deferred: Option<ToolUse>,
    /// Why nobody can decide about calls any more, which ends the run.
    pub(crate) unanswered: Option<String>,
    /// Calls of the last answer that wait for a hook.
    pub(crate) waiting: Vec<ToolUseId>,
    /// Whether a hook at the end of the run wanted no more.
    pub(crate) stop_prevented: bool,
    /// What the check has shown of the last answer.
    pub(crate) verification: Option<Verification>,
    /// The system prompt as of the beginning of the run.
    pub(crate) prompt: Option<SystemPrompt>,
    /// Context from hooks for the next message.
    pub(crate) context: Vec<String>,
    /// Whether the SessionStart hooks were called.
    pub(crate) has_begun: bool,
    /// What the session began by, if that is neither a start nor a resume.
    pub(crate) source: Option<&'static str>,
    pub(crate) controls: Controls,
    /// Context window of the model that the limits are made for.
    pub(crate) window: u64,
    /// Mode last reported to the audience.
    pub(crate) shown_mode: PermissionMode,
    pub(crate) background: Background,
    /// What it and the agents beside it have spent of the budget.
    pub(crate) spending: Spending,
    /// Top-level prompt that file changes are attributed to, if this is a subagent's session.
    pub(crate) origin_prompt: Option<MessageId>,
}

impl Session {
    /// Opens the conversation in the store. Calls that an earlier process left open are answered here from the
    /// journal; none runs again.
    ///
    /// # Errors
    ///
    /// If the store cannot be read or written.
    pub async fn open(
        ports: Ports,
        tools: Toolbox,
        settings: SessionSettings,
    ) -> Result<Self, StoreError> {
        let mut session = Self::loaded(ports, tools, settings).await?;
        session.find_deferred().await?;
        session.close_calls().await?;
        Ok(session)
    }

    /// Opens the conversation to [`resume`](Self::resume) a run that another process has left: of the calls that it left open,
    /// those that have not begun, or that change nothing, are decided about again, with the questions that they ask. The others are
    /// answered from the journal.
    ///
    /// # Errors
    ///
    /// If the store cannot be read or written.
    pub async fn take_over(
        ports: Ports,
        tools: Toolbox,
        settings: SessionSettings,
    ) -> Result<Self, StoreError> {
        let mut session = Self::loaded(ports, tools, settings).await?;
        session.wait_for_calls();
        session.close_calls().await?;
        Ok(session)
    }

    async fn loaded(
        ports: Ports,
        tools: Toolbox,
        settings: SessionSettings,
    ) -> Result<Self, StoreError> {
        let team = tools.subagents().and_then(|subagents| subagents.team());
        let ports = match team {
            Some(team) => team.led_with(ports).await?,
            None => ports,
        };
        let transcript = ports.store.load().await?;
        Ok(Self {
            shown_mode: settings.permissions.mode,
            window: settings.limits.context_window,
            ports,
            tools,
            settings,
            sent: SentRequest::default(),
            pending: Vec::new(),
            denials: Vec::new(),
            deferred: None,
            unanswered: None,
            waiting: Vec::new(),
            stop_prevented: false,
            verification: None,
            prompt: None,
            context: Vec::new(),
            has_begun: false,
            source: None,
            controls: Controls::default(),
            background: Background::after(&transcript),
            transcript,
            spending: Spending::default(),
            origin_prompt: None,
        })
    }

    /// Reloads the conversation after the current message was changed in the store; open calls are answered.
    ///
    /// # Errors
    ///
    /// If the store cannot be read or written.
    pub async fn reload(&mut self) -> Result<(), StoreError> {
        self.transcript = self.ports.store.load().await?;
        self.sent = SentRequest::default();
        self.find_deferred().await?;
        self.close_calls().await
    }

    /// Lets other processes use the session until [`Session::wake`], unless something runs in the background, or the session
    /// is empty and so could be taken for a leftover.
    pub async fn rest(&mut self) {
        if self.background.ids().is_empty() && self.transcript.last().is_some() {
            self.ports.store.rest().await;
        }
    }

    /// Takes the session back before it is used again; returns whether another process has changed it meanwhile.
    ///
    /// # Errors
    ///
    /// While another process uses the session, or if the store cannot be read or written.
    pub async fn wake(&mut self) -> Result<bool, StoreError> {
        let is_changed = self.ports.store.wake().await?;
        if is_changed {
            self.reload().await?;
        }
        Ok(is_changed)
    }

    /// Returns the tools as last sent to the model.
    pub fn tools(&self) -> &Toolbox {
        &self.tools
    }

    /// Waits for servers that are starting, as the first request would, and adds their tools.
    pub async fn prepare_tools(&mut self) {
        let audience = self.ports.audience.clone();
        let appends = self.ports.provider.extras().continuity.appends_tools;
        self.tools
            .catch_up(appends, |notice| audience.notice(notice))
            .await;
    }

    /// Returns the hooks that shell commands in the texts of its slash commands need the consent of.
    pub fn line_hooks(&self) -> LineHooks {
        LineHooks::new(self.ports.hooks.clone(), self.ports.audience.clone())
    }

    /// Returns the current settings.
    pub fn settings(&self) -> &SessionSettings {
        &self.settings
    }

    /// Returns the current model.
    pub fn model(&self) -> &Model {
        self.ports.provider.model()
    }

    /// Returns the conversation so far.
    pub fn transcript(&self) -> &Transcript {
        &self.transcript
    }

    /// Runs `prompt` to its end, or until `stop`.
    ///
    /// # Errors
    ///
    /// If the conversation cannot be stored; every other failure is a [`RunOutcome`].
    pub async fn run(
        &mut self,
        prompt: Vec<ContentBlock>,
        stop: &Stop,
    ) -> Result<RunOutcome, StoreError> {
        let (started, stop) = self.begin_time(stop);
        self.settle_deferred(&stop.at(self.settings.limits.deadline))
            .await?;
        let prompt = match self.admit(prompt, &stop).await {
            Ok(prompt) => prompt,
            Err(refusal) => return Ok(self.refused(refusal, started)),
        };
        self.announce(said_in(&prompt));
        self.append(Origin::Prompt, prompt).await?;
        self.go_on(started, &stop).await
    }

    /// Sets the deadline; returns the start time and the stop with that deadline.
    pub(crate) fn begin_time(&mut self, stop: &Stop) -> (Time, Stop) {
        self.prompt = None;
        self.verification = None;
        self.spending.begin(self.ports.agent_id.as_ref());
        let started = self.ports.clock.now();
        let timeout = self.settings.timeout_ms;
        self.settings.limits.deadline = timeout.map(|timeout| started.plus(timeout));
        (started, stop.at(self.settings.limits.deadline))
    }

    /// Runs from the stored prompt to the end.
    pub(crate) async fn go_on(
        &mut self,
        started: Time,
        stop: &Stop,
    ) -> Result<RunOutcome, StoreError> {
        let (reason, failure) = match self.drive(stop).await {
            Ok(reason) => self.checked(reason),
            Err(RunFailure::Store(error)) => return Err(error),
            Err(failure) => {
                self.tell_failure(&failure).await;
                (ExitReason::Error, Some(failure))
            }
        };
        self.close_run(reason, failure, started).await
    }

    /// Reports the end of a run, and returns its outcome.
    pub(crate) async fn close_run(
        &mut self,
        reason: ExitReason,
        failure: Option<RunFailure>,
        started: Time,
    ) -> Result<RunOutcome, StoreError> {
        let outcome = self.outcome(reason, failure, self.ports.clock.now().since(started));
        self.end(&outcome).await?;
        Ok(outcome)
    }

    /// Answers the calls that an earlier process left open, unless some of them are to be decided about again.
    async fn close_calls(&mut self) -> Result<(), StoreError> {
        if self.has_deferred() {
            return Ok(());
        }
        let mut results = close_open_calls(&self.transcript);
        if results.is_empty() {
            return Ok(());
        }
        for (result, call) in results.iter_mut().zip(self.transcript.open_calls()) {
            if let Some(CallState::Started {
                agent_id: Some(id), ..
            }) = self.transcript.call(&call.id)
                && let Some(account) = self.account_of(call, id).await
            {
                *result = ToolResult::error(call, account);
            }
        }
        let has_result = |id| matches!(self.transcript.call(id), Some(CallState::Finished(_)));
        let ids = results.iter().map(|result| &result.tool_use_id);
        let lost = ids.filter(|id| !has_result(id)).count();
        let content = results.into_iter().map(ContentBlock::ToolResult).collect();
        self.append(Origin::Results, content).await?;
        let notice = match lost {
            0 => return Ok(()),
            1 => "1 tool call was interrupted by a crash; it will not be rerun, and the model has been told"
                .to_owned(),
            lost => format!(
                "{lost} tool calls were interrupted by a crash; they will not be rerun, and the model has been told"
            ),
        };
        self.ports.audience.notice(&notice);
        Ok(())
    }

    /// The loop.
    async fn drive(&mut self, stop: &Stop) -> Result<ExitReason, RunFailure> {
        loop {
            self.take_changes();
            self.count_spending();
            let now = self.ports.clock.now();
            let step = next(&self.transcript, &self.settings.limits, now);
            if stop.is_left() && !matches!(step, Step::Finish(_)) {
                return Ok(ExitReason::Interrupted);
            }
            if let Some(reason) = stop.reason(now) {
                return Ok(reason);
            }
            match step {
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
                    if reason.is_end_of_turn() && self.is_continued(stop).await? => {}
                Step::Finish(reason) => return Ok(reason),
            }
        }
    }

    /// Reports the beginning of a run.
    pub(crate) fn announce(&mut self, prompt: String) {
        let start = EventKind::AgentStart {
            model: self.ports.provider.model().name.clone(),
            prompt,
            parent_id: self.transcript.last().map(|last| last.id.clone()),
        };
        self.emit(&start);
        self.emit_state("idle", "processing");
    }

    /// Returns the final reason and failure, after checking for a refusal and a missing file.
    fn checked(&mut self, reason: ExitReason) -> (ExitReason, Option<RunFailure>) {
        let unanswered = self.unanswered.take();
        let reason = self.reason_after_check(reason);
        if let Some(why) = unanswered.filter(|_| reason == ExitReason::Error) {
            return (reason, Some(RunFailure::Unanswered(why)));
        }
        if reason == ExitReason::Refusal {
            let words = self
                .transcript
                .last()
                .map(|last| last.text())
                .unwrap_or_default();
            return (reason, Some(RunFailure::Refusal(words)));
        }
        if self.has_deferred() {
            return (reason, None);
        }
        let form = self.settings.answer_form.as_ref();
        let is_answer = |last: &Arc<Message>| last.role == Role::Assistant;
        if reason.is_end_of_turn()
            && self.transcript.last().is_some_and(is_answer)
            && form.is_some_and(|form| form.failure(self.transcript.run()).is_some())
        {
            return (ExitReason::MaxStructuredOutputRetries, None);
        }
        if reason.is_end_of_turn() && silence(self.transcript.run()) == Some(Silence::Again) {
            return (ExitReason::Error, Some(RunFailure::Silent));
        }
        match &self.settings.must_produce {
            Some(file) if reason.is_end_of_turn() && !file.exists() => (
                ExitReason::Error,
                Some(RunFailure::NotProduced(file.clone())),
            ),
            _ => (reason, None),
        }
    }

    /// Tells the end of a run.
    pub(crate) async fn end(&mut self, outcome: &RunOutcome) -> Result<(), StoreError> {
        let error = outcome.failure.as_ref().map(ToString::to_string);
        if let Some(error) = &error {
            self.emit(&EventKind::Error {
                error: error.clone(),
            });
        }
        match outcome.reason {
            ExitReason::BudgetExceeded => self.emit(&EventKind::BudgetExceeded {
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
        self.tell_verification(outcome);
        self.emit_state("processing", "idle");
        self.emit(&EventKind::AgentEnd {
            stop_reason: outcome.reason.clone(),
            total_input_tokens: outcome.usage.effective_input(),
            total_output_tokens: outcome.usage.output_tokens,
            total_cache_read_tokens: outcome.usage.cache_read_input_tokens,
            error,
            error_class: match &outcome.failure {
                Some(RunFailure::Provider(error)) => Some(error.class.name().to_owned()),
                _ => None,
            },
        });
        self.store(Vec::new()).await
    }

    fn outcome(
        &mut self,
        reason: ExitReason,
        failure: Option<RunFailure>,
        duration_ms: u64,
    ) -> RunOutcome {
        let verification = self.take_verification();
        let run = self.transcript.run();
        let totals = self.transcript.totals();
        let answer = run
            .iter()
            .rev()
            .find(|message| message.role == Role::Assistant)
            .map(|last| last.text());
        let mut models = totals.models.clone();
        for usage in self.background.take_spent() {
            ModelUsage::add(&mut models, usage);
        }
        RunOutcome {
            reason,
            failure,
            answer: answer.unwrap_or_default(),
            turns: totals.turns,
            usage: totals.usage,
            models,
            api_ms: totals.api_ms,
            duration_ms,
            denials: std::mem::take(&mut self.denials),
            deferred: self.deferred.take(),
            stop_prevented: std::mem::take(&mut self.stop_prevented),
            verification,
            structured: (self.settings.answer_form.as_ref()).and_then(|form| form.answer(run)),
        }
    }

    async fn nudge(&mut self, repetition: &Repetition) -> Result<(), StoreError> {
        self.emit_loop(repetition, LoopAction::Warn);
        let text = format!(
            "[LOOP DETECTED] The last {} turns asked for exactly the same: {}. You may be stuck. Change your approach, \
             or say what you need to continue.",
            repetition.count,
            repetition.signature.chars().take(400).collect::<String>(),
        );
        self.append(Origin::Nudge, vec![ContentBlock::text(text)])
            .await
    }

    async fn ask_to_continue(&mut self) -> Result<(), StoreError> {
        let text = "Your last answer was cut off by the output limit. Continue exactly where it stopped, in smaller steps.";
        self.append(Origin::Continuation, vec![ContentBlock::text(text)])
            .await
    }

    pub(crate) async fn skip_tools(
        &mut self,
        calls: &[ToolUse],
        skip: Skip,
    ) -> Result<(), StoreError> {
        // Another process may have begun some of them.
        let mut results = close_open_calls(&self.transcript);
        for (result, call) in results.iter_mut().zip(calls) {
            if self.transcript.call(&call.id).is_none() {
                *result = ToolResult::error(call, skip.reason());
            }
        }
        let content = results.into_iter().map(ContentBlock::ToolResult).collect();
        self.append(Origin::Results, content).await
    }

    /// Tells of an event that has no other form.
    pub(crate) fn emit(&mut self, event: &EventKind) {
        self.tell(SessionUpdate::Happened(event));
    }

    /// Tells all who watch of an update, and keeps its event.
    pub(crate) fn tell(&mut self, update: SessionUpdate<'_>) {
        self.ports.audience.update(update);
        self.keep(update);
    }

    /// Stores the event of an update with the next message, if it is a stored kind.
    fn keep(&mut self, update: SessionUpdate<'_>) {
        if let Some(kind) = update.record() {
            let timestamp = self.ports.clock.now().seconds();
            self.pending.push(Record::Event(Event { kind, timestamp }));
        }
    }

    /// Sets the beginning of all requests from now on. It is stored with the next message: before an answer is stored,
    /// nothing depends on it.
    pub(crate) fn begin_prefix(&mut self, prefix: Prefix) {
        let Some(last) = self.transcript.last() else {
            return;
        };
        let prefix = Arc::new(prefix);
        self.pending
            .push(Record::Prefix(last.id.clone(), prefix.clone()));
        self.transcript.begin(prefix);
    }

    fn emit_state(&mut self, from: &str, to: &str) {
        self.emit(&EventKind::StateChange {
            from_state: from.to_owned(),
            to_state: to.to_owned(),
        });
    }

    fn emit_loop(&mut self, repetition: &Repetition, action: LoopAction) {
        self.emit(&EventKind::LoopDetected {
            consecutive_count: repetition.count,
            turn_signature: repetition.signature.clone(),
            action,
        });
    }

    /// Stores a user message of the engine and adds it to the transcript.
    pub(crate) async fn append(
        &mut self,
        origin: Origin,
        content: Vec<ContentBlock>,
    ) -> Result<(), StoreError> {
        let message = self.message(Role::User, origin, content);
        self.append_with(message, Vec::new()).await
    }

    /// Returns a message that follows the current one.
    pub(crate) fn message(
        &self,
        role: Role,
        origin: Origin,
        content: Vec<ContentBlock>,
    ) -> Message {
        self.message_of(self.ports.clock.message_id(), role, origin, content)
    }

    /// Returns a message that follows the current one, with the given id.
    pub(crate) fn message_of(
        &self,
        id: MessageId,
        role: Role,
        origin: Origin,
        content: Vec<ContentBlock>,
    ) -> Message {
        let last = self.transcript.last().map(|last| &**last);
        let stamp = (id, self.ports.clock.now());
        Message::behind(last, stamp, role, origin, content)
    }

    /// Stores `message` and its records in one transaction, then adds it to the transcript.
    pub(crate) async fn append_with(
        &mut self,
        message: Message,
        mut with: Vec<Record>,
    ) -> Result<(), StoreError> {
        let message = Arc::new(message);
        self.keep(SessionUpdate::Stored(&message));
        with.push(Record::Message(message.clone()));
        self.store(with).await?;
        self.ports.audience.update(SessionUpdate::Stored(&message));
        self.transcript.push(message.clone());
        self.spending.settle(&message);
        self.count_spending();
        Ok(())
    }

    /// Stores `records` in one transaction, with the pending events.
    pub(crate) async fn store(&mut self, mut records: Vec<Record>) -> Result<(), StoreError> {
        records.append(&mut self.pending);
        if records.is_empty() {
            return Ok(());
        }
        self.ports.store.append(records).await
    }
}
