//! Limits of the workers of a folder.

use std::time::Duration;

use ah_conversation::StoreError;
use async_trait::async_trait;
use rusqlite::params;

use super::LocalFleet;
use crate::fleet::{ALL, Admission, Limit, Limits};

/// Milliseconds by which a time has to lie in the future to tell that the clock was set back. Another worker may have read
/// the clock later, and written first.
const SET_BACK: i64 = 60_000;

#[async_trait]
impl Limits for LocalFleet {
    async fn admit(&self, model: &str) -> Result<Admission, StoreError> {
        let now = self.now_ms();
        self.with("cannot write", |connection| {
            let spent = "SELECT 1 FROM limits WHERE budget <= 0";
            if connection.prepare(spent)?.exists([])? {
                return Ok(Admission::Spent);
            }
            // If the last one was admitted in the future, the clock was set back, and what it said then says nothing.
            let mut take = connection.prepare(
                "UPDATE limits SET admitted_at = ?2,
                     next_at = iif(admitted_at > ?2 + ?3, ?2, max(next_at, ?2)) + 60000 / per_minute
                 WHERE model IN (?1, '*') AND per_minute IS NOT NULL RETURNING next_at - 60000 / per_minute - ?2",
            )?;
            let waits =
                take.query_map(params![model, now, SET_BACK], |row| row.get::<_, f64>(0))?;
            let longest = waits.collect::<Result<Vec<_>, _>>()?;
            let longest = longest.into_iter().fold(0.0, f64::max);
            Ok(Admission::After(Duration::from_secs_f64(longest / 1000.0)))
        })
    }

    async fn spend(&self, cost: i64) -> Result<(), StoreError> {
        self.with("cannot write", |connection| {
            let spend = "UPDATE limits SET budget = budget - ? WHERE budget IS NOT NULL";
            connection.execute(spend, [cost])
        })?;
        Ok(())
    }

    async fn set_limit(&self, limit: &Limit) -> Result<(), StoreError> {
        if !["", ALL].contains(&limit.tenant.as_str()) {
            return Err(StoreError {
                action: "cannot write to",
                path: self.path.clone(),
                reason: "the workers of a folder are one tenant".to_owned(),
                hint: Some("limits for others are set in PostgreSQL: `--store`".to_owned()),
            });
        }
        self.with("cannot write", |connection| {
            if !limit.is_one() {
                return connection.execute("DELETE FROM limits WHERE model = ?", [&limit.model]);
            }
            connection.execute(
                "INSERT INTO limits (model, per_minute, budget) VALUES (?, ?, ?)
                 ON CONFLICT (model) DO UPDATE SET
                     per_minute = excluded.per_minute, budget = excluded.budget, next_at = 0",
                params![limit.model, limit.per_minute, limit.budget],
            )
        })?;
        Ok(())
    }

    async fn limits(&self) -> Result<Vec<Limit>, StoreError> {
        self.with("cannot read", |connection| {
            let all = "SELECT model, per_minute, budget FROM limits ORDER BY model";
            let mut statement = connection.prepare(all)?;
            let rows = statement.query_map([], |row| {
                Ok(Limit {
                    tenant: String::new(),
                    model: row.get(0)?,
                    per_minute: row.get(1)?,
                    budget: row.get(2)?,
                })
            })?;
            rows.collect()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Sessions;
    use crate::fleet::Timing;

    /// A clock that was a day ahead, and was set right, blocks nothing for a day.
    #[tokio::test]
    async fn a_clock_that_is_set_back_holds_up_no_request() {
        let folder = tempfile::tempdir().unwrap();
        let fleet =
            LocalFleet::open(&Sessions::in_folder(folder.path()), Timing::default()).unwrap();
        let limit = Limit {
            tenant: String::new(),
            model: ALL.to_owned(),
            per_minute: Some(1.0),
            budget: None,
        };
        fleet.set_limit(&limit).await.unwrap();
        fleet.admit("m").await.unwrap();
        let shift = |days: i64| {
            fleet
                .with("cannot write", |connection| {
                    let shift =
                        "UPDATE limits SET next_at = next_at + ?1, admitted_at = admitted_at + ?1";
                    connection.execute(shift, [days * 86_400_000])
                })
                .unwrap();
        };
        shift(1);
        let admission = fleet.admit("m").await.unwrap();
        assert_eq!(admission, Admission::After(Duration::ZERO));
        // The next one waits its minute.
        let Admission::After(wait) = fleet.admit("m").await.unwrap() else {
            panic!("nothing is spent");
        };
        assert!((50..=60).contains(&wait.as_secs()), "{wait:?}");
    }
}
