//! Sessions of other programs, as [`import`](crate::import) reads them, are stored among ours.

use std::sync::Arc;

use ah_config::{Config, Error};
use ah_conversation::{Record, SessionId, Store as _};
use ah_engine::sessions::place::{sessions, take_new};
use ah_store::OpenError;

use crate::import::Imported;

/// Outcome of an import.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// A new session has this id.
    New(SessionId),
    /// It has been imported before, or is one of ours.
    Known(SessionId),
    /// There is nothing in it.
    Empty,
}

/// Stores a session among those of the working directory, unless it is there.
///
/// # Errors
///
/// If the sessions cannot be read or written.
pub async fn store(config: &Config, imported: &Imported) -> Result<Outcome, Error> {
    let Some(last) = imported.messages.last() else {
        return Ok(Outcome::Empty);
    };
    let sessions = sessions(config);
    for head in sessions.list()? {
        let uuid = head.uuid.unwrap_or_else(|| ah_ids::uuid_of(&head.id));
        if uuid.eq_ignore_ascii_case(&imported.uuid) {
            return Ok(Outcome::Known(head.id));
        }
    }
    let session = match take_new(config, last.created_at) {
        Ok(session) => session,
        Err(OpenError::Busy(holder)) => return Err(ah_engine::busy(&holder)),
        Err(OpenError::Store(error)) => return Err(error.into()),
    };
    session.set_uuid(imported.uuid.clone()).await?;
    if let Some(name) = imported
        .name
        .as_ref()
        .filter(|name| !name.trim().is_empty())
        && sessions.named(name).is_ok_and(|named| named.is_none())
    {
        session.set_name(name.clone()).await?;
    }
    let records = imported.messages.iter().cloned().map(Arc::new);
    session
        .append(records.map(Record::Message).collect())
        .await?;
    Ok(Outcome::New(session.id().clone()))
}
