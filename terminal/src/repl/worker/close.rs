//! The end of the conversation at this terminal.

use ah_config::Error;
use ah_engine::sessions::folders::give_up;

use super::super::side_question::give_up as give_up_questions;
use super::{SessionWorker, Worked};
use crate::tell_notices;

impl SessionWorker {
    /// Closes the session, so that another process can open it. One without messages is removed.
    ///
    /// # Errors
    ///
    /// If it cannot be stored.
    pub(super) async fn close(self, is_interrupted: bool) -> Result<Worked, Error> {
        let Self {
            factory,
            session,
            store,
            left,
            asking,
            ..
        } = self;
        let is_empty = session.transcript().last().is_none();
        give_up_questions(&asking).await;
        session.close("other").await?;
        tell_notices(&store).await;
        let session = Some(store.id().to_string()).filter(|_| !is_empty);
        if is_empty {
            give_up(store, &factory.opening.config).await;
        }
        Ok(Worked {
            is_interrupted,
            left: left.map(|left| left.of(session.clone())),
            session,
        })
    }
}
