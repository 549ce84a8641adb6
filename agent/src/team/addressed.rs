//! A conversation's store that also receives messages of the team.

use std::sync::Arc;
use std::time::Duration;

use ah_conversation::{Branch, Mail, MailKind, Mailbox, Record, Store, StoreError, StoreLayer};
use async_trait::async_trait;

use super::{Team, record};

/// The store of an agent of a team. A message of the team is consumed in the transaction that appends it.
struct Addressed {
    team: Arc<Team>,
    name: String,
    store: Arc<dyn Store>,
}

impl Team {
    /// Returns a store that also receives the messages for this agent of the team.
    pub(super) fn addressed(self: &Arc<Self>, name: &str, store: Arc<dyn Store>) -> Arc<dyn Store> {
        Arc::new(Addressed {
            team: self.clone(),
            name: name.to_owned(),
            store,
        })
    }
}

#[async_trait]
impl StoreLayer for Addressed {
    fn below(&self) -> &dyn Store {
        &*self.store
    }

    async fn append(&self, mut records: Vec<Record>) -> Result<(), StoreError> {
        let ids = records.iter().filter_map(|record| match record {
            Record::Message(message) => Some(&message.id),
            _ => None,
        });
        let read = self.team.without(&ids.collect::<Vec<_>>()).await;
        let Some((mut shared, state)) = read else {
            return self.store.append(records).await;
        };
        records.push(record(&state));
        self.store.append(records).await?;
        shared.state = state;
        Ok(())
    }

    fn mailbox(&self) -> Option<&dyn Mailbox> {
        Some(self)
    }

    fn branch(self: Arc<Self>, branch: Branch) -> Arc<dyn Store> {
        self.store.clone().branch(branch)
    }
}

#[async_trait]
impl Mailbox for Addressed {
    async fn mail(&self, kind: MailKind) -> Result<Vec<Mail>, StoreError> {
        let mut mail = self.store.mail(kind).await?;
        if kind == MailKind::Steer {
            mail.extend(self.team.letters(&self.name).await);
        }
        Ok(mail)
    }

    async fn wait_for_mail(&self, at_most: Duration) {
        self.store.wait_for_mail(at_most).await;
    }
}
