//! Hooks that live in the host: each is a callback that is asked over the link.

use std::sync::Arc;
use std::time::Duration;

use ah_agent::hooks::{Hook, HookAnswer, HookEvent, HookReply, Matcher};
use ah_conversation::ToolUseId;
use async_trait::async_trait;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::link::Link;

/// How long a callback may take where the host says nothing.
const TIMEOUT: Duration = Duration::from_secs(60);

/// The callbacks that a host has asked for, in their order, and what is wrong with others.
pub(crate) fn callbacks(
    hooks: &Map<String, Value>,
    link: &Arc<Link>,
) -> (Vec<Arc<dyn Hook>>, Vec<String>) {
    let (mut callbacks, mut faults) = (Vec::<Arc<dyn Hook>>::new(), Vec::new());
    for (name, matchers) in hooks {
        let event = name.parse::<HookEvent>();
        let matchers = Vec::<Asked>::deserialize(matchers).map_err(|error| error.to_string());
        let (event, matchers) = match (event, matchers) {
            (Ok(event), Ok(matchers)) => (event, matchers),
            (Err(fault), _) | (_, Err(fault)) => {
                faults.push(format!("the hooks of `{name}` are not asked: {fault}"));
                continue;
            }
        };
        for asked in matchers {
            let timeout = asked.timeout.map(Duration::try_from_secs_f64);
            let timeout = timeout.and_then(Result::ok).unwrap_or(TIMEOUT);
            for id in asked.hook_callback_ids {
                callbacks.push(Arc::new(Callback {
                    event,
                    matcher: Matcher::new(asked.matcher.as_deref()),
                    id,
                    timeout,
                    blocks_on_failure: asked.on_failure.as_deref() == Some("block"),
                    link: link.clone(),
                }));
            }
        }
    }
    (callbacks, faults)
}

/// A matcher as hosts send it.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Asked {
    matcher: Option<String>,
    #[serde(default)]
    hook_callback_ids: Vec<String>,
    timeout: Option<f64>,
    on_failure: Option<String>,
}

struct Callback {
    event: HookEvent,
    matcher: Matcher,
    id: String,
    timeout: Duration,
    blocks_on_failure: bool,
    link: Arc<Link>,
}

#[async_trait]
impl Hook for Callback {
    fn event(&self) -> HookEvent {
        self.event
    }

    fn matcher(&self) -> &Matcher {
        &self.matcher
    }

    fn name(&self) -> &str {
        &self.id
    }

    async fn ask(&self, input: &Value, call: Option<&ToolUseId>) -> HookAnswer {
        self.reply(input, call).await.into()
    }
}

impl Callback {
    async fn reply(&self, input: &Value, call: Option<&ToolUseId>) -> HookReply {
        let call = call.map_or_else(|| self.link.ids.fresh(), ToString::to_string);
        let question = self.link.ask(json!({
            "subtype": "hook_callback",
            "callback_id": self.id,
            "input": input,
            "tool_use_id": call,
        }));
        match tokio::time::timeout(self.timeout, question).await {
            Ok(Ok(Value::Object(said))) if said.is_empty() => HookReply::Nothing,
            Ok(Ok(Value::Object(said))) => HookReply::Object(said),
            Ok(Ok(_)) => HookReply::Nothing,
            Ok(Err(fault)) => self.failed(fault, self.blocks_on_failure),
            Err(_) => {
                let seconds = self.timeout.as_secs_f64();
                let fault = format!("it gave no answer within {seconds} s");
                // Whoever guards a tool and is silent has not let it pass.
                let guards = self.event == HookEvent::PreToolUse;
                self.failed(fault, guards || self.blocks_on_failure)
            }
        }
    }

    fn failed(&self, fault: String, blocks: bool) -> HookReply {
        match blocks {
            true => HookReply::Block(format!("the hook callback `{}` failed: {fault}", self.id)),
            false => HookReply::Failed(fault),
        }
    }
}
