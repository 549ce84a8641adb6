//! The program's closures as the host and the hooks of a session.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use ah_agent::hooks::{Hook, HookAnswer, HookEvent, HookReply, Matcher, MatcherError, OnFailure};
use ah_conversation::{
    Clock, Elicitation, ElicitationAnswer, Host, HostPermission, Nobody, PermissionAnswer,
    PermissionRequest, PermissionUpdate, Rule, ToolUseId,
};
use ah_ids::SystemClock;
use async_trait::async_trait;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::options::{CanUseTool, Decision, HookCallback, HookInput, ToolRequest};

/// Tool name in questions about a network host.
const NETWORK: &str = "SandboxNetworkAccess";
/// Time limit of a hook.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Host that asks a closure.
pub(super) struct PermissionCallback(pub(super) CanUseTool);

#[async_trait]
impl Host for PermissionCallback {
    async fn permission(&self, request: &PermissionRequest) -> PermissionAnswer {
        let call = &request.call;
        let asked = ToolRequest {
            tool_name: call.name.clone(),
            input: match call.input.to_value() {
                Value::Object(input) => input,
                _ => Map::new(),
            },
            tool_use_id: call.id.to_string(),
            suggestions: request.inquiry.suggestions.clone(),
        };
        match self.decide(asked).await {
            Ok(decision) => decision.into(),
            Err(error) => PermissionAnswer::Deny {
                message: format!("Tool permission request failed: {error}"),
                interrupt: false,
            },
        }
    }

    async fn new_host(&self, host: &str) -> HostPermission {
        let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
        let suggestion = json!({
            "type": "addRules",
            "rules": [{ "toolName": "WebFetch", "ruleContent": format!("domain:{name}") }],
            "behavior": "allow",
            "destination": "localSettings",
        });
        let input = [("host", name), ("address", host)];
        let asked = ToolRequest {
            tool_name: NETWORK.to_owned(),
            input: input
                .map(|(name, value)| (name.to_owned(), json!(value)))
                .into_iter()
                .collect(),
            tool_use_id: SystemClock::default().message_id().to_string(),
            suggestions: PermissionUpdate::deserialize(suggestion)
                .into_iter()
                .collect(),
        };
        match self.decide(asked).await {
            Ok(Decision::Allow) => HostPermission::Once,
            Ok(Decision::AllowWith { updates, .. }) => HostPermission::of(&updates),
            // Without an answer it is not allowed.
            Ok(Decision::Deny { .. }) | Err(_) => HostPermission::No,
        }
    }

    async fn elicitation(&self, question: &Elicitation) -> ElicitationAnswer {
        Nobody.elicitation(question).await
    }

    fn elicitation_complete(&self, _: &str, _: &str) {}
}

impl PermissionCallback {
    async fn decide(&self, request: ToolRequest) -> Result<Decision, String> {
        let decide = self.0.clone();
        apart(async move { decide(request).await }).await
    }
}

/// Runs a closure's future in a task of its own, so that its panic does not end the run.
async fn apart<T: Send + 'static>(
    future: impl Future<Output = T> + Send + 'static,
) -> Result<T, String> {
    let joined = tokio::spawn(future).await;
    joined.map_err(|_| "the callback panicked".to_owned())
}

/// Hook that calls a closure.
pub(super) struct ClosureHook {
    callback: HookCallback,
    matcher: Matcher,
    name: String,
}

impl ClosureHook {
    /// Returns the hooks of the program, named by their position.
    ///
    /// # Errors
    ///
    /// If a matcher is not valid.
    pub(super) fn all(callbacks: &[HookCallback]) -> Result<Vec<Arc<dyn Hook>>, MatcherError> {
        let hooks = callbacks.iter().enumerate().map(|(number, callback)| {
            let hook: Arc<dyn Hook> = Arc::new(Self {
                matcher: Matcher::new(callback.matcher.as_deref())?,
                callback: callback.clone(),
                name: number.to_string(),
            });
            Ok(hook)
        });
        hooks.collect()
    }
}

#[async_trait]
impl Hook for ClosureHook {
    fn event(&self) -> HookEvent {
        self.callback.event
    }

    fn matcher(&self) -> &Matcher {
        &self.matcher
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn kind(&self) -> &'static str {
        "hook callback"
    }

    fn condition(&self) -> Option<&Rule> {
        None
    }

    fn on_failure(&self) -> Option<OnFailure> {
        None
    }

    async fn ask(&self, input: &Value, call: Option<&ToolUseId>) -> HookAnswer {
        let input = HookInput {
            payload: input.clone(),
            tool_use_id: call.map(ToString::to_string),
        };
        let ask = self.callback.ask.clone();
        let answer = apart(async move { ask(input).await });
        let reply = match tokio::time::timeout(TIMEOUT, answer).await {
            Ok(Ok(Value::Object(said))) if !said.is_empty() => HookReply::Object(said),
            Ok(Ok(_)) => HookReply::Nothing,
            Ok(Err(error)) => HookReply::no_answer(error),
            Err(_) => HookReply::no_answer(format!("no answer within {} s", TIMEOUT.as_secs())),
        };
        reply.into()
    }
}
