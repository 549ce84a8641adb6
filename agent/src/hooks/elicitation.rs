//! Questions of MCP servers to the user: hooks may answer them before the host, and change its answer.

use std::sync::Arc;

use ah_conversation::{Elicitation, ElicitationAnswer, Host, Wanted};
use async_trait::async_trait;
use serde_json::{Value, json};

use super::{HookEvent, HookMoment, HookVerdict, Hooks};
use crate::Frontend;

/// A host whose answers to servers' questions pass through the hooks `Elicitation` and `ElicitationResult`.
pub struct HookedElicitations {
    hooks: Hooks,
    frontend: Arc<dyn Frontend>,
}

impl HookedElicitations {
    /// Creates a host that asks `hooks` and `frontend`.
    pub fn new(hooks: Hooks, frontend: Arc<dyn Frontend>) -> Self {
        Self { hooks, frontend }
    }

    async fn ask_hooks(&self, event: HookEvent, server: &str, more: Value) -> HookVerdict {
        let moment = HookMoment {
            event,
            kind: server,
            mode: None,
            call: None,
            more,
        };
        self.hooks.ask(moment, &*self.frontend).await
    }
}

#[async_trait]
impl Host for HookedElicitations {
    fn inner_host(&self) -> Option<&dyn Host> {
        Some(&*self.frontend)
    }

    async fn elicitation(&self, question: &Elicitation) -> ElicitationAnswer {
        let server = &*question.server;
        let asked = self.ask_hooks(HookEvent::Elicitation, server, question.to_value());
        let answer = match decided(asked.await) {
            Some(answer) => return answer,
            None => self.frontend.elicitation(question).await,
        };
        let mut more = json!({"mcp_server_name": server, "action": answer.action()});
        match &question.wanted {
            Wanted::Form(_) => more["mode"] = json!("form"),
            Wanted::Visit { id, .. } => {
                more["mode"] = json!("url");
                more["elicitation_id"] = json!(id);
            }
        }
        if let ElicitationAnswer::Accept(Some(content)) = &answer {
            more["content"] = content.clone();
        }
        let told = self.ask_hooks(HookEvent::ElicitationResult, server, more);
        decided(told.await).unwrap_or(answer)
    }
}

/// Returns the answer that hooks gave, if they did; a block declines.
fn decided(verdict: HookVerdict) -> Option<ElicitationAnswer> {
    let refusal = verdict.block.or(verdict.stop_reason);
    let refused = refusal.map(|_| ElicitationAnswer::Decline);
    refused.or(verdict.elicitation)
}
