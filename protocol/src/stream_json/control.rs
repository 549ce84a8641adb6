//! Control requests to an open session. Most are answered at once, also during a run.

mod read;
mod run;
mod settings;

use std::path::PathBuf;
use std::sync::Arc;

use ah_agent::checkpoint::{Files, SkippedFile};
use ah_agent::{Controls, Session, SessionChange};
use ah_conversation::{
    Model, Models, PermissionMode, Permissions, ServerStatus, Servers, StoreError, Tasks, Thinking,
};
use ah_desk::Place;
use parking_lot::Mutex;
use serde_json::{Map, Value, json};

use super::Pipes;
use super::context::{self, ContextParts};
use super::speaker::Speaker;
use super::wire::{ControlRequest, RequestError, mode};

/// Handles of an open session that can be used during a run.
pub(crate) struct Handles {
    pub(crate) controls: Controls,
    pub(crate) models: Arc<dyn Models>,
    pub(crate) servers: Option<Arc<dyn Servers>>,
    /// Background tasks, which can be stopped by id.
    pub(crate) tasks: Vec<Arc<dyn Tasks>>,
    pub(crate) files: Files,
    pub(crate) pipes: Pipes,
    pub(crate) speaker: Arc<Speaker>,
    /// Whether the mode `bypassPermissions` may be chosen.
    pub(crate) may_bypass: bool,
    /// Working directory.
    pub(crate) cwd: PathBuf,
    /// The place that it works in.
    pub(crate) place: Arc<dyn Place>,
    /// Settings of the files in force: source and content, the lowest first.
    pub(crate) sources: Vec<(String, Value)>,
    pub(crate) state: Mutex<HandlesState>,
    pub(crate) context: Mutex<ContextParts>,
}

/// What requests change, or read while a run has the session.
pub(crate) struct HandlesState {
    /// Thinking as last requested, and as configured.
    pub(crate) thinking: Thinking,
    pub(crate) initial: Thinking,
    /// Settings applied by the host.
    pub(crate) flags: Map<String, Value>,
    /// Rules as of the last prompt.
    pub(crate) permissions: Permissions,
    /// Model as last requested.
    pub(crate) model: Model,
}

impl Handles {
    /// Carries out a request.
    pub(crate) async fn grant(&self, wish: ControlRequest) -> Result<Value, RequestError> {
        match wish {
            ControlRequest::SetPermissionMode { mode: word } => self.set_mode(&word),
            ControlRequest::SetModel { model } => self.set_model(model.as_deref()),
            ControlRequest::SetMaxThinkingTokens { tokens } => {
                self.think(|thinking, initial| {
                    thinking.budget = tokens.or(initial.budget);
                });
                Ok(json!({}))
            }
            ControlRequest::ApplySettings { settings } => self.apply_settings(settings),
            ControlRequest::GetSettings => Ok(self.settings()),
            ControlRequest::RenameSession { title } => self.rename(&title).await,
            ControlRequest::TitleOf {
                description,
                persists,
            } => self.title_of(&description, persists).await,
            ControlRequest::PermissionRules => Ok(self.permission_rules()),
            ControlRequest::ReadFile { path } => self.read_file(&path),
            ControlRequest::McpStatus => {
                let statuses = self.servers.iter().flat_map(|servers| servers.status());
                let statuses: Vec<_> = statuses.map(|status| server_status(&status)).collect();
                Ok(json!({"mcpServers": statuses}))
            }
            ControlRequest::McpReconnect { server } => {
                done(self.servers()?.reconnect(&server).await)
            }
            ControlRequest::McpToggle { server, enabled } => {
                done(self.servers()?.toggle(&server, enabled))
            }
            ControlRequest::McpSetServers { servers } => {
                let change = self.servers()?.set(servers.into_iter().collect()).await;
                Ok(json!({
                    "added": change.added,
                    "removed": change.removed,
                    "errors": change.errors,
                }))
            }
            ControlRequest::McpMessage { server, message } => {
                if self.pipes.deliver(&server, message) {
                    Ok(json!({}))
                } else {
                    let text = format!("there is no server `{server}` in the host");
                    Err(RequestError::new(text))
                }
            }
            ControlRequest::McpCall { tool, arguments } => self.call_tool(&tool, arguments).await,
            ControlRequest::McpReadResource { server, uri } => {
                let contents = self.servers()?.read_resource(&server, &uri).await;
                let contents = contents.map_err(RequestError::new)?;
                Ok(json!({"contents": contents}))
            }
            ControlRequest::TaskOutput { id } => self.task_output(&id),
            ControlRequest::ContextUsage => Ok(self.context_usage()),
            ControlRequest::StopTask { id } => {
                // A task may end while the host asks to stop it.
                if let Some(tasks) = self.tasks.iter().find(|tasks| tasks.has(&id)) {
                    tasks.stop(&id).await;
                }
                Ok(json!({}))
            }
            ControlRequest::RewindFiles { prompt, dry_run } => self.rewind(&prompt, dry_run).await,
            // These need no session and are answered before they get here.
            ControlRequest::Initialize(_)
            | ControlRequest::Introduction(_)
            | ControlRequest::Unknown { .. }
            | ControlRequest::SessionCost
            | ControlRequest::SessionUsage
            | ControlRequest::Interrupt { .. }
            | ControlRequest::Withdraw { .. } => Ok(json!({})),
        }
    }

