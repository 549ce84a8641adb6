//! The moments of a session at which hooks are asked, but for those of a call: its beginning and end, a prompt, the end
//! of an answer, a summary.

use ah_conversation::{
    ContentBlock, ExitReason, Origin, Role, StoreError, Time, ToolUse, Usage, text_of,
};
use serde_json::{Value, json};

use crate::hooks::{HookEvent, HookMoment, HookVerdict};
use crate::{RunOutcome, Session, Stop};

/// How what hooks say begins, for the model and for everybody who reads the database.
const MARK: &str = "[HOOK]";
/// How a hook's demand to go on begins.
const DEMAND: &str = "[STOP HOOK]";
/// How often hooks may keep a run going that has said its last word.
const MOST_DEMANDS: usize = 8;

impl Session {
    /// Asks the hooks of an event. What they want the model to be told waits for the next message.
    pub(crate) async fn ask_hooks(
        &mut self,
        event: HookEvent,
        call: Option<&ToolUse>,
        more: Value,
    ) -> HookVerdict {
        let kind = |key: &str| more[key].as_str().unwrap_or_default().to_owned();
        let kind = match event {
            HookEvent::SessionStart => kind("source"),
            HookEvent::SessionEnd => kind("reason"),
            HookEvent::PreCompact => kind("trigger"),
            HookEvent::Notification => kind("notification_type"),
            _ => call.map(|call| call.name.clone()).unwrap_or_default(),
        };
        let moment = HookMoment {
            event,
            kind: &kind,
            mode: self.settings.permissions.mode,
            call: call.map(|call| &call.id),
            more,
        };
        let hooks = self.ports.hooks.clone();
        let verdict = hooks.ask(moment, &*self.ports.frontend).await;
        self.heed(&verdict);
        verdict
    }

    /// Keeps what the model is to be told, and tells the person why a run ends.
    pub(crate) fn heed(&mut self, verdict: &HookVerdict) {
        self.context.extend(verdict.context.iter().cloned());
        if let Some(reason) = &verdict.ends {
            self.ports
                .frontend
                .notice(&format!("a hook ends the run: {reason}"));
        }
    }

    /// What hooks want the model to be told, as a part of the next message.
    pub(crate) fn take_context(&mut self) -> Option<ContentBlock> {
        let context = std::mem::take(&mut self.context);
        (!context.is_empty()).then(|| ContentBlock::text(format!("{MARK} {}", context.join("\n"))))
    }

    /// Tells hooks that the session begins, once, and asks them about a prompt.
    pub(crate) async fn admit(
        &mut self,
        mut prompt: Vec<ContentBlock>,
        stop: &Stop,
    ) -> Result<Vec<ContentBlock>, String> {
        let clock = self.ports.clock.clone();
        let text = text_of(&prompt);
        let asked = async {
            let mut ends = None;
            if !self.has_begun {
                self.has_begun = true;
                let source = match self.transcript.last() {
                    Some(_) => "resume",
                    None => "startup",
                };
                let model = self.ports.provider.model().name.clone();
                let more = json!({"source": source, "model": model});
                ends = self
                    .ask_hooks(HookEvent::SessionStart, None, more)
                    .await
                    .ends;
            }
            let more = json!({"prompt": text});
            let verdict = self
                .ask_hooks(HookEvent::UserPromptSubmit, None, more)
                .await;
            verdict.block.or(ends).or(verdict.ends)
        };
        let refused = tokio::select! {
            biased;
            () = stop.wait(&*clock) => None,
            refused = asked => refused,
        };
        if let Some(reason) = refused {
            self.context.clear();
            return Err(format!(
                "UserPromptSubmit operation blocked by hook:\n{reason}\n\nOriginal prompt: {text}"
            ));
        }
        prompt.extend(self.take_context());
        Ok(prompt)
    }

    /// How a run ends whose prompt was refused: nothing was stored, and nobody was asked.
    pub(crate) fn refused(&mut self, answer: String, started: Time) -> RunOutcome {
        self.ports.frontend.notice(&answer);
        RunOutcome {
            reason: ExitReason::EndTurn,
            failure: None,
            answer,
            turns: 0,
            usage: Usage::default(),
            models: Vec::new(),
            api_ms: 0,
            duration_ms: self.ports.clock.now().since(started),
            denials: Vec::new(),
            structured: None,
        }
    }

    /// Asks hooks whether the run may end; says whether it goes on. However often they say no, it ends some time.
    pub(crate) async fn is_kept_by_hooks(&mut self, stop: &Stop) -> Result<bool, StoreError> {
        if !self.ports.hooks.has(HookEvent::Stop) {
            return Ok(false);
        }
        let is_demand = |text: &str| text.starts_with(DEMAND);
        let run = self.transcript.run();
        let demands = run
            .iter()
            .filter(|message| is_demand(&message.text()))
            .count();
        let said = run.iter().rev().find(|it| it.role == Role::Assistant);
        let more = json!({
            "stop_hook_active": demands > 0,
            "last_assistant_message": said.map(|message| message.text()),
            "background_tasks": self.background.told(),
        });
        let clock = self.ports.clock.clone();
        let verdict = tokio::select! {
            biased;
            () = stop.wait(&*clock) => return Ok(false),
            verdict = self.ask_hooks(HookEvent::Stop, None, more) => verdict,
        };
        let reason = match verdict.block {
            Some(reason) if verdict.ends.is_none() => reason,
            _ => return Ok(false),
        };
        if demands >= MOST_DEMANDS {
            let text = format!("a Stop hook has kept the run going {demands} times; now it ends");
            self.ports.frontend.notice(&text);
            return Ok(false);
        }
        let mut content = vec![ContentBlock::text(format!("{DEMAND} {reason}"))];
        content.extend(self.take_context());
        self.append(Origin::Reminder, content).await?;
        Ok(true)
    }

    /// Tells hooks that a summary is about to be made; gives what it is to heed: what a person has said who asked for
    /// it, and what they say.
    pub(crate) async fn before_summary(&mut self, asked: Option<&str>) -> Option<String> {
        let (trigger, said) = match asked {
            Some(said) => ("manual", Some(said).filter(|said| !said.is_empty())),
            None => ("auto", None),
        };
        let more = json!({"trigger": trigger, "custom_instructions": said});
        self.ask_hooks(HookEvent::PreCompact, None, more).await;
        let context = std::mem::take(&mut self.context);
        let wanted: Vec<_> = said.map(str::to_owned).into_iter().chain(context).collect();
        (!wanted.is_empty()).then(|| wanted.join("\n"))
    }

    /// Tells hooks that the conversation begins anew with a summary.
    pub(crate) async fn after_summary(&mut self) -> Result<(), StoreError> {
        let more = json!({"source": "compact"});
        self.ask_hooks(HookEvent::SessionStart, None, more).await;
        match self.take_context() {
            Some(context) => self.append(Origin::Reminder, vec![context]).await,
            None => Ok(()),
        }
    }

    /// Ends the session: hooks are told, and what still waits is stored.
    ///
    /// # Errors
    /// When the conversation cannot be kept.
    pub async fn close(mut self, reason: &str) -> Result<(), StoreError> {
        let more = json!({"reason": reason});
        self.ask_hooks(HookEvent::SessionEnd, None, more).await;
        if let Some(subagents) = self.tools.subagents() {
            subagents.close();
        }
        self.store(Vec::new()).await
    }
}
