//! Subagents in tests: a conversation in the session's store, and models.

use std::path::PathBuf;
use std::sync::Arc;

use ah_conversation::{
    Branch, Mailbox, Model, Models, OutputPage, Provider, ProviderError, Record, SharedState,
    Store, StoreError, ToolUseId, Transcript,
};
use async_trait::async_trait;

use super::Mortal;

/// Conversation of a subagent in such a store.
pub(super) struct Below {
    pub(super) store: Arc<dyn Store>,
    pub(super) mortal: Arc<Mortal>,
}

#[async_trait]
impl Store for Below {
    async fn load(&self) -> Result<Transcript, StoreError> {
        self.store.load().await
    }

    async fn append(&self, records: Vec<Record>) -> Result<(), StoreError> {
        self.mortal.survive()?;
        self.store.append(records).await
    }

    async fn output(
        &self,
        call: &ToolUseId,
        offset: usize,
        limit: usize,
    ) -> Result<Option<OutputPage>, StoreError> {
        self.store.output(call, offset, limit).await
    }

    fn spool_path(&self, call: &ToolUseId) -> PathBuf {
        self.store.spool_path(call)
    }

    fn mailbox(&self) -> Option<&dyn Mailbox> {
        self.store.mailbox()
    }

    fn shared(&self) -> Option<&dyn SharedState> {
        self.store.shared()
    }

    fn branch(self: Arc<Self>, branch: Branch) -> Arc<dyn Store> {
        self.mortal.clone().branch(branch)
    }
}

/// The same model under every name.
pub(super) struct One(pub(super) Arc<dyn Provider>);

impl Models for One {
    fn connect(&self, _: Option<&str>) -> Result<Arc<dyn Provider>, ProviderError> {
        Ok(self.0.clone())
    }

    fn describe(&self, _: &str, _: &str) -> Model {
        self.0.model().clone()
    }
}
