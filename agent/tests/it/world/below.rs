//! Subagents in tests: a conversation in the session's store, and models.

use std::sync::Arc;

use ah_conversation::{
    Branch, Mailbox, Model, Models, Provider, ProviderError, Record, Store, StoreError, StoreLayer,
};
use async_trait::async_trait;

use super::Mortal;

/// Conversation of a subagent in such a store.
pub(super) struct Below {
    pub(super) store: Arc<dyn Store>,
    pub(super) mortal: Arc<Mortal>,
}

#[async_trait]
impl StoreLayer for Below {
    fn below(&self) -> &dyn Store {
        &*self.store
    }

    async fn append(&self, records: Vec<Record>) -> Result<(), StoreError> {
        self.mortal.survive()?;
        self.store.append(records).await
    }

    fn mailbox(&self) -> Option<&dyn Mailbox> {
        self.store.mailbox()
    }

    fn branch(self: Arc<Self>, branch: Branch) -> Arc<dyn Store> {
        StoreLayer::branch(self.mortal.clone(), branch)
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
