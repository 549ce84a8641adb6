//! What the agents of a run have spent, so that its budget is one for all of them: an agent that works beside others goes by
//! what all have spent so far, not by what was left when it began.

use std::collections::BTreeMap;
use std::sync::Arc;

use ah_conversation::{Message, RunTotals, Spent, ToolUseId};
use parking_lot::Mutex;

/// The shares of the agents of a run, by their ids; the main conversation has none.
#[derive(Debug, Clone, Default)]
pub(crate) struct Spending(Arc<Mutex<Shares>>);

type Shares = BTreeMap<Option<String>, Share>;

#[derive(Debug, Default)]
struct Share {
    /// Spent in its present run.
    now: Spent,
    /// The part of it that a former run of the main conversation has paid for.
    counted: Spent,
    /// Spent in its former runs, and counted nowhere else.
    before: Spent,
    /// The call whose result says what it has spent in its present run.
    told_by: Option<ToolUseId>,
}

impl Share {
    /// Returns the part of the present run that this budget pays for.
    fn due(&self) -> Spent {
        self.now - self.counted
    }
}

impl Spending {
    /// A run of an agent begins. That of the main conversation begins a new budget: what agents that still run have spent until now is
    /// paid for.
    pub(crate) fn begin(&self, agent: Option<&String>) {
        let mut shares = self.0.lock();
        match agent {
            None => {
                shares.remove(&None);
                for share in shares.values_mut() {
                    share.counted = share.now;
                    share.before = Spent::default();
                    share.told_by = None;
                }
            }
            Some(_) => {
                let share = shares.entry(agent.cloned()).or_default();
                *share = Share {
                    before: share.before + share.due(),
                    ..Share::default()
                };
            }
        }
    }

    /// Notes what an agent has spent in its run.
    pub(crate) fn note(&self, agent: Option<&String>, totals: &RunTotals) {
        self.0.lock().entry(agent.cloned()).or_default().now = totals.into();
    }

    /// The result of this call will say what the agent has spent.
    pub(crate) fn told_by(&self, agent: &str, call: &ToolUseId) {
        if let Some(share) = self.0.lock().get_mut(&Some(agent.to_owned())) {
            share.told_by = Some(call.clone());
        }
    }

    /// The results in a message are part of what the agent above has spent.
    pub(crate) fn settle(&self, message: &Message) {
        let mut shares = self.0.lock();
        for result in message.tool_results() {
            let told = Some(&result.tool_use_id);
            let told = shares.values_mut().filter(|it| it.told_by.as_ref() == told);
            told.for_each(|share| {
                share.now = Spent::default();
                share.counted = Spent::default();
            });
        }
    }

    /// Returns what was spent in the run beside the present run of an agent.
    pub(crate) fn beside(&self, agent: Option<&String>) -> Spent {
        let shares = self.0.lock();
        let all = shares.values().map(|share| share.before + share.due());
        let own = shares.get(&agent.cloned()).map(|share| share.now);
        all.fold(Spent::default(), |sum, share| sum + share) - own.unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use ah_conversation::Cost;

    use super::*;

    fn cost(spent: u128) -> RunTotals {
        RunTotals {
            cost: Cost(spent),
            ..RunTotals::default()
        }
    }

    #[test]
    fn a_run_does_not_pay_for_what_an_agent_has_spent_before() {
        let (spending, agent) = (Spending::default(), "a".to_owned());
        spending.begin(None);
        spending.begin(Some(&agent));
        spending.note(Some(&agent), &cost(5));
        assert_eq!(spending.beside(None).cost.0, 5);
        // It works beside the next run.
        spending.begin(None);
        assert_eq!(spending.beside(None).cost.0, 0);
        spending.note(Some(&agent), &cost(7));
        assert_eq!(spending.beside(None).cost.0, 2);
        spending.begin(Some(&agent));
        spending.note(Some(&agent), &cost(1));
        assert_eq!(spending.beside(None).cost.0, 3);
        assert_eq!(spending.beside(Some(&agent)).cost.0, 2);
    }
}
