//! Questions of runs, answered from elsewhere.

use ah_conversation::{Question, SessionId, StoreError, ToolUseId};
use async_trait::async_trait;
use sha2::{Digest as _, Sha256};

/// The questions of a fleet. Each has a number of its own, so an answer is never one to another question.
#[async_trait]
pub trait Questions: Send + Sync {
    /// Asks a question. If the session asks the same already (its worker died), that question and its answer become this
    /// asker's.
    async fn ask(
        &self,
        session: &SessionId,
        question: &Question,
        asker: &Asker<'_>,
    ) -> Result<(), StoreError>;

    /// Takes the answer to the question of `asker`, one text for each choice; `None` while there is none. An answer that was
    /// taken is taken by another asker only if their call asks again.
    async fn take_answer(
        &self,
        session: &SessionId,
        asker: &str,
    ) -> Result<Option<Vec<String>>, StoreError>;

    /// Withdraws the question of `asker` unless it was answered.
    async fn withdraw_question(&self, session: &SessionId, asker: &str) -> Result<(), StoreError>;

    /// Answers a question; returns whether it still waited.
    async fn answer(
        &self,
        session: &SessionId,
        number: i64,
        answers: &[String],
    ) -> Result<bool, StoreError>;

    /// Returns the questions of a session that wait for an answer, oldest first.
    async fn questions(&self, session: &SessionId) -> Result<Vec<Waiting>, StoreError>;
}

/// Who asks a question.
#[derive(Debug, Clone, Copy)]
pub struct Asker<'a> {
    /// A name that nobody else has.
    pub name: &'a str,
    /// The call that it is about, if there is one.
    pub call: Option<&'a ToolUseId>,
    /// Whether a worker that has died may have asked for the same call, and have taken the answer with it.
    pub is_again: bool,
}

impl Asker<'_> {
    /// Whether an answer that was taken is this asker's too: only for the same call. A question about no call is a new one each
    /// time, as what it is asked for may be another command.
    pub fn asks_again(&self) -> bool {
        self.call.is_some() && self.is_again
    }
}

/// A question that waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waiting {
    /// Its number.
    pub number: i64,
    /// The question.
    pub question: Question,
}

/// Returns what names this question of this call.
pub fn digest(body: &str, call: Option<&ToolUseId>) -> String {
    let call = call.map(ToolUseId::as_str).unwrap_or_default();
    let digest = Sha256::new().chain_update(call).chain_update([0]);
    let digest = digest.chain_update(body).finalize();
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}
