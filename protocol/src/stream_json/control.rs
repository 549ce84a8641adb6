//! What a host may ask for while a session is open: each request is answered, most of them at once, also while a run
//! goes on.

use std::sync::Arc;

use ah_agent::checkpoint::{Files, SkippedFile};
use ah_agent::{Controls, SessionChange};
use ah_conversation::{
    Model, Models, PermissionMode, ServerStatus, Servers, StoreError, Tasks, Thinking,
};
use serde_json::{Value, json};

use super::Pipes;
use super::speaker::Speaker;
use super::wire::{Fault, Wish, mode};

/// What of an open session can be reached while it is at work.
pub(crate) struct Handles {
    pub(crate) controls: Controls,
    pub(crate) models: Arc<dyn Models>,
    pub(crate) servers: Option<Arc<dyn Servers>>,
    /// What can be ended by its id.
    pub(crate) tasks: Vec<Arc<dyn Tasks>>,
    pub(crate) files: Files,
    pub(crate) pipes: Pipes,
    pub(crate) speaker: Arc<Speaker>,
    /// Whether the user has agreed to a mode that allows everything.
    pub(crate) may_bypass: bool,
    /// How much is thought where the host says nothing.
    pub(crate) thinking: Thinking,
    /// The model at the start.
    pub(crate) model: Model,
}

impl Handles {
    /// Does what the host asks for.
    pub(crate) async fn grant(&self, wish: Wish) -> Result<Value, Fault> {
        match wish {
            Wish::SetPermissionMode { mode: word } => self.set_mode(&word),
            Wish::SetModel { model } => self.set_model(model.as_deref()),
            Wish::SetMaxThinkingTokens { tokens } => {
                let thinking = tokens.map_or(self.thinking, |tokens| Thinking {
                    budget: Some(tokens),
                    ..self.thinking
                });
                self.controls.request(SessionChange::Thinking(thinking));
                Ok(json!({}))
            }
            Wish::McpStatus => {
                let statuses = self.servers.iter().flat_map(|servers| servers.status());
                let statuses: Vec<_> = statuses.map(|status| told(&status)).collect();
                Ok(json!({"mcpServers": statuses}))
            }
            Wish::McpReconnect { server } => done(self.servers()?.reconnect(&server).await),
            Wish::McpToggle { server, enabled } => done(self.servers()?.toggle(&server, enabled)),
            Wish::McpSetServers { servers } => {
                let change = self.servers()?.set(servers.into_iter().collect()).await;
                Ok(json!({
                    "added": change.added,
                    "removed": change.removed,
                    "errors": change.errors,
                }))
            }
            Wish::McpMessage { server, message } => match self.pipes.deliver(&server, message) {
                true => Ok(json!({})),
                false => Err(Fault::new(format!(
                    "there is no server `{server}` in the host"
                ))),
            },
            Wish::ContextUsage => Ok(self.context_usage()),
            Wish::StopTask { id } => match self.tasks.iter().find(|tasks| tasks.has(&id)) {
                Some(tasks) => {
                    tasks.stop(&id).await;
                    Ok(json!({}))
                }
                None => Err(Fault::new(format!("there is no task `{id}`"))),
            },
            Wish::RewindFiles { prompt, dry_run } => self.rewind(&prompt, dry_run).await,
            // These need no session, and are answered by whoever hears the host.
            Wish::Initialize(_)
            | Wish::Introduction(_)
            | Wish::Unknown { .. }
            | Wish::Interrupt { .. }
            | Wish::Withdraw { .. } => Ok(json!({})),
        }
    }

    fn set_mode(&self, word: &str) -> Result<Value, Fault> {
        let mode = mode(word)?;
        if mode == PermissionMode::BypassPermissions && !self.may_bypass {
            return Err(Fault::new(
                "Cannot set permission mode to bypassPermissions: the session was not started with \
                 --dangerously-skip-permissions or --allow-dangerously-skip-permissions",
            ));
        }
        self.controls.request(SessionChange::Mode(mode));
        Ok(json!({"mode": mode.as_str()}))
    }

