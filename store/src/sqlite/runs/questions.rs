//! Questions of the runs of a folder.

use ah_conversation::{Question, SessionId, StoreError, json};
use async_trait::async_trait;
use rusqlite::{OptionalExtension as _, params};

use super::LocalFleet;
use crate::fleet::{Asker, Questions, Waiting, digest};

#[async_trait]
impl Questions for LocalFleet {
    async fn ask(
        &self,
        session: &SessionId,
        question: &Question,
        asker: &Asker<'_>,
    ) -> Result<(), StoreError> {
        let body = question.body();
        let digest = digest(&body, asker.call);
        self.with("cannot write", |connection| {
            connection.execute(
                "DELETE FROM questions WHERE session = ? AND digest = ? AND is_taken AND NOT ?",
                params![session.as_str(), digest, asker.asks_again()],
            )?;
            connection.execute(
                "INSERT INTO questions (session, digest, body, asker) VALUES (?, ?, ?, ?)
                 ON CONFLICT (session, digest) DO UPDATE SET asker = excluded.asker",
                params![session.as_str(), digest, body, asker.name],
            )
        })?;
        Ok(())
    }

    async fn take_answer(
        &self,
        session: &SessionId,
        asker: &str,
    ) -> Result<Option<Vec<String>>, StoreError> {
        let answer: Option<String> = self.with("cannot write", |connection| {
            connection
                .query_one(
                    "UPDATE questions SET is_taken = 1 WHERE session = ? AND asker = ? AND answer IS NOT NULL
                     RETURNING answer",
                    params![session.as_str(), asker],
                    |row| row.get(0),
                )
                .optional()
        })?;
        Ok(answer.and_then(|answer| json::from_str(&answer).ok()))
    }

    async fn withdraw_question(&self, session: &SessionId, asker: &str) -> Result<(), StoreError> {
        self.with("cannot write", |connection| {
            connection.execute(
                "DELETE FROM questions WHERE session = ? AND asker = ? AND answer IS NULL",
                params![session.as_str(), asker],
            )
        })?;
        Ok(())
    }

    async fn answer(
        &self,
        session: &SessionId,
        number: i64,
        answers: &[String],
    ) -> Result<bool, StoreError> {
        let answers = serde_json::to_string(answers).unwrap_or_default();
        let changed = self.with("cannot write", |connection| {
            connection.execute(
                "UPDATE questions SET answer = ? WHERE session = ? AND number = ? AND answer IS NULL",
                params![answers, session.as_str(), number],
            )
        })?;
        Ok(changed > 0)
    }

    async fn questions(&self, session: &SessionId) -> Result<Vec<Waiting>, StoreError> {
        self.with("cannot read", |connection| {
            let mut statement = connection.prepare(
                "SELECT number, body FROM questions q
                 WHERE session = ? AND answer IS NULL AND EXISTS (
                     SELECT 1 FROM runs WHERE session = q.session AND state IN ('queued', 'running'))
                 ORDER BY number",
            )?;
            let rows = statement.query_map([session.as_str()], |row| {
                let question = Question::of(row.get_ref(1)?.as_str()?);
                let number = row.get(0)?;
                Ok(question.map(|question| Waiting { number, question }))
            })?;
            rows.filter_map(Result::transpose).collect()
        })
    }
}
