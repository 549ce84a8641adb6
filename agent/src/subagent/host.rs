//! Questions of a session below another one: its host asks that of the session above.

use std::sync::Arc;

use ah_conversation::{
    Elicitation, ElicitationAnswer, Host, HostPermission, PermissionAnswer, PermissionRequest,
};
use async_trait::async_trait;

use crate::Controls;

/// Host of a session below another one.
pub(super) struct HostBelow {
    /// Host of the session above.
    pub(super) outer: Arc<dyn Host>,
    /// Controls of the session above, which learns what was allowed.
    pub(super) controls: Controls,
    /// Id and definition name of the subagent, if it is one.
    pub(super) agent: Option<(String, String)>,
    /// Whether it may ask for permissions.
    pub(super) asks: bool,
}

#[async_trait]
impl Host for HostBelow {
    async fn permission(&self, request: &PermissionRequest) -> PermissionAnswer {
        if !self.asks {
            return PermissionAnswer::nobody(request);
        }
        let request = PermissionRequest {
            agent: request.agent.clone().or_else(|| self.agent.clone()),
            ..request.clone()
        };
        let answer = self.outer.permission(&request).await;
        self.controls.learn(&answer);
        answer
    }

    async fn new_host(&self, host: &str) -> HostPermission {
        self.outer.new_host(host).await
    }

    async fn elicitation(&self, question: &Elicitation) -> ElicitationAnswer {
        self.outer.elicitation(question).await
    }

    fn elicitation_complete(&self, server: &str, id: &str) {
        self.outer.elicitation_complete(server, id);
    }
}

#[cfg(test)]
mod tests {
    use ah_testkit::asked::{ALL, Asked, ask_all};

    use super::*;

    #[tokio::test]
    async fn the_host_of_a_session_below_passes_everything_on() {
        let asked = Arc::new(Asked::default());
        let below = HostBelow {
            outer: asked.clone(),
            controls: Controls::default(),
            agent: None,
            asks: true,
        };
        ask_all(&below).await;
        assert_eq!(asked.take(), ALL);
    }
}
