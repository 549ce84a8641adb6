//! The session that a command looks at: one that is there.

use ah_store::{OpenError, Paths, Queue, SessionStore, Tree};

use crate::args::session::{SessionChoice, SessionPlan};
use crate::config::Config;
use crate::error::{CliError, TRY_AGAIN};

/// The files of the session that is meant.
///
/// # Errors
///
/// Where there is none.
pub fn existing(plan: &SessionPlan, config: &Config) -> Result<Paths, CliError> {
    let sessions = config.sessions();
    let found = match &plan.choice {
        SessionChoice::Newest => sessions.newest()?,
        SessionChoice::LastUsed => sessions.last_written()?,
        SessionChoice::Find(wanted) => return Ok(sessions.find(wanted)?),
        SessionChoice::Named(name) => match sessions.named(name)? {
            Some(paths) => Some(paths),
            None => {
                return Err(CliError::failure(format!("no session is called `{name}`"))
                    .hint("`ah sessions` lists them"));
            }
        },
        SessionChoice::File(path) => Some(Paths::of(config.environment.cwd().join(path))),
        SessionChoice::New => {
            return Err(
                CliError::usage("a new session has nothing in it yet").hint("leave `-n` out")
            );
        }
    };
    let paths = found.ok_or_else(|| {
        CliError::failure("there is no session in this folder")
            .hint("`ah \"what to do\"` begins one, `ah demo` shows one")
    })?;
    match paths.database().exists() {
        true => Ok(paths),
        false => Err(CliError::failure(format!(
            "there is no session in `{}`",
            paths.database().display()
        ))),
    }
}

/// The tree of the session that is meant, to be read.
pub fn tree(plan: &SessionPlan, config: &Config) -> Result<Tree, CliError> {
    Ok(Tree::open(&existing(plan, config)?)?)
}

/// Takes a session for writing. What a holder that was killed has left running is ended first.
pub fn take(paths: &Paths) -> Result<SessionStore, OpenError> {
    let session = SessionStore::open(paths)?;
    if let Some(killed) = session.predecessor() {
        ah_process::finish_orphans(killed);
    }
    Ok(session)
}

/// The queue of a session, to leave words in; tells what there is to tell of it.
pub fn queue(paths: &Paths) -> Result<Queue, CliError> {
    let queue = Queue::open(paths)?;
    if let Some(notice) = queue.notice() {
        crate::warn(&notice.to_string());
    }
    Ok(queue)
}

/// Does something with the session that is meant, which nobody else may hold meanwhile.
pub fn change<T>(
    plan: &SessionPlan,
    config: &Config,
    work: impl AsyncFnOnce(&SessionStore) -> Result<T, CliError>,
) -> Result<T, CliError> {
    let paths = existing(plan, config)?;
    let session = take(&paths)?;
    block_on(async {
        let result = work(&session).await?;
        for notice in session.take_notices().await {
            crate::warn(&notice.to_string());
        }
        Ok(result)
    })
}

/// Waits for something that needs neither clock nor network.
pub fn block_on<T>(future: impl Future<Output = Result<T, CliError>>) -> Result<T, CliError> {
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    let runtime = runtime.map_err(|error| CliError::failure(format!("cannot start: {error}")))?;
    runtime.block_on(future)
}

impl From<OpenError> for CliError {
    fn from(error: OpenError) -> Self {
        match error {
            OpenError::Busy(_) => Self::failure(error.to_string())
                .hint("wait until its run has ended, or stop it")
                .code(TRY_AGAIN),
            OpenError::Store(error) => error.into(),
        }
    }
}
