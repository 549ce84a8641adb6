//! Limits that all workers share. The tables are the owner's: a tenant takes slots and spends by functions, and changes
//! nothing else.

use std::time::{Duration, Instant};

use ah_conversation::StoreError;
use ah_store::fleet::{Admission, Limit, Limits};
use async_trait::async_trait;
use tokio_postgres::types::Type;

use crate::connection::{Parameters, Postgres};

/// How long it is believed that no limit concerns a model, instead of asking before each request.
const UNLIMITED: Duration = Duration::from_secs(1);

const SET: &str = "
    INSERT INTO ah.limits (tenant, model, per_minute, budget)
    VALUES (coalesce(nullif($1, ''), current_user), $2, $3, $4)
    ON CONFLICT (tenant, model) DO UPDATE SET
        per_minute = excluded.per_minute, budget = excluded.budget, next_at = DEFAULT";

#[async_trait]
impl Limits for Postgres {
    async fn admit(&self, model: &str) -> Result<Admission, StoreError> {
        let known = self.unlimited.lock().await.get(model).copied();
        if known.is_some_and(|since| since.elapsed() < UNLIMITED) {
            return Ok(Admission::After(Duration::ZERO));
        }
        let slot = "SELECT wait, is_spent FROM ah.slot($1)";
        let parameters: Parameters<'_> = &[(&model, Type::TEXT)];
        let row = self.row("cannot write", slot, parameters).await?;
        if row.get(1) {
            return Ok(Admission::Spent);
        }
        let wait: Option<f64> = row.get(0);
        if wait.is_none() {
            let mut unlimited = self.unlimited.lock().await;
            unlimited.insert(model.to_owned(), Instant::now());
        }
        let wait = wait.unwrap_or(0.0).max(0.0);
        Ok(Admission::After(Duration::from_secs_f64(wait)))
    }

    async fn spend(&self, cost: i64) -> Result<(), StoreError> {
        let spend = "SELECT ah.spend($1)";
        self.rows("cannot write", spend, &[(&cost, Type::INT8)])
            .await?;
        Ok(())
    }

    async fn set_limit(&self, limit: &Limit) -> Result<(), StoreError> {
        let (tenant, model) = (&limit.tenant, &limit.model);
        let action = "cannot write";
        if limit.is_one() {
            let parameters: Parameters<'_> = &[
                (tenant, Type::TEXT),
                (model, Type::TEXT),
                (&limit.per_minute, Type::FLOAT8),
                (&limit.budget, Type::INT8),
            ];
            self.rows(action, SET, parameters).await?;
        } else {
            let delete = "DELETE FROM ah.limits
                          WHERE tenant = coalesce(nullif($1, ''), current_user) AND model = $2";
            let parameters: Parameters<'_> = &[(tenant, Type::TEXT), (model, Type::TEXT)];
            self.rows(action, delete, parameters).await?;
        }
        self.unlimited.lock().await.clear();
        Ok(())
    }

    async fn limits(&self) -> Result<Vec<Limit>, StoreError> {
        let all =
            "SELECT tenant::text, model, per_minute, budget FROM ah.limits ORDER BY tenant, model";
        let rows = self.rows("cannot read", all, &[]).await?;
        let limit = rows.iter().map(|row| Limit {
            tenant: row.get(0),
            model: row.get(1),
            per_minute: row.get(2),
            budget: row.get(3),
        });
        Ok(limit.collect())
    }
}
