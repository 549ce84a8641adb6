//! What answers cost that were to be summaries and are none. They are paid for, so they count for the budget, and with the
//! message that takes the summary's place.

use ah_conversation::{
    ErrorClass, Limits, ModelUsage, ProviderError, Response, RunTotals, Spent, Usage,
};

/// Discarded answers to one wish for a summary.
#[derive(Debug, Default)]
pub(crate) struct Discarded(Vec<Response>);

impl Discarded {
    pub(crate) fn add(&mut self, response: Response) {
        self.0.push(response);
    }

    /// Returns their usage by model.
    pub(crate) fn usage(&self) -> Vec<ModelUsage> {
        ModelUsage::of(self.0.iter())
    }

    /// Returns the response of the summary with what the others have cost.
    pub(crate) fn with(mut self, response: Response) -> Response {
        self.0.push(response.clone());
        self.sum().unwrap_or(response)
    }

    /// Returns the last response with what all have cost; `None` if there is none.
    pub(crate) fn sum(self) -> Option<Response> {
        let mut responses = self.0.into_iter().rev();
        let last = responses.next()?;
        Some(responses.fold(last, |sum, earlier| Response {
            usage: sum.usage + earlier.usage,
            cost: [sum.cost, earlier.cost].into_iter().sum(),
            latency_ms: sum.latency_ms + earlier.latency_ms,
            ..sum
        }))
    }

    /// Returns whether a run that has used `totals` besides may ask once more.
    pub(crate) fn leave_room(&self, totals: &RunTotals, limits: &Limits) -> bool {
        let spent = Spent::from(totals) + limits.spent_beside;
        let costs = self.0.iter().map(|it| it.cost.unwrap_or_default());
        let cost = spent.cost + costs.sum();
        let used = self
            .0
            .iter()
            .map(|it| it.usage)
            .fold(Usage::default(), |a, b| a + b);
        let tokens = spent.tokens.saturating_add(used.total());
        limits.max_budget.is_none_or(|budget| cost < budget)
            && limits.max_tokens.is_none_or(|max| tokens <= max)
    }
}

/// The error in the place of another request.
pub(crate) fn used_up() -> ProviderError {
    ProviderError::new(ErrorClass::Unknown, "the budget of this run is used up")
}

#[cfg(test)]
mod tests {
    use ah_conversation::{Cost, StopReason};

    use super::*;

    fn response(tokens: u64, cost: u128) -> Response {
        Response {
            stop_reason: StopReason::EndTurn,
            usage: Usage {
                input_tokens: tokens,
                ..Usage::default()
            },
            cost: Some(Cost(cost)),
            model: "m".into(),
            provider: "p".into(),
            latency_ms: 1,
            request_id: None,
            opaque: None,
        }
    }

    #[test]
    fn discarded_answers_count() {
        let mut discarded = Discarded::default();
        let limits = Limits {
            max_budget: Some(Cost(10)),
            max_tokens: Some(300),
            ..Limits::default()
        };
        let totals = RunTotals::default();
        assert!(discarded.leave_room(&totals, &limits));
        discarded.add(response(100, 4));
        assert!(discarded.leave_room(&totals, &limits));
        discarded.add(response(100, 6));
        assert!(
            !discarded.leave_room(&totals, &limits),
            "the money is spent"
        );
        let whole = discarded.with(response(50, 1));
        assert_eq!(
            (whole.usage.input_tokens, whole.cost),
            (250, Some(Cost(11)))
        );
        assert!(Discarded::default().sum().is_none());
    }
}
