//! Questions of runs.

use ah_conversation::{Question, SessionId, StoreError, json};
use ah_store::fleet::{Asker, Questions, Waiting, digest};
use async_trait::async_trait;
use tokio_postgres::types::Type;

use crate::connection::{Parameters, Postgres};

/// Asks, or becomes the asker of the same question that waits. One whose answer was taken is a new one, unless the same call asks
/// again.
const ASK: &str = "
    INSERT INTO ah.questions AS q (session, digest, body, asker) VALUES ($1, $2, $3, $4)
    ON CONFLICT (tenant, session, digest) DO UPDATE SET
        asker = excluded.asker, is_taken = q.is_taken AND $5,
        number = CASE WHEN q.is_taken AND NOT $5 THEN excluded.number ELSE q.number END,
        answer = CASE WHEN q.is_taken AND NOT $5 THEN NULL ELSE q.answer END";

#[async_trait]
impl Questions for Postgres {
    async fn ask(
        &self,
        session: &SessionId,
        question: &Question,
        asker: &Asker<'_>,
    ) -> Result<(), StoreError> {
        // What a text of PostgreSQL cannot have is escaped in JSON.
        let body = question.body();
        let digest = digest(&body, asker.call);
        let parameters: Parameters<'_> = &[
            (&session.as_str(), Type::TEXT),
            (&digest, Type::TEXT),
            (&body, Type::TEXT),
            (&asker.name, Type::TEXT),
            (&asker.asks_again(), Type::BOOL),
        ];
        self.rows("cannot write", ASK, parameters).await?;
        Ok(())
    }

    async fn take_answer(
        &self,
        session: &SessionId,
        asker: &str,
    ) -> Result<Option<Vec<String>>, StoreError> {
        let take = "UPDATE ah.questions SET is_taken = true
                    WHERE tenant = current_user AND session = $1 AND asker = $2 AND answer IS NOT NULL
                    RETURNING answer";
        let parameters: Parameters<'_> = &[(&session.as_str(), Type::TEXT), (&asker, Type::TEXT)];
        let rows = self.rows("cannot write", take, parameters).await?;
        let answer = rows.first().map(|row| row.get::<_, String>(0));
        Ok(answer.and_then(|answer| json::from_str(&answer).ok()))
    }

    async fn withdraw_question(&self, session: &SessionId, asker: &str) -> Result<(), StoreError> {
        let delete = "DELETE FROM ah.questions
                      WHERE tenant = current_user AND session = $1 AND asker = $2 AND answer IS NULL";
        let parameters: Parameters<'_> = &[(&session.as_str(), Type::TEXT), (&asker, Type::TEXT)];
        self.rows("cannot write", delete, parameters).await?;
        Ok(())
    }

    async fn answer(
        &self,
        session: &SessionId,
        number: i64,
        answers: &[String],
    ) -> Result<bool, StoreError> {
        let answers = serde_json::to_string(answers).unwrap_or_default();
        let rows = self
            .rows(
                "cannot write",
                "UPDATE ah.questions SET answer = $3
                 WHERE tenant = current_user AND session = $1 AND number = $2 AND answer IS NULL RETURNING number",
                &[
                    (&session.as_str(), Type::TEXT),
                    (&number, Type::INT8),
                    (&answers, Type::TEXT),
                ],
            )
            .await?;
        Ok(!rows.is_empty())
    }

    async fn questions(&self, session: &SessionId) -> Result<Vec<Waiting>, StoreError> {
        let rows = self
            .rows(
                "cannot read",
                "SELECT number, body FROM ah.questions q
                 WHERE tenant = current_user AND session = $1 AND answer IS NULL AND EXISTS (
                     SELECT FROM ah.runs r
                     WHERE r.tenant = q.tenant AND r.session = q.session AND state IN ('queued', 'running'))
                 ORDER BY number",
                &[(&session.as_str(), Type::TEXT)],
            )
            .await?;
        let waiting = rows.iter().filter_map(|row| {
            let question = Question::of(row.get(1))?;
            let number = row.get(0);
            Some(Waiting { number, question })
        });
        Ok(waiting.collect())
    }
}
