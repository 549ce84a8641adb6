//! Questions of MCP servers to the user: hooks may answer them before the host, and change its answer.

use ah_conversation::{
    Elicitation, ElicitationAnswer, Host, HostPermission, PermissionAnswer, PermissionRequest,
    Wanted,
};
use async_trait::async_trait;
use serde_json::{Value, json};

use super::{HookEvent, HookMoment, HookVerdict, Hooks};
use crate::Audience;

/// A host whose answers to servers' questions pass through the hooks `Elicitation` and `ElicitationResult`.
pub struct HookedElicitations {
    hooks: Hooks,
    audience: Audience,
}

impl HookedElicitations {
    /// Creates a host that asks `hooks` and the host of `audience`.
    pub fn new(hooks: Hooks, audience: Audience) -> Self {
        Self { hooks, audience }
    }

    async fn ask_hooks(&self, event: HookEvent, server: &str, more: Value) -> HookVerdict {
        let moment = HookMoment {
            event,
            kind: server,
            mode: None,
            call: None,
            more,
        };
        self.hooks.ask(moment, &self.audience).await
    }
}

#[async_trait]
impl Host for HookedElicitations {
    async fn permission(&self, request: &PermissionRequest) -> PermissionAnswer {
        self.audience.host.permission(request).await
    }

    async fn new_host(&self, host: &str) -> HostPermission {
        self.audience.host.new_host(host).await
    }

    fn elicitation_complete(&self, server: &str, id: &str) {
        self.audience.host.elicitation_complete(server, id);
    }

    async fn elicitation(&self, question: &Elicitation) -> ElicitationAnswer {
        let server = &*question.server;
        let asked = self.ask_hooks(HookEvent::Elicitation, server, question.to_value());
        let answer = match decided(asked.await) {
            Some(answer) => return answer,
            None => self.audience.host.elicitation(question).await,
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use ah_testkit::asked::{ALL, Asked, ask_all};

    use super::*;
    use crate::hooks::HookSession;
    use crate::{Ready, SessionUpdate, Watcher};

    struct Unseen;

    impl Watcher for Unseen {
        fn update(&self, _: SessionUpdate<'_>) {}

        fn ready(&self) -> Option<Ready<'_>> {
            None
        }
    }

    #[tokio::test]
    async fn a_host_with_hooks_before_elicitations_passes_everything_on() {
        let asked = Arc::new(Asked::default());
        let audience = Audience::watching(Arc::new(Unseen)).with_host(asked.clone());
        let hooks = Hooks::new(Vec::new(), HookSession::default());
        ask_all(&HookedElicitations::new(hooks, audience)).await;
        assert_eq!(asked.take(), ALL);
    }
}