    fn set_mode(&self, word: &str) -> Result<Value, RequestError> {
        let mode = mode(word)?;
        if mode == PermissionMode::BypassPermissions && !self.may_bypass {
            return Err(RequestError::of_code(
                "bypass_not_launched",
                "Cannot set permission mode to bypassPermissions: the session was not started with \
                 --dangerously-skip-permissions or --allow-dangerously-skip-permissions",
            ));
        }
        self.controls.request(SessionChange::Mode(mode));
        Ok(json!({"mode": mode.as_str()}))
    }

    /// Takes note of the session between runs.
    pub(crate) fn follow(&self, session: &Session) {
        let settings = session.settings();
        let mut state = self.state.lock();
        state.model = session.model().clone();
        state.permissions = settings.permissions.clone();
        self.context.lock().tools = session.tools().specs().clone();
    }

    /// Changes the thinking budget or the effort.
    fn think(&self, change: impl FnOnce(&mut Thinking, Thinking)) {
        let mut state = self.state.lock();
        let initial = state.initial;
        change(&mut state.thinking, initial);
        let thinking = state.thinking;
        self.controls.request(SessionChange::Thinking(thinking));
    }

    pub(crate) fn set_model(&self, name: Option<&str>) -> Result<Value, RequestError> {
        let name = name.filter(|name| *name != "default");
        let provider = self
            .models
            .connect(name)
            .map_err(|error| RequestError::new(error.to_string()))?;
        let resolved = provider.model().name.clone();
        self.state.lock().model = provider.model().clone();
        self.controls.request(SessionChange::Model(provider));
        self.speaker.output(&format!("Set model to {resolved}"));
        Ok(json!({"model": resolved}))
    }

    /// Restores the files to their state before a prompt, or returns the changes that would make.
    async fn rewind(&self, prompt: &str, dry_run: bool) -> Result<Value, RequestError> {
        let lost = |error: StoreError| RequestError::new(error.to_string());
        let way = self
            .files
            .before(|message| self.speaker.is(message, prompt));
        let Some(way) = way.await.map_err(lost)? else {
            let text = format!("No file checkpoint found for message {prompt}");
            return if dry_run {
                Ok(json!({"canRewind": false, "error": text}))
            } else {
                Err(RequestError::new(text))
            };
        };
        if way.is_of_others {
            let text = "the file checkpoints of this session were not recorded by this user on this machine";
            return match dry_run {
                true => Ok(json!({"canRewind": false, "error": text})),
                false => Err(RequestError::new(text)),
            };
        }
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
            let text = format!("cannot restore `{}`: {error}", path.display());
            self.speaker.inform(&text, "warning");
        }
        for SkippedFile { path, why, .. } in &way.skipped {
            let text = format!("`{}` was not restored: {why}", path.display());
            self.speaker.inform(&text, "warning");
        }
        for call in &way.unseen {
            let text = format!("what `{call}` changed is not known, so it was not restored");
            self.speaker.inform(&text, "warning");
        }
        told["skippedLinks"] = json!(way.skipped.len());
        Ok(told)
    }

    pub(crate) fn servers(&self) -> Result<&dyn Servers, RequestError> {
        let servers = self.servers.as_deref();
        servers.ok_or_else(|| RequestError::new("there are no MCP servers"))
    }

    /// Returns what fills the context window.
    pub(crate) fn context_usage(&self) -> Value {
        let used = self.speaker.context_tokens();
        let model = self.state.lock().model.clone();
        context::usage(&self.context.lock(), used, &model)
    }
}

/// Converts an outcome without a value.
fn done(outcome: Result<(), String>) -> Result<Value, RequestError> {
    outcome.map(|()| json!({})).map_err(RequestError::new)
}

/// Returns the status of a server in the form of the SDKs.
fn server_status(status: &ServerStatus) -> Value {
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

/// Returns the error for an unknown or invalid request.
pub(crate) fn unknown(subtype: &str, fault: Option<String>) -> RequestError {
    match fault {
        Some(text) => RequestError::new(text),
        None => RequestError::of_code(
            "unsupported_request",
            format!("Unsupported control request subtype: {subtype}"),
        ),
    }
}
