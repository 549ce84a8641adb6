//! Port: what is around the attempts of a worker. Where they run, and what carries on a session, is left to it.

use std::io;
use std::path::Path;
use std::sync::Arc;

use ah_agent::{Audience, RunOutcome, Stop};
use ah_config::Error;
use ah_conversation::Environment;
use ah_engine::model::Around;
use ah_engine::warn::Warn;
use ah_store::SessionStore;
use ah_store::fleet::Run;
use async_trait::async_trait;
use futures_util::future::LocalBoxFuture;

use crate::carried::Workspace;

/// An attempt that begins when it is called, and is polled where it has begun. Its end is reported when all that it has spawned is
/// dropped: what still holds the session would be in the way of the next attempt.
pub type Attempted = Box<dyn FnOnce() -> LocalBoxFuture<'static, Report> + Send>;

/// Reports the end of an attempt.
pub type Report = Box<dyn FnOnce() + Send>;

/// What is around attempts.
#[async_trait(?Send)]
pub trait Surroundings: Send + Sync {
    /// Returns a name that nobody else has.
    fn name(&self) -> String;

    /// Begins an attempt beside the others.
    ///
    /// # Errors
    ///
    /// If there is no room for it.
    fn begin(&self, attempt: Attempted) -> io::Result<()>;

    /// Returns the environment of a run in a folder.
    ///
    /// # Errors
    ///
    /// If there is no such folder.
    fn environment(&self, folder: &Path) -> Result<Environment, Error>;

    /// Makes the files of a session that carries them.
    ///
    /// # Errors
    ///
    /// If they cannot be made here.
    async fn files(&self, run: &Run, store: &SessionStore) -> Result<Option<Workspace>, Error>;

    /// Continues the session of a run to its end; returns nothing if there was nothing to do.
    ///
    /// # Errors
    ///
    /// If the session cannot be opened or written.
    async fn resume(
        &self,
        run: &Run,
        with: Resumed,
        stop: &Stop,
    ) -> Result<Option<RunOutcome>, Error>;
}

/// What the session of a run is continued with.
pub struct Resumed {
    /// Its store.
    pub store: Arc<SessionStore>,
    /// The files that it carries.
    pub files: Option<Arc<Workspace>>,
    /// What is put around each model that it asks.
    pub around: Around,
    /// Who watches it, and answers its questions.
    pub audience: Audience,
    /// Callback for warnings.
    pub warn: Warn,
}