    fn set_model(&self, name: Option<&str>) -> Result<Value, Fault> {
        let name = name.filter(|name| *name != "default");
        let provider = self.models.connect(name);
        let provider = provider.map_err(|error| Fault::new(error.to_string()))?;
        let resolved = provider.model().name.clone();
        self.controls.request(SessionChange::Model(provider));
        let text = format!("<local-command-stdout>Set model to {resolved}</local-command-stdout>");
        self.speaker.user(&text, json!({"isReplay": true}));
        Ok(json!({"model": resolved}))
    }

    /// Gives the files back as they were before a prompt, or says what that would change.
    async fn rewind(&self, prompt: &str, dry_run: bool) -> Result<Value, Fault> {
        let lost = |error: StoreError| Fault::new(error.to_string());
        let way = self
            .files
            .before(|message| self.speaker.is(message, prompt));
        let Some(way) = way.await.map_err(lost)? else {
            let text = format!("No file checkpoint found for message {prompt}");
            return match dry_run {
                true => Ok(json!({"canRewind": false, "error": text})),
                false => Err(Fault::new(text)),
            };
        };
        let (insertions, deletions) = way.lines();
        let changed = way.changes.iter().map(|edit| edit.path.to_string_lossy());
        let mut told = json!({
            "canRewind": true,
            "filesChanged": changed.collect::<Vec<_>>(),
            "insertions": insertions,
            "deletions": deletions,
        });
        if dry_run {
            return Ok(told);
        }
        for (path, error) in self.files.go(&way).await.map_err(lost)? {
            let text = format!("`{}` is not given back: {error}", path.display());
            self.speaker.inform(&text, "warning");
        }
        for SkippedFile { path, why } in &way.skipped {
            let text = format!("`{}` is left as it is: {why}", path.display());
            self.speaker.inform(&text, "warning");
        }
        told["skippedLinks"] = json!(way.skipped.len());
        Ok(told)
    }

    fn servers(&self) -> Result<&dyn Servers, Fault> {
        let servers = self.servers.as_deref();
        servers.ok_or_else(|| Fault::new("there are no MCP servers"))
    }

    fn context_usage(&self) -> Value {
        let (used, window) = (self.speaker.context_tokens(), self.model.context_window);
        let free = window.saturating_sub(used);
        json!({
            "categories": [
                {"name": "Messages", "tokens": used, "kind": "used"},
                {"name": "Free space", "tokens": free, "kind": "free"},
            ],
            "totalTokens": used,
            "maxTokens": window,
            "rawMaxTokens": window,
            "percentage": (used * 100).checked_div(window).unwrap_or(0),
            "gridRows": [],
            "model": self.model.name,
            "memoryFiles": [],
            "mcpTools": [],
            "agents": [],
            "isAutoCompactEnabled": true,
            "apiUsage": null,
        })
    }
}

/// The answer where there is nothing to tell but that it was done.
fn done(outcome: Result<(), String>) -> Result<Value, Fault> {
    outcome.map(|()| json!({})).map_err(Fault::new)
}

/// How a server is, in the words of the SDKs.
fn told(status: &ServerStatus) -> Value {
    let tools = status.tools.iter().map(|tool| {
        let mut told = json!({"name": tool.own_name, "description": tool.description});
        let hints = [
            ("readOnly", tool.read_only),
            ("destructive", tool.destructive),
            ("openWorld", tool.open_world),
        ];
        for (name, hint) in hints {
            if let Some(hint) = hint {
                told["annotations"][name] = json!(hint);
            }
        }
        told
    });
    let mut told = json!({
        "name": status.name,
        "status": status.state.as_str(),
        "scope": status.scope.as_str(),
        "config": status.config,
        "tools": tools.collect::<Vec<_>>(),
    });
    if let Some(software) = &status.software {
        told["serverInfo"] = json!(software);
    }
    if let Some(error) = &status.error {
        told["error"] = json!(error);
    }
    told
}

/// What is said of a request that nobody here understands.
pub(crate) fn unknown(subtype: &str, fault: Option<String>) -> Fault {
    match fault {
        Some(text) => Fault::new(text),
        None => Fault::of_code(
            "unsupported_request",
            format!("Unsupported control request subtype: {subtype}"),
        ),
    }
}
