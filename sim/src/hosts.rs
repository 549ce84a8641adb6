//! Hosts: they are asked about calls, and allow, deny or change them, late or never.

use std::sync::Arc;
use std::time::Duration;

use ah_conversation::{
    Elicitation, ElicitationAnswer, Host, HostPermission, Nobody, PermissionAnswer,
    PermissionRequest,
};
use async_trait::async_trait;
use serde_json::json;

use crate::law::Law;
use crate::permits::Permit;
use crate::plant::PlantedFault;
use crate::world::World;

/// Seconds that an answer takes at most; in simulated time.
const PATIENCE: usize = 5_000;

/// The host of a process.
pub(crate) struct SimulatedHost(pub(crate) Arc<World>);

#[async_trait]
impl Host for SimulatedHost {
    async fn permission(&self, request: &PermissionRequest) -> PermissionAnswer {
        let world = &self.0;
        let (id, input) = (&request.call.id, request.call.input.to_value());
        let (said, late) = {
            let mut state = world.state();
            if let Some(fault) = state.permits.question_fault(id, &input) {
                state.fail(Law::Permitted.broken(fault));
            }
            let said = state.chance.below(10);
            let late = match state.chance.one_in(3) {
                true => state.chance.below(PATIENCE),
                false => 0,
            };
            (if state.is_calm { 9 } else { said }, late)
        };
        world.moment().await;
        if said == 0 && world.state().will_be_stopped {
            world.state().tell(format!("nobody answers about {id}"));
            world.inject().await;
            std::future::pending::<()>().await;
        }
        tokio::time::sleep(Duration::from_secs(late as u64)).await;
        let mut state = world.state();
        let (permit, answer, words) = match said {
            1 | 2 => (Permit::Denied, deny(said == 2), "denied"),
            3 => {
                let mut input = request.call.input.to_value();
                input["file"] = json!(0);
                let answer = PermissionAnswer::Allow {
                    input: Some(input.clone().into()),
                    updates: Vec::new(),
                };
                (Permit::Allowed(input), answer, "allowed with another input")
            }
            _ => (Permit::Allowed(input), allow(), "allowed"),
        };
        state.tell(format!("{id} is {words}"));
        state.permits.note(id, permit.clone());
        if permit == Permit::Denied && state.planted(PlantedFault::DenialIgnored, 1) {
            return allow();
        }
        answer
    }

    async fn new_host(&self, host: &str) -> HostPermission {
        Nobody.new_host(host).await
    }

    async fn elicitation(&self, question: &Elicitation) -> ElicitationAnswer {
        Nobody.elicitation(question).await
    }

    fn elicitation_complete(&self, _: &str, _: &str) {}
}

fn allow() -> PermissionAnswer {
    PermissionAnswer::Allow {
        input: None,
        updates: Vec::new(),
    }
}

fn deny(interrupt: bool) -> PermissionAnswer {
    PermissionAnswer::Deny {
        message: "No.".to_owned(),
        interrupt,
    }
}
