//! Hook events of a session other than those of a call: session start and end, prompt, end of an answer, summary.

use ah_conversation::{
    ContentBlock, ExitReason, HOOK_NOTE, Origin, Role, StoreError, Time, text_of,
};
use serde_json::{Value, json};

use crate::hooks::{HookEvent, HookMoment, HookSubject, HookVerdict};
use crate::tool_call::PreparedCall;
use crate::{RunFailure, RunOutcome, Session, Stop, finish, pictures};

/// Marks a hook's demand to continue.
const DEMAND: &str = "[STOP HOOK]";
/// Maximum number of times that hooks may continue a run.
pub(crate) const MAX_DEMANDS: usize = 8;

impl Session {
    /// Calls the hooks of an event. Their context for the model is kept for the next message.
    pub(crate) async fn ask_hooks(
        &mut self,
        event: HookEvent,
        call: Option<&PreparedCall>,
        more: Value,
    ) -> HookVerdict {
        let kind = |key: &str| more[key].as_str().unwrap_or_default().to_owned();
        let kind = match event {
            HookEvent::SessionStart => kind("source"),
            HookEvent::SessionEnd => kind("reason"),
            HookEvent::Setup => kind("trigger"),
            HookEvent::PreCompact | HookEvent::PostCompact => kind("trigger"),
            HookEvent::Notification => kind("notification_type"),
            _ => { call.map(|it| it.call.name.clone()) }.unwrap_or_default(),
        };
        let places = self.settings.permissions.places.clone();
        let moment = HookMoment {
            event,
            kind: &kind,
            mode: Some(self.settings.permissions.mode),
            call: call.map(|it| HookSubject {
                call: &it.call,
                accesses: it.accesses(),
                places: &places,
            }),
            more,
        };
        let hooks = self.ports.hooks.clone();
        let verdict = hooks.ask(moment, &self.ports.audience).await;
        self.apply_verdict(&verdict);
        verdict
    }

    /// Keeps the hooks' context for the model, and tells the user why a run ends.
    pub(crate) fn apply_verdict(&mut self, verdict: &HookVerdict) {
        self.context.extend(verdict.context.iter().cloned());
        if let Some(reason) = &verdict.stop_reason {
            self.ports
                .audience
                .notice(&format!("a hook ended the run: {reason}"));
        }
    }

    /// Returns the context from hooks as a block for the next message.
    pub(crate) fn take_context(&mut self) -> Option<ContentBlock> {
        let context = std::mem::take(&mut self.context);
        (!context.is_empty())
            .then(|| ContentBlock::text(format!("{HOOK_NOTE} {}", context.join("\n"))))
    }

    /// Calls the hooks of a session's beginning, once: those that set up the machine if that is wanted, then those of
    /// SessionStart. Returns why they end the run, if they do.
    pub async fn begin(&mut self) -> Option<String> {
        if std::mem::replace(&mut self.has_begun, true) {
            return None;
        }
        if let Some(trigger) = self.settings.setup {
            let more = json!({"trigger": trigger});
            self.ask_hooks(HookEvent::Setup, None, more).await;
        }
        let source = match (self.source, self.transcript.last()) {
            (Some(source), _) => source,
            (None, Some(_)) => "resume",
            (None, None) => "startup",
        };
        let model = self.ports.provider.model().name.clone();
        let more = json!({"source": source, "model": model});
        let verdict = self.ask_hooks(HookEvent::SessionStart, None, more).await;
        verdict.stop_reason
    }

    /// Calls the hooks of the session's beginning once, then those for a prompt.
    pub(crate) async fn admit(
        &mut self,
        prompt: Vec<ContentBlock>,
        stop: &Stop,
    ) -> Result<Vec<ContentBlock>, String> {
        let clock = self.ports.clock.clone();
        let text = text_of(&prompt);
        let refusal = async {
            let ends = self.begin().await;
            let more = json!({"prompt": text});
            let verdict = self
                .ask_hooks(HookEvent::UserPromptSubmit, None, more)
                .await;
            verdict.block.or(ends).or(verdict.stop_reason)
        };
        let refused = tokio::select! {
            biased;
            () = stop.wait(&*clock) => None,
            refused = refusal => refused,
        };
        if let Some(reason) = refused {
            self.context.clear();
            return Err(format!(
                "UserPromptSubmit operation blocked by hook:\n{reason}\n\nOriginal prompt: {text}"
            ));
        }
        let mut prompt = pictures::in_prompt(prompt, &self.ports.pictures).await;
        prompt.extend(self.take_context());
        Ok(prompt)
    }

