//! The existing session that a command uses.

use ah_config::settings::check::CheckConfig;
use ah_config::{Config, Error, ErrorKind};
use ah_engine::sessions::folders::paths_of;
use ah_engine::sessions::place::{sessions, take};
use ah_engine::sessions::plan::{SessionChoice, SessionPlan};
use ah_store::{OpenError, Paths, Queue, SessionStore, Tree};

use super::runtime::runtime;

/// Returns the paths of the chosen session.
///
/// # Errors
///
/// If it does not exist.
pub fn existing(plan: &SessionPlan, config: &Config) -> Result<Paths, Error> {
    let sessions = sessions(config);
    let found = match &plan.choice {
        SessionChoice::Newest => sessions.newest()?,
        SessionChoice::LastUsed => sessions.last_written()?,
        SessionChoice::Find(wanted) => return Ok(sessions.find(wanted)?),
        SessionChoice::Named(name) => match sessions.named(name)? {
            Some(paths) => Some(paths),
            None => {
                return Err(Error::failure(format!("no session is named `{name}`"))
                    .hint("`ah sessions` lists them"));
            }
        },
        SessionChoice::File(path) => {
            let database = config.environment.cwd().join(path);
            Some(paths_of(database, config.home.as_deref()))
        }
        SessionChoice::New => {
            return Err(Error::usage("a new session has nothing in it yet").hint("omit `-n`"));
        }
    };
    let paths = found.ok_or_else(|| {
        Error::failure("no session in this folder")
            .hint("start one with `ah \"TASK\"`, or see `ah demo`")
    })?;
    if paths.database().exists() {
        Ok(paths)
    } else {
        Err(Error::failure(format!(
            "no session in `{}`",
            paths.database().display()
        )))
    }
}

/// Opens the tree of the chosen session for reading.
pub fn tree(plan: &SessionPlan, config: &Config) -> Result<Tree, Error> {
    Ok(Tree::open(&existing(plan, config)?)?)
}

/// Opens the queue of a session, and shows notices about it.
pub fn queue(paths: &Paths) -> Result<Queue, Error> {
    let queue = Queue::open(paths)?;
    if let Some(notice) = queue.notice() {
        ah_terminal::warn(&notice.to_string());
    }
    Ok(queue)
}

/// Changes the chosen session, which is locked meanwhile.
pub fn change<T>(
    plan: &SessionPlan,
    config: &Config,
    work: impl AsyncFnOnce(&SessionStore) -> Result<T, Error>,
) -> Result<T, Error> {
    let paths = existing(plan, config)?;
    let session = take(&paths).map_err(open_error)?;
    block_on(async {
        let result = work(&session).await?;
        for notice in session.take_notices().await {
            ah_terminal::warn(&notice.to_string());
        }
        Ok(result)
    })
}

/// Waits for a future that needs neither timers nor network.
pub fn block_on<T>(future: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
    let runtime = runtime()?;
    runtime.block_on(future)
}

/// Returns the error of a session that cannot be opened.
pub fn open_error(error: OpenError) -> Error {
    match error {
        OpenError::Busy(_) => Error::new(ErrorKind::SessionBusy, error.to_string())
            .hint("wait until its run has ended, or stop it"),
        OpenError::Store(error) => error.into(),
    }
}

/// Whether a check that was typed says when the run is done: what is queued would lose it.
pub fn is_aimed(check: &CheckConfig) -> bool {
    let until = check.until.as_ref();
    until.is_some_and(|until| until.origin == ah_config::Origin::CommandLine)
}
