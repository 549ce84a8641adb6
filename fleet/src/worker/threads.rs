//! Attempts on threads of their own, each with the settings of its folder.

use std::io;
use std::path::Path;
use std::sync::{Arc, mpsc};
use std::thread;

use ah_agent::{RunOutcome, Stop};
use ah_config::{Config, Error, Resolver};
use ah_conversation::{Clock as _, Environment, Store};
use ah_engine::Opening;
use ah_engine::assemble::{HostExtensions, SessionInputs};
use ah_engine::sessions::plan::{SessionChoice, SessionPlan};
use ah_ids::SystemClock;
use ah_store::SessionStore;
use ah_store::fleet::Run;
use async_trait::async_trait;
use tokio::runtime::Builder;

use super::around::{Attempted, Resumed, Surroundings};
use crate::carried::{self, Files, FilesFirst, Workspace};

/// Attempts on threads, which resolve the configuration of every run.
pub struct Threads(pub Resolver);

#[async_trait(?Send)]
impl Surroundings for Threads {
    fn name(&self) -> String {
        let host = rustix::system::uname();
        let host = host.nodename().to_string_lossy().into_owned();
        let id = SystemClock::default().message_id();
        format!("{host}-{}-{id}", std::process::id())
    }

    fn begin(&self, attempt: Attempted) -> io::Result<()> {
        let (began, has_begun) = mpsc::channel();
        let run = move || match Builder::new_current_thread().enable_all().build() {
            Ok(runtime) => {
                // Who began it waits.
                let _ = began.send(Ok(()));
                let report = runtime.block_on(attempt());
                runtime.shutdown_background();
                report();
            }
            Err(error) => drop(began.send(Err(error))),
        };
        thread::Builder::new().name("run".to_owned()).spawn(run)?;
        has_begun
            .recv()
            .unwrap_or_else(|gone| Err(io::Error::other(gone)))
    }

    fn environment(&self, folder: &Path) -> Result<Environment, Error> {
        there(folder)?;
        Ok(self.0.environment(folder))
    }

    async fn files(&self, run: &Run, store: &SessionStore) -> Result<Option<Workspace>, Error> {
        let Some(files) = Files::of(store).await? else {
            return Ok(None);
        };
        let environment = self.0.environment(&run.folder);
        let place = carried::place(&environment, &run.session)?;
        Ok(Some(
            Workspace::open(&environment, files, &place, store).await?,
        ))
    }

    async fn resume(
        &self,
        run: &Run,
        with: Resumed,
        stop: &Stop,
    ) -> Result<Option<RunOutcome>, Error> {
        let config = match &with.files {
            Some(files) => self.config(run, &files.folder().await?, files.told().await)?,
            None => self.config(run, &run.folder, None)?,
        };
        let opening = Opening::of(config)?;
        let inputs = SessionInputs {
            has_person: run.answer_within.is_some(),
            extensions: HostExtensions {
                store: Some(with.store.clone()),
                around: Some(with.around.clone()),
                conversation_store: with.files.as_ref().map(|files| files_first(&with, files)),
                ..HostExtensions::default()
            },
            ..opening.inputs(with.warn.clone())
        };
        let plan = SessionPlan {
            choice: SessionChoice::New,
            takes_over: true,
            ..SessionPlan::default()
        };
        let audience = with.audience;
        let mut opened = opening.open(&plan, None, inputs, |_| audience).await?;
        let warnings = opening.warnings.iter().chain(&opened.warnings);
        warnings.for_each(|warning| (with.warn)(warning));
        let outcome = opened.session.resume(stop).await?;
        opened.session.close("other").await?;
        Ok(outcome)
    }
}

impl Threads {
    /// Returns the configuration of a folder, as it is now, with what is told of its files.
    fn config(&self, run: &Run, folder: &Path, told: Option<String>) -> Result<Config, Error> {
        there(folder)?;
        self.0.resolve(folder, |overrides| {
            overrides.run.prompt.files = told;
            overrides.model = run.model.clone().or(overrides.model.take());
        })
    }
}

fn files_first(with: &Resumed, files: &Arc<Workspace>) -> Arc<dyn Store> {
    Arc::new(FilesFirst::of(
        with.store.clone(),
        files.clone(),
        with.warn.clone(),
    ))
}

/// Checks that a folder is there.
fn there(folder: &Path) -> Result<(), Error> {
    if folder.is_dir() {
        return Ok(());
    }
    let missing = format!("this machine has no folder `{}`", folder.display());
    Err(Error::failure(missing))
}
