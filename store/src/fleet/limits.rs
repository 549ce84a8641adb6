//! Limits that all workers share: requests to models by the minute, and money.

use std::time::Duration;

use ah_conversation::StoreError;
use async_trait::async_trait;

/// The limits of a fleet.
#[async_trait]
pub trait Limits: Send + Sync {
    /// Takes the next slot for a request to `model` under all limits that concern it, in one statement. A slot that is
    /// not used is lost.
    async fn admit(&self, model: &str) -> Result<Admission, StoreError>;

    /// Takes what requests have cost, in 10⁻¹² US dollars, from the budgets. A retry after a lost reply may charge twice, never
    /// too little.
    async fn spend(&self, cost: i64) -> Result<(), StoreError>;

    /// Sets a limit in the place of that for the same tenant and model, or removes it if it limits nothing.
    async fn set_limit(&self, limit: &Limit) -> Result<(), StoreError>;

    /// Returns the limits that concern this tenant.
    async fn limits(&self) -> Result<Vec<Limit>, StoreError>;
}

/// Whether a request may be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Admission {
    /// After this time.
    After(Duration),
    /// A budget is spent.
    Spent,
}

/// What stands for all models, or all tenants.
pub const ALL: &str = "*";

/// A limit.
#[derive(Debug, Clone, PartialEq)]
pub struct Limit {
    /// The tenant: a role of the database, or [`ALL`]. On one machine there is one, without a name.
    pub tenant: String,
    /// The model, or [`ALL`].
    pub model: String,
    /// Requests per minute, evenly spaced; any number if `None`.
    pub per_minute: Option<f64>,
    /// What may still be spent, in 10⁻¹² US dollars; any amount if `None`. Only for all models.
    pub budget: Option<i64>,
}

impl Limit {
    /// Returns whether any limit is set.
    pub fn is_one(&self) -> bool {
        self.per_minute.is_some() || self.budget.is_some()
    }
}