    /// Returns the outcome of a run whose prompt a hook refused: nothing was stored or sent.
    pub(crate) fn refused(&mut self, answer: String, started: Time) -> RunOutcome {
        self.ports.audience.notice(&answer);
        RunOutcome {
            answer,
            duration_ms: self.ports.clock.now().since(started),
            ..RunOutcome::new(ExitReason::EndTurn)
        }
    }

    /// Calls the Stop hooks; returns whether the run continues. The number of continuations is limited.
    pub(crate) async fn is_continued_by_hooks(&mut self, stop: &Stop) -> Result<bool, StoreError> {
        if !self.ports.hooks.has(HookEvent::Stop) {
            return Ok(false);
        }
        let is_demand = |text: &str| text.starts_with(DEMAND);
        let run = self.transcript.run();
        let demands = run
            .iter()
            .filter(|message| is_demand(&message.text()))
            .count();
        let last_answer = run.iter().rev().find(|it| it.role == Role::Assistant);
        let more = json!({
            "stop_hook_active": demands > 0,
            "last_assistant_message": last_answer.map(|message| message.text()),
            "background_tasks": self.background.running(),
        });
        let clock = self.ports.clock.clone();
        let verdict = tokio::select! {
            biased;
            () = stop.wait(&*clock) => return Ok(false),
            verdict = self.ask_hooks(HookEvent::Stop, None, more) => verdict,
        };
        self.stop_prevented |= verdict.stop_reason.is_some();
        let reason = match verdict.block {
            Some(reason) if verdict.stop_reason.is_none() => reason,
            _ => return Ok(false),
        };
        if demands >= MAX_DEMANDS {
            let text = format!(
                "a Stop hook continued the run {demands} times, which is the limit; it ends now"
            );
            self.ports.audience.notice(&text);
            return Ok(false);
        }
        let mut content = vec![ContentBlock::text(format!("{DEMAND} {reason}"))];
        content.extend(self.take_context());
        self.append(Origin::Reminder, content).await?;
        Ok(true)
    }

    /// Tells the hooks why a run ended without an answer of the model.
    pub(crate) async fn tell_failure(&mut self, failure: &RunFailure) {
        let error = match failure {
            RunFailure::Provider(error) => error.class.as_str(),
            _ => "unknown",
        };
        let more = json!({"error": error, "error_details": failure.to_string()});
        self.ask_hooks(HookEvent::StopFailure, None, more).await;
        // There is no next message that it could be added to.
        self.context.clear();
    }

    /// Calls the hooks before a summary; returns the instructions for it from the user and the hooks.
    pub(crate) async fn before_summary(&mut self, instructions: Option<&str>) -> Option<String> {
        let by_user = instructions.filter(|text| !text.is_empty());
        let more = json!({"trigger": trigger(instructions), "custom_instructions": by_user});
        self.ask_hooks(HookEvent::PreCompact, None, more).await;
        let context = std::mem::take(&mut self.context);
        let wanted: Vec<_> = by_user
            .map(str::to_owned)
            .into_iter()
            .chain(context)
            .collect();
        (!wanted.is_empty()).then(|| wanted.join("\n"))
    }

    /// Forgets what a summary has replaced, and calls the hooks after it: those that are told of it, then those of a session
    /// that begins anew.
    pub(crate) async fn after_summary(
        &mut self,
        instructions: Option<&str>,
        summary: &str,
    ) -> Result<(), StoreError> {
        self.transcript.forget(finish::is_needed_later);
        let more = json!({"trigger": trigger(instructions), "compact_summary": summary});
        self.ask_hooks(HookEvent::PostCompact, None, more).await;
        let more = json!({"source": "compact"});
        self.ask_hooks(HookEvent::SessionStart, None, more).await;
        match self.take_context() {
            Some(context) => self.append(Origin::Reminder, vec![context]).await,
            None => Ok(()),
        }
    }

    /// Ends the session: calls the hooks and stores pending records.
    ///
    /// # Errors
    ///
    /// If the conversation cannot be stored.
    pub async fn close(mut self, reason: &str) -> Result<(), StoreError> {
        self.end_pause();
        let more = json!({"reason": reason});
        self.ask_hooks(HookEvent::SessionEnd, None, more).await;
        if let Some(subagents) = self.tools.subagents() {
            subagents.close();
        }
        self.store(Vec::new()).await
    }
}

/// Returns who asked for a summary, as hooks are told: there are instructions, if only empty ones, where the user did.
fn trigger(instructions: Option<&str>) -> &'static str {
    if instructions.is_some() {
        "manual"
    } else {
        "auto"
    }
}
